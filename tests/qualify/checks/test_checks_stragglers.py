"""What will compute slower (32) or wrong (39), as far as a capture tells it: both sides of each limit."""

from __future__ import annotations

import json
import re

import pytest

from nettune.checks import Status, exit_code
from nettune.qualify.checks import Context, Settings, judge
from nettune.qualify.checks.limits import LIMITS
from nettune.qualify.thresholds import Threshold

SMI = "nvidia-smi -q"
CAPS = """    Utilization
        Gpu                               : {busy} %
    GPU Power Readings
        Current Power Limit               : {power} W
    Applications Clocks
        Graphics                          : {clock} MHz
    Max Clocks
        SM                                : 1980 MHz
    ECC Mode
"""


def capped(
    sound, number, *, clock="1980", power="700.00", busy="0", load="0.50", memory=2_097_152_000, **changes
):
    """Make a host whose GPU 0 has these limits, on 64 CPUs."""
    text = (
        sound(number)
        .commands[SMI]
        .text.replace("    ECC Mode\n", CAPS.format(clock=1980, power="700.00", busy=0))
    )
    text = text.replace("Graphics                          : 1980", f"Graphics : {clock}", 1)
    text = text.replace("Current Power Limit               : 700.00", f"Current Power Limit : {power}", 1)
    text = text.replace("Gpu                               : 0 %", f"Gpu : {busy} %", 1)
    files = {
        "/proc/loadavg": f"{load} 0.4 0.3 1/900 12345\n",
        "/proc/meminfo": f"MemTotal:       {memory} kB\n",
    }
    return sound(number, files=files, commands={SMI: text, "nproc": "64\n"} | changes.get("commands", {}))


def signs(captures, check="straggler-signs"):
    """Status and element of what the check claims."""
    return {
        (str(f.status), str(f.where))
        for f in judge(captures)
        if f.check == check and f.status is not Status.PASS
    }


GPU, HOST = "host/h1/gpu/0", "host/h1"


@pytest.mark.parametrize(
    ("change", "status", "where"),
    [
        ({"clock": "1980"}, "", ""),
        ({"clock": "1920"}, "", ""),  # 3.0% below the 1980 MHz of the others
        ({"clock": "1900"}, "WARN", GPU),  # 4.0%
        ({"clock": "1840"}, "FAIL", GPU),  # 7.1%
        ({"clock": "N/A"}, "", ""),
        ({"power": "680.00"}, "", ""),  # 2.9%
        ({"power": "500.00"}, "WARN", GPU),
        ({"busy": "9"}, "", ""),
        ({"busy": "97"}, "WARN", GPU),
        ({"load": "15.9"}, "", ""),  # 24.8% of 64 CPUs
        ({"load": "16.1"}, "WARN", HOST),
        ({"memory": 2_040_000_000}, "", ""),  # 2.7% less
        ({"memory": 2_030_000_000}, "WARN", HOST),
    ],
)
def test_both_sides_of_each_sign(sound, change, status, where):
    """One of four hosts with a cap, something that runs already, or less memory."""
    captures = [capped(sound, number, **(change if number == 1 else {})) for number in range(4)]

    assert signs(captures) == ({(status, where)} if status else set())


def test_a_fleet_that_is_busy_alike_has_no_straggler(sound):
    """The median absolute deviation says how far is far: a load that all have is no outlier."""
    loads = ("30", "40", "35", "45", "33")

    assert signs([capped(sound, n, load=load) for n, load in enumerate(loads)]) == set()
    assert signs([capped(sound, n, load="0.1" if n else "30") for n in range(5)]) == {("WARN", "host/h0")}


def test_a_cap_that_all_have_is_no_straggler(sound):
    """An operator may cap the whole fleet; one GPU of each host is slow beside the others; two hosts say nothing."""

    def host(number, clock):
        made = capped(sound, number)
        text = re.sub(r"Graphics +: 1980", f"Graphics : {clock}", made.commands[SMI].text)
        return capped(sound, number, commands={SMI: text})

    assert signs([host(n, 1410) for n in range(4)]) == set()
    assert signs([host(n, 1410 if n else 1980) for n in range(2)]) == set()
    assert len(signs([capped(sound, n, clock="1410") for n in range(4)])) == 4


def test_ecc_that_is_off_on_one_gpu_fails(sound):
    """Without ECC wrong bits are not even counted."""
    text = (
        sound(1)
        .commands[SMI]
        .text.replace("Current                           : Enabled", "Current : Disabled", 1)
    )
    captures = [sound(n, commands={SMI: text} if n == 1 else {}) for n in range(4)]

    assert signs(captures, "gpu-memory") == {("FAIL", GPU)}


def test_no_source_is_no_pass(capture_of):
    """A host that tells neither GPUs nor load gets no verdict on straggling."""
    assert not [f for f in judge([capture_of(commands={"date +%s": "1\n"})]) if f.check == "straggler-signs"]


HEAD = (
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: {}\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
)
ROW = "        1024           256     float     sum      -1    10.00    0.10    0.18 {:>6}    10.00    0.10    0.18 {:>6}\n"
END = "# Out of bounds values : {}\n# Avg bus bandwidth    : {}\n"


def json_file(count, okay, wrong):
    half = {"time": 10.0, "alg_bw": 0.1, "bus_bw": 0.18, "nwrong": 0.0}
    rows = [
        {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "-1", "out_of_place": half}
        | {"in_place": half | {"nwrong": number}}
        for number in wrong
    ]
    average = {"bandwidth": 0.18, "okay": "unchecked"}
    found = {"version": 1, "config": {"validation": 1}, "results": rows}
    return json.dumps(
        found | {"out_of_bounds": {"count": count, "okay": okay}, "average_bus_bandwidth": average}
    )


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        (HEAD.format(1) + ROW.format(0, 0) + END.format("0 OK", "0.18"), "PASS", "the data is right in 1 rows"),
        (HEAD.format(1) + ROW.format(0, 3) + END.format("1 FAILED", "0.18"), "FAIL", "first 3 elements at 1024 bytes, in 1 of 1"),
        # the end alone says so, or a row before the text was cut
        (HEAD.format(1) + ROW.format(0, 0) + END.format("2 FAILED", "0.18"), "FAIL", "the data is wrong"),
        (HEAD.format(1) + ROW.format("1e+06", 0), "FAIL", "first 1e+06 elements"),
        (HEAD.format(0) + ROW.format("N/A", "N/A") + END.format("0 OK", "0.18"), "UNKNOWN", "not compared"),
        (HEAD.format(1) + ROW.format(0, 0), "UNKNOWN", "has no end"),
        (HEAD.format(1) + END.format("0 OK", "0"), "UNKNOWN", "no whole row"),
        (HEAD.format(1) + ROW.format(0, 0) + END.format("0 OK", "0.18 FAILED"), "FAIL", "below NCCL_TESTS_MIN_BW: 0.18 GB/s"),
        ("h: Test CUDA failure common.cu:941 'system not yet initialized'\n", "FAIL", "system not yet initialized"),
        ("bash: all_reduce_perf: command not found\n", "UNKNOWN", "is no output"),
        ("", "UNKNOWN", "is no output"),
        (json_file(0, "true", [0.0]), "PASS", "right"),
        (json_file(4, "false", [2.0]), "FAIL", "first 2 elements at 8 bytes"),
        (json_file(0, "true", []), "UNKNOWN", "not compared"),
        (json_file(0, "true", [0.0])[:-70], "UNKNOWN", "has no end"),
    ],
)  # fmt: skip
def test_what_a_run_of_nccl_tests_says_of_its_data(capture_of, text, status, says):
    """Wrong data comes before everything else; data that was not compared, or an output without its end, is no pass."""
    line = "/opt/nccl-tests/build/all_reduce_perf -b 8 -e 1K -f 2 -g 8"
    [finding] = [f for f in judge([capture_of(commands={line: text})]) if f.check == "wrong-data"]

    assert str(finding.status) == status
    assert says in finding.what
    assert finding.fix or status == "PASS"


def test_a_host_with_wrong_data_is_not_to_be_used(sound):
    """It fails the whole verdict, whatever else is sound."""
    text = HEAD.format(1) + ROW.format(0, 1) + END.format("1 FAILED", "400")

    assert exit_code(judge([sound(0)])) == 0
    assert exit_code(judge([sound(0, commands={"all_reduce_perf -g 8": text})])) == 1


def test_another_limit_changes_a_sign(sound):
    """Limits of stragglers are set like all others."""
    captures = [capped(sound, number, clock="1840" if number == 1 else "1980") for number in range(4)]
    lax = Settings(limits={"slow-fail": Threshold(0.5, LIMITS["slow-fail"].unit, "set in x.toml")})
    found = {str(f.status) for f in judge(captures, Context(settings=lax)) if f.check == "straggler-signs"}

    assert found == {"PASS", "WARN"}

"""The verdict: what is told apart, each rule on both sides, and nothing but a whole and right output passes."""

from __future__ import annotations

import pytest

from collectives.nccl_tests.ending import Ending
from collectives.nccl_tests.expectation import Expectation
from collectives.nccl_tests.text import parse_text
from collectives.nccl_tests.verdict import judge
from nettune.checks import Status, exit_code
from nettune.errors import InputError

LOG = "g{0}:10:10 [0] NCCL INFO {1}"


def read(text):
    return parse_text(text.splitlines())[0]


def by_check(findings, name):
    return next(one for one in findings if one.check == f"nccl-tests-{name}")


CASES = [
    ("", 0, "", Status.PASS, "complete", "3 rows, all there"),
    ("hang@2M", None, "", Status.UNKNOWN, "ended", "hung at 2 MiB: stopped after 9 s"),
    ("torn@2M", 0, "", Status.UNKNOWN, "complete", "the row of 2 MiB is torn"),
    ("wrong@2M", 7, "", Status.FAIL, "data", "wrong data: 12 elements, first at 2 MiB; 4 checks failed"),
    ("nccl@2M", 3, "", Status.UNKNOWN, "ended", "a rank on vm died at 2 MiB: NCCL: unhandled system error"),
    ("cuda@2M", 2, "", Status.UNKNOWN, "ended", "CUDA: an illegal memory access"),
    ("timeout@2M", 4, "", Status.UNKNOWN, "ended", "hung at 2 MiB: time-out"),
    ("gpus", 5, "", Status.UNKNOWN, "ended", "8 GPUs were asked for, 0 are there"),
    ("", 7, "400", Status.FAIL, "bandwidth", "below 0.9 of NCCL_TESTS_MIN_BW"),
]


@pytest.mark.parametrize(("fault", "code", "minimum", "status", "check", "says"), CASES)
@pytest.mark.parametrize("version", ["2.9", "2.17.1", "2.19.6"])
def test_failures_are_told_apart(emulated, fault, code, minimum, status, check, says, version):
    """A hang, a torn tail, wrong data, a failed call, a missed minimum: each by its own check and exit code."""
    env = {"NCCL_TESTS_MIN_BW": minimum} if minimum else {}
    got, text = emulated(
        fault=fault, version=version, hosts="vm", timeout_s=0.7 if code is None else 20, **env
    )
    run = read(text)
    findings = judge(run, None, Ending(exit_code=got, timed_out_s=9 if got is None else None))

    found = by_check(findings, check)
    assert (got if got != 1 else 7) == code  # wrong results were exit code 1 before 2.17.5
    assert found.status is status
    if version != "2.9" or "elements" not in says:  # old versions count failed checks, not elements
        assert says in found.what
    assert exit_code(findings) == {Status.PASS: 0, Status.FAIL: 1, Status.UNKNOWN: 2}[status]
    if code is None or fault.endswith("@2M"):
        assert run.rows[0].size_bytes == 1 << 20  # what was measured before is kept


def test_sockets_in_place_of_rdma(emulated):
    """NCCL's own lines prove a fall-back between hosts; on one host, or with RDMA, there is none."""
    for hosts, fault, status in (
        ("g1", "socket", None),
        ("g1,g2", "", Status.PASS),
        ("g1,g2", "socket", Status.FAIL),
    ):
        _, text = emulated(fault=fault, hosts=hosts, NCCL_DEBUG="INFO")
        if "," in hosts:  # two processes would be needed for two hosts: the second's line is made here
            text = text.replace("Rank  7 Group  0 Pid", "Rank  7 Group  1 Pid").replace(
                " on         g1 device  7", " on         g2 device  7"
            )
        found = [one for one in judge(read(text)) if one.check == "nccl-tests-network"]
        assert [one.status for one in found] == ([] if status is None else [status])
    assert "fell back to sockets" in found[0].what
    assert str(found[0].where) == "host/g1"


@pytest.mark.parametrize(
    ("network", "status"),
    [
        ("AWS Libfabric", Status.PASS),
        ("gIB", Status.PASS),
        ("IBext_v8", Status.PASS),
        ("Socket", Status.FAIL),
    ],
)
def test_other_networks_are_no_fall_back(emulated, network, status):
    """libfabric, a cloud's plugin, an external IB plugin: chosen beside a socket transport that is merely there."""
    _, text = emulated(fault="socket", hosts="g1", NCCL_DEBUG="INFO")
    text = text.replace("Using network Socket", f"Using network {network}")
    text = text.replace(" on         g1 device  7", " on         g2 device  7")

    assert by_check(judge(read(text)), "network").status is status


def test_expectations():
    """GB/s, a rate, NICs of a host at 0.9; what bounds no ring, or one host only, cannot be judged by NICs."""
    assert Expectation.parse("440").busbw_gbytes_per_s == 440
    assert Expectation.parse("440.5 GB/s").busbw_gbytes_per_s == 440.5
    assert Expectation.parse("360gbit").busbw_gbytes_per_s == pytest.approx(45)
    assert Expectation.parse("8x400gbit").rate_gbps[0] == pytest.approx(2880)
    for bad in ("", "0", "-3", "nan", "8x", "x400gbit", "0x400gbit", "400", "1e9999", "8x400", "9" * 99):
        if bad == "400":
            continue
        with pytest.raises(InputError):
            Expectation.parse(bad)


@pytest.mark.parametrize(
    ("words", "op", "hosts", "status"),
    [
        ("30", "all_reduce", 2, Status.PASS),
        ("62", "all_reduce", 2, Status.FAIL),
        ("2x100gbit", "all_reduce", 2, Status.PASS),
        ("8x100gbit", "all_reduce", 2, Status.FAIL),
        ("2x100gbit", "alltoall", 2, Status.UNKNOWN),
        ("2x100gbit", "all_reduce", 1, Status.UNKNOWN),
    ],
)
def test_a_missed_bandwidth_names_its_source(emulated, words, op, hosts, status):
    """The largest size is judged, and the sentence says where the expectation comes from."""
    _, text = emulated(op, hosts="g1")
    if hosts == 2:
        text = text.replace(" on         g1 device  7", " on         g2 device  7")
    findings = judge(read(text), Expectation.parse(words))

    found = by_check(findings, "bandwidth")
    assert found.status is status
    if status is not Status.UNKNOWN:
        assert ("--expect" if "x" not in words else "NICs of 100 Gbit/s") in found.what


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 7, 126, 127, 137, 139, 255, -9, 42])
def test_no_pass_with_an_exit_code(emulated, code):
    """A whole and right table of a process that did not end well proves nothing."""
    _, text = emulated()

    findings = judge(read(text), None, Ending(exit_code=code))

    assert exit_code(findings) == 2
    assert str(abs(code)) in by_check(findings, "ended").what


def test_nothing_of_the_tool():
    """Empty, a time-out before the first line, another program's output, and usage with exit code 0."""
    for text, ending in (
        ("", None),
        ("", Ending(exit_code=0)),
        ("hello\n", Ending(exit_code=127)),
        ("", Ending(timed_out_s=3)),
        ("\0\0", None),
    ):
        assert exit_code(judge(read(text), None, ending)) == 2
    usage = judge(read("USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>]"), None, Ending(exit_code=0))
    assert "printed its usage" in usage[0].what
    assert exit_code(usage) == 2


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("0 OK", "0 FAILED", 1),
        ("0 OK", "3 OK", 1),
        ("# Out of bounds values : 0 OK\n", "", 2),
        ("# Collective test concluded: all_reduce_perf\n", "", 2),
        ("# Collective test concluded: all_reduce_perf\n", "# Collective test FAILED\n", 1),
        ("    2097152 ", "    2097153 ", 2),
        ("     2097152 ", "#    2097152 ", 2),
        ("  0\n     4194304", "  1\n     4194304", 1),
        ("maxBytes 4194304", "maxBytes 8388608", 2),
    ],
)
def test_one_change_is_enough(emulated, old, new, code):
    """A word, a line or a digit that differs takes the pass away."""
    _, text = emulated()
    assert exit_code(judge(read(text))) == 0
    assert old in text

    assert exit_code(judge(read(text.replace(old, new)))) == code


def test_columns_that_do_not_belong_together(emulated):
    """A bandwidth that size, time and ranks do not give is no measurement; so is a mean that the rows do not have."""
    _, text = emulated()
    run = read(text)
    algbw = f"{run.rows[1].out_of_place.algbw_gbytes_per_s:.2f}"

    for old, new in ((f"{algbw:>6}", " 99.99"), ("Avg bus bandwidth    : ", "Avg bus bandwidth    : 9")):
        findings = judge(read(text.replace(old, new)))
        assert by_check(findings, "complete").status is Status.UNKNOWN


def test_a_dip_and_a_cold_start(emulated):
    """A size slower than a smaller one, and a first row that pays for connecting, are warned of."""
    _, text = emulated("all_reduce", "-b", "64K", "-e", "64M", "-f", "4", "-g", "2")
    run = read(text)
    assert not [one for one in judge(run) if one.check == "nccl-tests-shape"]

    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("       65536"))
    lines[at] = (
        "       65536         16384     float     sum      -1   216.4    0.30    0.30       0    21.64    3.03    3.03       0"
    )
    cold = judge(read("\n".join(lines)))
    assert "cold start" in by_check(cold, "shape").what


def test_a_cause_in_nccls_log_stands_beside(emulated):
    """With NCCL's lines, a death names its first cause."""
    _, text = emulated(fault="nccl@2M", hosts="g1")
    line = "g1:10:10 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<45011> with status=12 opcode=0 len=0 vendor err 129 (Send)"
    findings = judge(read(text.replace("# Using devices", f"# Using devices\n{line}", 1)))

    assert "retries" in by_check(findings, "ended").fix
    assert exit_code(findings) == 2


@pytest.mark.parametrize(
    ("line", "who"),
    [
        ("prterun noticed that process rank 1 with PID 9468 on node g2 exited on", "rank 1 on g2"),
        (
            "mpirun noticed that process rank 11 with PID 0 on node g2 exited on signal 9 (Killed).",
            "rank 11 on g2",
        ),
        ("   Process name: [prterun-g1-9387@1,1]", "rank 1"),
        ("  Process name: [[1234,1],5]", "rank 5"),
        ("srun: error: g2: task 3: Killed", "rank 3 on g2"),
        ("srun: error: g2: tasks 8-15: Exited with exit code 3", "rank 8 on g2"),
        ("=   RANK 1 PID 23 RUNNING AT g2", "rank 1 on g2"),
        ("=   PID 11431 RUNNING AT g2", "a rank on g2"),
        (" .. g1 pid 77: Test failure common.cu:632", "a rank on g1"),
        ("[1,6]<stdout>: .. g1 pid 77: Test failure common.cu:632", "rank 6 on g1"),
    ],
)
def test_launchers_name_the_rank(emulated, line, who):
    """Messages of mpirun, Hydra and srun name the rank that died."""
    _, text = emulated(fault="torn@2M")

    findings = judge(read(f"{text}\n{line}\n"), None, Ending(exit_code=1))

    assert by_check(findings, "ended").what.startswith(f"{who} died at 2 MiB")

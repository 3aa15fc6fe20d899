"""Outputs of perftest: every recorded one with a reading by hand, units, both directions, JSON old and new, failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectives.nccl_tests.expectation import Expectation
from collectives.outputs import runs_in
from collectives.perftest import MIB_GBPS, PerfRun, looks_like_perftest, parse_perftest
from collectives.perftest_verdict import judge_perftest
from nettune.checks import Status, exit_code

# name: (test, unit, sizes, Gbit/s at the largest size, exit code, what did not pass)
READINGS = {
    "deepops_cx5_cpufreq_warning.txt": ("", "Gb/sec", 1, 92.40, 0, {"method"}),
    "dranet_gke_h200_a.txt": ("RDMA_Write", "Gb/sec", 16, 381.41, 2, {"ended"}),
    "dranet_gke_h200_b.txt": ("RDMA_Write", "Gb/sec", 23, 140.40, 0, set()),
    "duration_mode_warning.txt": ("", "", 0, None, 2, {"complete"}),
    # 24056.72 and 23240.68 times 2^20 bytes, 8 bits each
    "superbench_ib_loopback_8M_size.log.txt": ("RDMA_Write", "MB/sec", 1, 201.802, 0, set()),
    "superbench_ib_loopback_all_sizes.log.txt": ("RDMA_Write", "MB/sec", 23, 194.957, 0, set()),
}

TEXT = """\
---------------------------------------------------------------------------------------
                    RDMA_{test} BW Test
 Dual-port       : OFF          Device         : mlx5_0
 Number of qps   : {qps}            Transport type : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
 8388608    5000             {peak:.2f}             {average:.2f}              {rate:.6f}
---------------------------------------------------------------------------------------
"""


def text_of(gbps=390.0, *, unit="Gb/sec", test="Write", peak=None, size=8388608, rate=None, qps=1):
    factor = {"Gb/sec": 1.0, "MB/sec": MIB_GBPS}.get(unit, 1.0)
    rate = gbps * 1e3 / 8 / size if rate is None else rate
    top = (gbps if peak is None else peak) / factor
    return TEXT.format(test=test, unit=unit, average=gbps / factor, peak=top, rate=rate, qps=qps)


def test_every_sample_has_a_reading(shared):
    """A sample that comes is read by hand first."""
    assert {path.name for path in (shared / "samples" / "ib_write_bw").glob("*.txt")} == set(READINGS)


@pytest.mark.parametrize("name", sorted(READINGS))
def test_a_sample_is_read_as_by_hand(shared, name):
    """Test, unit, sizes, the rate of the largest, the exit code, and what did not pass."""
    test, unit, sizes, gbps, code, open_checks = READINGS[name]
    text = (shared / "samples" / "ib_write_bw" / name).read_text(encoding="utf-8")

    (run,) = runs_in(text)
    assert isinstance(run, PerfRun)
    findings = judge_perftest(run)

    assert (run.test, run.unit, len(run.rows)) == (test, unit, sizes)
    assert (run.largest.average_gbps if run.largest else None) == (
        None if gbps is None else pytest.approx(gbps, abs=1e-3)
    )
    assert exit_code(findings) == code
    assert {
        one.check.removeprefix("perftest-") for one in findings if one.status is not Status.PASS
    } == open_checks


def test_the_two_units_give_one_rate():
    """MB/sec is 2^20 bytes per second, Gb/sec 1e9 bits: the same run in both is the same rate."""
    rates = [parse_perftest(text_of(unit=unit)).largest.average_gbps for unit in ("Gb/sec", "MB/sec")]

    assert rates == [pytest.approx(390, abs=0.01)] * 2
    for bad in (
        text_of(unit="Mb/sec"),
        text_of(unit="GB/sec"),
        text_of().replace("average[Gb", "average[MB"),
    ):
        assert exit_code(judge_perftest(parse_perftest(bad))) == 2


def test_a_unit_that_the_message_rate_contradicts():
    """A head that was edited, or figures of another run: bandwidth and message rate do not belong together."""
    swapped = text_of().replace("Gb/sec", "MB/sec")

    findings = judge_perftest(parse_perftest(swapped))

    assert exit_code(findings) == 2
    assert "do not belong together" in findings[0].what


@pytest.mark.parametrize(("words", "test", "code"), [("1x400gbit", "Write", 0), ("395gbit", "Write", 1), ("48", "Write", 0), ("49", "Write", 1),
                                                     ("1x400gbit", "Write Bidirectional", 1)])  # fmt: skip
def test_expectations(words, test, code):
    """A rate, GB/s, or 0.9 of the NIC; a bidirectional test is both directions together and has to reach twice as much."""
    findings = judge_perftest(parse_perftest(text_of(test=test)), Expectation.parse(words))

    assert exit_code(findings) == code
    if "Bidirectional" in test:
        assert any("both directions together" in one.what for one in findings)


NEW: dict[str, Any] = {"test_info": {"test": "RDMA_Write_BW_Test", "Device": "mlx5_0", "Number_of_qps": 1},
       "results": {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 5293.52, "BW_average": 2229.27, "MsgRate": 0.035668}}  # fmt: skip
OLD = """{
test_info: {
test: RDMA_Write_BW_Test,
Device: "mlx5_0",
},
results: {
MsgSize: 65536,
n_iterations: 5000,
BW_peak: 5293.52,
BW_average: 2229.27,
MsgRate: 0.035668,
},
}
"""


@pytest.mark.parametrize("text", [json.dumps(NEW), json.dumps(NEW, indent=1), OLD])
def test_json_has_no_unit_but_a_message_rate(text):
    """The unit is the one in which rate times size is the bandwidth; JSON of before 2023 is none, and read all the same."""
    run = parse_perftest(text)

    assert looks_like_perftest(text)
    assert run.unit == "MB/sec"
    assert run.largest.average_gbps == pytest.approx(18.70, abs=0.01)
    assert run.settings["device"] == "mlx5_0"
    assert exit_code(judge_perftest(run)) == 0


def test_json_that_does_not_say_enough():
    """No unit fits, values of other types, cut short: UNKNOWN."""
    for change in ({"MsgRate": 1.0}, {"BW_average": "x"}, {"MsgSize": None}, {"BW_average": 0, "MsgRate": 0}):
        data = NEW | {"results": {**NEW["results"], **change}}
        assert exit_code(judge_perftest(parse_perftest(json.dumps(data)))) == 2, change
    gbits = NEW | {"results": {**NEW["results"], "BW_average": 18.70}}
    assert parse_perftest(json.dumps(gbits)).unit == "Gb/sec"
    for text in (OLD[:-2], json.dumps(NEW)[:-9], "{}", "[]", "[3]", '{"test_info": {'):
        assert exit_code(judge_perftest(parse_perftest(text))) == 2


@pytest.mark.parametrize(
    "line",
    [
        " Completion with error at client",
        " Failed status 12: wr_id 0 syndrom 0x81",
        " Couldn't connect to 10.0.0.1:18515",
        "IB device mlx5_9 not found",
        " Unable to Connect the HCA's through the link",
        "Error: BW result is below bw limit",
    ],
)
def test_failures(line):
    """A message of failure takes the pass away, and a status is explained."""
    findings = judge_perftest(parse_perftest(text_of() + line + "\n"))

    assert exit_code(findings) == 2
    if "status 12" in line:
        assert "retries" in findings[0].what


def test_what_makes_it_less_than_it_looks():
    """A tail that is cut, -a that stops early, an average far below the peak, no peak in -D."""
    lines = text_of().splitlines()
    assert exit_code(judge_perftest(parse_perftest("\n".join(lines[:-1])))) == 2
    assert exit_code(judge_perftest(parse_perftest("$ ib_write_bw -a\n" + text_of()))) == 2
    warned = judge_perftest(parse_perftest(text_of(gbps=200, peak=390)))
    assert [one.status for one in warned] == [Status.PASS, Status.WARN]
    duration = "WARNING: BW peak won't be measured in this run.\n" + text_of(peak=0)
    assert parse_perftest(duration).largest.peak_gbps is None
    assert exit_code(judge_perftest(parse_perftest(duration))) == 0


def test_both_tools_in_one_file():
    """A log of a script that ran perftest and then nccl-tests: neither hides the other."""
    runs = runs_in(text_of() + "# Out of bounds values : 3 FAILED\n")

    assert [type(run).__name__ for run in runs] == ["PerfRun", "Run"]

"""Step times of ranks to MFU and its change."""

from __future__ import annotations

import json

import pytest

from nettune.errors import InputError
from nettune.trainer.config import GPTConfig
from nettune.trainer.flops import count_flops
from nettune.trainer.mfu import PARTS, RunSummary, compare_runs, job_steps, mfu, summarise_inits
from nettune.trainer.peak import Peak

MODEL = GPTConfig.from_depth(2)
FLOPS = count_flops(MODEL, 200)
PEAK = Peak(1e9, "test", measured=True)


def rank_result(rank: int, exposed: list[float], backward: float = 0.3) -> dict[str, object]:
    steps = []
    for index, wait in enumerate(exposed):
        parts = {
            "data_s": 0.0,
            "forward_s": 0.1,
            "backward_s": backward,
            "exposed_comm_s": wait,
            "optimizer_s": 0.1,
        }
        steps.append(
            {
                "step": index,
                "step_s": sum(parts.values()),
                **parts,
                "comm_s": wait + 0.1,
                "loss": 2.0,
                "tokens": 100,
            }
        )
    return {"rank": rank, "steps": steps}


def setting(waits: list[float]) -> RunSummary:
    inits = [[rank_result(0, [wait, wait + 0.01]), rank_result(1, [wait, wait + 0.01])] for wait in waits]
    return summarise_inits(inits, FLOPS, PEAK)


def test_the_slowest_rank_sets_the_pace() -> None:
    """Job step time is the maximum; the rank that waits least shows the network's share, the rest is skew."""
    [step] = job_steps([rank_result(0, [0.5], backward=0.3), rank_result(1, [0.2], backward=0.7)])
    assert step.step_s == pytest.approx(1.1)
    assert step.network_s == pytest.approx(0.2)
    assert step.skew_s == pytest.approx(0.15)
    assert step.parts_s["backward_s"] == pytest.approx(0.5)
    assert step.tokens == 200


def test_mfu_is_work_over_time_and_peak() -> None:
    """The definition, and a refusal to divide by nothing."""
    assert mfu(2.0, FLOPS, PEAK) == FLOPS.per_token * 200 / 2e9
    with pytest.raises(InputError, match="above 0"):
        mfu(0.0, FLOPS, PEAK)


def test_faster_network_raises_mfu_with_an_interval_above_zero() -> None:
    """Less exposed communication gives more MFU, less step time, and intervals that agree."""
    slow, fast = setting([1.0, 1.1, 1.2, 0.9, 1.05]), setting([0.2, 0.25, 0.3, 0.2, 0.22])
    change = compare_runs(slow, fast)
    assert change["mfu_delta_points"]["ci"][0] > 0
    assert change["step_time_ratio"]["ci"][1] < 1
    assert change["exposed_comm_delta_s"]["median"] == pytest.approx(-0.83, abs=0.1)
    same = compare_runs(slow, slow, paired=False)
    lo, hi = same["mfu_delta_points"]["ci"]
    assert lo <= 0 <= hi


def test_summary_has_its_keys_and_survives_json() -> None:
    """The JSON form has these keys; one initialisation gives medians without an interval."""
    summary = json.loads(json.dumps(setting([0.5]).to_json()))
    assert sorted(summary) == [
        "comm_s", "exposed_comm_s", "flops", "inits", "loss_first", "loss_last", "mfu_percent", "network_s", "parts_s",
        "peak", "skew_s", "step_s", "steps", "tokens_per_s",
    ]  # fmt: skip
    assert summary["step_s"]["ci"] is None
    assert sorted(summary["parts_s"]) == sorted(PARTS)
    assert sum(summary["parts_s"].values()) == pytest.approx(summary["step_s"]["median"])
    assert setting([0.5, 0.6]).to_json()["step_s"]["ci"] is not None


def test_what_does_not_compare_is_refused() -> None:
    """Other conventions, other peaks, other steps, or FLOPs of other tokens: one line, no number."""
    run = setting([0.5, 0.6])
    with pytest.raises(InputError, match="same FLOP convention"):
        compare_runs(run, RunSummary(run.steps, count_flops(MODEL, 200, "palm"), PEAK))
    with pytest.raises(InputError, match="same peak"):
        compare_runs(run, RunSummary(run.steps, FLOPS, Peak(2e9, "other", measured=True)))
    with pytest.raises(InputError, match="same steps"):
        job_steps([rank_result(0, [0.5]), rank_result(1, [0.5, 0.5])])
    with pytest.raises(InputError, match="counted for 300"):
        summarise_inits([[rank_result(0, [0.5])]], count_flops(MODEL, 300), PEAK)
    with pytest.raises(InputError, match="at least 2"):
        compare_runs(setting([0.5]), setting([0.5]))

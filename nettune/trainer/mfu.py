"""From step times of ranks to the job's step time, MFU, and what one setting buys over another.

MFU = model FLOPs of a step / (step time x peak): PaLM, arXiv 2204.02311, appendix B. The job's step time is that of
its slowest rank. Inside one initialisation steps share their connections, so every interval is drawn over
initialisations first (`nettune.stats`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from nettune.errors import InputError
from nettune.stats import Interval, bootstrap_difference, bootstrap_median, bootstrap_ratio, median_of_medians
from nettune.trainer.flops import Flops
from nettune.trainer.peak import Peak

PARTS = ("data_s", "forward_s", "backward_s", "exposed_comm_s", "optimizer_s")
"""Consecutive parts of a step, in the order they come; backward_s is without its exposed communication."""

RankResult = Mapping[str, Any]


@dataclass(frozen=True)
class JobStep:
    """One step of the whole job.

    Attributes:
        step_s: step time of the slowest rank.
        parts_s: mean over ranks of each of `PARTS`.
        comm_s: mean over ranks of the time with an all-reduce in flight.
        network_s: exposed communication of the rank that waited least. That rank computed longest, so it waited for
            no other rank: this part is the network's.
        skew_s: mean exposed communication minus network_s: waiting for slower ranks.
        loss: mean over ranks, nats a byte.
        tokens: of all ranks.
    """

    step_s: float
    parts_s: Mapping[str, float]
    comm_s: float
    network_s: float
    skew_s: float
    loss: float
    tokens: int


def job_steps(per_rank: Sequence[RankResult]) -> list[JobStep]:
    """Steps of the job from what `train.run` returned in each rank of one initialisation.

    Raises:
        InputError: no rank, or ranks with different steps.
    """
    if not per_rank or len({tuple(s["step"] for s in rank["steps"]) for rank in per_rank}) != 1:
        raise InputError("the ranks of one initialisation must report the same steps")
    steps = []
    for ranks in zip(*(rank["steps"] for rank in per_rank), strict=True):
        exposed = [rank["exposed_comm_s"] for rank in ranks]
        steps.append(
            JobStep(
                step_s=max(rank["step_s"] for rank in ranks),
                parts_s={part: fmean(rank[part] for rank in ranks) for part in PARTS},
                comm_s=fmean(rank["comm_s"] for rank in ranks),
                network_s=min(exposed),
                skew_s=fmean(exposed) - min(exposed),
                loss=fmean(rank["loss"] for rank in ranks),
                tokens=sum(rank["tokens"] for rank in ranks),
            )
        )
    return steps


def mfu(step_s: float, flops: Flops, peak: Peak) -> float:
    """MFU as a fraction; above 1 means that the convention counts work that the kernels skip, or a wrong peak.

    Raises:
        InputError: a step time or a peak that is not above 0.
    """
    if step_s <= 0 or peak.flops_per_s <= 0:
        raise InputError("MFU needs a step time and a peak above 0")
    return flops.per_step / (step_s * peak.flops_per_s)


@dataclass(frozen=True)
class RunSummary:
    """One setting over all its initialisations; medians are medians over initialisations of their medians.

    Attributes:
        steps: job steps of each initialisation.
        flops: FLOPs of a step and their convention.
        peak: the denominator of MFU and its reason.
    """

    steps: Sequence[Sequence[JobStep]]
    flops: Flops
    peak: Peak

    def groups(self, value: Callable[[JobStep], float]) -> list[list[float]]:
        """One value of every step, by initialisation: what `nettune.stats` takes."""
        return [[value(step) for step in init] for init in self.steps]

    def part(self, name: str) -> list[list[float]]:
        """One of `PARTS` by initialisation."""
        return self.groups(lambda step: step.parts_s[name])

    @property
    def step_s(self) -> list[list[float]]:
        """Step times by initialisation."""
        return self.groups(lambda step: step.step_s)

    @property
    def mfu_percent(self) -> list[list[float]]:
        """MFU in percent by initialisation."""
        return self.groups(lambda step: 100 * mfu(step.step_s, self.flops, self.peak))

    def to_json(self) -> dict[str, Any]:
        """Medians with intervals; an interval is None with fewer than two initialisations."""
        tokens_per_s = self.groups(lambda step: step.tokens / step.step_s)
        return {
            "inits": len(self.steps),
            "steps": sum(len(init) for init in self.steps),
            "step_s": _estimate(self.step_s),
            "mfu_percent": _estimate(self.mfu_percent),
            "tokens_per_s": _estimate(tokens_per_s),
            "exposed_comm_s": _estimate(self.part("exposed_comm_s")),
            "comm_s": _estimate(self.groups(lambda step: step.comm_s)),
            "network_s": _estimate(self.groups(lambda step: step.network_s)),
            "skew_s": _estimate(self.groups(lambda step: step.skew_s)),
            "parts_s": {part: median_of_medians(self.part(part)) for part in PARTS},
            "loss_first": self.steps[0][0].loss,
            "loss_last": self.steps[-1][-1].loss,
            "flops": self.flops.to_json(),
            "peak": self.peak.to_json(),
        }


def summarise_inits(inits: Sequence[Sequence[RankResult]], flops: Flops, peak: Peak) -> RunSummary:
    """Summary of one setting.

    Args:
        inits: for each initialisation, what `train.run` returned in each rank.
        flops: FLOPs of a step of the whole job.
        peak: peak of the whole job.

    Raises:
        InputError: no initialisation, or `flops` counts other tokens than the steps had.
    """
    steps = [job_steps(per_rank) for per_rank in inits]
    if not steps:
        raise InputError("a summary needs at least one initialisation")
    tokens = {step.tokens for init in steps for step in init}
    if tokens != {flops.tokens_per_step}:
        raise InputError(
            f"the steps had {sorted(tokens)} tokens, but FLOPs were counted for {flops.tokens_per_step}"
        )
    return RunSummary(steps, flops, peak)


def compare_runs(a: RunSummary, b: RunSummary, *, paired: bool = True, seed: int = 0) -> dict[str, Any]:
    """What setting B changes against setting A.

    Args:
        a: the baseline.
        b: the setting to judge.
        paired: initialisation i of both ran one after the other.
        seed: of the bootstrap.

    Returns:
        mfu_delta_points (percentage points of MFU, B minus A), step_time_ratio (B over A), exposed_comm_delta_s (B
        minus A), each {median, ci: [lo, hi]}; paired; convention.

    Raises:
        InputError: fewer than two initialisations, different conventions or peaks, or unequal numbers when paired.
    """
    if a.flops.convention != b.flops.convention or a.peak.flops_per_s != b.peak.flops_per_s:
        raise InputError("MFU compares only between runs with the same FLOP convention and the same peak")

    return {
        "mfu_delta_points": _json(
            bootstrap_difference(a.mfu_percent, b.mfu_percent, seed=seed, paired=paired)
        ),
        "step_time_ratio": _json(bootstrap_ratio(a.step_s, b.step_s, seed=seed, paired=paired)),
        "exposed_comm_delta_s": _json(
            bootstrap_difference(a.part("exposed_comm_s"), b.part("exposed_comm_s"), seed=seed, paired=paired)
        ),
        "paired": paired,
        "convention": a.flops.convention,
    }


def _estimate(groups: list[list[float]]) -> dict[str, Any]:
    if len(groups) < 2:
        return {"median": median_of_medians(groups), "ci": None}
    return _json(bootstrap_median(groups))


def _json(interval: Interval) -> dict[str, Any]:
    return {"median": interval.median, "ci": [interval.lo, interval.hi]}

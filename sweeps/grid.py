"""The plainest sweep: every value of a knob, interleaved over fresh initialisations, and which value to keep.

Initialisation i of every value runs before initialisation i + 1 of any, so that slow drift of the machine or the
network falls on all values alike. Another value replaces the default only when the interval of its paired gain,
drawn over initialisations, leaves out zero: a sweep that finds nothing says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nettune.errors import InputError
from nettune.stats import Interval, bootstrap_difference, bootstrap_median
from sweeps.knob import Knob

Measure = Callable[[float, int], Sequence[float]]
"""(value, init) -> step times in seconds of one fresh initialisation with that value."""


@dataclass(frozen=True)
class Trial:
    """One value of the knob.

    Attributes:
        value: the value.
        step_s: step times of each initialisation.
        interval: median step time in seconds with its interval over initialisations.
        gain_s: default minus this value, paired by initialisation; None for the default itself.
    """

    value: float
    step_s: tuple[tuple[float, ...], ...]
    interval: Interval
    gain_s: Interval | None


@dataclass(frozen=True)
class SweepResult:
    """What a sweep found.

    Attributes:
        knob: what was swept.
        trials: one for each value, in the knob's order.
        kept: the value to use.
        reason: why, in one sentence with the figures.
    """

    knob: Knob
    trials: tuple[Trial, ...]
    kept: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Keys knob, default, kept, reason, trials."""
        return {
            "knob": self.knob.name,
            "default": self.knob.default,
            "kept": self.kept,
            "reason": self.reason,
            "trials": [
                {
                    "value": trial.value,
                    "step_s": [list(group) for group in trial.step_s],
                    "median_s": trial.interval.median,
                    "ci_s": [trial.interval.lo, trial.interval.hi],
                    "gain_s": None if trial.gain_s is None else list(trial.gain_s),
                }
                for trial in self.trials
            ],
        }


def sweep(knob: Knob, measure: Measure, *, inits: int = 3, seed: int = 0) -> SweepResult:
    """Measure every value of a knob and decide which to keep.

    Args:
        knob: what to sweep.
        measure: measures one value in one fresh initialisation.
        inits: initialisations of each value.
        seed: of the bootstrap.

    Raises:
        InputError: fewer than two initialisations.
    """
    if inits < 2:
        raise InputError("a sweep needs at least two initialisations of each value to tell gain from chance")
    groups: dict[float, list[tuple[float, ...]]] = {value: [] for value in knob.values}
    for init in range(inits):
        for value in knob.values:
            groups[value].append(tuple(measure(value, init)))
    default = groups[knob.default]
    trials = tuple(
        Trial(
            value=value,
            step_s=tuple(groups[value]),
            interval=bootstrap_median(groups[value], seed=seed),
            gain_s=None
            if value == knob.default
            else bootstrap_difference(groups[value], default, seed=seed, paired=True),
        )
        for value in knob.values
    )
    kept, reason = _decide(knob, trials)
    return SweepResult(knob, trials, kept, reason)


def _decide(knob: Knob, trials: Sequence[Trial]) -> tuple[float, str]:
    better = [trial for trial in trials if trial.gain_s is not None and trial.gain_s.lo > 0]
    if not better:
        return knob.default, f"no value is shown to be faster than the default {knob.default:g}; it is kept"
    best = min(better, key=lambda trial: trial.interval.median)
    assert best.gain_s is not None
    lo, hi = best.gain_s.lo * 1e3, best.gain_s.hi * 1e3
    return (
        best.value,
        f"{best.value:g} saves {lo:.0f} to {hi:.0f} ms a step against the default {knob.default:g}",
    )

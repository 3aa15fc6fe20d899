"""Whether measured times can be trusted: outliers, a slow first initialisation, a drift; each with a hint.

Outliers lie more than ten standard deviations from their initialisation's median, the deviation estimated from the median absolute
deviation, as in hyperfine (src/outlier_detection.rs; from memory). Drift is Mann and Kendall's test over the
initialisations in their order, and a change between the first and the last third that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, sqrt
from statistics import median

MAD_TO_SIGMA = 1.4826
_OUTLIER_SIGMAS = 10.0
_LEAST_SPREAD = (
    0.02  # relative: quiet times differ by less, and one that differs by a little is none to speak of
)
_SLOW_FIRST = 1.5
_DRIFT_P = 0.05
_DRIFT = 0.05
_INITS_FOR_DRIFT = 5


def doubts(inits: Sequence[Sequence[float]], *, warmup: int = 1) -> list[tuple[str, str]]:
    """For each thing that is odd about times, what it is and what to do.

    Args:
        inits: times of each initialisation, in the order in which they were made.
        warmup: operations that were dropped in each, for the hint.
    """
    found: list[tuple[str, str]] = []
    times = [time for init in inits for time in init]
    if len(times) < 3:
        return found
    # Relative to the own initialisation: another one may have drawn other paths.
    off = [abs(time / median(init) - 1) for init in inits for time in init]
    spread = max(MAD_TO_SIGMA * median(off), _LEAST_SPREAD)
    count = sum(one > _OUTLIER_SIGMAS * spread for one in off)
    if count:
        found.append(
            (
                f"{count} of {len(times)} times are outliers, more than {_OUTLIER_SIGMAS:g} deviations from the median",
                "something else was using the network or the hosts; repeat on a quiet system, or with more --inits",
            )
        )
    medians = [median(init) for init in inits]
    if len(medians) > 2 and medians[0] > _SLOW_FIRST * median(medians[1:]):
        found.append(
            (
                f"the first initialisation took {medians[0] / median(medians[1:]):.1f} times as long as the others",
                f"caches or links had to wake up; raise --warmup above {warmup}",
            )
        )
    change = _drift(medians)
    if change is not None:
        found.append(
            (
                f"times drift by {change:+.0%} from the first to the last initialisations",
                "the system changes while it is measured; compare settings of the same run only",
            )
        )
    return found


def _drift(medians: Sequence[float]) -> float | None:
    """Relative change over the run, where it is significant and matters."""
    count = len(medians)
    if count < _INITS_FOR_DRIFT:
        return None
    sign = sum(
        (later > earlier) - (later < earlier)
        for place, earlier in enumerate(medians)
        for later in medians[place + 1 :]
    )
    deviation = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    chance = erfc(max(abs(sign) - 1, 0) / deviation / sqrt(2))
    third = max(1, count // 3)
    change = median(medians[-third:]) / median(medians[:third]) - 1
    return change if chance < _DRIFT_P and abs(change) > _DRIFT else None

"""Medians with intervals where repeats come in groups: first the groups are drawn again, then the values in them.

A group is one initialisation of a communicator. Repeats inside it share its connections and so its ECMP outcome;
they are not independent, and an interval over pooled repeats would be far too narrow. This is the two-stage
bootstrap of Davison and Hinkley, Bootstrap Methods and their Application (1997), section 3.8, with percentile limits.

With n groups the interval of a median cannot cover more than 1 - 2^(1-n): 93.75% at five. Fewer than two groups
give no interval and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nettune.errors import InputError

Groups = Sequence[Sequence[float]]
_Array = NDArray[np.float64]
_CHUNK_VALUES = 4_000_000  # bounds the memory of one round of drawing to about 32 MB


class Interval(NamedTuple):
    """A median and the limits of its interval, in the unit of the values."""

    median: float
    lo: float
    hi: float


def median_of_medians(groups: Groups) -> float:
    """The median over groups of each group's median: groups of many repeats weigh no more than others.

    Raises:
        InputError: no group, an empty group, or a value that is not finite.
    """
    table, lengths = _padded(groups, "groups", at_least=1)
    return float(np.median(_row_medians(table, lengths)))


def bootstrap_median(groups: Groups, n: int = 2000, seed: int = 0, level: float = 0.95) -> Interval:
    """The median of the groups' medians with its interval.

    Args:
        groups: values of each initialisation; lengths may differ.
        n: resamples.
        seed: seeds the drawing; the same seed gives the same interval.
        level: nominal coverage, 0 to 1.

    Raises:
        InputError: fewer than two groups, an empty group, a value that is not finite.
    """
    table, lengths = _padded(groups, "groups")
    draws = _resample(np.random.default_rng(seed), len(lengths), n, [(table, lengths)])
    return _interval(median_of_medians(groups), np.median(draws[0], axis=1), level)


def bootstrap_difference(
    groups_a: Groups,
    groups_b: Groups,
    n: int = 2000,
    seed: int = 0,
    level: float = 0.95,
    *,
    paired: bool = False,
) -> Interval:
    """B minus A with its interval.

    Args:
        groups_a: values of each initialisation under setting A.
        groups_b: the same under setting B.
        n: resamples.
        seed: seeds the drawing.
        level: nominal coverage, 0 to 1.
        paired: initialisation i of A and of B ran one after the other (interleaved): pairs are drawn together and
            the result is the median over pairs of the differences, which cancels what drifts slowly.

    Raises:
        InputError: fewer than two groups on a side, an empty group, or unequal numbers of paired groups.
    """
    return _compare(groups_a, groups_b, n, seed, level, paired, np.subtract)


def bootstrap_ratio(
    groups_a: Groups,
    groups_b: Groups,
    n: int = 2000,
    seed: int = 0,
    level: float = 0.95,
    *,
    paired: bool = False,
) -> Interval:
    """B over A with its interval; arguments and errors as `bootstrap_difference`, and values must be positive.

    Raises:
        InputError: as `bootstrap_difference`, or a value that is not above 0.
    """
    for name, groups in (("A", groups_a), ("B", groups_b)):
        if any(value <= 0 for group in groups for value in group):
            raise InputError(f"setting {name}: a ratio needs values above 0")
    return _compare(groups_a, groups_b, n, seed, level, paired, np.divide)


def _compare(
    groups_a: Groups,
    groups_b: Groups,
    n: int,
    seed: int,
    level: float,
    paired: bool,
    combine: Callable[[_Array, _Array], _Array],
) -> Interval:
    a, b = _padded(groups_a, "setting A"), _padded(groups_b, "setting B")
    rng = np.random.default_rng(seed)
    medians_a, medians_b = _row_medians(*a), _row_medians(*b)
    if not paired:
        point = combine(np.median(medians_b, keepdims=True), np.median(medians_a, keepdims=True))[0]
        drawn_a, drawn_b = (_resample(rng, len(side[1]), n, [side])[0] for side in (a, b))
        return _interval(float(point), combine(np.median(drawn_b, axis=1), np.median(drawn_a, axis=1)), level)
    if len(medians_a) != len(medians_b):
        raise InputError(
            f"paired settings need equally many initialisations, not {len(medians_a)} and {len(medians_b)}"
        )
    drawn_a, drawn_b = _resample(rng, len(medians_a), n, [a, b])
    middle = np.median(combine(medians_b, medians_a))
    return _interval(float(middle), np.median(combine(drawn_b, drawn_a), axis=1), level)


def _padded(groups: Groups, what: str, at_least: int = 2) -> tuple[_Array, NDArray[np.int64]]:
    """Values as (groups, longest), short rows filled with +inf, and the number of values of each row."""
    if len(groups) < at_least:
        raise InputError(f"{what}: an interval needs at least {at_least} initialisations, not {len(groups)}")
    lengths = np.array([len(group) for group in groups], dtype=np.int64)
    if not lengths.all():
        raise InputError(f"{what}: initialisation {int(np.argmin(lengths))} has no value")
    table = np.full((len(groups), int(lengths.max())), np.inf)
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group
        if not np.isfinite(row[: len(group)]).all():
            raise InputError(f"{what}: a value is not a finite number")
    return table, lengths


def _row_medians(table: _Array, lengths: NDArray[np.int64]) -> _Array:
    """Medians along the last axis of rows padded with +inf, which sort behind every value."""
    ordered = np.sort(table, axis=-1)
    low = np.take_along_axis(ordered, ((lengths - 1) // 2)[..., None], axis=-1)
    high = np.take_along_axis(ordered, (lengths // 2)[..., None], axis=-1)
    medians: _Array = ((low + high) / 2)[..., 0]
    return medians


def _resample(
    rng: np.random.Generator, groups: int, n: int, sides: list[tuple[_Array, NDArray[np.int64]]]
) -> list[_Array]:
    """For each side the medians of n draws, (n, groups); the drawn groups are the same on all sides (pairs)."""
    rows = max(1, _CHUNK_VALUES // (groups * max(table.shape[1] for table, _ in sides)))
    parts: list[list[_Array]] = [[] for _ in sides]
    for start in range(0, n, rows):
        picks = rng.integers(0, groups, (min(rows, n - start), groups))
        for part, (table, lengths) in zip(parts, sides, strict=True):
            width = table.shape[1]
            within = (rng.random((*picks.shape, width)) * lengths[picks][..., None]).astype(np.int64)
            drawn = table[picks[..., None], within]
            drawn[np.arange(width) >= lengths[picks][..., None]] = np.inf
            part.append(_row_medians(drawn, lengths[picks]))
    return [np.concatenate(part) for part in parts]


def _interval(point: float, draws: _Array, level: float) -> Interval:
    tail = (1 - level) / 2
    lo, hi = np.quantile(draws, (tail, 1 - tail))
    return Interval(point, float(lo), float(hi))

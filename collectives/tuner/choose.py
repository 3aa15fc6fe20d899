"""The best setting for each range of sizes and each group, out of measurements, and what it is better than.

A setting holds until another one is faster by more than noise: with several initialisations of both, when the interval of
their ratio is below 1; with one, when it is faster by 5% (nccl-eBPF: NCCL's own choice and a forced one differ by 5%
from noise alone). Between two measured sizes the border is their geometric mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from collectives.tuner.measured import Measured, Setting, merged
from nettune.errors import InputError
from nettune.stats import bootstrap_ratio

NOISE = 0.05
WHOLE = 2**64 - 1
"""Largest size_t."""


@dataclass(frozen=True)
class Choice:
    """A setting for a range of sizes.

    Attributes:
        op, ranks, nodes: the group.
        first_bytes, last_bytes: the range, both ends in it; the outer ones reach beyond what was measured.
        measured_bytes: the sizes in it that were measured.
        slower: (other setting, its time over this one's: the median of the sizes), the nearest first.
    """

    op: str
    ranks: int
    nodes: int
    first_bytes: int
    last_bytes: int
    setting: Setting
    measured_bytes: tuple[int, ...]
    slower: tuple[tuple[Setting, float], ...]


def choose(measured: Sequence[Measured]) -> list[Choice]:
    """Choices by operation, group and size; ranges of one group touch and cover all sizes.

    Raises:
        InputError: fewer than two settings of one group were measured at a common size.
    """
    found: list[Choice] = []
    groups: dict[tuple[str, int, int], list[Measured]] = {}
    for one in merged(measured):
        groups.setdefault((one.op, one.ranks, one.nodes), []).append(one)
    for (op, ranks, nodes), entries in sorted(groups.items()):
        table: dict[int, dict[Setting, Measured]] = {}
        for one in entries:
            table.setdefault(one.size_bytes, {})[one.setting] = one
        table = {size: row for size, row in sorted(table.items()) if len(row) > 1}
        if not table:
            raise InputError(
                f"{op} on {ranks} ranks: no size was measured under two settings of NCCL; there is nothing to choose"
            )
        found += _ranges((op, ranks, nodes), table)
    return found


def _ranges(group: tuple[str, int, int], table: dict[int, dict[Setting, Measured]]) -> list[Choice]:
    winners: list[tuple[Setting, list[int]]] = []
    for size, row in table.items():
        best = min(row.values(), key=lambda one: (median(one.times_us), one.setting))
        held = row.get(winners[-1][0]) if winners else None
        if held is not None and not faster(best, held):
            winners[-1][1].append(size)
        else:
            winners.append((best.setting, [size]))
    choices, first = [], 0
    for index, (setting, sizes) in enumerate(winners):
        following = winners[index + 1][1][0] if index + 1 < len(winners) else None
        last = WHOLE if following is None else math.isqrt(sizes[-1] * following)
        choices.append(Choice(*group, first, last, setting, tuple(sizes), _slower(setting, sizes, table)))
        first = last + 1
    return choices


def faster(one: Measured, other: Measured) -> bool:
    """Whether the first is faster than the second by more than noise."""
    if one.setting == other.setting:
        return False
    if min(len(one.times_us), len(other.times_us)) > 1:
        ratio = bootstrap_ratio(
            [[time] for time in other.times_us], [[time] for time in one.times_us], paired=False
        )
        return ratio.hi < 1
    return median(one.times_us) < (1 - NOISE) * median(other.times_us)


def _slower(
    setting: Setting, sizes: Sequence[int], table: dict[int, dict[Setting, Measured]]
) -> tuple[tuple[Setting, float], ...]:
    ratios: dict[Setting, list[float]] = {}
    for size in sizes:
        own = median(table[size][setting].times_us)
        for other, one in table[size].items():
            if other != setting:
                ratios.setdefault(other, []).append(median(one.times_us) / own)
    return tuple(
        sorted(((other, median(values)) for other, values in ratios.items()), key=lambda pair: pair[1])
    )

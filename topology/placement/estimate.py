"""`Estimate`: the step's time under a map from what crosses each cut, and what many swaps would make of it.

ECMP spreads a cut's bytes over its n cables by the luck of the ports. Connections whose bytes sum to S1 and their squares to S2
are taken as S1^2 / S2 of S2 / S1 bytes each: a cable gets a Poisson number of them, of mean S1^2 / S2 / n, and the fullest
of all cables at its 95th percentile as many as one cable exceeds once in (cables / 0.05); never more than all. Swaps are
compared by a smooth maximum over the cuts, so that lowering one of several equal cuts counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.loads import US_PER_BYTE_AT_1_GBPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.placement.cutedges import CutEdges
    from topology.traffic import Phase

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

# The power of the smooth maximum: 1,024 equal cuts count as 1.5 times one of them.
_POWER = 16.0


def step_us(phases: Sequence[Phase], times: Floats) -> Floats:
    """(...,) end of the step when the phases take (phases, ...) microseconds, by their order, overlap and computation."""
    ends: dict[str, Floats] = {}
    step = np.zeros(times.shape[1:])
    for phase, time in zip(phases, times, strict=True):
        end = np.maximum(time, phase.compute_us)
        if phase.after:
            end = end + np.max([ends[name] for name in phase.after], axis=0)
        ends[phase.name] = end
        step = np.maximum(step, end)
    return step


def fullest_of(cables: int) -> tuple[Floats, Floats]:
    """Logarithms of connections on a cable: their mean, and those on the fullest of so many cables at its 95th percentile.

    A Poisson number of mean m is x or more with probability P(x, m), the regularised incomplete gamma function, which has
    a value between whole numbers too.
    """
    from scipy.special import gammaincinv

    number = np.geomspace(1e-2, 1e7, 1000)
    mean = gammaincinv(number, 1 - 0.95 ** (1 / max(cables, 1)))
    known = mean > 1e-12
    return np.log(mean[known]), np.log(number[known])


class Estimate:
    """The state of one map; `swapped` prices swaps, `set` takes another map.

    Args:
        edges: the problem's columns.
        phases: of its traffic.
        slots: number of slots; units beyond the job's are empty, so that a map is a permutation of the slots.
    """

    def __init__(self, edges: CutEdges, phases: Sequence[Phase], slots: int) -> None:
        self.edges, self.phases = edges, phases
        cuts = len(edges.gbps)
        self._mean, self._fullest = fullest_of(int(edges.cables[np.isfinite(edges.gbps)].sum()))
        self._scale = US_PER_BYTE_AT_1_GBPS / edges.gbps
        self._uneven = np.sqrt(1.0 - 1.0 / edges.cables)
        self._count = len(phases) * cuts
        self._share = np.zeros(len(phases))
        ends = np.concatenate([edges.src, edges.dst[edges.dst != edges.src]])
        rows = np.arange(len(edges.src))
        rows = np.concatenate([rows, rows[edges.dst != edges.src]])
        order = np.argsort(ends, kind="stable")
        self._rows = rows[order]
        self._first = np.searchsorted(ends[order], np.arange(slots + 1))
        self.set(np.arange(slots))
        if edges.background.any():
            # Each phase meets the share of the background that its own time brings, as in `topology.loads.predict`.
            total = self._max.sum()
            self._share = self._max / total if total else self._share
            self.set(self.slot)

    def set(self, slot: Ints) -> None:
        """Take a map: (S,) slot of each unit, then of each empty unit."""
        self.slot = slot
        edges, cuts = self.edges, len(self.edges.gbps)
        self.bytes_, self._squares = np.zeros(self._count), np.zeros(self._count)
        for out, into, crosses in self._levels(slot[edges.src], slot[edges.dst], slice(None)):
            for place in (out, into):
                keys = (edges.phase * cuts + place)[crosses]
                self.bytes_ += np.bincount(keys, edges.bytes_[crosses], minlength=self._count)
                self._squares += np.bincount(keys, edges.squares[crosses], minlength=self._count)
        self.times = self._time(self.bytes_, self._squares, np.arange(self._count))
        table = self.times.reshape(len(self.phases), cuts)
        self._max = np.maximum(table.max(axis=1, initial=0.0), edges.floor_us)
        self._top = np.where(self._max > 0, self._max, 1.0)
        self._sum = ((table / self._top[:, None]) ** _POWER).sum(axis=1)
        self.cost_us = float(step_us(self.phases, self._max[:, None])[0])
        self.smooth_us = float(self._smooth(self._sum[:, None])[0])

    def weights(self) -> Floats:
        """(phases, J) microseconds of the step for one byte more through a cut, by the slope of the smooth maximum."""
        cuts = len(self.edges.gbps)
        share = (self.times.reshape(-1, cuts) / self._top[:, None]) ** (_POWER - 1)
        least = 1e-3  # cuts far from the maximum still count a little: fewer bytes x hops
        slope: Floats = (share + least) * self._scale
        slope[:, ~np.isfinite(self.edges.gbps)] = 0.0
        return slope

    def swapped(self, one: Ints, other: Ints, trial: Ints | None = None) -> Floats:
        """(K,) smooth cost after each of K trials by itself; one swap of two units is a trial where `trial` is left out.

        Args:
            one: (M,) units of swaps.
            other: (M,) units that they change places with.
            trial: (M,) ascending number of the trial that each swap belongs to; no unit is twice in a trial.
        """
        edges, cuts = self.edges, len(self.edges.gbps)
        trial = np.arange(len(one)) if trial is None else trial
        tried = int(trial[-1]) + 1 if len(trial) else 0
        partner = np.tile(np.arange(len(self.slot), dtype=np.int32), (tried, 1))
        partner[trial, one], partner[trial, other] = other, one
        row, swap = self._touched(np.concatenate([one, other]), np.concatenate([trial, trial]), partner)
        a, b = edges.src[row], edges.dst[row]
        new_a, new_b = self.slot[partner[swap, a]], self.slot[partner[swap, b]]
        base = swap * self._count + edges.phase[row] * cuts
        keys, rows, signs = [], [], []
        for before, after in zip(
            self._levels(self.slot[a], self.slot[b], row), self._levels(new_a, new_b, row), strict=True
        ):
            for way in (0, 1):
                changed = (before[2] != after[2]) | (before[way] != after[way])
                for level, one_way in ((before, -1.0), (after, 1.0)):
                    some = np.flatnonzero(changed & level[2])
                    keys.append(base[some] + level[way][some])
                    rows.append(row[some])
                    signs.append(np.full(len(some), one_way))
        if not keys:
            return np.full(tried, self.smooth_us)
        key, carried, sign = np.concatenate(keys), np.concatenate(rows), np.concatenate(signs)
        found, index = np.unique(key, return_inverse=True)
        place = found % self._count
        more = np.bincount(index, sign * edges.bytes_[carried], minlength=len(found))
        squares = np.bincount(index, sign * edges.squares[carried], minlength=len(found))
        time = self._time(
            np.maximum(self.bytes_[place] + more, 0.0), np.maximum(self._squares[place] + squares, 0.0), place
        )
        top = self._top[place // cuts]
        change = (time / top) ** _POWER - (self.times[place] / top) ** _POWER
        count = len(self.phases)
        sums = self._sum + np.bincount(found // cuts, change, minlength=count * tried).reshape(-1, count)
        return self._smooth(np.maximum(sums, 0.0).T)

    def _smooth(self, sums: Floats) -> Floats:
        floor = (self.edges.floor_us / self._top) ** _POWER
        return step_us(self.phases, self._top[:, None] * (sums + floor[:, None]) ** (1 / _POWER))

    def _time(self, bytes_: Floats, squares: Floats, place: Ints) -> Floats:
        cut = place % len(self.edges.gbps) if len(self.edges.gbps) else place
        if not len(cut):
            return np.zeros(0)
        cables = self.edges.cables[cut]
        one = np.divide(squares, bytes_, out=np.zeros_like(bytes_), where=bytes_ > 0)
        mean = np.divide(bytes_, one * cables, out=np.zeros_like(bytes_), where=one > 0)
        more = np.exp(np.interp(np.log(np.maximum(mean, 1e-9)), self._mean, self._fullest)) - mean
        worst = np.minimum(bytes_ + self._uneven[cut] * np.maximum(more, 0.0) * one * cables, bytes_ * cables)
        others = self.edges.background[cut] * self._share[place // len(self.edges.gbps)]
        time: Floats = np.where(bytes_ > 0, worst + others, 0.0) * self._scale[cut]
        return time

    def _levels(
        self, at_src: Ints, at_dst: Ints, row: Ints | slice
    ) -> list[tuple[Ints, Ints, NDArray[np.bool_]]]:
        """For each level the cuts that edges leave and enter, and whether they cross."""
        edges = self.edges
        src_column, dst_column = edges.src_column[row], edges.dst_column[row]
        domain = edges.domain[at_src, src_column]
        apart = (domain < 0) | (domain != edges.domain[at_dst, dst_column])
        found = []
        for part in edges.part:
            out, into = part[at_src, src_column], part[at_dst, dst_column]
            found.append((out, into + edges.inward, apart & (out != into)))
        return found

    def _touched(self, unit: Ints, trial: Ints, partner: NDArray[np.int32]) -> tuple[Ints, Ints]:
        """Edges of the units that move in each trial, each once, and the number of their trial."""
        moves = partner[trial, unit] != unit
        unit, trial = unit[moves], trial[moves]
        count = self._first[unit + 1] - self._first[unit]
        unit, trial = np.repeat(unit, count), np.repeat(trial, count)
        place = np.arange(len(unit)) - np.repeat(np.cumsum(count) - count, count)
        row = self._rows[self._first[unit] + place]
        src = self.edges.src[row]
        # An edge whose both ends move is the source's.
        kept = (src == unit) | (partner[trial, src] == src)
        return row[kept], trial[kept]

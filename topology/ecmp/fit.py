"""Which hash explains what was seen: rows (flow -> next hop) of one switch and one group of next hops.

Every preset's offsets and seeds are tried on a few rows; what survives meets more rows, until all. The evidence is the
number of rows explained, and a bound on the probability that any of the hypotheses would explain as many by
chance: a fit needs both. Where no preset does, the answer is that none does.

What n next hops show of a seed is all that a fit knows of it: for another group size fit again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import exp, factorial, log
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.ecmp.hypotheses import hypotheses
from topology.ecmp.spec import FAMILIES, HashSpec, choose
from topology.ecmp.tuples import FIVE_TUPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from topology.ecmp.hypotheses import Hypotheses
    from topology.ecmp.tuples import Tuples

    Ints = NDArray[np.int64]

SEEDS = range(1 << 16)
"""Seeds that are tried where a seed cannot be solved for (Linux, ideal)."""
TOLERANCE = 0.02
"""Part of the rows that may be wrong: probes are lost and paths change while they run."""
MAX_CHANCE = 1e-6
_FIRST_ROWS, _FIRST_MISSES = 12, 1
_BLOCK = 1 << 20
_SHOWN = 5
ADDRESSES = ("src_ip", "dst_ip")
PORTS = (*ADDRESSES, "sport", "dport")


@dataclass(frozen=True)
class Candidate:
    """The best of one preset's hypotheses: its spec (None: no seed makes it), rows explained, hypotheses tried."""

    family: str
    fields: tuple[str, ...]
    spec: HashSpec | None
    explained: int
    tried: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Fit:
    """What explains the rows, and the evidence.

    Attributes:
        spec: the hash; None when all were rejected.
        order: predicted index -> observed index: as counted, but where the order of next hops was unknown.
        weights: of the next hops in the hash's order.
        rows: rows given.
        explained: rows that the best hypothesis explains.
        by_chance: rows that a wrong hypothesis explains on average.
        chance: bound on the probability that any wrong hypothesis explains as many.
        tried: hypotheses in all.
        others: other presets of the family that explain as many rows: more or other rows would tell them apart.
        best: best candidates of the presets, for the record.
        reason: one sentence.
    """

    spec: HashSpec | None
    order: tuple[int, ...]
    weights: tuple[int, ...]
    rows: int
    explained: int
    by_chance: float
    chance: float
    tried: int
    others: tuple[HashSpec, ...]
    best: tuple[Candidate, ...]
    reason: str

    def predict(self, tuples: Tuples) -> Ints:
        """(F,) next hop of further flows, counted as the rows were.

        Raises:
            InputError: nothing was fitted.
        """
        if self.spec is None:
            raise InputError(f"no hash was fitted: {self.reason}")
        return np.array(self.order)[choose(self.spec, tuples, self.weights)]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object of the evidence."""
        return {
            "spec": self.spec and self.spec.to_json(),
            "order": list(self.order),
            "rows": self.rows,
            "explained": self.explained,
            "by_chance": round(self.by_chance, 1),
            "chance": self.chance,
            "tried": self.tried,
            "others": [spec.to_json() for spec in self.others],
            "best": [
                {"family": each.family, "fields": list(each.fields), "explained": each.explained}
                for each in self.best
            ],
            "reason": self.reason,
        }


def presets(*, dst_qp: bool = False) -> list[HashSpec]:
    """Every family with the field sets that switches commonly use, and with the destination QP if flows have one."""
    sets = [FIVE_TUPLE, PORTS, ADDRESSES]
    if dst_qp:
        sets += [(*FIVE_TUPLE, "dst_qp"), (*ADDRESSES, "dst_qp")]
    found = []
    for (name, family), fields in product(FAMILIES.items(), sets):
        linux = name.startswith("linux")
        if not family.module or (linux and "dst_qp" in fields):
            continue
        if name != "linux-multipath" or fields == FIVE_TUPLE:
            found.append(HashSpec(name, fields=fields))
    return found


def fit(
    tuples: Tuples,
    hop: Ints,
    weights: Sequence[int],
    candidates: Iterable[HashSpec] | None = None,
    *,
    seeds: Sequence[int] = SEEDS,
    any_order: bool = False,
    tolerance: float = TOLERANCE,
) -> Fit:
    """Find the hash that sends flows to next hops as was seen.

    Args:
        tuples: (R,) flows.
        hop: (R,) index of the next hop that each took.
        weights: of the next hops, as indexed.
        candidates: presets; their seeds and offsets are not looked at. `presets` where left out.
        seeds: tried for families whose seed cannot be solved for.
        any_order: the switch may count its next hops in another order (equal weights only).
        tolerance: part of the rows that may be wrong.

    Raises:
        InputError: indexes that do not fit, or unequal weights in unknown order.
    """
    hops = len(weights)
    if len(hop) != len(tuples) or not len(hop) or hop.min() < 0 or hop.max() >= hops:
        raise InputError("fit: one next hop, counted from 0, is needed for each of at least one flow")
    if any_order and len(set(weights)) > 1:
        raise InputError("fit: the order of next hops with unequal weights cannot be learned")
    asked = list(candidates) if candidates is not None else presets(dst_qp=tuples.dst_qp is not None)
    # Presets with few hypotheses come first; once one is proved, only its own family is tried on, for what it looks like.
    tested = sorted((hypotheses(base, tuples, weights, seeds) for base in asked), key=len)
    usual = float(np.bincount(hop).max()) / len(hop)
    orders = factorial(hops) if any_order else 1
    found: list[Candidate] = []
    tried, proved = 0, ""
    for each in tested:
        if proved in {"", each.base.family}:
            candidate = _best_of(each, hop, hops, any_order, tolerance)
            found.append(candidate)
            tried += candidate.tried
            enough = candidate.spec is not None and candidate.explained >= (1 - tolerance) * len(hop)
            if enough and _chance(len(hop), candidate.explained, usual, tried * orders) <= MAX_CHANCE:
                proved = candidate.family
    found.sort(key=lambda each: (each.spec is None, -each.explained))
    best = found[0] if found else Candidate("", (), None, 0, 0, tuple(range(hops)))
    chance = _chance(len(hop), best.explained, usual, tried * orders)
    enough = best.spec is not None and best.explained >= (1 - tolerance) * len(hop)
    accepted = enough and chance <= MAX_CHANCE
    by = f"{best.family} explains {best.explained} of {len(hop)} flows, {usual * len(hop):.0f} by chance"
    reason = f"{by}; {tried:,} hypotheses tried"
    if not accepted:
        reason = (
            f"{by}, but so few or so uneven flows do not tell it from {tried:,} other hypotheses"
            if enough
            else f"none of {tried:,} hypotheses of {len(found)} presets: the best, {by}"
        )
    others = [
        each.spec
        for each in found[1:]
        if accepted and each.spec is not None and each.explained == best.explained
    ]
    return Fit(
        spec=best.spec if accepted else None,
        order=best.order,
        weights=tuple(weights),
        rows=len(hop),
        explained=best.explained,
        by_chance=usual * len(hop),
        chance=chance,
        tried=tried,
        others=tuple(others),
        best=tuple(found[:_SHOWN]),
        reason=reason,
    )


def confirmed(
    spec: HashSpec, tuples: Tuples, hop: Ints, weights: Sequence[int], tolerance: float = TOLERANCE
) -> Fit | None:
    """A hash that is known beforehand, where it explains the rows; one hypothesis needs no proof against others."""
    explained = int(np.count_nonzero(choose(spec, tuples, weights) == hop))
    if explained < (1 - tolerance) * len(hop):
        return None
    order, usual = tuple(range(len(weights))), float(np.bincount(hop).max()) / len(hop)
    return Fit(
        spec=spec,
        order=order,
        weights=tuple(weights),
        rows=len(hop),
        explained=explained,
        by_chance=usual * len(hop),
        chance=_chance(len(hop), explained, usual, 1),
        tried=1,
        others=(),
        best=(Candidate(spec.family, spec.fields, spec, explained, 1, order),),
        reason=f"as discovered, which explains {explained} of {len(hop)} flows",
    )


def _best_of(tested: Hypotheses, hop: Ints, hops: int, any_order: bool, tolerance: float) -> Candidate:
    """The hypothesis of a preset that explains most rows; those that miss early are not followed."""
    alive = _first_stage(tested, hop, any_order)
    rows = _FIRST_ROWS
    while rows < len(hop) and len(alive) > 1:
        rows = min(2 * rows, len(hop))
        scores = _scores(tested, alive, hop[:rows], hops, any_order)
        kept = scores >= min(int(scores.max()), rows - _misses(rows, tolerance))
        alive = alive[kept][np.argsort(-scores[kept], kind="stable")]
    best = Candidate(tested.base.family, tested.base.fields, None, 0, len(tested), tuple(range(hops)))
    for number in alive[:_SHOWN].tolist():
        picked = tested.predicted(np.array([number]), np.arange(len(hop)))[0]
        order = _order(picked, hop, hops) if any_order else tuple(range(hops))
        explained = int(np.count_nonzero(np.array(order)[picked] == hop))
        spec = tested.spec(number)
        if (spec is not None, explained) > (best.spec is not None, best.explained):
            best = replace(best, spec=spec, explained=explained, order=order)
    return best


def _first_stage(tested: Hypotheses, hop: Ints, any_order: bool) -> Ints:
    """Hypotheses that miss at most one of the first rows, row by row; those that got furthest where all miss more.

    In any order a row is a pair of flows that took the same next hop, and so must in the hypothesis.
    """
    first, second = _pairs(hop) if any_order else (np.arange(min(len(hop), _FIRST_ROWS)),) * 2
    found: list[Ints] = []
    furthest = -1
    for begin in range(0, len(tested), _BLOCK):
        alive = np.arange(begin, min(begin + _BLOCK, len(tested)))
        misses = np.zeros(len(alive), dtype=np.int64)
        reached = 0
        for one, other in zip(first.tolist(), second.tolist(), strict=True):
            picked = tested.predicted(alive, np.unique([one, other]))
            misses += picked[:, 0] != (picked[:, 1] if any_order else hop[one])
            kept = misses <= _FIRST_MISSES
            if not kept.any():
                break
            alive, misses, reached = alive[kept], misses[kept], reached + 1
        if reached >= furthest:
            found = [*(found if reached == furthest else []), alive]
            furthest = reached
    return np.concatenate(found) if furthest == len(first) else np.concatenate(found)[:_SHOWN]


def _pairs(hop: Ints) -> tuple[Ints, Ints]:
    """Disjoint pairs of rows that took the same next hop."""
    order = np.argsort(hop, kind="stable")
    same = np.flatnonzero(hop[order][:-1] == hop[order][1:])
    place = np.arange(len(hop)) - np.searchsorted(hop[order], hop[order])
    even = same[place[same] % 2 == 0]
    # From all next hops, not only the first.
    even = even[np.argsort(place[even], kind="stable")][:_FIRST_ROWS]
    return order[even], order[even + 1]


def _misses(rows: int, tolerance: float) -> int:
    """Rows that a right hypothesis may miss out of so many: the tolerance, and one more for few rows."""
    return 1 + int(2 * tolerance * rows)


def _scores(tested: Hypotheses, which: Ints, hop: Ints, hops: int, any_order: bool) -> Ints:
    """(S,) of the first rows, how many each hypothesis explains; in any order at most so many."""
    step = max(1, _BLOCK // len(hop))
    rows = np.arange(len(hop))
    parts = []
    for begin in range(0, len(which), step):
        picked = tested.predicted(which[begin : begin + step], rows)
        if not any_order:
            parts.append(np.count_nonzero(picked == hop, axis=1))
            continue
        cell = np.arange(len(picked))[:, None] * hops * hops + picked * hops + hop
        counts = np.bincount(cell.ravel(), minlength=len(picked) * hops * hops).reshape(-1, hops, hops)
        parts.append(counts.max(axis=2).sum(axis=1))
    found: Ints = np.concatenate(parts).astype(np.int64)
    return found


def _order(picked: Ints, hop: Ints, hops: int) -> tuple[int, ...]:
    """Observed index of each predicted one, so that most rows agree."""
    from scipy.optimize import linear_sum_assignment

    counts = np.bincount(picked * hops + hop, minlength=hops * hops).reshape(hops, hops)
    _, column = linear_sum_assignment(-counts)
    return tuple(column.tolist())


def _chance(rows: int, explained: int, usual: float, tried: int) -> float:
    """Bound on the probability that any of `tried` wrong hypotheses explains so many rows (union over binomial tails).

    A wrong one is right in a row with at most the share of the most frequent next hop.
    """
    from scipy.stats import binom

    tail = float(binom.logsf(explained - 1, rows, min(usual, 1.0)))
    return min(1.0, exp(min(0.0, tail + log(max(tried, 1)))))

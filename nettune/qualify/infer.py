"""Which element is at fault: Bayes' rule over (kind of fault, element, direction), one fault after the other.

For each candidate the flows that cross it are explained by the fault and all others by a sound path; sizes are averaged
over a grid, which charges a kind for its free parameter. When the best explanation stands, the flows it explains are
taken as explained and the next one is sought.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.kinds import Kind
from nettune.qualify.likelihood import HITS, KIND_PRIOR, LOSSES, RATES, Observations

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from nettune.elements import ElementId
    from nettune.qualify.candidates import Candidate
    from nettune.qualify.flows import FlowResult

    Floats = NDArray[np.float64]

_GRIDS: dict[Kind, NDArray[np.float64]] = {Kind.RATE: RATES, Kind.LOSS: LOSSES, Kind.FLAP: HITS}
_NO_FAULT = 0.5
"""Prior probability that nothing (more) is wrong. It moves log odds by a constant; thresholds are chosen with it."""
_RIVALS = 4


@dataclass(frozen=True)
class Suspect:
    """An element that explains flows.

    Attributes:
        kind: kind of fault.
        candidate: the element with the direction.
        size: best size: share of the rate that is left, share of packets lost, share of flows hit; 1 for others.
        probability: of the element (any direction and kind), among all candidates and no fault.
        log_odds: natural logarithm of the odds of the element against no fault.
        rivals: (element, probability) of the next ones.
        crossing: observations (flows, sums of sets) that cross it for certain or at even odds, bad or not.
    """

    kind: Kind
    candidate: Candidate
    size: float
    probability: float
    log_odds: float
    rivals: tuple[tuple[ElementId, float], ...]
    crossing: tuple[FlowResult, ...]


def infer(
    results: Sequence[FlowResult],
    candidates: Sequence[Candidate],
    speeds: Floats,
    *,
    at_least: float,
    most: int = 4,
    hints: Mapping[ElementId, float] | None = None,
    kinds: Collection[Kind] = tuple(Kind),
) -> list[Suspect]:
    """Suspects, the best explained first.

    Args:
        results: transfers; those with a local error are left out.
        candidates: possible culprits.
        speeds: (2L,) nominal rate of each directed link in Gbit/s; 0 unknown.
        at_least: log odds against no fault below which nothing more is said.
        most: most suspects.
        hints: log odds for flapping that carrier counters give to an element.
        kinds: kinds that are thought of.
    """
    seen = Observations(results)
    crossings = [_crossing(candidate, seen) for candidate in candidates]
    base = seen.sound.copy()
    suspects: list[Suspect] = []
    tables = {kind: seen.under(kind) for kind in kinds if kind is not Kind.RATE}
    slowed: dict[int, Floats] = {}
    weights = sum(candidate.weight for candidate in candidates)

    def table(kind: Kind, row: int) -> Floats:
        """(G, R) log probabilities of the rows that cross a candidate, if it had a fault of this kind."""
        rows, _ = crossings[row]
        if kind is not Kind.RATE:
            return tables[kind][:, rows]
        if row not in slowed:
            slowed[row] = seen.slowed(candidates[row].links, rows, speeds)
        return slowed[row]

    while len(suspects) < most and len(seen.results):
        taken = {suspect.candidate.element for suspect in suspects}
        entries: list[tuple[float, Kind, int, int]] = []
        for row, candidate in enumerate(candidates):
            rows, chance = crossings[row]
            if candidate.element in taken or not len(rows):
                continue
            for kind in kinds:
                if kind in {Kind.FLAP, Kind.DEAD} and candidate.one_way is not None:
                    continue  # acknowledgements suffer too: directions are not told apart
                gains = _gain(table(kind, row) - base[rows], chance).sum(axis=1)
                evidence = float(_log_sum(gains)) - np.log(len(gains))
                evidence += (hints or {}).get(candidate.element, 0.0) if kind is Kind.FLAP else 0.0
                prior = np.log(KIND_PRIOR[kind] * candidate.weight / weights)
                entries.append((evidence + prior, kind, row, int(np.argmax(gains))))
        suspect = _best(entries, candidates, seen, crossings, at_least)
        if suspect is None:
            break
        suspects.append(suspect[0])
        _, kind, row, size = suspect[1]
        rows, chance = crossings[row]
        base[rows] += _gain(table(kind, row)[size] - base[rows], chance)
    return suspects


def confirmation(suspect: Suspect, results: Sequence[FlowResult], speeds: Floats) -> float:
    """Log likelihood ratio of the fault of a suspect, at its size, against a sound path, over other results."""
    seen = Observations(results)
    rows, chance = _crossing(suspect.candidate, seen)
    if not len(rows):
        return 0.0
    links = suspect.candidate.links
    table = (
        seen.slowed(links, rows, speeds) if suspect.kind is Kind.RATE else seen.under(suspect.kind)[:, rows]
    )
    grid = _GRIDS.get(suspect.kind)
    at = 0 if grid is None else int(np.argmin(np.abs(grid - suspect.size)))
    # Neighbouring sizes count as the same one: the first pass and the re-test need not agree to a per cent.
    around = 4 if suspect.kind is Kind.RATE else 2
    near = table[max(0, at - around) : at + around + 1]
    return float(_gain(near - seen.sound[rows], chance).sum(axis=1).max())


def _crossing(candidate: Candidate, seen: Observations) -> tuple[NDArray[np.int64], Floats]:
    chances = np.array([result.flow.crosses(candidate.links) for result in seen.results])
    rows = np.flatnonzero(chances > 0)
    return rows, chances[rows]


def _log_sum(logs: Floats | Sequence[float]) -> float:
    """Log of a sum of exponentials; scipy's does more than is needed here, many thousand times."""
    values = np.asarray(logs, dtype=np.float64)
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum())) if np.isfinite(top) else top


def _gain(difference: Floats, chance: Floats) -> Floats:
    """log(chance e^difference + 1 - chance), flow by flow."""
    if (chance >= 1.0).all():
        return difference
    with np.errstate(divide="ignore"):
        gain: Floats = np.logaddexp(difference + np.log(chance), np.log1p(-np.minimum(chance, 1.0)))
    return gain


def _best(
    entries: Sequence[tuple[float, Kind, int, int]],
    candidates: Sequence[Candidate],
    seen: Observations,
    crossings: Sequence[tuple[NDArray[np.int64], Floats]],
    at_least: float,
) -> tuple[Suspect, tuple[float, Kind, int, int]] | None:
    if not entries:
        return None
    by_element: dict[ElementId, list[tuple[float, Kind, int, int]]] = {}
    for entry in entries:
        by_element.setdefault(candidates[entry[2]].element, []).append(entry)
    totals = {
        element: float(_log_sum([entry[0] for entry in group])) for element, group in by_element.items()
    }
    everything = float(_log_sum([*totals.values(), np.log(_NO_FAULT)]))
    ranked = sorted(totals, key=lambda element: -totals[element])
    first = ranked[0]
    log_odds = totals[first] - np.log(_NO_FAULT)
    if log_odds < at_least:
        return None
    best = max(by_element[first])
    _, kind, row, size = best
    rows, chance = crossings[row]
    grid = _GRIDS.get(kind)
    return (
        Suspect(
            kind=kind,
            candidate=candidates[row],
            size=1.0 if grid is None else float(grid[size]),
            probability=float(np.exp(totals[first] - everything)),
            log_odds=float(log_odds),
            rivals=tuple(
                (element, float(np.exp(totals[element] - everything))) for element in ranked[1 : 1 + _RIVALS]
            ),
            crossing=tuple(seen.results[i] for i, c in zip(rows, chance, strict=True) if c >= 0.5),
        ),
        best,
    )

"""What transfers say by themselves: sums of sets, which ones were odd, and which were so again when tested alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.flows import FlowResult, FlowState, ProbeFlow
from nettune.qualify.kinds import Kind
from nettune.qualify.thresholds import limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_RAN = (FlowState.OK, FlowState.GAP)
_MISSED = 0.1


def observations(results: Sequence[FlowResult]) -> list[FlowResult]:
    """Flows that were sent, then one row more for each set, with the sum of its rates.

    The flows of a set share the link that they fill, as TCP has it; only their sum tells the link's rate. Their own
    rate is left out of the rows (offered 0, round trip NaN); states, losses and datagrams remain theirs. A set in which
    a flow paused or did not run has no sum.
    """
    rows: list[FlowResult] = []
    sets: dict[tuple[int, int], list[FlowResult]] = {}
    for result in results:
        if result.flow.fills < 0:
            rows.append(result)
        else:
            sets.setdefault((result.round, result.flow.fills), []).append(result)
    nan = float("nan")
    for members in sets.values():
        if len(members) == 1:
            rows += members  # one of a set, tested without the others
            continue
        rows += [dataclasses.replace(member, offered_gbps=0.0, share=nan, rtt_us=nan) for member in members]
        if all(member.state is FlowState.OK for member in members):
            rows.append(_sum(members))
    return rows


def _sum(members: Sequence[FlowResult]) -> FlowResult:
    flows = tuple(member.flow for member in members)
    first = flows[0]
    nominal = sum(flow.nominal_gbps for flow in flows)
    links = tuple(sorted(frozenset().union(*(flow.links for flow in flows))))
    both = ProbeFlow(first.src_port, first.dst_port, (), (), ((1.0, links),), nominal, first.fills, flows)
    wire = sum(member.share * member.flow.nominal_gbps for member in members)
    return FlowResult(
        flow=both,
        state=FlowState.OK,
        stage=members[0].stage,
        round=members[0].round,
        alone=members[0].alone,
        disturbed=members[0].disturbed,
        pace=members[0].pace,
        offered_gbps=sum(member.offered_gbps for member in members),
        delivered_gbps=sum(member.delivered_gbps for member in members),
        share=wire / nominal if nominal else float("nan"),
        # All of them wait in the queue of the link that they share.
        rtt_us=min(member.rtt_us for member in members),
        mss_bytes=members[0].mss_bytes,
    )


def oddities(row: FlowResult) -> frozenset[Kind]:
    """What one observation looks like it met; empty for a sound one. No busy machine is allowed for."""
    if row.state is FlowState.ERROR:
        return frozenset()
    odd = set()
    if row.state is not FlowState.OK:
        odd.add(Kind.FLAP)
    if row.state in _RAN and row.ratio * row.pace < limit("link-rate-fail"):
        odd.add(Kind.RATE)
    if row.state in _RAN and row.lost > 0:
        odd.add(Kind.LOSS)
    if row.mtu_ok is False:
        odd.add(Kind.MTU)
    return frozenset(odd)


@dataclass(frozen=True)
class Odd:
    """A way on which something odd was seen and no later test alone has cleared it.

    Attributes:
        flow: the flow, or the sum of a set.
        kinds: what was seen in every test alone, or in the first pass where there was none.
        seen: observations in which it was seen.
        tests: tests alone.
    """

    flow: ProbeFlow
    kinds: frozenset[Kind]
    seen: tuple[FlowResult, ...]
    tests: int

    @property
    def repeated(self) -> bool:
        """Seen at least twice, and in every test alone, of which there was one or more."""
        return self.tests > 0 and len(self.seen) > 1

    @property
    def firm(self) -> bool:
        """Whether it is more than pauses, which a busy machine makes too."""
        stood = all(row.state not in _RAN for row in self.seen)
        return stood or bool(self.kinds - {Kind.FLAP})


def odd_ones(results: Sequence[FlowResult]) -> list[Odd]:
    """All of them, those seen most clearly first."""
    ways: dict[object, list[FlowResult]] = {}
    for row in observations(results):
        ways.setdefault(row.flow.key, []).append(row)
    found = []
    for rows in ways.values():
        kinds = frozenset[Kind]().union(*map(oddities, rows))
        again = [row for row in rows if row.stage > 1 and row.state is not FlowState.ERROR]
        # A disturbed test that shows nothing clears; one that shows something is no test.
        again = [row for row in again if not row.disturbed or not oddities(row)]
        for row in again:
            kinds &= oddities(row)
        seen = tuple(row for row in rows if kinds & oddities(row) and not row.disturbed)
        if seen:
            found.append(Odd(rows[0].flow, kinds, seen, len(again)))
    return sorted(found, key=lambda odd: min(_vigour(row) for row in odd.seen))


def _vigour(row: FlowResult) -> float:
    """Small for a flow that stood still or was slow."""
    return row.ratio if row.state in _RAN and not np.isnan(row.ratio) else 0.0


def shown_gbps(results: Sequence[FlowResult], speeds: Floats) -> Floats:
    """(2L,) highest rate on the wire that each directed link was seen to carry.

    Flows that ran at the same time add up. Where paths are not known, a link counts as crossed when transfers that ran
    well missed it with a probability of 10% at most.
    """
    best = np.zeros(len(speeds))
    missed: dict[float, Floats] = {}
    now = np.zeros(len(speeds))
    last = None
    for result in sorted(results, key=lambda result: result.round):
        if result.round != last:
            best, now, last = np.maximum(best, now), np.zeros(len(speeds)), result.round
        rate = result.share * result.flow.nominal_gbps
        if result.state not in _RAN or np.isnan(rate):
            continue
        for probability, links in result.flow.alternatives:
            rows = list(links)
            if result.flow.known:
                now[rows] += rate
            elif result.share >= limit("link-rate-fail"):
                missed.setdefault(rate, np.ones(len(speeds)))[rows] *= 1 - probability
    best = np.maximum(best, now)
    left = np.ones(len(speeds))
    for rate in sorted(missed, reverse=True):
        left *= missed[rate]
        best = np.where(left <= _MISSED, np.maximum(best, rate), best)
    return best

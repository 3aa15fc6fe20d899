"""Which transfers tell the suspects apart, and which odd ones have to be seen again: nearly alone and longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.kinds import Kind
from nettune.qualify.plan import pack
from nettune.qualify.ports import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.qualify.candidates import Candidate
    from nettune.qualify.flows import Key, ProbeFlow
    from nettune.qualify.infer import Suspect
    from nettune.qualify.observe import Odd
    from nettune.qualify.plan import ProbePlan, Round

_TARGETS = 4
_RIVAL_PROBABILITY = 0.1
_FLOWS_PER_WAY = 3
_AT_ONCE = 2
RETEST_S = 0.4
_FLAP_S = 1.2
"""An outage comes every second or so, and a flow of this length meets one."""
_NEARLY = 0.99
_BETTER = 1.05


@dataclass(frozen=True)
class Retest:
    """Rounds of a second pass and how long each of their flows sends."""

    rounds: tuple[Round, ...]
    duration_s: float


def plan_retest(
    suspects: Sequence[Suspect],
    candidates: Sequence[Candidate],
    plan: ProbePlan,
    speeds: np.ndarray[tuple[int], np.dtype[np.float64]],
    done: set[Key],
) -> Retest:
    """Transfers over the suspects and their likeliest rivals; flows that cross only one of them come first.

    A suspect that may be slow is asked for its whole rate: by the fastest flows, and by a set of flows that fills it
    and stays clear of its rivals where no single flow does both.

    Args:
        suspects: the best explained first.
        candidates: all of them.
        plan: of the first pass.
        speeds: (2L,) nominal rate of each directed link in Gbit/s; 0 unknown.
        done: keys of flows that have been tested again; those of this plan are added.
    """
    whole = {candidate.element: candidate for candidate in candidates if candidate.one_way is None}
    names = [suspect.candidate.element for suspect in suspects]
    names += [element for suspect in suspects for element, p in suspect.rivals if p >= _RIVAL_PROBABILITY]
    targets = [whole[name] for name in dict.fromkeys(names)][:_TARGETS]
    flap = any(suspect.kind is Kind.FLAP for suspect in suspects)
    slow = any(suspect.kind is Kind.RATE for suspect in suspects)
    rounds: list[Round] = []
    for target in targets:
        others = frozenset().union(*(other.links for other in targets if other is not target)) - target.links
        # Both directions of a cable; for a switch or host, all its links at once.
        ways = (
            [frozenset((link,)) for link in sorted(target.links)]
            if len(target.links) == 2
            else [target.links]
        )
        chosen: dict[Key, Pair] = {}
        for way in ways:
            flows = sorted(
                (flow for pair in plan.pairs for flow in pair.flows if flow.crosses(way) >= 0.5),
                key=lambda flow: (flow.crosses(others), -flow.crosses(way)),
            )
            if slow and flows:
                top = max(flow.nominal_gbps for flow in flows)
                clear = max((f.nominal_gbps for f in flows if not f.crosses(others)), default=0.0)
                link = min(way)
                if len(way) == 1 and clear < _NEARLY * speeds[link]:
                    filling = plan.filler.fill(link, avoid=others)
                    if (filling is None or filling.gbps <= _BETTER * clear) and top < _NEARLY * speeds[link]:
                        filling, clear = plan.filler.fill(link), top
                    if filling is not None and filling.gbps > _BETTER * clear:
                        keys = {flow.key for flow in filling.flows}
                        rounds += [] if keys <= done else [filling.flows]
                        done |= keys
                flows = [flow for flow in flows if flow.nominal_gbps >= _NEARLY * top]
            for pair in _different_hosts(flows, _FLOWS_PER_WAY - flap):
                if pair.flows[0].key not in done:
                    chosen[pair.flows[0].key] = pair
        done |= chosen.keys()
        # Target by target, so that the likeliest has been tested when the time is up.
        rounds += pack(chosen.values(), np.zeros(len(speeds)), _AT_ONCE)
    return Retest(tuple(rounds), _FLAP_S if flap else RETEST_S)


def rounds_of(odd: Sequence[Odd], directed_count: int) -> Retest:
    """The same transfers once more: sets by themselves, flows at most two at a time."""
    sets = [one.flow.parts for one in odd if one.flow.parts]
    flows = [one.flow for one in odd if not one.flow.parts]
    pairs = [Pair(flow.src_port, flow.dst_port, (flow,)) for flow in flows]
    return Retest((*sets, *pack(pairs, np.zeros(directed_count), _AT_ONCE)), RETEST_S)


def _different_hosts(flows: Sequence[ProbeFlow], count: int) -> list[Pair]:
    """The first flows, preferring ends that were not taken before."""
    chosen: list[ProbeFlow] = []
    for fresh in (2, 1, 0):
        for flow in flows:
            ends = {flow.src_port, flow.dst_port}
            seen = {port for other in chosen for port in (other.src_port, other.dst_port)}
            if len(chosen) < count and flow not in chosen and len(ends - seen) >= fresh:
                chosen.append(flow)
    return [Pair(flow.src_port, flow.dst_port, (flow,)) for flow in chosen]

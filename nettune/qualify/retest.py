"""Which transfers tell the suspects apart: over each of them, between different hosts, nearly alone and longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.qualify.likelihood import Kind
from nettune.qualify.plan import pack
from nettune.qualify.ports import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.qualify.candidates import Candidate
    from nettune.qualify.flows import ProbeFlow
    from nettune.qualify.infer import Suspect
    from nettune.qualify.plan import Round

_TARGETS = 4
_RIVAL_PROBABILITY = 0.1
_FLOWS_PER_WAY = 3
_AT_ONCE = 2
_SECONDS = 0.4
_FLAP_SECONDS = 1.2
"""An outage comes every second or so, and a flow of this length meets one."""


@dataclass(frozen=True)
class Retest:
    """Rounds of a second pass and how long each of their flows sends."""

    rounds: tuple[Round, ...]
    duration_s: float


def plan_retest(
    suspects: Sequence[Suspect], candidates: Sequence[Candidate], pairs: Sequence[Pair], directed_count: int
) -> Retest:
    """Transfers over the suspects and their likeliest rivals; flows that cross only one of them come first."""
    whole = {candidate.element: candidate for candidate in candidates if candidate.one_way is None}
    names = [suspect.candidate.element for suspect in suspects]
    names += [element for suspect in suspects for element, p in suspect.rivals if p >= _RIVAL_PROBABILITY]
    targets = [whole[name] for name in dict.fromkeys(names)][:_TARGETS]
    flap = any(suspect.kind is Kind.FLAP for suspect in suspects)
    rounds: list[Round] = []
    done: set[tuple[int, int, int]] = set()
    for target in targets:
        others = frozenset().union(*(other.links for other in targets if other is not target))
        # Both directions of a cable; for a switch or host, all its links at once.
        ways = (
            [frozenset((link,)) for link in sorted(target.links)]
            if len(target.links) == 2
            else [target.links]
        )
        chosen: dict[tuple[int, int, int], Pair] = {}
        for way in ways:
            flows = sorted(
                (flow for pair in pairs for flow in pair.flows if flow.crosses(way) >= 0.5),
                key=lambda flow: (flow.crosses(others - way), -flow.crosses(way)),
            )
            for pair in _different_hosts(flows, _FLOWS_PER_WAY - flap):
                key = (pair.src_port, pair.dst_port, pair.flows[0].tcp_ports[0])
                if key not in done:
                    chosen[key] = pair
        done |= chosen.keys()
        # Target by target, so that the likeliest has been tested when the time is up.
        rounds += pack(chosen.values(), np.zeros(directed_count), _AT_ONCE)
    return Retest(tuple(rounds), _FLAP_SECONDS if flap else _SECONDS)


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

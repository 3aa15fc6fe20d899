"""Source ports that spread a given set of flows: for verbs that can set them, where the hashes are known.

Each flow's possible paths are computed for a sample of ports; large flows choose first, each the path whose most loaded link
stays lowest (list scheduling); then flows leave the most loaded link as long as that helps. Where hashes are not known
`topology.probing.sportplan` chooses from a probed table; where ports cannot be set, more QPs are the other lever:
`topology.ecmp.connections.by_qps`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.cuts import nic_parts
from topology.ecmp.connections import us_per_byte
from topology.ecmp.roce import SPORT_FIRST, SPORT_LAST
from topology.ecmp.walk import FlowColumns, paths, walked_loads
from topology.placement.bound import cut_bound
from topology.traffic import Transfers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.routing import Routing

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

ROCE_PORTS = range(SPORT_FIRST, SPORT_LAST + 1)
_BLOCK = 1 << 19
_MOVES_PER_FLOW = 8


@dataclass(frozen=True)
class Steering:
    """Chosen source ports and what they give.

    Attributes:
        sport: (F,) source port of each flow.
        loads: (2L,) bytes.
        busiest_us: time that the most loaded link needs.
        unsteered_us: (D,) the same with ports drawn at random from the same set.
        bound_us: no choice of paths can be faster: cuts of the fabric (`topology.cuts`).
    """

    sport: Ints
    loads: Floats
    busiest_us: float
    unsteered_us: Floats
    bound_us: float

    @property
    def efficiency(self) -> float:
        """Bound over time: 1 is ideal."""
        return self.bound_us / self.busiest_us if self.busiest_us else 1.0

    @property
    def unsteered_efficiency(self) -> float:
        """The same for random ports: bound over mean time."""
        mean = float(self.unsteered_us.mean())
        return self.bound_us / mean if mean else 1.0


def steer(
    routing: Routing,
    flows: FlowColumns,
    flow_bytes: Floats,
    *,
    ports: Sequence[int] = ROCE_PORTS,
    tried: int = 256,
    draws: int = 100,
    seed: int = 0,
) -> Steering:
    """Source ports out of `ports` for flows, whose own are not looked at; flows of one tuple get different ones.

    Args:
        routing: with known hashes.
        flows: the flows; `dst_qp` where it is hashed.
        flow_bytes: (F,) bytes.
        ports: ports that may be used.
        tried: how many of them, drawn anew for each flow, are looked at.
        draws: draws of random ports to compare with.
        seed: of these draws.

    Raises:
        InputError: too few ports to give flows of one tuple different ones, or a used link has no speed.
        UnknownPathError: no route, or a hash is not known.
    """
    generator = np.random.default_rng(seed)
    offered = np.asarray(ports, dtype=np.int64)
    tuple_of = _tuple_numbers(flows)
    most = int(np.bincount(tuple_of).max(initial=0))
    if not len(offered) or most > len(offered):
        raise InputError(
            f"{most} flows between the same two NICs need that many ports, {len(offered)} are offered"
        )
    candidates = _candidates(offered, tuple_of, max(tried, 1), generator)
    taken = _paths(routing, flows, candidates)
    used = np.zeros(routing.fabric.directed_count, dtype=np.bool_)
    used[taken[taken >= 0]] = True
    per_byte = us_per_byte(routing.fabric, used)
    chosen = spread(taken, flow_bytes, per_byte, generator)
    sport = candidates[np.arange(len(flows)), chosen]
    loads = walked_loads(routing, replace(flows, sport=sport), flow_bytes)[0]
    return Steering(
        sport=sport,
        loads=loads,
        busiest_us=float((loads * per_byte).max(initial=0.0)),
        unsteered_us=_unsteered(routing, flows, flow_bytes, offered, draws, generator),
        bound_us=bound_us(routing, flows, flow_bytes),
    )


def _tuple_numbers(flows: FlowColumns) -> Ints:
    """(F,) flows that differ by their source port alone share a number."""
    columns = np.stack([flows.src_port, flows.dst_port, flows.proto, flows.dport], axis=1)
    number: Ints = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    return number


def _candidates(offered: Ints, tuple_of: Ints, tried: int, generator: np.random.Generator) -> Ints:
    """(F, K) ports; flows of one tuple get disjoint ones."""
    sharing = np.bincount(tuple_of)
    width = max(1, min(tried, int(len(offered) // sharing.max(initial=1))))
    found = np.empty((len(tuple_of), width), dtype=np.int64)
    order = np.argsort(tuple_of, kind="stable")
    begin = 0
    for count in sharing.tolist():
        rows = order[begin : begin + count]
        found[rows] = generator.choice(offered, count * width, replace=False).reshape(count, width)
        begin += count
    return found


def _paths(routing: Routing, flows: FlowColumns, candidates: Ints) -> Ints:
    """(F, K, H) directed links by flow and candidate, -1 behind the last."""
    count, width = candidates.shape
    step = max(1, _BLOCK // width)
    parts = []
    for begin in range(0, count, step):
        rows = np.repeat(np.arange(begin, min(begin + step, count)), width)
        asked = replace(flows.take(rows), sport=candidates[begin : begin + step].ravel())
        parts.append(paths(routing, asked))
    hops = max((part.shape[1] for part in parts), default=0)
    whole = np.full((count * width, hops), -1, dtype=np.int64)
    at = 0
    for part in parts:
        whole[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return whole.reshape(count, width, hops)


def spread(taken: Ints, bytes_: Floats, per_byte: Floats, generator: np.random.Generator) -> Ints:
    """(F,) which of its candidate paths each flow takes, so that the most loaded link has least to do.

    Args:
        taken: (F, K, H) directed links of each flow's candidates, -1 where there is none.
        bytes_: (F,) bytes.
        per_byte: (2L,) time that a byte takes on each link.
        generator: order among flows of one size.
    """
    per_byte = np.append(per_byte, 0.0)  # link -1 costs nothing
    flows = len(taken)
    time = np.zeros(len(per_byte))
    chosen = np.zeros(flows, dtype=np.int64)
    if not taken.shape[2]:
        return chosen
    own = np.arange(flows)

    def add(flow: int, sign: float) -> None:
        links = taken[flow, chosen[flow]]
        time[links] += sign * bytes_[flow] * per_byte[links]

    def best(flow: int) -> tuple[int, float]:
        after = time[taken[flow]] + bytes_[flow] * per_byte[taken[flow]]
        worst = after.max(axis=1)
        level = worst.min()
        # Among equals the path whose links have least to do altogether.
        near = np.flatnonzero(worst <= level * (1 + 1e-12))
        return int(near[np.argmin((after[near] ** 2).sum(axis=1))]), float(level)

    mixed = generator.permutation(flows)
    for flow in mixed[np.argsort(-bytes_[mixed], kind="stable")].tolist():
        chosen[flow], _ = best(flow)
        add(flow, 1.0)
    for _ in range(_MOVES_PER_FLOW * flows):
        busy = int(np.argmax(time))
        level = time[busy]
        crossing = np.flatnonzero((taken[own, chosen] == busy).any(axis=1))
        for flow in crossing.tolist():
            add(flow, -1.0)
            other, after = best(flow)
            if after < level * (1 - 1e-9):
                chosen[flow] = other
                add(flow, 1.0)
                break
            add(flow, 1.0)
        else:
            return chosen
    return chosen


def bound_us(routing: Routing, flows: FlowColumns, flow_bytes: Floats) -> float:
    """Time that NICs and cuts of the fabric need at least, whatever paths the flows take."""
    rows = np.arange(len(flows))
    moved = Transfers(flows.src_port, flows.dst_port, flow_bytes, rows, np.zeros_like(rows))
    return cut_bound(routing, moved, nic_parts(routing.fabric)).time_us


def _unsteered(
    routing: Routing,
    flows: FlowColumns,
    flow_bytes: Floats,
    offered: Ints,
    draws: int,
    generator: np.random.Generator,
) -> Floats:
    """(D,) time of the most loaded link when each flow draws its port."""
    times = np.empty(draws)
    for draw in range(draws):
        drawn = replace(flows, sport=generator.choice(offered, len(flows)))
        loads = walked_loads(routing, drawn, flow_bytes)[0]
        times[draw] = (loads * us_per_byte(routing.fabric, loads > 0)).max(initial=0.0)
    return times

"""Next hops as arrays, and flows that walk through them together: the fast side of `Routing.alternatives`.

All flows from one switch to the ports of one group behind one switch share their paths, so nothing is kept for a pair
of NICs. A flow needs one number between 0 and 1 for its whole path: it picks a hop by the integer part of number x
weights and goes on with what is left over, which picks the same path as the cumulative probabilities of
`Routing.alternatives` would.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from topology.fabric import LinkState, NodeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.routing import NextHops, Routing
    from topology.traffic import Transfers

    Ints = NDArray[np.int64]
    Rows = NDArray[np.int32]
    Floats = NDArray[np.float64]

MAX_HOPS = 32
_BLOCK = 1 << 20
"""Rows of temporary columns: some hundred bytes each."""


@dataclass(frozen=True)
class HopTable:
    """Forwarding state of a fabric with S switches, G groups, H different sets of next hops, W slots in all of them.

    A next hop of weight w has w slots in its set (weights are divided by what they have in common).

    Attributes:
        switch: (N,) row of each node in `entry`; -1 for hosts.
        column: (P,) column of each port's group in `entry`.
        entry: (S, G) set of next hops; -1 no route.
        total: (H,) slots of each set.
        offset: (H,) its first slot.
        link: (W,) directed link of each slot.
        first, width: (W,) first slot of the same next hop within its set, and how many it has.
        node_after: (2L,) node that a directed link leads to.
        between: (B,) directed links between two switches: all that a choice can decide.
        between_row: (2L,) row in `between`; B for the others.
    """

    switch: Rows
    column: Rows
    entry: Rows
    total: Rows
    offset: Rows
    link: Rows
    first: Floats
    width: Floats
    node_after: Rows
    between: Ints
    between_row: Ints

    @classmethod
    def of(cls, routing: Routing) -> HopTable:
        """The table of a routing; `Routing.hops` keeps it."""
        fabric = routing.fabric
        is_switch = fabric.nodes.kind == NodeKind.SWITCH
        switch = np.where(is_switch, np.cumsum(is_switch) - 1, -1).astype(np.int32)
        groups, column = np.unique(routing.group, return_inverse=True)
        column_of = {int(group): index for index, group in enumerate(groups)}
        # One row at least: a fabric of hosts alone is looked up too, and has no route.
        entry = np.full((max(int(is_switch.sum()), 1), len(groups)), -1, dtype=np.int32)
        number_of: dict[NextHops, int] = {}
        by_id: dict[int, int] = {}
        # Millions of entries share some thousands of sets: equal objects are looked at once.
        for (node, group), hops in routing.table.items():
            number = by_id.get(id(hops))
            if number is None:
                number = by_id[id(hops)] = number_of.setdefault(hops, len(number_of))
            if group in column_of:
                entry[switch[node], column_of[group]] = number
        links: list[int] = []
        first: list[int] = []
        width: list[int] = []
        total = np.empty(len(number_of), dtype=np.int32)
        for number, hops in enumerate(number_of):
            shared = gcd(*hops.weights)
            begin = len(links)
            for link, weight in zip(hops.links, hops.weights, strict=True):
                slots = weight // shared
                first += [len(links) - begin] * slots
                width += [slots] * slots
                links += [link] * slots
            total[number] = len(links) - begin
        ends = fabric.ports.node[fabric.directed_ports]
        inside = is_switch[ends].all(axis=1)
        return cls(
            switch=switch,
            column=column.astype(np.int32),
            entry=entry,
            total=total,
            offset=(np.cumsum(total) - total).astype(np.int32),
            link=np.array(links, dtype=np.int32),
            first=np.array(first, dtype=np.float64),
            width=np.array(width, dtype=np.float64),
            node_after=ends[:, 1].astype(np.int32),
            between=np.flatnonzero(inside),
            between_row=np.where(inside, np.cumsum(inside) - 1, inside.sum()),
        )

    def sets(self, node: NDArray[np.integer], column: NDArray[np.integer]) -> Rows:
        """Set of next hops at each node towards each column; -1 where there is no route or the node is no switch."""
        row = self.switch[node]
        found: Rows = np.where(row < 0, np.int32(-1), self.entry[row, column])
        return found


@dataclass(frozen=True)
class Flows:
    """Transfers that cross the network, F of them.

    Attributes:
        row: (F,) row of the transfer.
        bytes_: (F,) bytes.
        out, into: (F,) directed links that leave the source NIC and reach the target's; equal on a direct cable.
        node: (F,) switch that the flow stands at.
        end: (F,) switch that the target's NIC is cabled to.
        column: (F,) group of the target, as column of the table.
    """

    row: Ints
    bytes_: Floats
    out: Ints
    into: Ints
    node: Ints
    end: Ints
    column: Rows

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: NDArray[np.generic]) -> Flows:
        """The chosen rows."""
        return Flows(*(column[which] for column in vars(self).values()))


def flows_of(routing: Routing, moved: Transfers) -> Flows:
    """Transfers that use the network: not those inside a host or an accelerator domain.

    Raises:
        UnknownPathError: a NIC has no cable that is up.
    """
    fabric = routing.fabric
    src, dst = fabric.ports.node[moved.src_port], fabric.ports.node[moved.dst_port]
    domain = fabric.nodes.nvl_domain
    row = np.flatnonzero((src != dst) & ((domain[src] < 0) | (domain[src] != domain[dst])))
    src_port, dst_port = moved.src_port[row], moved.dst_port[row]
    out, back = fabric.out_of_port[src_port], fabric.out_of_port[dst_port]
    loose = (out < 0) | (back < 0)
    if len(fabric.links.state):
        loose |= fabric.links.state[[out // 2, back // 2]].min(axis=0) != LinkState.UP
    if loose.any():
        refuse(routing, moved, int(row[np.argmax(loose)]))
    into = back ^ 1
    return Flows(
        row=row,
        bytes_=moved.bytes_[row],
        out=out,
        into=into,
        node=fabric.ports.node[fabric.directed_ports[out, 1]],
        end=np.where(out == into, dst[row], fabric.ports.node[fabric.directed_ports[into, 0]]),
        column=routing.hops.column[dst_port],
    )


def refuse(routing: Routing, moved: Transfers, row: int) -> NoReturn:
    """Say which transfer has no path, and why.

    Raises:
        UnknownPathError: always.
    """
    from topology.routing import UnknownPathError

    routing.alternatives(int(moved.src_port[row]), int(moved.dst_port[row]))
    raise UnknownPathError("routing: a flow has no path")


def walk_forced(routing: Routing, moved: Transfers, flows: Flows) -> tuple[Floats, Flows]:
    """(2L,) bytes on the links where flows have no choice, and the flows that come to one, standing before it.

    Raises:
        UnknownPathError: a flow has no route.
    """
    hops, count = routing.hops, routing.fabric.directed_count
    loads = np.zeros(count)  # bincount of nothing is a column of integers
    loads += np.bincount(flows.out, flows.bytes_, minlength=count)
    cabled = flows.out != flows.into
    loads += np.bincount(flows.into[cabled], flows.bytes_[cabled], minlength=count)
    waiting = []
    for _ in range(MAX_HOPS):
        flows = flows.take(flows.node != flows.end)
        if not len(flows):
            break
        chosen = hops.sets(flows.node, flows.column)
        if chosen.min() < 0:
            refuse(routing, moved, int(flows.row[np.argmin(chosen)]))
        forced = hops.total[chosen] == 1
        waiting.append(flows.take(~forced))
        flows, chosen = flows.take(forced), chosen[forced]
        link = hops.link[hops.offset[chosen]]
        loads += np.bincount(link, flows.bytes_, minlength=count)
        flows = Flows(**{**vars(flows), "node": hops.node_after[link].astype(np.int64)})
    else:
        refuse(routing, moved, int(flows.row[0]))
    columns = [vars(part).values() for part in waiting or [flows]]
    return loads, Flows(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def spread_all(routing: Routing, moved: Transfers, flows: Flows) -> Floats:
    """(2L,) mean bytes of flows on the links between switches, over all choices.

    Flows of one class are added up first; then classes move on hop by hop, each over all its next hops at once.

    Raises:
        UnknownPathError: a flow has no route.
    """
    hops, count = routing.hops, routing.fabric.directed_count
    loads = np.zeros(count)
    nodes, groups = len(hops.switch), hops.entry.shape[1] or 1
    keys, bytes_ = _added((flows.node * nodes + flows.end) * groups + flows.column, flows.bytes_)
    for _ in range(MAX_HOPS):
        node, end, column = keys // groups // nodes, keys // groups % nodes, keys % groups
        live = node != end
        if not live.any():
            return loads
        keys, bytes_, node, column = keys[live], bytes_[live], node[live], column[live]
        chosen = hops.sets(node, column)
        if chosen.min() < 0:
            break
        total = hops.total[chosen]
        cuts = np.searchsorted(np.cumsum(total), np.arange(_BLOCK, int(total.sum()), _BLOCK))
        found = []
        for begin, stop in pairwise(np.unique([0, *cuts.tolist(), len(total)]).tolist()):
            wide = total[begin:stop]
            state = np.repeat(np.arange(begin, stop), wide)
            slot = np.arange(len(state)) - np.repeat(np.cumsum(wide) - wide, wide)
            link = hops.link[hops.offset[chosen[state]] + slot]
            share = bytes_[state] / total[state]
            loads += np.bincount(link, share, minlength=count)
            rest = keys[state] - node[state] * nodes * groups
            found.append(_added(rest + hops.node_after[link].astype(np.int64) * nodes * groups, share))
        keys, bytes_ = _added(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    for row in flows.row:
        routing.alternatives(int(moved.src_port[row]), int(moved.dst_port[row]))
    return loads


def walk_drawn(hops: HopTable, flows: Flows, uniform: Floats) -> Floats:
    """(D, B) bytes on the links between switches when (D, F) numbers decide every flow's path.

    Raises:
        IndexError: a flow has no route; `refuse` says why.
    """
    draws, between = len(uniform), len(hops.between)
    loads = np.zeros(draws * (between + 1))
    first_place = np.arange(draws)[:, None] * (between + 1)
    node, end, column, bytes_ = flows.node[None, :], flows.end[None, :], flows.column[None, :], flows.bytes_
    equal = bool((hops.width == 1).all())
    entry, groups = hops.entry.ravel(), hops.entry.shape[1]
    # A host, which does not forward, gets a place outside of the table.
    start = np.where(hops.switch < 0, len(entry), hops.switch.astype(np.int64) * groups)
    row_of_slot, node_of_slot = hops.between_row[hops.link], hops.node_after[hops.link].astype(np.int64)
    for _ in range(MAX_HOPS):
        arrived = node == end
        some = bool(arrived.any())
        if some:
            kept = ~arrived.all(axis=0)
            if not kept.all():
                node, end, column, uniform = node[:, kept], end[:, kept], column[:, kept], uniform[:, kept]
                bytes_, arrived = bytes_[kept], arrived[:, kept]
        if not len(bytes_):
            return loads.reshape(draws, -1)[:, :between]
        # Flows of one class may need different numbers of hops; those that are there add to a spare place.
        place = np.where(arrived, 0, start[node] + column) if some else start.take(node) + column
        chosen = entry.take(place)
        if (chosen[~arrived] if some else chosen).min() < 0:
            break
        total = hops.total.take(chosen)
        slot = hops.offset.take(chosen)
        if total.max() > 1:
            scaled = uniform * total
            inside = scaled.astype(np.int32)
            np.minimum(inside, total - 1, out=inside)
            slot = slot + inside
            uniform = scaled - inside if equal else (scaled - hops.first.take(slot)) / hops.width.take(slot)
        row = row_of_slot.take(slot)
        node = np.where(arrived, node, node_of_slot.take(slot)) if some else node_of_slot.take(slot)
        if some:
            row[np.broadcast_to(arrived, row.shape)] = between
        weights = np.broadcast_to(bytes_, (draws, len(bytes_))).ravel()
        loads += np.bincount((first_place + row).ravel(), weights, len(loads))
    raise IndexError("a flow has no route")


def _added(keys: Ints, bytes_: Floats) -> tuple[Ints, Floats]:
    """Bytes added up by key."""
    found, index = np.unique(keys, return_inverse=True)
    return found, np.bincount(index, bytes_, minlength=len(found)).astype(np.float64)

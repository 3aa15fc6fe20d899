"""Paths of a workload's flows over a routing: every connection draws one number, as an ideal hash would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.hops import MAX_HOPS, flows_of, refuse
from topology.traffic import Transfers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.routing import Routing

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


def drawn_paths(routing: Routing, src_port: Ints, dst_port: Ints, numbers: Floats) -> Ints:
    """(F, H) directed links of each flow in order, -1 behind its last.

    Args:
        routing: forwarding state with its fabric.
        src_port: (F,) port rows of NICs.
        dst_port: (F,) port rows of NICs on other hosts.
        numbers: (F,) from 0 to below 1; equal numbers between equal NICs give equal paths.

    Raises:
        UnknownPathError: a flow has no route, or its route loops.
    """
    rows = np.arange(len(src_port))
    moved = Transfers(src_port, dst_port, np.zeros(len(rows)), rows, np.zeros_like(rows))
    flows, hops = flows_of(routing, moved), routing.hops
    columns = [flows.out]
    node, number = flows.node.copy(), numbers[flows.row].astype(np.float64)
    live = np.flatnonzero(node != flows.end)
    while len(live):
        chosen = hops.sets(node[live], flows.column[live])
        if chosen.min() < 0 or len(columns) > MAX_HOPS:
            refuse(routing, moved, int(flows.row[live[np.argmin(chosen)]]))
        scaled = number[live] * hops.total[chosen]
        slot = hops.offset[chosen] + np.minimum(scaled.astype(np.int64), hops.total[chosen] - 1)
        # What is left over of the number decides the next hop.
        number[live] = (scaled - hops.first[slot]) / hops.width[slot]
        link = np.full(len(node), -1, dtype=np.int64)
        link[live] = hops.link[slot]
        columns.append(link)
        node[live] = hops.node_after[link[live]]
        live = live[node[live] != flows.end[live]]
    found = np.full((len(src_port), len(columns) + 1), -1, dtype=np.int64)
    found[flows.row, : len(columns)] = np.column_stack(columns)
    # The link into the target stands behind the last one; on a direct cable it is the first.
    last = np.count_nonzero(found >= 0, axis=1)[flows.row]
    cabled = flows.out != flows.into
    found[flows.row[cabled], last[cabled]] = flows.into[cabled]
    return found

"""Counter readings from a CSV file, for switches that nettune cannot ask: before and after packets of one source port.

    src,dst,sport,packets,port,before,after
    h0,h5,50000,1000,leaf0:swp1,118823,119823
    h0,h5,50000,1000,leaf0:swp2,223311,223312

Any program may send the packets and any may read the counters, those of transmitted packets; `src` and `dst` are as in
`topology.ecmp.flowfile`. Ports that are left out are not known: where one tier is read, only its choice is told.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.ecmp.flowfile import csv_rows, number_of, pair_of
from topology.probing.counters import between, path_by_counters
from topology.probing.paths import ProbedPath
from topology.routing import FlowKey

if TYPE_CHECKING:
    from pathlib import Path

    from topology.fabric import Fabric
    from topology.routing import Routing

_COLUMNS = ("src", "dst", "sport", "packets", "port", "before", "after")
_MOST = 2**64
_SURE = 0.25
"""Part of the packets that a counter may be off: other traffic, or losses."""


def read_captures(path: Path, routing: Routing, proto: int, dport: int) -> list[ProbedPath]:
    """Paths of the flows in a file, in its order.

    Args:
        path: the file.
        routing: whose next hops are the ways among which the counters decide.
        proto: of the packets.
        dport: of the packets.

    Raises:
        InputError: as `csv_rows`; a bad number, a NIC or port that the fabric does not have, a counter that went back or is
            given twice, no readings.
        UnknownPathError: no route between a pair.
    """
    readings: dict[FlowKey, dict[int, tuple[int, int]]] = defaultdict(dict)  # link -> (packets, difference)
    for row, line in csv_rows(path, _COLUMNS):
        sport, packets, before, after = (
            number_of(row, name, limit, path, line)
            for name, limit in (("sport", 2**16), ("packets", _MOST), ("before", _MOST), ("after", _MOST))
        )
        if not packets:
            raise InputError("0 packets leave nothing to count", path, line)
        if after < before:
            raise InputError(f"the counter went back, from {before} to {after}", path, line)
        flow = FlowKey(*pair_of(row, routing.fabric, path, line), proto, sport, dport)
        link = _link(row.get("port") or "", routing.fabric, path, line)
        if link in readings[flow]:
            raise InputError(f"{row['port']} is given twice for source port {sport}", path, line)
        readings[flow][link] = (packets, after - before)
    if not readings:
        raise InputError("holds no readings", path)
    found = []
    for flow, counters in readings.items():
        ways = routing.alternatives(flow.src_port, flow.dst_port)
        asked = between(routing, (flow.src_port, flow.dst_port))
        crossed = {
            link: difference > packets / 2
            for link, (packets, difference) in counters.items()
            if link in asked and min(difference, abs(difference - packets)) <= _SURE * packets
        }
        # Whether they arrive or die at the last router, they crossed all links between switches.
        hops = max(len(links) for _, links in ways)
        found.append(ProbedPath(flow, path_by_counters(ways, crossed, hops), {}))
    return found


def _link(text: str, fabric: Fabric, path: Path, line: int) -> int:
    """Directed link out of a port that is written `leaf0:swp1`."""
    node, _, port = text.partition(":")
    try:
        row = fabric.port_row(node, port)
    except InputError as error:
        raise InputError(f"port {text!r}: {error}", path, line) from None
    link = int(fabric.out_of_port[row])
    if link < 0:
        raise InputError(f"port {text!r} has no cable", path, line)
    return link

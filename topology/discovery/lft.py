"""Routing of an InfiniBand subnet out of its linear forwarding tables: one port out for each LID, no hash.

A path is exact before any connection exists, since a switch looks at the destination LID only. That holds for static
routing: with adaptive routing enabled the table has the port that is taken when nothing is congested. Of a port with
several LIDs (LMC) the base LID counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status, held
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.wording import some
from topology.fabric import NodeKind
from topology.routing import NextHops, Routing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.fabric import Fabric
    from topology.readers.said import Said

    Rows = np.ndarray[Any, np.dtype[np.int32]]

CHECK = "lft"
_SHOWN = 4
_BLOCK = 1 << 12
"""Destinations that are followed at a time."""
_DOUBLINGS = 6
"""2^6 hops: the longest path that a LID route may have (InfiniBand's hop limit of 64)."""


def lft_routing(said: Said, fabric: Fabric) -> tuple[Routing, list[Finding]]:
    """Routing, and findings about missing entries, wrong deliveries and loops.

    Args:
        said: has forwarding tables by switch and LIDs of NICs; the fabric was built from it, or from sources about the
            same GUIDs.
        fabric: hosts and switches that the rows refer to.

    Each NIC with a LID is a destination group of its own. A switch without a table has no route.

    Raises:
        InputError: no tables, no LIDs, or none that belong to this fabric.
    """
    if not said.forwarding:
        raise InputError(
            "no forwarding tables: give the output of dump_fts or an .fdbs file beside the topology"
        )
    tables = _tables(said, fabric)
    ports = _ports_of_lids(said, fabric)
    if not tables or not ports:
        what = "switches of the forwarding tables" if not tables else "LIDs of the NICs"
        raise InputError(
            f"forwarding tables: the {what} are not in the fabric; give a dump of the same subnet"
        )
    group = np.full(len(fabric.ports.name), -1, dtype=np.int64)
    group[list(ports.values())] = list(ports.values())
    routing = Routing(fabric, group, _hops(tables, ports, fabric), source="LFT")
    return routing, _Check(fabric, tables, ports).findings()


def _tables(said: Said, fabric: Fabric) -> dict[int, Mapping[int, int]]:
    """Switch row -> LID -> port number; by GUID, and by name where none is known."""
    by_guid = {guid: row for row, guid in enumerate(fabric.nodes.guid) if guid}
    by_name = {name: row for row, name in enumerate(fabric.nodes.name)}
    found: dict[int, Mapping[int, int]] = {}
    for name, table in said.forwarding.items():
        node = said.nodes.get(name)
        row = by_guid.get(node.guid) if node is not None and node.guid else None
        row = by_name.get(name) if row is None else row
        if row is not None and fabric.nodes.kind[row] == NodeKind.SWITCH:
            found[row] = table
    return found


def _ports_of_lids(said: Said, fabric: Fabric) -> dict[int, int]:
    """LID -> port row of the host's NIC that has it; by GUID, and by name where none is known."""
    is_nic = (fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST).tolist()
    by_guid = {guid: row for row, guid in enumerate(fabric.ports.guid) if guid and is_nic[row]}
    nodes = fabric.ports.node.tolist()
    by_name = {
        (fabric.nodes.name[nodes[row]], name): row
        for row, name in enumerate(fabric.ports.name)
        if is_nic[row]
    }
    found: dict[int, int] = {}
    for end, port in said.ports.items():
        if port.lid:
            row = by_guid.get(port.guid) if port.guid else None
            row = by_name.get(end) if row is None else row
            if row is not None:
                found.setdefault(port.lid, row)
    return found


def _out_links(fabric: Fabric) -> dict[tuple[int, int], int]:
    """(switch row, port number) -> directed link out of it; ports without a cable are not there."""
    found = {}
    out = fabric.out_of_port.tolist()
    kinds = fabric.nodes.kind.tolist()
    for row, (node, name) in enumerate(zip(fabric.ports.node.tolist(), fabric.ports.name, strict=True)):
        if out[row] >= 0 and kinds[node] == NodeKind.SWITCH and name.isascii() and name.isdecimal():
            found[node, int(name)] = out[row]
    return found


def _hops(
    tables: Mapping[int, Mapping[int, int]], ports: Mapping[int, int], fabric: Fabric
) -> dict[tuple[int, int], NextHops]:
    out = _out_links(fabric)
    kept: dict[int, NextHops] = {}
    found: dict[tuple[int, int], NextHops] = {}
    for switch, table in tables.items():
        for lid, number in table.items():
            port = ports.get(lid)
            link = out.get((switch, number)) if port is not None else None
            if port is not None and link is not None:
                if link not in kept:
                    kept[link] = NextHops((link,), (1,))
                found[switch, port] = kept[link]
    return found


class _Check:
    """Follows every LID from every switch that has a table."""

    def __init__(
        self, fabric: Fabric, tables: Mapping[int, Mapping[int, int]], ports: Mapping[int, int]
    ) -> None:
        self.fabric, self.tables, self.ports = fabric, tables, ports
        self.switches = np.array(sorted(tables), dtype=np.int64)
        self.lids = sorted(ports)
        self.problems: dict[tuple[str, int], list[str]] = {}
        self.longest = 0

    def findings(self) -> list[Finding]:
        """What does not hold; one PASS where all does."""
        out = _out_links(self.fabric)
        for begin in range(0, len(self.lids), _BLOCK):
            self._follow(self.lids[begin : begin + _BLOCK], out)
        found = [self._say(kind, row, texts) for (kind, row), texts in sorted(self.problems.items())]
        found += self._without_table()
        if not any(one.status is Status.FAIL for one in found):
            what = (
                f"each of {len(self.switches)} switches with a table reaches each of {len(self.lids)} LIDs of NICs; "
                f"at most {self.longest} switches are crossed"
            )
            found.append(held(CHECK, what))
        return found

    def _follow(self, lids: list[int], out: Mapping[tuple[int, int], int]) -> None:
        fabric = self.fabric
        count = len(self.switches)
        there, lost = count, count + 1
        row_of = {int(node): row for row, node in enumerate(self.switches)}
        receivers = fabric.directed_ports[:, 1]
        nodes = fabric.ports.node
        step: Rows = np.full((count + 2, len(lids)), lost, dtype=np.int32)
        step[there] = there
        for row, switch in enumerate(self.switches.tolist()):
            table = self.tables[switch]
            for column, lid in enumerate(lids):
                number = table.get(lid)
                if number is None:
                    self._note("missing", switch, f"LID {lid} ({self._nic(lid)})")
                    continue
                link = out.get((switch, number))
                if link is None:
                    self._note("nowhere", switch, f"LID {lid} ({self._nic(lid)}) to port {number}")
                    continue
                far = int(receivers[link])
                if far == self.ports[lid]:
                    step[row, column] = there
                elif fabric.nodes.kind[nodes[far]] == NodeKind.HOST:
                    text = f"LID {lid} ({self._nic(lid)}) to {fabric.port_element(far)}"
                    self._note("wrong", switch, text)
                else:
                    step[row, column] = row_of.get(int(nodes[far]), lost)
        self._judge(lids, step, there, lost)

    def _judge(self, lids: list[int], step: Rows, there: int, lost: int) -> None:
        columns = np.arange(len(lids))
        at = step.copy()
        for _ in range(_DOUBLINGS):
            at = at[at, columns]
        walk, hops = step, 1
        while hops <= 1 << _DOUBLINGS and bool(((walk != there) & (walk != lost) & (at == there)).any()):
            walk, hops = step[walk, columns], hops + 1
        self.longest = max(self.longest, hops if (at == there).any() else 0)
        circling = (at != there) & (at != lost)
        for column in np.flatnonzero(circling.any(axis=0)).tolist():
            seen: list[int] = []
            row = int(at[np.flatnonzero(circling[:, column])[0], column])
            while row not in seen:
                seen.append(row)
                row = int(step[row, column])
            names = [self.fabric.nodes.name[int(self.switches[one])] for one in seen]
            first = int(self.switches[min(seen)])
            text = f"LID {lids[column]} ({self._nic(lids[column])}): {' > '.join(names[:8])}"
            self._note("loop", first, text)

    def _note(self, kind: str, switch: int, text: str) -> None:
        self.problems.setdefault((kind, switch), []).append(text)

    def _nic(self, lid: int) -> str:
        return str(self.fabric.port_element(self.ports[lid]))

    def _say(self, kind: str, row: int, texts: list[str]) -> Finding:
        what, fix = {
            "missing": (
                "LIDs that it has no way to: {}",
                "let the subnet manager route again, and dump the tables after it",
            ),
            "nowhere": (
                "LIDs that it sends to ports without a cable: {}",
                "the tables are older than the cabling, or the topology's dump is partial: take both at one time",
            ),
            "wrong": (
                "LIDs that it sends to another host: {}",
                "the tables are of other LIDs: take both dumps at one time",
            ),
            "loop": (
                "LIDs that circle through it: {}",
                "let the subnet manager route again: packets circle until they die",
            ),
        }[kind]
        return Finding(
            check=CHECK,
            status=Status.FAIL,
            where=self.fabric.node_element(row),
            what=f"{what.format(len(texts))}; {some(texts, _SHOWN)}",
            evidence={"kind": kind, "entries": texts[:64], "count": len(texts)},
            fix=fix,
        )

    def _without_table(self) -> list[Finding]:
        cabled = np.unique(self.fabric.ports.node[self.fabric.directed_ports[:, 0]])
        rows = [
            int(row)
            for row in cabled
            if self.fabric.nodes.kind[row] == NodeKind.SWITCH and int(row) not in self.tables
        ]
        if not rows:
            return []
        names = [self.fabric.nodes.name[row] for row in rows]
        return [
            Finding(
                check=CHECK,
                status=Status.UNKNOWN,
                where=ElementId.fabric() if len(rows) > 1 else self.fabric.node_element(rows[0]),
                what=f"switches without a forwarding table: {len(rows)} ({', '.join(names[:_SHOWN])}); paths through them "
                "are not known",
                evidence={"switches": names[:64]},
                required=False,
                fix="dump the tables of all switches: dump_fts without a destination",
            )
        ]

"""Batfish's layer1_topology.json: cables between interfaces, often once in each direction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.columns import NodeKind
from topology.readers.fields import Fields, Path
from topology.readers.jsontext import load, looks_like
from topology.readers.registry import Reader
from topology.readers.said import End, Said

if TYPE_CHECKING:
    from topology.readers.source import Source

_KEYS = re.compile(r'"interfaceName"\s*:')
MAX_EDGES = 400_000


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS)


def _read(source: Source) -> Said:
    """Every node counts as a switch: Batfish models configurations of network devices, and the file has no kinds."""
    fields, said = Fields(source), Said(source.name, READER.name)
    edges = fields.entries(fields.mapping(load(source), (0,)).get("edges"), (0, "edges"))
    if len(edges) > MAX_EDGES:
        raise fields.error(f"has more than {MAX_EDGES:,} edges", (0,))
    for path, edge in edges:
        ends = [_end(fields, edge, end, path) for end in ("node1", "node2")]
        for node, _ in ends:
            said.node(node, NodeKind.SWITCH)
        said.link(ends[0], ends[1])
    if not said.links:
        raise fields.error("has no edges", (0,))
    return said


def _end(fields: Fields, edge: dict[str, Any], which: str, path: Path) -> End:
    at = (*path, which)
    end = fields.mapping(edge.get(which), at)
    port = fields.port(fields.text(end, "interfaceName", at), at if end else path)
    return fields.element(fields.text(end, "hostname", at), at), port


READER = Reader(
    name="batfish",
    what="Batfish's layer1_topology.json",
    recognises=_recognises,
    read=_read,
)

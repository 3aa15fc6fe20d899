"""containerlab's topology file: nodes by kind, links between their interfaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.columns import NodeKind
from topology.readers.fields import Fields, Path
from topology.readers.registry import Reader
from topology.readers.said import End, Said
from topology.readers.yamltext import load_all

if TYPE_CHECKING:
    from topology.readers.source import Source

_RECOGNISED = re.compile(r"^topology[ \t]*:", re.MULTILINE)
_NODES = re.compile(r"^[ \t]+nodes[ \t]*:", re.MULTILINE)
_HOST_KINDS = frozenset({"linux", "k8s-kind", "ext-container", "generic_vm"})
_OUTSIDE = frozenset({"host", "mgmt-net", "macvlan", "dummy"})
"""What an endpoint may name without being a node of the file: the machine that runs the lab, and its networks."""


def _recognises(source: Source) -> bool:
    return _RECOGNISED.search(source.head) is not None and _NODES.search(source.head) is not None


def _read(source: Source) -> Said:
    """Nodes of kind `linux` are hosts; network systems and bridges are switches."""
    documents = load_all(source)
    fields, said = Fields(source, documents), Said(source.name, READER.name)
    if len(documents) != 1:
        raise source.error("should be one mapping with a topology", 1)
    lab = fields.mapping(fields.mapping(documents[0], (0,)).get("topology"), (0, "topology"))
    path: Path = (0, "topology")
    names: dict[str, str] = {}
    for node, value in fields.mapping(lab.get("nodes"), (*path, "nodes")).items():
        at = (*path, "nodes", node)
        kind = _kind(fields, lab, fields.mapping(value, at), at)
        names[node] = fields.element(node, at, lab.get("nodes"))
        said.node(names[node], NodeKind.HOST if kind in _HOST_KINDS else NodeKind.SWITCH)
    if not names:
        raise source.error("has no nodes", 1)
    for at, link in fields.entries(lab.get("links"), (*path, "links")):
        ends = [
            _end(fields, end, where, link)
            for where, end in fields.items(link.get("endpoints"), (*at, "endpoints"))
        ]
        ends += [_end(fields, link["endpoint"], at, link)] if "endpoint" in link else []
        inside = [(names[node], port) for node, port in ends if node in names]
        strange = [node for node, _ in ends if node not in names and node not in _OUTSIDE]
        if strange or (len(ends) != 2 and "endpoint" not in link):
            what = (
                f"names {strange[0][:60]!r}, which is no node" if strange else "does not have two endpoints"
            )
            raise fields.error(f"a link {what}", at, link)
        if len(inside) == 2:
            said.link(inside[0], inside[1])
    return said


def _kind(fields: Fields, lab: dict[str, Any], node: dict[str, Any], path: Path) -> str:
    """A node's own kind, else that of its group, else the default."""
    kind = fields.text(node, "kind", path)
    group = fields.text(node, "group", path)
    if not kind and group:
        groups = fields.mapping(lab.get("groups"), path)
        kind = fields.text(fields.mapping(groups.get(group), path), "kind", path)
    return kind or fields.text(fields.mapping(lab.get("defaults"), path), "kind", path)


def _end(fields: Fields, end: Any, path: Path, link: Any) -> End:
    """`NODE:INTERFACE`, or `{node, interface}` of the extended form."""
    if isinstance(end, str):
        node, _, port = end.partition(":")
    else:
        item = fields.mapping(end, path)
        node, port = fields.text(item, "node", path), fields.text(item, "interface", path)
    if not node or not port:
        raise fields.error("an endpoint is not NODE:INTERFACE", path, link)
    return node, fields.port(port, path, link)


READER = Reader(
    name="containerlab",
    what="a containerlab topology file (YAML)",
    recognises=_recognises,
    read=_read,
)

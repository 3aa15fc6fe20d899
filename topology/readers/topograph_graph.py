"""topograph's `graph` engine: instances with their network layers as JSON (docs/engines/graph.md)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers import labels
from topology.readers.fields import Fields
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.jsontext import load, looks_like
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_KEYS = re.compile(r'"network_layers"\s*:')


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS)


def _read(source: Source) -> Said:
    """Instances by id; `network_layers` has the closest first."""
    fields, tree = Fields(source), Hierarchy(source, READER.name)
    graph = fields.mapping(load(source), (0,))
    if "instances" not in graph:
        raise fields.error("has no instances", (0,))
    for path, instance in fields.entries(graph["instances"], (0, "instances")):
        name = known(fields.text(instance, "id", path))
        if not name:
            raise fields.error("an instance has no id", path)
        found = fields.mapping(instance.get("labels"), (*path, "labels"))
        attributes = fields.mapping(instance.get("attributes"), (*path, "attributes"))
        domain = labels.domain({key: value for key, value in found.items() if isinstance(value, str)})
        tree.chain(
            name,
            fields.texts(instance, "network_layers", path),
            nvl_domain=domain or known(attributes.get("nvlink")),
        )
    return tree.finish(places=True)


READER = Reader(
    name="topograph-graph",
    what="the graph engine of NVIDIA topograph (JSON)",
    recognises=_recognises,
    read=_read,
)

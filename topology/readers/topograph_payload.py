"""A request to topograph (`POST /v1/generate`): it may name hosts, and never where in the network they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers.fields import Fields
from topology.readers.hierarchy import Hierarchy
from topology.readers.jsontext import load, looks_like
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_PROVIDER = re.compile(r'"provider"\s*:')
_ENGINE = re.compile(r'"engine"\s*:')


def _recognises(source: Source) -> bool:
    return looks_like(source, _PROVIDER) and looks_like(source, _ENGINE)


def _read(source: Source) -> Said:
    """The hosts of `nodes[].instances`, which maps instance ids to host names."""
    fields, tree = Fields(source), Hierarchy(source, READER.name)
    request = fields.mapping(load(source), (0,))
    for path, region in fields.entries(request.get("nodes"), (0, "nodes")):
        at = (*path, "instances")
        instances = fields.mapping(region.get("instances"), at)
        for instance in instances:
            tree.host(fields.text(instances, instance, at) or instance)
    if not tree.said.nodes:
        raise fields.error("is a request to topograph that names no nodes; give topograph's answer", (0,))
    return tree.finish(places=True)


READER = Reader(
    name="topograph-payload",
    what="a request to NVIDIA topograph (JSON): host names only",
    recognises=_recognises,
    read=_read,
)

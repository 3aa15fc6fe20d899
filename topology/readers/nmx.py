"""NVIDIA NMX-M: compute nodes of NVLink domains (`/nmx/v1/compute-nodes`, JSON)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers.fields import Fields
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.jsontext import load, looks_like
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_KEYS = re.compile(r'"DomainUUID"\s*:')


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS)


def _read(source: Source) -> Said:
    """Hosts with their NVLink domain and as many GPUs as `GpuIDList` has."""
    fields, tree = Fields(source), Hierarchy(source, READER.name)
    for path, node in fields.entries(load(source), (0,)):
        name = known(fields.text(node, "Name", path))
        if not name:
            raise fields.error("a compute node has no Name", path)
        host = tree.host(name, nvl_domain=known(fields.text(node, "DomainUUID", path)))
        tree.gpus(host, len(fields.texts(node, "GpuIDList", path)))
    if not tree.said.nodes:
        raise fields.error("has no compute nodes", (0,))
    return tree.finish()


READER = Reader(
    name="nmx",
    what="compute nodes of NVIDIA NMX-M (JSON): NVLink domains",
    recognises=_recognises,
    read=_read,
)

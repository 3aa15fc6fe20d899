"""nettune's own `nettune.fabric/1`: a fabric alone, or beside its routing as `nettune discover -o` writes it.

Everything in the fabric is kept, also who spoke of each element; what names no source gets this file. Rows stay in their
order, so a routing (an event) still fits the fabric where nothing else is merged in front of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from topology.fabric import FABRIC_SCHEMA, Fabric
from topology.readers import jsontext
from topology.readers.registry import Reader
from topology.readers.said import Said
from topology.routing import Routing

if TYPE_CHECKING:
    from topology.readers.source import Source

# Where keys were sorted, the schema may stand after long columns.
_OURS = re.compile(
    rf'"schema"\s*+:\s*+"{re.escape(FABRIC_SCHEMA.rpartition("/")[0])}/|"(?:nvl_domain|delay_ns)"\s*+:\s*+\['
)


def recognises(source: Source) -> bool:
    """Whether a fabric of nettune is in it."""
    return jsontext.looks_like(source, _OURS)


def read(source: Source) -> Said:
    """The fabric, and its routing as an event.

    Raises:
        InputError: no JSON, another version, columns that are no fabric's, a routing that does not fit.
    """
    data = jsontext.load(source)
    if not isinstance(data, dict) or not isinstance(data.get("fabric", {}), dict):
        raise source.error("is no object with a fabric")
    beside: dict[str, Any] = data if "fabric" in data else {}
    try:
        fabric = Fabric.from_json(beside["fabric"] if beside else data)
        said = Said.from_fabric(fabric, source.name, READER.name)
        if beside.get("routing") is not None:
            said.events.append(Routing.from_json(beside["routing"], fabric))
    except InputError as error:
        raise source.error(str(error)) from None
    if not (np.isfinite(fabric.ports.speed_gbps).all() and np.isfinite(fabric.links.delay_ns).all()):
        raise source.error("a speed or a delay is no finite number")
    return said


READER = Reader(
    name="fabric-json",
    what="fabric.json of nettune discover",
    recognises=recognises,
    read=read,
)

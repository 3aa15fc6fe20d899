"""`lldpcli show neighbors [details]`, `show chassis`, `show interfaces` with `-f json`, `-f json0` or `-f keyvalue`.

`show neighbors` does not say who heard them. That is told by an output of `show chassis` or `show interfaces` before it
in the same file (so outputs of many nodes may stand one after the other), else by the name of the file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.naming import element_name
from topology.readers.lldp import Neighbourhood, host_of_file
from topology.readers.lldp_forms import Printed, from_json, from_keyvalue
from topology.readers.registry import Reader
from topology.readers.said import Said

if TYPE_CHECKING:
    from topology.readers.source import Source

_JSON = re.compile(r'\s*+\[?\s*+\{\s*+"(?:lldp|local-chassis)"\s*+:')
_KEYVALUE = re.compile(r"\s*+(?:lldp\.\S+?|local-chassis\.chassis)\.[\w.-]+=")
_PLAIN = re.compile(r"\s*+-{10,}\s*+(?:LLDP (?:neighbors|interfaces)|Local chassis):")
_XML = re.compile(r"\s*+(?:<\?xml[^>]*>\s*+)?<(?:lldp|local-chassis) label=")


def recognises(source: Source) -> bool:
    """Whether lldpcli printed it, in any of its forms: those that are not read are refused with the reason."""
    return any(form.match(source.head) for form in (_JSON, _KEYVALUE, _PLAIN, _XML))


def read(source: Source, host: str = "") -> Said:
    """What nodes say of themselves and their neighbours.

    Args:
        source: the input.
        host: the node that printed it, where the caller knows.

    Raises:
        InputError: another form, content that does not follow it, or nobody can tell who printed it.
    """
    for form, name in ((_PLAIN, "plain text"), (_XML, "XML")):
        if form.match(source.head):
            raise source.error(f"is lldpcli's {name}, which is not read: print it with -f json0")
    outputs = from_keyvalue(source) if _KEYVALUE.match(source.head) else from_json(source)
    said = Said(source.name, READER.name)
    around = Neighbourhood(said)
    for node, printed in zip(_speakers(source, outputs, host), outputs, strict=True):
        if printed.itself is not None:
            around.own(node, printed.itself)
        else:
            said.node(node)
        for heard in printed.ports:
            around.own_port(node, heard)
        for heard in printed.neighbours:
            try:
                around.neighbour(node, heard)
            except InputError as error:
                raise source.error(f"the neighbour on port {heard.port}: {error}") from None
    around.finish()
    return said


def _speakers(source: Source, outputs: list[Printed], host: str) -> list[str]:
    """Who printed each output: whoever named itself last before it, or first in the file; else the file's name."""
    names = [printed.itself.name if printed.itself is not None else "" for printed in outputs]
    first = next(filter(None, names), "")
    unnamed = [index for index, printed in enumerate(outputs) if printed.itself is None]
    if not first and not host and len(unnamed) > 1:
        raise source.error(
            f"holds {len(unnamed)} outputs of `show neighbors` and none of `show chassis` that tells who printed them"
        )
    speakers, current = [], host or (element_name(first) if first else host_of_file(source))
    for name in names:
        current = element_name(name) if name and not host else current
        speakers.append(current)
    return speakers


READER = Reader(
    name="lldpcli",
    what="lldpcli show neighbors [details], show chassis, show interfaces -f json0, json or keyvalue",
    recognises=recognises,
    read=read,
)

"""The forms in which lldpcli prints LLDP: `-f json`, `-f json0` and `-f keyvalue`, all into the same records.

`json0` is documented as stable (lldpcli(8)): always arrays, names under `name`, texts as `[{"value": ...}]`. `json`
changes with the counts: `interface` is an object keyed by port, or an array of such objects; `chassis` is keyed by the
system's name, and flat, with `id` inside, where it has none; texts are plain. Both forms are read by one set of
functions that accept either at every place. Older builds leave keys out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from topology.readers import jsontext
from topology.readers.ethernet import mac
from topology.readers.lldp import Heard, Station

if TYPE_CHECKING:
    from topology.readers.source import Source


@dataclass
class Printed:
    """One output of lldpcli: what a node said of itself, or what it heard.

    Attributes:
        itself: of `show chassis` and `show interfaces`; None in `show neighbors`.
        ports: own ports in `show interfaces`.
        neighbours: one entry for each neighbour of `show neighbors`.
    """

    itself: Station | None = None
    ports: list[Heard] = field(default_factory=list)
    neighbours: list[Heard] = field(default_factory=list)


def from_json(source: Source) -> list[Printed]:
    """The outputs in a file of `-f json` or `-f json0`, one after the other.

    Raises:
        InputError: no JSON, or not of lldpcli.
    """
    outputs = []
    for value in jsontext.load_all(source):
        for part in _items(value):
            if not isinstance(part, dict) or not part.keys() & {"lldp", "local-chassis"}:
                raise source.error('is not of lldpcli: an object with "lldp" or "local-chassis" is expected')
            outputs += _printed_chassis(part.get("local-chassis"))
            if "lldp" in part:
                outputs.append(_printed(part["lldp"]))
    return outputs


def _printed_chassis(local: Any) -> list[Printed]:
    return [
        Printed(itself=_station(name, chassis))
        for part in _items(local)
        if isinstance(part, dict)
        for name, chassis in _named(part.get("chassis"))
    ]


def _printed(lldp: Any) -> Printed:
    printed = Printed()
    for part in _items(lldp):
        for port, entry in _named(part.get("interface") if isinstance(part, dict) else None):
            stations = [_station(name, chassis) for name, chassis in _named(entry.get("chassis"))]
            heard = _heard(port, stations[0] if stations else Station(), entry)
            # `show interfaces` looks like `show neighbors`, but tells of the node's own ports.
            if "status" in entry and "rid" not in entry:
                printed.itself = printed.itself or heard.station
                printed.ports.append(heard)
            else:
                printed.neighbours.append(heard)
    return printed


def _heard(port: str, station: Station, entry: dict[str, Any]) -> Heard:
    told = _first(entry.get("port"))
    identifier, negotiation = _first(told.get("id")), _first(told.get("auto-negotiation"))
    return Heard(
        port=port,
        station=station,
        id_type=_text(identifier.get("type")),
        id=_text(identifier.get("value")),
        description=_text(told.get("descr")),
        media=_text(negotiation.get("current")),
        negotiates=negotiation.get("supported") if isinstance(negotiation.get("supported"), bool) else None,
        lag=_lag(_text(told.get("aggregation"))),
    )


def _station(name: str, chassis: dict[str, Any]) -> Station:
    identifier = _first(chassis.get("id"))
    return Station(
        name=name,
        chassis=mac(_text(identifier.get("value"))),
        description=_text(chassis.get("descr")),
        capabilities=frozenset(
            _text(capability.get("type")).lower()
            for capability in _items(chassis.get("capability"))
            if isinstance(capability, dict) and capability.get("enabled") is True
        ),
    )


def _named(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, object) of things that json0 names inside and json by their key; "" for a thing without a name."""
    for item in _items(value):
        if not isinstance(item, dict):
            continue
        if isinstance(item.get("name"), (str, list)):
            yield _text(item["name"]), item
        elif any("value" in _first(item.get(key)) for key in ("id", "descr")) or "via" in item:
            yield "", item
        else:
            yield from ((key, inner) for key, inner in item.items() if isinstance(inner, dict))


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _first(value: Any) -> dict[str, Any]:
    items = _items(value)
    return items[0] if items and isinstance(items[0], dict) else {}


def _text(value: Any) -> str:
    """A text: itself, or the first of `[{"value": text}]`."""
    for item in _items(value)[:1]:
        inner = item.get("value") if isinstance(item, dict) else item
        if isinstance(inner, (str, int, float)):
            return str(inner)
    return ""


def _lag(text: str) -> int:
    """A group number; 0 is none (IEEE 802.1AX)."""
    return int(text) if re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII) else -1


_KEY = re.compile(
    r"lldp\.(?P<port>.+?)\.(?:(?P<start>via|status)|chassis\.(?P<chassis>.+?)|port\.(?P<told>.+?)|[a-z].*?)=(?P<text>.*)"
)
_LOCAL_KEY = re.compile(r"local-chassis\.chassis\.(?P<chassis>.+?)=(?P<text>.*)")


def from_keyvalue(source: Source) -> list[Printed]:
    """The outputs in a file of `-f keyvalue`: `lldp.PORT.chassis.name=h0`; `via` begins a neighbour.

    A description of several lines goes on without a key; those lines are left out.

    Raises:
        InputError: a line that begins like a key and is none, or a neighbour's line before its `via`.
    """
    outputs: list[Printed] = []
    entry: dict[str, str] = {}
    kind = ""

    def close() -> None:
        if not entry:
            return
        if kind == "chassis":
            outputs.append(Printed(itself=_keyed_station(entry)))
        elif kind == "status":
            if not outputs or not outputs[-1].ports:
                outputs.append(Printed(itself=_keyed_station(entry)))
            outputs[-1].ports.append(_keyed(entry))
        else:
            if not outputs or outputs[-1].itself is not None:
                outputs.append(Printed())
            outputs[-1].neighbours.append(_keyed(entry))

    for number, line in enumerate(source.text.split("\n"), 1):
        match = _KEY.fullmatch(line)
        local = None if match else _LOCAL_KEY.fullmatch(line)
        if match is None and local is None:
            if line.startswith(("lldp.", "local-chassis.")):
                raise source.error("is no `key=value` of lldpcli; is it cut short?", number)
            continue
        if match is not None:
            if match["start"]:
                close()
                kind, entry = match["start"], {"port": match["port"]}
            elif kind not in {"via", "status"} or entry.get("port") != match["port"]:
                raise source.error(f"tells of port {match['port'][:40]!r} before its `via`", number)
            for part in ("chassis", "told"):
                if match[part]:
                    entry.setdefault(f"{part}.{match[part]}", match["text"])
        elif local is not None:
            key = f"chassis.{local['chassis']}"
            if kind != "chassis" or (key in entry and not key.startswith("chassis.mgmt")):
                close()
                kind, entry = "chassis", {}
            entry.setdefault(key, local["text"])
    close()
    return outputs


def _keyed(entry: dict[str, str]) -> Heard:
    known = [
        kind for kind in ("ifname", "mac", "local", "ip", "ifalias", "unhandled") if f"told.{kind}" in entry
    ]
    return Heard(
        port=entry.get("port", ""),
        station=_keyed_station(entry),
        id_type=known[0] if known else "",
        id=entry[f"told.{known[0]}"] if known else "",
        description=entry.get("told.descr", ""),
        media=entry.get("told.auto-negotiation.current", ""),
        negotiates={"yes": True, "no": False}.get(entry.get("told.auto-negotiation.supported", "")),
        lag=_lag(entry.get("told.aggregation", "")),
    )


def _keyed_station(entry: dict[str, str]) -> Station:
    return Station(
        name=entry.get("chassis.name", ""),
        chassis=mac(entry.get("chassis.mac", "")),
        description=entry.get("chassis.descr", ""),
        capabilities=frozenset(
            key.split(".")[1].lower()
            for key, value in entry.items()
            if key.startswith("chassis.") and key.endswith(".enabled") and value == "on"
        ),
    )

"""Who is at the other end of a host's cables: what LLDP heard, and what SONiC switches are configured to expect."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nettune.errors import InputError
from nettune.qualify.checks.frame import Fleet
from nettune.qualify.checks.parsers.sonic import SwitchPort, switch_ports
from nettune.qualify.checks.view import HostView
from topology.readers import lldp_forms
from topology.readers.lldp import Heard
from topology.readers.source import Source

LLDP = (
    "lldpcli -f json0 show neighbors details",
    "lldpcli -f json show neighbors details",
    "lldpcli -f json show neighbors",
    "lldpctl -f json",
)
CONFIG = "/etc/sonic/config_db.json"


def heard_by(view: HostView) -> dict[str, Heard]:
    """Interface -> the named neighbour that LLDP heard there."""
    for source in LLDP:
        text = view.text(source)
        if text is None:
            continue
        try:
            printed = lldp_forms.from_json(Source(source, text))
        except InputError:
            continue
        every = (one for part in printed for one in part.neighbours)
        return {one.port: one for one in every if one.station.name or one.station.chassis}
    return {}


def leaf_of(heard: Heard) -> str:
    """The neighbour's name, else its chassis."""
    return heard.station.name or heard.station.chassis


def switches(fleet: Fleet) -> dict[str, dict[str, SwitchPort]]:
    """Switch -> port -> settings, of all config_db that were given beside the captures or captured."""
    return fleet.once(("switches",), lambda: {name: switch_ports(c) for name, c in _configs(fleet).items()})


def _configs(fleet: Fleet) -> dict[str, Mapping[str, Any]]:
    found = dict(fleet.context.switches)
    for view in fleet.hosts:
        text = view.text(CONFIG)
        if text is not None:
            try:
                data = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(data, dict):
                found.setdefault(view.host, data)
    return found


@dataclass(frozen=True)
class FarEnd:
    """The switch port at the other end of a cable; `port` is None where its config_db does not know it."""

    switch: str
    name: str
    port: SwitchPort | None


def far_ends(fleet: Fleet) -> dict[tuple[str, str], FarEnd]:
    """(host, interface) -> the port of a switch whose configuration is known."""
    return fleet.once(("far ends",), lambda: _far_ends(fleet))


def _far_ends(fleet: Fleet) -> dict[tuple[str, str], FarEnd]:
    known = switches(fleet)
    if not known:
        return {}
    found = {}
    for switch, ports in known.items():
        for port in ports.values():
            if all(port.far):
                found[port.far] = FarEnd(switch, port.name, port)
    short = {name.partition(".")[0]: name for name in known}
    for view in fleet.hosts:
        for interface, heard in heard_by(view).items():
            name = heard.station.name
            switch = name if name in known else short.get(name.partition(".")[0], "")
            if switch and heard.far_port:
                # What is heard is believed before what was once configured.
                there = _by_name(known[switch], heard.far_port)
                found[view.host, interface] = FarEnd(switch, heard.far_port, there)
    return found


def _by_name(ports: Mapping[str, SwitchPort], name: str) -> SwitchPort | None:
    return ports.get(name) or next((port for port in ports.values() if port.alias == name), None)

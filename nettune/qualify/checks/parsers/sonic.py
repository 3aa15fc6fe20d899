"""What the ports of a SONiC switch do with a DSCP, by its config_db.

Tables and their defaults: sonic-buildimage, src/sonic-yang-models (port-qos-map, dscp-tc-map, wred-profile, queue,
port); how orchagent applies them: sonic-swss, orchagent/qosorch.cpp. A DSCP leads to a traffic class, that to a queue
and to a priority group; the group's priorities of PFC pause the sender, and a pause that is received stops the queue
that MAP_PFC_PRIORITY_TO_QUEUE names. A table that is absent maps each number to itself (unverified).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PRIORITIES = range(8)
DEFAULT_MTU = 9100
"""Of a PORT without `mtu` (sonic-port.yang)."""
_MARKS_GREEN = frozenset({"ecn_green", "ecn_green_yellow", "ecn_green_red", "ecn_all"})
"""Modes of WRED that mark green packets; all are green unless a meter colours them."""


@dataclass(frozen=True)
class Treatment:
    """What a port does with the packets of one DSCP.

    Attributes:
        tc, queue, group: traffic class, egress queue, priority group, as written.
        priority: the priority with which the port pauses whoever sends too much; None where it pauses nobody.
        stopped: the queue that a received pause of this priority stops.
        unmarked: why its queue marks no packet with ECN; empty where it does.
    """

    tc: str
    queue: str
    group: str
    priority: int | None
    stopped: str
    unmarked: str


@dataclass(frozen=True)
class SwitchPort:
    """One port of a switch.

    Attributes:
        name, alias: `Ethernet4`, and the name on the front panel; an empty alias where not told.
        mtu: in bytes.
        pfc: priorities of pfc_enable.
        is_set: it has a row in PORT_QOS_MAP.
        trusts: it has a DSCP map.
        far: (name, port) of the configured neighbour.
    """

    name: str
    alias: str = ""
    mtu: int = DEFAULT_MTU
    pfc: frozenset[int] = frozenset()
    is_set: bool = False
    trusts: bool = False
    far: tuple[str, str] = ("", "")
    maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def treatment(self, dscp: int) -> Treatment:
        """What happens to a DSCP; one that the map leaves out is in class 0."""

        def mapped(name: str, key: str) -> str:
            return str(self.maps.get(name, {}).get(key, key))

        tc = str(self.maps.get("dscp_to_tc_map", {}).get(str(dscp), "0"))
        queue, group = mapped("tc_to_queue_map", tc), mapped("tc_to_pg_map", tc)
        pausing = [one for one in sorted(self.pfc) if mapped("pfc_to_pg_map", str(one)) == group]
        priority = pausing[0] if pausing else None
        stopped = "" if priority is None else mapped("pfc_to_queue_map", str(priority))
        return Treatment(tc, queue, group, priority, stopped, _unmarked(self.profiles.get(queue)))


def _unmarked(profile: Mapping[str, Any] | None) -> str:
    if profile is None:
        return "no WRED profile"
    mode = str(profile.get("ecn", "ecn_none"))
    if mode not in _MARKS_GREEN:
        return f"`ecn` of its WRED profile is {mode[:20]}"
    # Without the key orchagent programs 100%.
    if str(profile.get("green_drop_probability", "100")).strip() == "0":
        return "its WRED profile marks with probability 0"
    return ""


_MAPS = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "pfc_to_pg_map": "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}


def switch_ports(config: Mapping[str, Any]) -> dict[str, SwitchPort]:
    """Ports with a row in PORT_QOS_MAP or a configured neighbour, by name; what is malformed is left out."""
    rows = {name: row for key, row in _rows(config, "PORT_QOS_MAP") for name in key.split(",")}
    everywhere = rows.pop("global", {})
    far = _neighbours(config)
    ports = dict(_rows(config, "PORT"))
    profiles = _profiles(config)
    found = {}
    for name in rows.keys() | far.keys():
        row = {"dscp_to_tc_map": everywhere.get("dscp_to_tc_map")} | dict(rows.get(name, {}))
        maps = {key: table for key, kind in _MAPS.items() if (table := _named(config, kind, row.get(key)))}
        about = ports.get(name, {})
        mtu = str(about.get("mtu", DEFAULT_MTU)).strip()
        enabled = re.findall(r"[0-7]", str(row.get("pfc_enable") or ""))
        found[name] = SwitchPort(
            name,
            str(about.get("alias") or ""),
            int(mtu) if re.fullmatch(r"\d{1,6}", mtu, re.ASCII) else DEFAULT_MTU,
            frozenset(map(int, enabled)),
            name in rows,
            "dscp_to_tc_map" in maps,
            far.get(name, ("", "")),
            maps,
            profiles.get(name, {}),
        )
    return dict(sorted(found.items()))


def _neighbours(config: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Port -> (name, port) of DEVICE_NEIGHBOR, which is keyed by port or by neighbour."""
    found = {}
    for key, row in _rows(config, "DEVICE_NEIGHBOR"):
        local = row.get("local_port")
        name, port = row.get("name") or (key if local else ""), row.get("port") or ""
        if name:
            found[str(local or key)] = str(name), str(port)
    return found


def _profiles(config: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Port -> queue -> WRED profile. Keys are `Ethernet0|3`, `Ethernet0,Ethernet4|3-4`, `host|asic|Ethernet0|3`."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for key, row in _rows(config, "QUEUE"):
        profile = _named(config, "WRED_PROFILE", row.get("wred_profile"))
        match = re.fullmatch(r"(?:.*\|)?([^|]+)\|(\d{1,2})(?:-(\d{1,2}))?", key, re.ASCII)
        if match is None or not profile:
            continue
        first, last = int(match[2]), int(match[3] or match[2])
        for port in match[1].split(","):
            found.setdefault(port, {}).update({str(queue): profile for queue in range(first, last + 1)})
    return found


def _rows(config: Mapping[str, Any], table: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    rows = config.get(table)
    for key, row in rows.items() if isinstance(rows, Mapping) else ():
        if isinstance(row, Mapping):
            yield str(key), row


def _named(config: Mapping[str, Any], table: str, name: object) -> Mapping[str, Any]:
    """A row by its name; the old way to write a reference is `[TABLE|NAME]`."""
    match = re.fullmatch(r"\[\w+\|(.+)\]", str(name))
    rows = config.get(table)
    row = rows.get(match[1] if match else str(name)) if isinstance(rows, Mapping) else None
    return row if isinstance(row, Mapping) else {}

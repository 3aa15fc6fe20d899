"""One node's interfaces on the fabric: addresses, state, MTU and nominal speed, each with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.units import parse_rate
from topology.capture import HostCapture
from topology.discovery.rows import Row, reading, rows_of, whole, word, words
from topology.naming import natural_key

LINKS = "ip -j -d -s -s link"
ADDRESSES = "ip -j addr"
NEIGHBOURS = "ip -j neigh"
QDISCS = "tc -j -s qdisc"
_MAX_MTU = 2**31 - 1
_MAX_GBPS = 1e6
_CABLE_PREFIXES = (30, 31)
# Drivers of software interfaces report a speed that no wire has (veth: 10 Gbit/s).
_SOFTWARE_KINDS = {"veth", "dummy", "bridge", "tun", "ifb"}
_USABLE_NEIGHBOURS = {"REACHABLE", "STALE", "DELAY", "PROBE", "PERMANENT"}


@dataclass(frozen=True)
class Interface:
    """One interface that can have a cable.

    Attributes:
        name: the kernel's name.
        mac: hardware address, lower case.
        mtu: bytes.
        addresses: IPv4 addresses with a prefix that holds two nodes, in the kernel's order.
        down: why it carries nothing; empty when it does.
        speed_gbps: nominal speed; 0 unknown.
        speed_reason: where the speed comes from, or why it is unknown.
    """

    name: str
    mac: str
    mtu: int
    addresses: tuple[IPv4Interface, ...]
    down: str
    speed_gbps: float
    speed_reason: str


@dataclass(frozen=True)
class NodeView:
    """What one capture says about its node's place in the fabric.

    Attributes:
        host: name of the node.
        role: `host` or `switch`.
        interfaces: in natural order of their names.
        dropped: interface -> why it is no port of the fabric.
        neighbours: (interface, address of the neighbour) -> hardware address seen there.
        speed_unknown: why speeds could not be read at all; empty when they could.
    """

    host: str
    role: str
    interfaces: tuple[Interface, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)
    neighbours: Mapping[tuple[str, IPv4Address], str] = field(default_factory=dict)
    speed_unknown: str = ""


def view(capture: HostCapture) -> NodeView:
    """Interfaces of a captured node.

    Raises:
        InputError: `ip` could not be read, or printed something that is no list of interfaces; names the host.
    """
    with reading(capture.host, "name"):
        ElementId.host(capture.host)
    rates, speed_unknown = _shaped_rates(capture)
    addresses = _addresses(capture)
    interfaces, dropped = [], {}
    with reading(capture.host, LINKS):
        for row in sorted(rows_of(capture, LINKS), key=lambda row: natural_key(word(row, "ifname"))):
            name = word(row, "ifname")
            ElementId.nic(capture.host, name)
            own = addresses.get(name, ())
            usable = tuple(one for one in own if one.network.prefixlen in _CABLE_PREFIXES)
            reason = _why_no_port(row, own, usable)
            if reason:
                dropped[name] = reason
                continue
            mac = word(row, "address", "").lower()
            speed_gbps, speed_reason = _speed(capture, row, name, mac, rates, speed_unknown)
            interfaces.append(
                Interface(
                    name,
                    mac,
                    whole(row, "mtu", 0, _MAX_MTU),
                    usable,
                    _why_down(row),
                    speed_gbps,
                    speed_reason,
                )
            )
    return NodeView(
        capture.host, capture.role, tuple(interfaces), dropped, _neighbours(capture), speed_unknown
    )


def _why_no_port(row: Row, own: tuple[IPv4Interface, ...], usable: tuple[IPv4Interface, ...]) -> str:
    if "LOOPBACK" in words(row, "flags"):
        return "loopback"
    if usable:
        return ""
    if own:
        return f"its subnet {own[0].network} holds more than two nodes: no cable can be told from it"
    down = _why_down(row)
    return f"no IPv4 address, and {down}" if down else "no IPv4 address"


def _why_down(row: Row) -> str:
    flags, state = words(row, "flags"), word(row, "operstate", "UNKNOWN")
    if "UP" not in flags:
        return "set down"
    # LOWER_UP is the carrier itself. NO-CARRIER and the state DOWN follow it up to a second later.
    if "LOWER_UP" not in flags:
        return "no carrier"
    return f"state {state}" if state in {"DORMANT", "TESTING", "NOTPRESENT"} else ""


def _addresses(capture: HostCapture) -> dict[str, tuple[IPv4Interface, ...]]:
    found: dict[str, tuple[IPv4Interface, ...]] = {}
    with reading(capture.host, ADDRESSES):
        for row in rows_of(capture, ADDRESSES):
            entries = row.get("addr_info", [])
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise InputError(f"{capture.host}: `{ADDRESSES}`: 'addr_info' is no list of objects")
            found[word(row, "ifname")] = tuple(
                IPv4Interface(f"{word(entry, 'local')}/{whole(entry, 'prefixlen', 0, 32)}")
                for entry in entries
                if entry.get("family") == "inet"
            )
    return found


def _neighbours(capture: HostCapture) -> dict[tuple[str, IPv4Address], str]:
    """Empty when the table could not be read: it only confirms what the subnets say."""
    if capture.text(NEIGHBOURS) is None:
        return {}
    found = {}
    with reading(capture.host, NEIGHBOURS):
        for row in rows_of(capture, NEIGHBOURS):
            target = word(row, "dst")
            if ":" not in target and _USABLE_NEIGHBOURS & set(words(row, "state")) and "lladdr" in row:
                found[word(row, "dev"), IPv4Address(target)] = word(row, "lladdr").lower()
    return found


def _shaped_rates(capture: HostCapture) -> tuple[dict[str, tuple[float, str]], str]:
    """(interface -> (rate in Gbit/s of its root queue, its kind), why nothing could be read)."""
    if capture.text(QDISCS) is None:
        try:
            capture.json_of(QDISCS)
        except InputError as error:
            return {}, str(error).removeprefix(f"{capture.host}: ")
    rates = {}
    with reading(capture.host, QDISCS):
        for row in rows_of(capture, QDISCS):
            kind, device = word(row, "kind"), word(row, "dev", "")
            # An inner queue may be slower than the port (a fault, a policy); the root one is the port's own.
            if row.get("root") is not True:
                continue
            if kind == "tbf":
                options = row.get("options", {})
                rates[device] = _gbps(options["rate"]), kind
            elif kind == "htb":
                text = capture.text(f"tc class show dev {device}") or ""
                found = re.findall(r"^class htb \S+ root .*?\brate (\S+)", text, re.MULTILINE)
                if found:
                    rates[device] = sum(_gbps(rate) for rate in found), kind
    return rates, ""


def _gbps(rate: object) -> float:
    """A rate as `tc` prints it: bytes per second in JSON, a number with a unit in text."""
    gbps = (
        parse_rate(rate)
        if isinstance(rate, str)
        else float(rate) * 8e-9
        if isinstance(rate, (int, float))
        else 0.0
    )
    if not math.isfinite(gbps) or not 0 < gbps <= _MAX_GBPS:
        raise InputError(f"rate {rate!r:.60} is no rate of a port")
    return round(gbps, 12)


def _speed(
    capture: HostCapture, row: Row, name: str, mac: str, rates: Mapping[str, tuple[float, str]], unknown: str
) -> tuple[float, str]:
    if name in rates:
        gbps, kind = rates[name]
        return gbps, f"rate of its root {kind} queue"
    info = row.get("linkinfo", {})
    software = info.get("info_kind") if isinstance(info, dict) else None
    if software in _SOFTWARE_KINDS:
        return 0.0, unknown or f"a {software} interface without a rate limit has no speed of its own"
    # /sys may show another network namespace than `ip` does; the hardware address tells.
    sys_mac = (capture.text(f"/sys/class/net/{name}/address") or "").strip().lower()
    speed = (capture.text(f"/sys/class/net/{name}/speed") or "").strip()
    if sys_mac == mac and speed.isdecimal() and 0 < int(speed) <= _MAX_GBPS * 1e3:
        return int(speed) / 1e3, "speed in /sys/class/net"
    return 0.0, unknown or "neither a root rate limit nor a speed in /sys/class/net"

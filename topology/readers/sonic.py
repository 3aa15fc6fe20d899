"""SONiC's `config_db.json`: ports, their speeds and aggregation, the neighbours that are configured, what is hashed.

Tables (sonic-buildimage, src/sonic-yang-models/doc/Configuration.md): `PORT` has speeds in Mbit/s as strings;
`DEVICE_NEIGHBOR` has by port `{name, port}` as minigraphs give it, or by neighbour `{local_port, port}`;
`PORTCHANNEL_MEMBER` has keys `PortChannel1|Ethernet0`; `SWITCH_HASH|GLOBAL` spells keys for kinds of packets
`ecmp_hash_ipv4_rdma` or `ecmp_hash@ipv4_rdma`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError
from topology.columns import LinkState, NodeKind
from topology.naming import element_name
from topology.readers import jsontext
from topology.readers.ethernet import SwitchHash, kind_by_port, mac, port_name
from topology.readers.lldp import host_of_file, unnamed_far_port
from topology.readers.registry import Reader
from topology.readers.said import Said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.readers.source import Source

# Large tables may come before those that are read, so others that no other program has count too.
_OURS = re.compile(
    r'"(?:ACL_TABLE|BGP_NEIGHBOR|BREAKOUT_CFG|BUFFER_POOL|BUFFER_PG|CABLE_LENGTH|CRM|DEVICE_METADATA|DEVICE_NEIGHBOR'
    r"|DEVICE_NEIGHBOR_METADATA|DSCP_TO_TC_MAP|FEATURE|FLEX_COUNTER_TABLE|LOOPBACK_INTERFACE|MGMT_INTERFACE|PORT"
    r'|PORTCHANNEL|PORTCHANNEL_MEMBER|PORT_QOS_MAP|SWITCH_HASH|SYSLOG_SERVER|VLAN_MEMBER|WRED_PROFILE)"\s*+:\s*+\{'
)


def recognises(source: Source) -> bool:
    """Whether it has tables of SONiC's configuration."""
    return jsontext.looks_like(source, _OURS)


def read(source: Source) -> Said:
    """What a switch's configuration says.

    Raises:
        InputError: no JSON, none of the tables, a value that its table does not allow.
    """
    config = jsontext.load(source)
    if not isinstance(config, dict) or not config.keys() & {
        "PORT",
        "DEVICE_NEIGHBOR",
        "SWITCH_HASH",
        "DEVICE_METADATA",
    }:
        raise source.error(
            "has none of PORT, DEVICE_NEIGHBOR, SWITCH_HASH, DEVICE_METADATA; give config_db.json"
        )
    said = Said(source.name, READER.name)
    metadata = dict(_rows(source, config, "DEVICE_METADATA")).get("localhost", {})
    name = metadata.get("hostname")
    switch = element_name(name) if isinstance(name, str) and name.strip() else host_of_file(source)
    said.node(switch, NodeKind.SWITCH, guid=mac(str(metadata.get("mac") or "")))
    for port, row in _rows(source, config, "PORT"):
        _port(source, said, switch, port, row)
    for key, _ in _rows(source, config, "PORTCHANNEL_MEMBER"):
        channel, _, member = key.partition("|")
        number = re.fullmatch(r"\D*0*(\d{1,6})", channel, re.ASCII)
        if port_name(member) and number is not None:
            said.port(switch, port_name(member), lag=int(number[1]))
    for port, address in _addresses(source, config).items():
        said.port(switch, port, address=address)
    kinds = {
        far: str(row.get("type") or "") for far, row in _rows(source, config, "DEVICE_NEIGHBOR_METADATA")
    }
    for key, row in _rows(source, config, "DEVICE_NEIGHBOR"):
        _neighbour(source, said, switch, key, row, kinds)
    for _, row in _rows(source, config, "SWITCH_HASH"):
        said.events.append(_hash(switch, row))
    return said


def _rows(source: Source, config: dict[str, Any], table: str) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = config.get(table, {})
    if not isinstance(rows, dict):
        raise source.error(f"{table} should be an object", jsontext.line_of(source, [0, table]))
    return ((key, row) for key, row in rows.items() if isinstance(row, dict))


def _addresses(source: Source, config: dict[str, Any]) -> dict[str, str]:
    """Port -> its first IPv4 address, else its first one; keys are `Ethernet0` and `Ethernet0|10.0.0.0/31`."""
    addresses: dict[str, str] = {}
    for key, _ in _rows(source, config, "INTERFACE"):
        name, _, prefix = key.partition("|")
        port, address = port_name(name), prefix.partition("/")[0]
        if port and address and ":" in addresses.get(port, ":"):
            addresses[port] = address if "." in address else addresses.get(port, address)
    return addresses


def _port(source: Source, said: Said, switch: str, name: str, row: dict[str, Any]) -> None:
    if not port_name(name):
        raise source.error(f"PORT has a port without a name: {name[:40]!r}")
    numbers = {}
    for key, most in (("speed", 10_000_000), ("mtu", 100_000)):
        text = str(row.get(key) or "0")
        if re.fullmatch(r"\d{1,9}", text, re.ASCII) is None or int(text) > most:
            line = jsontext.line_of(source, [0, "PORT", name, key])
            raise source.error(f"PORT {name[:40]}: {key} {text[:40]!r} is no number up to {most}", line)
        numbers[key] = int(text)
    said.port(
        switch,
        port_name(name),
        speed_gbps=numbers["speed"] / 1000,
        mtu=numbers["mtu"],
        link_layer="Ethernet",
        state=LinkState.DOWN if row.get("admin_status") == "down" else None,
    )


def _neighbour(
    source: Source, said: Said, switch: str, key: str, row: dict[str, Any], kinds: dict[str, str]
) -> None:
    local, name = (
        (row["local_port"], row.get("name") or key) if row.get("local_port") else (key, row.get("name"))
    )
    port, far_port = (port_name(end) if isinstance(end, str) else "" for end in (local, row.get("port")))
    if not port or not isinstance(name, str) or not name.strip():
        line = jsontext.line_of(source, [0, "DEVICE_NEIGHBOR", key])
        raise source.error(f"DEVICE_NEIGHBOR {key[:40]!r} names no port and neighbour", line)
    far = element_name(name)
    if not far_port:
        said.node(far)
        said.findings.append(unnamed_far_port(said, switch, port, far))
        return
    told = (kinds.get(name) or str(row.get("type") or "")).lower()
    if told:
        kind: NodeKind | None = NodeKind.HOST if "server" in told else NodeKind.SWITCH
    else:
        kind = kind_by_port(far_port)
    said.node(far, kind)
    said.port(far, far_port, link_layer="Ethernet")
    try:
        said.link((switch, port), (far, far_port))
    except InputError as error:
        raise source.error(f"DEVICE_NEIGHBOR {key[:40]!r}: {error}") from None


def _hash(switch: str, row: dict[str, Any]) -> SwitchHash:
    fields, algorithms = {}, {}
    for key, value in row.items():
        use, _, rest = key.partition("_hash")
        words = rest.strip("_@").split("_")
        if words == ["algorithm"]:
            algorithms[use] = str(value)
        elif isinstance(value, list):
            fields[" ".join([use, *filter(None, words)])] = tuple(map(str, value))
    return SwitchHash(switch, fields, algorithms)


READER = Reader(
    name="sonic",
    what="SONiC config_db.json: ports, configured neighbours, what is hashed",
    recognises=recognises,
    read=read,
)

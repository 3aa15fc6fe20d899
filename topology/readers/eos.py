r"""Arista EOS in JSON (`| json` or eAPI), one output or several of one switch, in one answer or one after the other.

Commands: `show lldp neighbors [detail]`, `show interfaces status`, `show hostname`, `show version`. The neighbours are a
list of `{port, neighborDevice, neighborPort}`, with `detail` an object by port, in which interface identifiers stand in
quotes (`"\"Ethernet1\""`). MAC addresses are written `001c.7300.0001`, bandwidth in bit/s.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError
from topology.columns import LinkState, NodeKind
from topology.naming import element_name
from topology.readers import jsontext
from topology.readers.ethernet import mac, port_name
from topology.readers.lldp import Heard, Neighbourhood, Station, host_of_file
from topology.readers.registry import Reader
from topology.readers.said import Said

if TYPE_CHECKING:
    from topology.readers.source import Source

_OURS = re.compile(r'"(?:lldpNeighbors|interfaceStatuses)"\s*+:\s*+[\[{]')
_GROUP = re.compile(r"in (?:Po|Port-Channel)(\d{1,6})", re.IGNORECASE)
_LOGICAL = re.compile(r"(?:Port-Channel|Vlan|Loopback|Vxlan|Recirc-Channel|Tunnel)\d.*", re.IGNORECASE)


def recognises(source: Source) -> bool:
    """Whether an EOS switch printed it."""
    return jsontext.looks_like(source, _OURS)


def read(source: Source) -> Said:
    """What a switch says of its ports and neighbours.

    Raises:
        InputError: no JSON, an error that eAPI answered, not of these commands.
    """
    outputs = [output for value in jsontext.load_all(source) for output in _outputs(source, value)]
    said = Said(source.name, READER.name)
    around = Neighbourhood(said)
    names = [output["hostname"] for output in outputs if isinstance(output.get("hostname"), str)]
    switch = element_name(names[0]) if names else host_of_file(source)
    said.node(switch, NodeKind.SWITCH)
    found = False
    for output in outputs:
        if isinstance(output.get("systemMacAddress"), str):
            said.node(switch, guid=mac(output["systemMacAddress"]))
        if "interfaceStatuses" in output:
            found = True
            _statuses(source, said, switch, output["interfaceStatuses"])
        if "lldpNeighbors" in output:
            found = True
            for heard in _neighbours(source, output["lldpNeighbors"]):
                try:
                    around.neighbour(switch, heard)
                except InputError as error:
                    raise source.error(f"the neighbour on {heard.port}: {error}") from None
    if not found:
        raise source.error(
            "has neither lldpNeighbors nor interfaceStatuses; give `show lldp neighbors detail | json`"
        )
    around.finish()
    return said


def _outputs(source: Source, value: Any) -> list[dict[str, Any]]:
    """The outputs of commands in a value: itself, a list of them, an eAPI answer."""
    if isinstance(value, dict) and isinstance(value.get("error"), dict):
        message = str(value["error"].get("message", ""))[:120]
        raise source.error(
            f"is an error that eAPI answered: {message}", jsontext.line_of(source, [0, "error"])
        )
    if isinstance(value, dict) and "result" in value:
        value = value["result"]
    outputs = value if isinstance(value, list) else [value]
    return [output for output in outputs if isinstance(output, dict)]


def _statuses(source: Source, said: Said, switch: str, statuses: Any) -> None:
    if not isinstance(statuses, dict):
        raise source.error("interfaceStatuses should be an object by port")
    for name, status in statuses.items():
        port = port_name(name)
        if not port or not isinstance(status, dict) or _LOGICAL.fullmatch(name):
            continue
        told, bandwidth = status.get("vlanInformation"), status.get("bandwidth")
        group = _GROUP.fullmatch(str(told.get("vlanExplanation", ""))) if isinstance(told, dict) else None
        said.port(
            switch,
            port,
            speed_gbps=_gbps(bandwidth),
            lag=int(group[1]) if group else -1,
            link_layer="Ethernet",
            state=_STATES.get(str(status.get("linkStatus"))),
        )


def _gbps(bandwidth: Any) -> float:
    return bandwidth / 1e9 if isinstance(bandwidth, (int, float)) and 0 < bandwidth < 1e15 else 0.0


_STATES = {
    "connected": LinkState.UP,
    "notconnect": LinkState.DOWN,
    "disabled": LinkState.DOWN,
    "errdisabled": LinkState.DOWN,
}


def _neighbours(source: Source, told: Any) -> list[Heard]:
    if isinstance(told, dict):
        entries = (
            (port, entry.get("lldpNeighborInfo")) for port, entry in told.items() if isinstance(entry, dict)
        )
        return [
            _detailed(port, neighbour)
            for port, neighbours in entries
            if isinstance(neighbours, list)
            for neighbour in neighbours
            if isinstance(neighbour, dict)
        ]
    if isinstance(told, list):
        return [_short(neighbour) for neighbour in told if isinstance(neighbour, dict)]
    raise source.error("lldpNeighbors should be a list, or an object by port")


def _short(neighbour: dict[str, Any]) -> Heard:
    device, port = (str(neighbour.get(key) or "") for key in ("neighborDevice", "neighborPort"))
    # Where a neighbour has no name, EOS prints its chassis identifier in place of it.
    station = Station(chassis=mac(device)) if mac(device) else Station(device)
    return Heard(str(neighbour.get("port") or ""), station, "mac" if mac(port) else "", mac(port) or port)


def _detailed(port: str, neighbour: dict[str, Any]) -> Heard:
    interface = neighbour.get("neighborInterfaceInfo")
    interface = interface if isinstance(interface, dict) else {}
    enabled = neighbour.get("systemCapabilities")
    identifier = str(interface.get("interfaceId_v2") or interface.get("interfaceId") or "").strip('"')
    return Heard(
        port=port,
        station=Station(
            str(neighbour.get("systemName") or ""),
            mac(str(neighbour.get("chassisId") or "")),
            str(neighbour.get("systemDescription") or ""),
            _capabilities(enabled if isinstance(enabled, dict) else {}),
        ),
        id_type={"macAddress": "mac", "interfaceName": "ifname"}.get(
            str(interface.get("interfaceIdType")), ""
        ),
        id=mac(identifier) or identifier,
        description=str(interface.get("interfaceDescription") or "").strip('"'),
    )


def _capabilities(told: dict[str, Any]) -> frozenset[str]:
    """Enabled ones; EOS calls a station `stationOnly`."""
    return frozenset(key.lower().removesuffix("only") for key, enabled in told.items() if enabled is True)


READER = Reader(
    name="eos",
    what="Arista EOS: show lldp neighbors [detail], show interfaces status, show hostname, in JSON",
    recognises=recognises,
    read=read,
)

"""RDMA devices and ports as ibstat, ibstatus, ibv_devinfo and `rdma link` print them, all into the same records."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from nettune.qualify.checks.parsers.numbers import rate_gbps, whole


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device; empty, 0 or None where not told.

    Attributes:
        state: logical state in capitals, `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
        physical: `LinkUp`, `Polling`, `Disabled`, ...
        rate_gbps: as printed; the number of a port that is not ACTIVE means nothing.
        rate_text: `400 Gb/sec (4X NDR)`.
        layer: `InfiniBand` or `Ethernet`.
        active_mtu, max_mtu: IB MTU in bytes.
    """

    number: int
    state: str = ""
    physical: str = ""
    rate_gbps: float = 0.0
    rate_text: str = ""
    layer: str = ""
    netdev: str = ""
    lid: int | None = None
    sm_lid: int | None = None
    active_mtu: int | None = None
    max_mtu: int | None = None

    @property
    def active(self) -> bool:
        """Traffic can flow."""
        return self.state == "ACTIVE"


@dataclass(frozen=True)
class Device:
    """One RDMA device with its ports by number.

    Attributes:
        model: board identifier (PSID), else the type.
        kind: `MT4129`.
        firmware: `28.39.1002`.
        pci: PCI address, `0000:1a:00.0`.
    """

    name: str
    model: str = ""
    kind: str = ""
    firmware: str = ""
    node_guid: str = ""
    image_guid: str = ""
    pci: str = ""
    ports: dict[int, Port] = field(default_factory=dict)


def state_word(text: str) -> str:
    """`4: ACTIVE`, `PORT_ACTIVE (4)`, `Active` -> ACTIVE; `Initializing` -> INIT."""
    word = re.sub(r"^\s*\d+:\s*|\(\d+\)|PORT_", "", text).strip().upper()
    return {"INITIALIZING": "INIT", "INITIALIZE": "INIT", "ACTIVE DEFER": "ACTIVE_DEFER"}.get(word, word)


def physical_word(text: str) -> str:
    """`5: LinkUp`, `LINK_UP` -> LinkUp."""
    word = re.sub(r"^\s*\d+:\s*", "", text).strip()
    return {"LINK_UP": "LinkUp", "LINK_DOWN": "Down", "POLLING": "Polling", "DISABLED": "Disabled"}.get(
        word, word
    )


def guid(text: str) -> str:
    """A GUID as 16 lower-case hexadecimal digits; empty for zero or something else."""
    digits = re.sub(r"^0x|[:\s]", "", text.strip().lower())
    return digits if re.fullmatch(r"[0-9a-f]{16}", digits) and digits.strip("0") else ""


_MTU = re.compile(r"(\d+)\s*\(\d\)")


def ibstat(text: str) -> dict[str, Device]:
    """Devices of `ibstat`; a cut end (`ibpanic: ...`) leaves those before it."""
    devices: dict[str, Device] = {}
    name, number = "", 0
    for line in text.splitlines():
        if match := re.match(r"\s*CA '([^']{1,64})'", line):
            name, number = match[1], 0
            devices[name] = Device(name)
            continue
        key, colon, value = line.strip().partition(":")
        if not (name and colon):
            continue
        device, value = devices[name], value.strip()
        if match := re.fullmatch(r"Port (\d{1,3})", key):
            number = int(match[1])
            device.ports[number] = Port(number)
        elif number:
            device.ports[number] = _ibstat_port(device.ports[number], key, value)
        elif key == "CA type":
            devices[name] = replace(device, kind=value, model=value)
        elif key == "Firmware version":
            devices[name] = replace(device, firmware=value)
        elif key == "Node GUID":
            devices[name] = replace(device, node_guid=guid(value))
        elif key == "System image GUID":
            devices[name] = replace(device, image_guid=guid(value))
    return devices


def _ibstat_port(port: Port, key: str, value: str) -> Port:
    match key:
        case "State":
            return replace(port, state=state_word(value))
        case "Physical state":
            return replace(port, physical=physical_word(value))
        case "Rate":
            return replace(port, rate_gbps=rate_gbps(value), rate_text=value)
        case "Link layer":
            return replace(port, layer=value)
        case "Base lid":
            return replace(port, lid=whole(value))
        case "SM lid":
            return replace(port, sm_lid=whole(value))
    return port


def panic(text: str) -> str:
    """The line with which an InfiniBand tool gave up; empty if it did not."""
    match = re.search(r"^\s*(ibpanic:|ibwarn:.*fail|Failed to).*$", text, re.MULTILINE)
    return match[0].strip()[:200] if match else ""


def ibstatus(text: str) -> dict[str, Device]:
    """Devices of `ibstatus`."""
    devices: dict[str, Device] = {}
    device, number = None, 0
    keys = {"state": "State", "phys state": "Physical state", "rate": "Rate", "link_layer": "Link layer"}
    keys |= {"base lid": "Base lid", "sm lid": "SM lid"}
    for line in text.splitlines():
        if match := re.match(r"\s*Infiniband device '([^']{1,64})' port (\d{1,3})", line):
            device, number = devices.setdefault(match[1], Device(match[1])), int(match[2])
            device.ports[number] = Port(number)
            continue
        key, colon, value = line.strip().partition(":")
        if device is not None and colon:
            device.ports[number] = _ibstat_port(device.ports[number], keys.get(key, ""), value.strip())
    return devices


def devinfo(text: str) -> dict[str, Device]:
    """Devices of `ibv_devinfo`, also with -v."""
    devices: dict[str, Device] = {}
    name, number = "", 0
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if key == "hca_id":
            name, number = value[:64], 0
            devices[name] = Device(name)
        elif not name:
            continue
        elif key == "port" and (found := whole(value)) is not None:
            number = found
            devices[name].ports[number] = Port(number)
        elif number:
            port = devices[name].ports[number]
            devices[name].ports[number] = _devinfo_port(port, key, value)
        elif key == "fw_ver":
            devices[name] = replace(devices[name], firmware=value)
        elif key == "board_id":
            devices[name] = replace(devices[name], model=value)
        elif key == "node_guid":
            devices[name] = replace(devices[name], node_guid=guid(value))
        elif key == "sys_image_guid":
            devices[name] = replace(devices[name], image_guid=guid(value))
        elif key == "vendor_part_id":
            devices[name] = replace(devices[name], kind=f"MT{value}")
    return devices


def _devinfo_port(port: Port, key: str, value: str) -> Port:
    mtu = int(match[1][:6]) if key.endswith("_mtu") and (match := _MTU.match(value)) else None
    match key:
        case "state":
            return replace(port, state=state_word(value))
        case "phys_state":
            return replace(
                port, physical=re.sub(r"\s*\(\d\)", "", physical_word(value)).replace("LINK_UP", "LinkUp")
            )
        case "link_layer":
            return replace(port, layer=value)
        case "active_mtu":
            return replace(port, active_mtu=mtu)
        case "max_mtu":
            return replace(port, max_mtu=mtu)
        case "port_lid":
            return replace(port, lid=whole(value))
        case "sm_lid":
            return replace(port, sm_lid=whole(value))
    return port


_LINK = re.compile(
    r"^link (?P<device>[^\s/]{1,64})/(?P<port>\d{1,3}) state (?P<state>\S+) physical_state (?P<physical>\S+)"
    r"(?: netdev (?P<netdev>\S+))?",
    re.MULTILINE,
)


def rdma_link(text: str) -> dict[str, Device]:
    """Devices of `rdma link`, plain or JSON. In a container `netdev` is often not told: that is no fault."""
    devices: dict[str, Device] = {}
    for row in _rows(text) or [match.groupdict() for match in _LINK.finditer(text)]:
        name, number = str(row.get("ifname") or row.get("device") or ""), whole(str(row.get("port", 1))) or 1
        if name:
            devices.setdefault(name, Device(name)).ports[number] = Port(
                number,
                state=state_word(str(row.get("state") or "")),
                physical=physical_word(str(row.get("physical_state") or row.get("physical") or "")),
                netdev=str(row.get("netdev") or ""),
            )
    return devices


def rdma_statistic(text: str) -> dict[tuple[str, int], dict[str, int]]:
    """(device, port) -> counters of `rdma statistic`, plain or JSON."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for row in _rows(text):
        values = {
            key: value for key, value in row.items() if type(value) is int and key not in {"ifindex", "port"}
        }
        found[str(row.get("ifname", "")), whole(str(row.get("port", 1))) or 1] = values
    for match in re.finditer(r"^link ([^\s/]{1,64})/(\d{1,3}) (.+)$", text, re.MULTILINE):
        words = match[3].split()
        pairs = zip(words[::2], words[1::2], strict=False)
        found[match[1], int(match[2])] = {
            key: number for key, word in pairs if (number := whole(word)) is not None
        }
    return found


def _rows(text: str) -> list[dict[str, Any]]:
    if not text.lstrip().startswith("["):
        return []
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

"""What Ethernet tools say in their own words: port names, hardware addresses, media types, what a neighbour is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from nettune.wording import UNPRINTABLE
from topology.columns import NodeKind


@dataclass(frozen=True)
class UnnamedNeighbor:
    """A neighbour that tells addresses but no name, as the firmware of a NIC does (DCBX): an event of a `Said`.

    Attributes:
        node, port: who heard it, and on which port.
        chassis, interface: the MAC addresses that it told; empty where it told none.
    """

    node: str
    port: str
    chassis: str = ""
    interface: str = ""


@dataclass(frozen=True)
class SwitchHash:
    """What a switch is configured to hash: an event of a `Said`.

    Attributes:
        switch: its name.
        fields: use (`ecmp`, `lag`, `ecmp ipv4 rdma`, ...) -> the packet's fields by the switch's own names.
        algorithms: `ecmp` or `lag` -> the function by the switch's own name.
    """

    switch: str
    fields: dict[str, tuple[str, ...]] = field(default_factory=dict)
    algorithms: dict[str, str] = field(default_factory=dict)


_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}|(?:[0-9a-f]{4}[.]){2}[0-9a-f]{4}", re.IGNORECASE)

_MEDIA = re.compile(r"(\d{1,4})(?:p(\d))?(G(?:ig)?)?(?:base|(?<=Gig)(?=T))", re.IGNORECASE)

# systemd's predictable names and those of RDMA devices: no switch calls its front ports so.
_SERVER_PORT = re.compile(r"en[opsuxvP]\w+|ib\w*\d\w*|roce\w*|rdma\w*|mlx\d_\d+|bnxt_re\d+|ConnectX\S*")
_PERHAPS_SERVER_PORT = re.compile(r"eth\d+|bond\d+|p\d+p\d+|em\d+")
_SWITCH_PORT = re.compile(
    r"swp\d\S*|Eth(?:ernet)?\d\S*|(?:xe|et|ge|fte|mge|te|gi|hu|fo)-?\d+/\S*|etp\d\S*|\d+GE\d\S*|\S*Gig\w*[\d/]\S*"
    r"|Port-?[Cc]hannel\S*|(?:Te|Gi|Hu|Fo|Tw)\d+/\S*|sfp\S*|qsfp\S*|ce\d+(?:/\S*)?|ethernet-?\d\S*",
)

# The first words of a general-purpose system's own description (lldpd sends the distribution's name), against those of
# network systems, some of which name the distribution they are built on too.
_SERVER_SYSTEM = re.compile(
    r"\b(?:Ubuntu|Debian|Red Hat|CentOS|Rocky|AlmaLinux|Fedora|SUSE|SLES|openSUSE|Amazon Linux|Oracle Linux|DGX|ESXi"
    r"|Windows|Alpine|Arch Linux|Flatcar|CoreOS|Talos|Mariner|Azure Linux|openEuler|Kylin|Anolis|TencentOS)\b"
)
_SWITCH_SYSTEM = re.compile(
    r"\b(?:Cumulus|SONiC|Arista|EOS|NX-OS|IOS|Junos|JUNOS|Onyx|MLNX-OS|DENT|FBOSS|Comware|VRP|Dell|OS10|PicOS|IP Infusion"
    r"|OcNOS|SR Linux|Switch|switch|Router|VyOS|OpenSwitch|Exos|ExtremeXOS|FASTPATH|NVOS|NVIDIA Networking)\b"
)


@lru_cache(maxsize=1 << 16)
def port_name(text: str) -> str:
    """A tool's name of a port as a `Fabric` has it: blanks and `--` become `_`; empty where nothing is left."""
    return re.sub(rf"(?:[\s{UNPRINTABLE}]|-{{2,}})+", "_", text.strip()).strip("_-")


def mac(text: str) -> str:
    """A hardware address in one spelling, `aa:bb:cc:dd:ee:ff`; empty where the text is none."""
    if _MAC.fullmatch(text) is None:
        return ""
    digits = re.sub(r"[^0-9a-f]", "", text.lower())
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def media_gbps(media: str) -> float:
    """The rate in a media type's name, 25 of `25GbaseSR - ...` and `25GBASE-CR`; 0 where it has none."""
    match = _MEDIA.match(media)
    if match is None:
        return 0.0
    number = int(match[1]) + int(match[2] or 0) / 10
    return number if match[3] else number / 1000


def kind_by_port(port: str) -> NodeKind | None:
    """What has a port of this name; None where both or neither would."""
    if _SERVER_PORT.fullmatch(port) or _PERHAPS_SERVER_PORT.fullmatch(port):
        return NodeKind.HOST
    return NodeKind.SWITCH if _SWITCH_PORT.fullmatch(port) else None


def kind_of(capabilities: frozenset[str], description: str, port: str) -> NodeKind | None:
    """What a neighbour is, by its LLDP capabilities that are enabled (lower case), its description and its port.

    Capabilities alone do not decide: lldpd on a host says Bridge as soon as there is one (docker0), and Router when the
    kernel forwards, which containers switch on; and a leaf that only routes says Router alone. So the name of a
    general-purpose system and a NIC's name come first, and Router alone is a switch unless the port is a NIC's.
    """
    server = _SERVER_SYSTEM.search(description) is not None and not _SWITCH_SYSTEM.search(description)
    if server or _SERVER_PORT.fullmatch(port):
        return NodeKind.HOST
    if "bridge" in capabilities:
        return NodeKind.SWITCH
    if "station" in capabilities:
        return NodeKind.HOST
    by_port = kind_by_port(port)
    if "router" in capabilities and by_port is None and port and not mac(port):
        return NodeKind.SWITCH
    return by_port

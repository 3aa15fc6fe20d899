"""NCCL's environment: what the fabric tells about NICs and rails, each line with its reason.

Syntax: `KEY=VALUE` and lines of comment, for NCCL_CONF_FILE (nccl src/misc/param.cc: no trimming, no quotes, values of at
most 1023 characters) as well as for sh. NCCL_IB_HCA is `[=]device[:port[:rail[:plane]]],...`; before 2.30 rail and plane
were skipped, a port had to be there (src/misc/utils.cc, parseStringList of both).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.writers.crossnic import cross_nic
from topology.writers.rankmap import RankMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

# Names that drivers and udev's rdma-rename rules give RDMA devices.
_RDMA = re.compile(
    r"((mlx[0-9]|bnxt_re|irdma|hns|ionic|efa|erdma|mana|qedr|cxgb|hfi1|rxe|siw|bnxt_re_bond)_?[0-9]+"
    r"|(roce|ib|iw|opa|rdma)[pPso][0-9A-Za-z]+)([:/][0-9]+)?"
)
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")
_LONGEST_VALUE = 1023
_MOST_DEVICES = 32  # MAX_IB_DEVS


@dataclass(frozen=True)
class Nic:
    """A NIC of every host of the map: the same name, rail and plane on each."""

    name: str
    rail: int
    plane: int
    has_address: bool

    @property
    def is_rdma(self) -> bool:
        """Its name is one of an RDMA device, not of an interface."""
        return _RDMA.fullmatch(self.name) is not None

    def entry(self, *, with_rail: bool) -> str:
        """Its entry in NCCL_IB_HCA; a name without a port means port 1, the only one of nearly every device."""
        device, _, port = self.name.replace("/", ":").partition(":")
        rail = f":{self.rail}" + (f":{self.plane}" if self.plane >= 0 else "") if with_rail else ""
        return f"{device}:{port or 1}{rail}"


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`nccl.env`.

    Raises:
        InputError: hosts of the map name their NICs differently, or nothing that the fabric tells concerns NCCL.
    """
    hosts = list(RankMap.of(placement, fabric).ranks)
    rows = {host: compute_nics(fabric, host) for host in hosts}
    nics = _common(fabric, rows)
    lines = _devices(nics) + _interfaces(nics) + _crossing(fabric, rows)
    head = (
        "# NCCL's settings as far as the fabric tells them; use one: NCCL_CONF_FILE=nccl.env, or in sh\n"
        "#   set -a; . ./nccl.env; set +a\n"
    )
    return {"nccl.env": head + "".join(f"{line}\n" for line in lines)}


def compute_nics(fabric: Fabric, host: str) -> list[int]:
    """Port rows of a host's NICs for the job: those with a cable, and of these those with a rail where any has one."""
    cabled = [row for row in fabric.nics(host) if fabric.link_of_port[row] >= 0]
    return [row for row in cabled if fabric.ports.rail[row] >= 0] or cabled


def _common(fabric: Fabric, rows: dict[str, list[int]]) -> list[Nic]:
    ports = fabric.ports
    first: tuple[str, list[Nic]] | None = None
    for host, of_host in rows.items():
        nics = [
            Nic(ports.name[row], int(ports.rail[row]), int(ports.plane[row]), bool(ports.address[row]))
            for row in of_host
        ]
        if not nics:
            raise InputError(f"host {host} has no NIC with a cable, so there is nothing to tell NCCL")
        if first is None:
            first = host, nics
        elif {(n.name, n.rail, n.plane) for n in nics} != {(n.name, n.rail, n.plane) for n in first[1]}:
            raise InputError(
                f"hosts {first[0]} and {host} have NICs of other names or rails ({_names(first[1])}; {_names(nics)}),"
                " and one file of settings serves all hosts"
            )
    assert first is not None
    return first[1]


def _names(nics: Sequence[Nic]) -> str:
    return ",".join(nic.name if nic.rail < 0 else f"{nic.name} rail {nic.rail}" for nic in nics)


def _devices(nics: Sequence[Nic]) -> list[str]:
    devices = [nic for nic in nics if nic.is_rdma]
    if not devices:
        return [
            f"# NCCL_IB_HCA is not set: the fabric names no RDMA devices, but {_printable(_names(nics))}."
        ]
    if len(devices) > _MOST_DEVICES:
        raise InputError(f"NCCL takes {_MOST_DEVICES} devices, and the hosts have {len(devices)}")
    plain = ",".join(nic.entry(with_rail=False) for nic in devices)
    if any(nic.rail < 0 for nic in devices):
        reason = (
            "The NICs of every host that are on this fabric; = matches whole names, so mlx5_1 is not mlx5_10."
        )
        return [f"# {reason}", _setting("NCCL_IB_HCA", f"={plain}")]
    with_rails = ",".join(nic.entry(with_rail=True) for nic in devices)
    form = "device:port:rail:plane" if all(nic.plane >= 0 for nic in devices) else "device:port:rail"
    return [
        f"# The NICs of every host that are on this fabric, as {form}; = matches whole names, so mlx5_1 is not",
        "# mlx5_10. NCCL 2.30 and newer keep traffic on rails and planes by these numbers, older ones skip them;",
        f"# without them: NCCL_IB_HCA=={plain}",
        _setting("NCCL_IB_HCA", f"={with_rails}"),
    ]


def _interfaces(nics: Sequence[Nic]) -> list[str]:
    names = [nic.name for nic in nics if nic.has_address and not nic.is_rdma]
    if not names or not all(map(_INTERFACE.fullmatch, names)):
        return [
            "# NCCL_SOCKET_IFNAME is not set: the fabric knows no interface with an address, and which one joins the",
            "# hosts for NCCL's start is not the fabric's matter.",
        ]
    return [
        "# The interfaces of every host that are on this fabric, with addresses: NCCL starts over the first, and moves",
        "# data over all of them where it has no RDMA. = matches whole names. gloo: GLOO_SOCKET_IFNAME="
        + names[0],
        _setting("NCCL_SOCKET_IFNAME", f"={','.join(names)}"),
    ]


def _crossing(fabric: Fabric, rows: dict[str, list[int]]) -> list[str]:
    value, reason = cross_nic(fabric, rows)
    if value is None:
        return [
            f"# NCCL_CROSS_NIC is not set (2: the same NIC where that is no slower): {_printable(reason)}."
        ]
    return [f"# {_printable(reason)}.", _setting("NCCL_CROSS_NIC", str(value))]


def _setting(key: str, value: str) -> str:
    if len(value) > _LONGEST_VALUE:
        raise InputError(f"{key} would have {len(value)} characters; NCCL reads {_LONGEST_VALUE}")
    return f"{key}={value}"


def _printable(text: str) -> str:
    """Text for a comment: what would end the line becomes `?`."""
    return "".join(char if char.isprintable() else "?" for char in text)

"""What formats that describe one host share: the host's name, PCI addresses and classes, who is near whom.

The files of these formats (`nvidia-smi topo -m`, NCCL topology XML, lstopo without HostName) do not say which host
they are of. The name is then the file's: `captures/g17.xml` describes `g17`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.naming import element_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from topology.readers.source import Source

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Kinds of PCI paths from near to far, as nvidia-smi and NCCL name them: at most one PCI bridge, several bridges, the
host bridge, several host bridges of one NUMA node, between NUMA nodes."""

MAX_PAIRS = 100_000
"""Most pairs of an accelerator and a NIC on a host: 16 x 72 is much."""

_BUS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """How two devices of a host reach each other.

    Attributes:
        kind: `X`-matrix cell of nvidia-smi (`NV18` is 18 NVLinks), or `NVL`, `XGMI`, `C2C` of an NCCL topology.
        count: links in parallel; 0 not told.
        bandwidth_gbytes_per_s: of one link, where told; else 0.
    """

    host: str
    a: str
    b: str
    kind: str
    count: int = 0
    bandwidth_gbytes_per_s: float = 0.0


def default_host(source: Source) -> str:
    """The name for the one host of a source that does not name it: the file's name without its suffix."""
    stem = PurePath(source.name).stem.strip("<>-. ")
    try:
        return element_name(stem)
    except InputError:
        return "host"


def pci_address(text: str) -> str:
    """`0000:1b:00.0` in lower case with four digits of domain; the text as it is when it is none."""
    match = _BUS.fullmatch(text.strip())
    if match is None:
        return text.strip()
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function.lower()}"


def pci_order(address: str) -> tuple[int, int, int, int, str]:
    """Sort key: by domain, bus, device, function, as CUDA_DEVICE_ORDER=PCI_BUS_ID numbers GPUs."""
    match = _BUS.fullmatch(address)
    if match is None:
        return (1 << 40, 0, 0, 0, address)
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return (domain, bus, device, function, "")


def is_accelerator_class(pci_class: str) -> bool:
    """Display (03: NVIDIA 0302, AMD 0380) or processing accelerator (12: AMD MI300); NCCL and RCCL match by prefix."""
    return pci_class.lower().removeprefix("0x").startswith(("03", "12"))


def is_network_class(pci_class: str) -> bool:
    """Network controller (02): 0200 Ethernet, 0207 InfiniBand."""
    return pci_class.lower().removeprefix("0x").startswith("02")


def link_layer(pci_class: str) -> str:
    """`IB`, `Ethernet` or empty by PCI class; a ConnectX in Ethernet mode has class 0200."""
    code = pci_class.lower().removeprefix("0x")[:4]
    return {"0207": "IB", "0200": "Ethernet"}.get(code, "")


def pci_path(a: Sequence[Hashable], b: Sequence[Hashable], bridges: int) -> str:
    """Kind of path between two devices in a PCI tree.

    Args:
        a: what is above the first device, outermost first.
        b: the same of the second.
        bridges: how many of the outermost are no PCI bridge but, from outside, NUMA node and then host bridge.

    Returns:
        PIX: under the same bridge; PXB: some bridge above both; PHB: the same host bridge; NODE; SYS. The rule of
        NCCL's `ncclTopoSetPaths` (graph/paths.cc), which knows no NODE: its trees have one level above the bridges.
    """
    common = 0
    for above_a, above_b in zip(a, b, strict=False):
        if above_a != above_b:
            break
        common += 1
    if common > bridges:
        return "PIX" if common == len(a) == len(b) else "PXB"
    if common == bridges:
        return "PHB"
    return "NODE" if common else "SYS"


def nearest_in_tree(
    source: Source,
    gpus: Mapping[int, Sequence[Hashable]],
    nics: Mapping[str, Sequence[Hashable]],
    bridges: int,
) -> dict[int, tuple[str, ...]]:
    """`nearest` for devices in a PCI tree, by what is above each: see `pci_path`.

    Raises:
        InputError: more pairs than any host has.
    """
    if len(gpus) * len(nics) > MAX_PAIRS:
        raise source.error(
            f"has {len(gpus)} accelerators and {len(nics)} NICs on one host: no host has that many"
        )
    return nearest(
        {
            index: {nic: pci_path(above, other, bridges) for nic, other in nics.items()}
            for index, above in gpus.items()
        }
    )


def nearest(distances: Mapping[int, Mapping[str, str]]) -> dict[int, tuple[str, ...]]:
    """The nearest NICs of each accelerator, best first.

    Where several accelerators share several equally near NICs, each starts with another one: NCCL takes NIC
    `gpu % nics` among the near ones (graph/topo.cc `ncclTopoGetLocalNetType`).

    Args:
        distances: accelerator -> NIC -> one of `DISTANCES`.
    """
    near: dict[int, tuple[str, ...]] = {}
    turn: dict[tuple[str, ...], int] = {}
    for gpu, kinds in distances.items():
        best = min((DISTANCES.index(kind) for kind in kinds.values()), default=-1)
        nics = tuple(nic for nic, kind in kinds.items() if DISTANCES.index(kind) == best)
        if not nics:
            near[gpu] = ()
            continue
        start = turn.get(nics, 0) % len(nics)
        turn[nics] = start + 1
        near[gpu] = nics[start:] + nics[:start]
    return near

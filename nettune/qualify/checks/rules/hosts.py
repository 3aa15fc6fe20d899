"""Settings of a host: NUMA (13), GPUDirect (14), IOMMU (12), slot power (36), restricted NIC (34), limits (37), CPU (40)."""

from __future__ import annotations

import re
from collections import Counter

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers import pci
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.rules.pcie import DMESG
from nettune.qualify.checks.view import HostView

MODULES, VERSION = "/proc/modules", "/proc/driver/nvidia/version"
CMDLINE, LIMITS_FILE, SHM = "/proc/cmdline", "/proc/self/limits", "df -Pk /dev/shm"


def nearest(view: HostView, gpu: pci.PciDevice, nics: list[str]) -> tuple[list[str], int]:
    """(PCI addresses of the NICs that share most bridges with a GPU, how many bridges they share)."""
    above = {device.address for device in pci.path_to(view.pci, gpu.address)[:-1]}
    shared = {
        nic: len(above & {device.address for device in pci.path_to(view.pci, nic)[:-1]}) for nic in nics
    }
    best = max(shared.values(), default=0)
    return [nic for nic, count in shared.items() if count == best], best


def _numa(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        nics = [one.device.pci for one in fleet.data_ports[view.host] if one.device.pci in view.pci]
        if not view.gpus or not nics:
            continue
        near = {index: nearest(view, gpu, nics) for index, gpu in enumerate(view.gpus)}
        close = sum(bridges > 0 for _, bridges in near.values())
        numas = {gpu.numa for gpu in view.gpus} | {view.pci[nic].numa for nic in nics}
        if not numas - {None, -1}:
            say.unknown(
                view.where, "the NUMA nodes of its GPUs and NICs are not told", fix="in a guest, ask the host"
            )
            continue
        # Where no GPU has a NIC below its own switch (GB200, many servers) that is the design, not a fault.
        if close > len(near) / 2:
            for index, (_, bridges) in near.items():
                if bridges == 0:
                    say.warn(
                        ElementId.gpu(view.host, index),
                        "has no data NIC below its PCIe switch",
                        basis=f"{close} of {len(near)} GPUs of this host have one",
                        fix="compare the slots with a sound host",
                    )
        if not say.has_spoken(view.host):
            say.ok(view.where, f"{close} of {len(near)} GPUs have a data NIC below their own PCIe switch")


def _gpudirect(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        if not any(gpu.vendor == "10de" for gpu in view.gpus) or not fleet.data_ports[view.host]:
            continue
        modules, version = view.text(MODULES), view.text(VERSION)
        loaded = {line.split(" ", 1)[0] for line in (modules or "").splitlines()}
        if loaded & {"nvidia_peermem", "nv_peer_mem"}:
            say.ok(view.where, "nvidia_peermem is loaded")
        elif version is not None and "Open Kernel Module" in version:
            say.ok(view.where, "the open kernel modules offer DMA-BUF")
        elif modules is None or version is None:
            say.missing(view, *[source for source in (MODULES, VERSION) if view.text(source) is None])
        else:
            say.fail(
                view.where,
                "neither nvidia_peermem nor DMA-BUF: NICs cannot reach GPU memory",
                basis="/proc/modules, and the closed kernel modules of the driver",
                fix="modprobe nvidia_peermem, or install the open kernel modules",
            )


def _iommu(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        if not view.gpus or not fleet.data_ports[view.host]:
            continue
        line = view.text(CMDLINE)
        start, end = "/sys/kernel/iommu_groups/", "/type"
        types = Counter(
            captured.text.strip()
            for path, captured in view.capture.files.items()
            if path.startswith(start) and path.endswith(end)
        )
        asked = line is not None and re.search(r"\b(?:intel|amd)_iommu=on\b", line) and "iommu=pt" not in line
        translating = sum(count for kind, count in types.items() if kind.startswith("DMA"))
        if line is None and not types:
            say.missing(view, CMDLINE)
        elif translating or (asked and not types):
            say.warn(
                view.where,
                f"the IOMMU translates {translating} groups of devices"
                if translating
                else "the IOMMU is on without iommu=pt",
                basis="types of /sys/kernel/iommu_groups" if translating else CMDLINE,
                fix="boot with iommu=pt, or off; then DMA between NIC and GPU is not translated",
            )
        else:
            say.ok(view.where, "the IOMMU is off or passes through")


_POWER = re.compile(
    r"(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?.{0,80}insufficient power on the PCIe slot",
    re.IGNORECASE,
)
_ACCESS = re.compile(r"ACCESS_REG\(0x[0-9a-f]+\).{0,60}failed", re.IGNORECASE)
_PEERMEM = re.compile(r"nvidia-peermem .{0,80}ERROR detected invalid context")


def _log(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        text = view.text(DMESG)
        if text is None:
            continue
        slots = Counter(match["pci"] or "a slot" for match in _POWER.finditer(text))
        for slot, count in slots.items():
            say.warn(
                view.where,
                f"insufficient power at {slot} ({count}x)",
                basis="mlx5_core's message",
                fix="see to the slot's power limit and the auxiliary power cable of the card",
            )
        peermem = len(_PEERMEM.findall(text))
        if peermem:
            say.warn(
                view.where,
                f"nvidia-peermem detected invalid contexts ({peermem}x)",
                basis="its message: programs ended while memory was registered",
                fix="prefer DMA-BUF; reload the module when no job runs",
            )
        refused = len(_ACCESS.findall(text))
        if refused:
            say.unknown(
                view.where,
                f"the NIC refuses access to registers ({refused} messages): module and link readings are missing",
                fix="on a virtual function ask the host; it is no fault of the NIC",
            )
        if fleet.data_ports[view.host] and not say.has_spoken(view.host):
            say.ok(view.where, "no message on slot power, peermem or refused registers")


def _limits(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        if not fleet.data_ports[view.host]:
            continue
        match = re.search(r"^Max locked memory\s+(\S+)\s+", view.text(LIMITS_FILE) or "", re.MULTILINE)
        if match is None:
            say.missing(view, LIMITS_FILE)
        elif (bytes_allowed := whole(match[1])) is not None and bytes_allowed < fleet.limit("memlock") * 1024:
            say.warn(
                view.where,
                f"{bytes_allowed >> 10} KiB of memory may be locked",
                basis="the limits of the collecting session; the scheduler may set others",
                fix="memlock unlimited in limits.d and for the scheduler's daemon; in a container --ulimit memlock=-1",
                limits=["memlock"],
            )
        size = re.search(
            r"^\S+\s+(\d{1,15})\s+\d+\s+\d+\s+\d+%\s+/dev/shm\s*$", view.text(SHM) or "", re.MULTILINE
        )
        if size and int(size[1]) < fleet.limit("shm"):
            say.warn(
                view.where,
                f"shared memory, {SHM.rsplit(maxsplit=1)[-1]}, has {int(size[1]) >> 10} MiB",
                basis="the limit below",
                fix="mount it larger; in a container --shm-size or --ipc=host",
                limits=["shm"],
            )
        if not say.has_spoken(view.host):
            say.ok(view.where, "locked memory and /dev/shm suffice", limits=["memlock", "shm"])


_UNSTEADY = "Conflicting CPU frequency values detected"


def _governor(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        if any(_UNSTEADY in one.text for line, one in view.capture.commands.items() if "ib_" in line):
            say.warn(
                view.where,
                "its CPUs changed their clock during a test",
                basis=f"perftest: {_UNSTEADY}",
                fix="cpupower frequency-set -g performance",
            )
        start, end = "/sys/devices/system/cpu/", "/scaling_governor"
        found = Counter(
            captured.text.strip()
            for path, captured in view.capture.files.items()
            if path.startswith(start) and path.endswith(end) and captured.text.strip()
        )
        slow = {name: count for name, count in found.items() if name != "performance"}
        if slow and fleet.data_ports[view.host]:
            say.warn(
                view.where,
                f"CPUs may clock down: governor {', '.join(f'{name} ({count})' for name, count in slow.items())}"[
                    :200
                ],
                basis="perftest warns of it; latency varies",
                fix="cpupower frequency-set -g performance",
            )
        elif found and fleet.data_ports[view.host] and not say.has_spoken(view.host):
            say.ok(view.where, f"{found.total()} CPUs keep the governor performance")


RULES = (
    Rule(
        "numa",
        (13,),
        ("/sys/bus/pci/devices/*",),
        "GPU and NIC talk across sockets: half the bandwidth",
        _numa,
    ),
    Rule("gpudirect", (14,), (MODULES, VERSION), "all traffic is copied through host memory", _gpudirect),
    Rule(
        "iommu",
        (12,),
        (CMDLINE, "/sys/kernel/iommu_groups/*/type"),
        "peer-to-peer DMA is slow or goes astray",
        _iommu,
    ),
    Rule("kernel-log", (34, 36, 14), (DMESG,), "the card throttles itself, or cannot be read", _log),
    Rule("host-limits", (37,), (LIMITS_FILE, SHM), "ibv_reg_mr fails, or NCCL's shared memory does", _limits),
    Rule(
        "cpu-governor", (40,), ("/sys/devices/system/cpu/*",), "latency varies from step to step", _governor
    ),
)

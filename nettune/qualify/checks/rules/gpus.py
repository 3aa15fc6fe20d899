"""GPUs: missing (26), fabric manager (28), Xid (29), memory errors (30), clocks (31)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers import nvidia, pci
from nettune.qualify.checks.parsers.kernel import xids
from nettune.qualify.checks.rules.pcie import DMESG
from nettune.qualify.checks.view import LSPCI, HostView

T = TypeVar("T", bound=Hashable)

LIST = "nvidia-smi -L"
QUERY = "nvidia-smi -q"
MANAGER = "systemctl is-active nvidia-fabricmanager"

HARDWARE_XIDS = frozenset({48, 56, 57, 58, 62, 64, 65, 68, 69, 73, 74, 79, 80, 81, 92, 95, 119, 120})
"""azurehpc-health-checks' list without 63 (a row was remapped: recorded, not broken), and 95 (uncontained memory)."""
NOTED_XIDS = frozenset({63, 94})
LOST_XID = 79


def has_nvidia(view: HostView) -> bool:
    """Whether the host has NVIDIA GPUs, by any source."""
    return bool(view.smi[1] or nvidia.listed(view.captured(LIST).text)) or any(
        gpu.vendor == "10de" for gpu in view.gpus
    )


def product(view: HostView) -> str:
    """Name of the host's GPUs; empty where not told. Hosts of one build are compared with each other."""
    described = next((gpu.value("Product Name") for gpu in view.smi[1]), "")
    return described or next(iter(nvidia.names(view.captured(LIST).text)), "")


def by_product(fleet: Fleet, values: Mapping[str, T]) -> dict[str, tuple[T, int] | None]:
    """Host -> majority of a value among the hosts with the same GPUs; None where they have none."""
    products = {view.host: product(view) for view in fleet.hosts}
    groups: dict[str, dict[str, T]] = defaultdict(dict)
    for host, value in values.items():
        groups[products[host]][host] = value
    majorities = {name: fleet.majority(group) for name, group in groups.items()}
    return {host: majorities.get(products[host]) for host in products}


def _missing(fleet: Fleet, say: Verdicts) -> None:
    counts = {view.host: count for view in fleet.hosts if (count := _count(view)) is not None}
    majorities = by_product(fleet, counts)
    for view in fleet.hosts:
        have, most = counts.get(view.host), majorities[view.host]
        for index, gpu in enumerate(view.gpus):
            if gpu.gone:
                say.fail(
                    ElementId.gpu(view.host, index),
                    f"{gpu.address} answers with all ones (rev ff): it fell off the bus",
                    basis="lspci reads its configuration space",
                    fix="drain, power-cycle the host; if it comes back so, change the GPU",
                )
        if have is None:
            if any(gpu.vendor == "10de" for gpu in view.gpus):
                say.missing(view, LIST, QUERY)
            continue
        wanted = fleet.context.settings.gpus
        past = fleet.baseline.get(view.host)
        candidates = [
            (wanted or 0, "the settings"),
            (_count(past) or 0 if past else 0, "the baseline"),
            (sum(gpu.vendor == "10de" for gpu in view.gpus), "lspci and /sys"),
            (most[0] if most else 0, f"{most[1]} hosts with the same GPUs" if most else ""),
        ]
        expected, basis = max(candidates, key=lambda pair: pair[0])
        if have < expected:
            say.fail(
                view.where,
                f"the driver has {have} GPUs where {expected} are expected",
                basis=f"{expected} by {basis}",
                fix="see the kernel messages for Xid 79; reset the GPU or reboot; then change it",
                have=have,
                expected=expected,
            )
        elif not say.has_spoken(view.host):
            say.ok(view.where, f"the driver has all {have} GPUs", have=have)


def _count(view: HostView) -> int | None:
    """GPUs that the driver has; None where nvidia-smi did not tell."""
    listed = nvidia.listed(view.text(LIST) or "")
    attached, described = view.smi
    if listed:
        return len(listed)
    if view.text(QUERY) is None:
        return None
    return attached if attached is not None else len(described) or None


def _fabric(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        switches = pci.of_kind(view.pci.values(), "nvswitch")
        manager = view.captured(MANAGER)
        word = manager.text.strip()
        fix = "start nvidia-fabricmanager of the driver's own version; see its log"
        if switches and word and word != "active":
            say.fail(
                view.where,
                f"the fabric manager is {word[:40]} with {len(switches)} NVSwitches",
                basis="systemctl is-active",
                fix=fix,
            )
        elif switches and not word:
            say.missing(view, MANAGER)
        told = 0
        for index, gpu in enumerate(view.smi[1]):
            state, status = gpu.value("Fabric/State"), gpu.value("Fabric/Status")
            if not state and not status:
                continue
            told += 1
            if state != "Completed" or status not in {"Success", ""}:
                say.fail(
                    ElementId.gpu(view.host, index),
                    f"its fabric is {state or 'not told'}, status {status or 'not told'}",
                    basis="nvidia-smi -q: Completed and Success on a working fabric",
                    fix=fix,
                )
        clusters = {
            (gpu.value("Fabric/ClusterUUID"), gpu.value("Fabric/CliqueId"))
            for gpu in view.smi[1]
            if gpu.value("Fabric/ClusterUUID").strip("0-")
        }
        if len(clusters) > 1:
            say.fail(
                view.where,
                f"its GPUs are in {len(clusters)} NVLink domains",
                basis="ClusterUUID and CliqueId of one host are one",
                fix=fix,
            )
        elif (told or switches) and not say.has_spoken(view.host):
            say.ok(view.where, f"{told} GPUs have joined their NVLink fabric")


def _xid(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        text = view.text(DMESG)
        if text is None:
            if has_nvidia(view):
                say.missing(view, DMESG)
            continue
        found = xids(text)
        if not found and not has_nvidia(view):
            continue
        addresses = [gpu.address for gpu in view.gpus] or [gpu.pci for gpu in view.smi[1]]
        by_gpu: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        for xid in found:
            by_gpu[xid.pci, "SXid" if xid.switch else "Xid"][xid.number] += 1
        for (address, kind), numbers in by_gpu.items():
            where = ElementId.gpu(view.host, addresses.index(address)) if address in addresses else view.where
            hard = sorted(numbers.keys() & HARDWARE_XIDS) if kind == "Xid" else []
            noted = sorted(numbers.keys() & NOTED_XIDS) if kind == "Xid" else sorted(numbers)
            listed = ", ".join(f"{number} ({numbers[number]}x)" for number in (hard or noted)[:8])
            if hard:
                say.fail(
                    where,
                    f"Xid {listed} at {address}",
                    basis="azurehpc-health-checks' list of Xids that point at hardware",
                    fix="power-cycle the host: a GPU fell off the bus"
                    if LOST_XID in hard
                    else "reset the GPU; if it comes back, change it",
                    xids=hard,
                )
            elif noted:
                say.warn(
                    where,
                    f"{kind} {listed} at {address}",
                    basis="recorded by the driver; the device still works",
                    fix="watch it; a remapped row wants a reset before the next job, an SXid a look at its NVLink",
                )
        if not say.has_spoken(view.host):
            apps = Counter(xid.number for xid in found)
            what = "no Xid" if not apps else f"only Xids of applications: {dict(apps)}"
            say.ok(view.where, f"{what} in the kernel log")


def _memory(fleet: Fleet, say: Verdicts) -> None:
    modes = {
        f"{view.host} {index}": mode
        for view in fleet.hosts
        for index, gpu in enumerate(view.smi[1])
        if (mode := gpu.value("ECC Mode/Current"))
    }
    most = fleet.majority(modes)
    for view in fleet.hosts:
        _, gpus = view.smi
        if not gpus:
            if has_nvidia(view):
                say.missing(view, QUERY)
            continue
        told = 0
        for index, gpu in enumerate(gpus):
            where = ElementId.gpu(view.host, index)
            told += bool(gpu.value("ECC Mode/Current"))
            if most and most[0] == "Enabled" and modes.get(f"{view.host} {index}") == "Disabled":
                say.fail(
                    where,
                    "ECC is off: memory errors become wrong data",
                    basis=f"it is on at {most[1]} of {len(modes)} GPUs",
                    fix="nvidia-smi -e 1, then reset the GPU",
                )
            if gpu.value("Remapped Rows/Remapping Failure Occurred") == "Yes":
                say.fail(where, "a row could not be remapped", basis="nvidia-smi -q", fix="change the GPU")
            elif (
                gpu.value("Remapped Rows/Pending") == "Yes"
                or gpu.value("Retired Pages/Pending Page Blacklist") == "Yes"
            ):
                say.fail(
                    where,
                    "a remapping of memory rows waits for a reset",
                    basis="nvidia-smi -q: Pending is Yes",
                    fix="drain, reset the GPU (`nvidia-smi -r`), run its memory test",
                    uncorrectable_rows=gpu.number("Remapped Rows/Uncorrectable Error"),
                )
            hard = sum(
                gpu.number(f"ECC Errors/Volatile/{name}") or 0
                for name in (
                    "SRAM Uncorrectable",
                    "DRAM Uncorrectable",
                    "SRAM Uncorrectable Parity",
                    "Double Bit/Total",
                )
            )
            if hard:
                say.fail(
                    where,
                    f"{hard} uncorrectable memory errors since the driver was loaded",
                    basis="any uncorrectable error ends a job",
                    fix="drain, reset the GPU, run its memory test; change it if they come back",
                )
            for name, limit in (
                ("SRAM Correctable", "ecc-sram-correctable"),
                ("DRAM Correctable", "ecc-correctable"),
            ):
                count = gpu.number(f"ECC Errors/Volatile/{name}") or 0
                if count > fleet.limit(limit):
                    say.warn(
                        where,
                        f"{count} {name} errors",
                        basis="the limit",
                        fix="plan its exchange",
                        limits=[limit],
                    )
        if not say.has_spoken(view.host) and told:
            say.ok(view.where, f"no uncorrectable memory error on {told} GPUs, no remapping pending")
        if view.text(QUERY) is None:
            say.missing(view, QUERY)


def _clocks(fleet: Fleet, say: Verdicts) -> None:
    reasons = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
    for view in fleet.hosts:
        told = 0
        for index, gpu in enumerate(view.smi[1]):
            active = []
            for key, text in gpu.values.items():
                path = key.split("/")
                if path[0] in {"Clocks Event Reasons", "Clocks Throttle Reasons"} and path[-1] in reasons:
                    told += 1
                    active += [path[-1]] if text == "Active" else []
            if active:
                say.warn(
                    ElementId.gpu(view.host, index),
                    f"is slowed down: {', '.join(active)}",
                    basis="clock event reasons of nvidia-smi -q at the time of the capture",
                    fix="see to cooling and power supplies",
                )
        if told and not say.has_spoken(view.host):
            say.ok(view.where, f"none of {len(view.smi[1])} GPUs is slowed down by its hardware")


RULES = (
    Rule(
        "gpu-missing",
        (26,),
        (LIST, QUERY, LSPCI),
        "the job does not start, or leaves a rank out",
        _missing,
        core=True,
    ),
    Rule(
        "gpu-fabric",
        (28,),
        (MANAGER, QUERY),
        "CUDA does not start (802), or GPUs cannot reach each other",
        _fabric,
    ),
    Rule("xid", (29,), (DMESG,), "the GPU stops jobs", _xid),
    Rule("gpu-memory", (30, 39), (QUERY,), "jobs end with memory errors, or compute wrong", _memory),
    Rule("gpu-clocks", (31,), (QUERY,), "one slow GPU makes every step of the job slow", _clocks),
)

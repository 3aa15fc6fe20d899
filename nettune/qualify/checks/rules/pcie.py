"""PCIe above GPUs and NICs: link (7), kernel's remark (8), errors (9), read request (10), access control (11)."""

from __future__ import annotations

import re

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers import pci
from nettune.qualify.checks.parsers.kernel import limited_links
from nettune.qualify.checks.view import LSPCI, HostView
from nettune.wording import counted

DMESG = "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info"


def judged_devices(fleet: Fleet, view: HostView) -> dict[str, ElementId]:
    """PCI addresses of GPUs and data NICs -> their element. Without RDMA devices every fast NIC that lspci names."""
    return fleet.once(("judged devices", view.host), lambda: _judged_devices(fleet, view))


def _judged_devices(fleet: Fleet, view: HostView) -> dict[str, ElementId]:
    found = {gpu.address: ElementId.gpu(view.host, index) for index, gpu in enumerate(view.gpus)}
    data = {one.device.pci: one.name for one in fleet.data_ports[view.host] if one.device.pci}
    if not data:
        data = {
            device.address: device.address
            for device in pci.of_kind(view.pci.values(), "nic")
            if device.vendor == "15b3" and not device.virtual
        }
    return found | {address: view.nic(name) for address, name in data.items()}


def _links(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        judged = judged_devices(fleet, view)
        if not judged:
            continue
        told = 0
        blamed: set[str] = set()
        for address, where in judged.items():
            path = pci.path_to(view.pci, address)
            told += any(device.now.width for device in path)
            for parent, child in cables(path):
                if child.address not in blamed and _narrow(say, where, parent, child):
                    blamed.add(child.address)
        if not told:
            say.unknown(
                view.where,
                "neither /sys/bus/pci nor lspci tells the link of a GPU or NIC",
                fix="collect as root; in a virtual machine ask the host",
            )
        elif not blamed:
            say.ok(view.where, f"PCIe paths of {told} GPUs and NICs run at what their two ends can do")


def cables(path: list[pci.PciDevice]) -> list[tuple[pci.PciDevice | None, pci.PciDevice]]:
    """The links of a path as (upper end, lower end), the device's own first.

    A root port or the downstream port of a switch describes the link below it, an upstream port or a device the one
    above it; the two ports of one switch have no link between them. So every second pair of a path is a link.
    """
    if len(path) == 1:
        return [(None, path[0])]
    return [(path[place - 1], path[place]) for place in range(len(path) - 1, 0, -2)]


def _narrow(say: Verdicts, where: ElementId, parent: pci.PciDevice | None, child: pci.PciDevice) -> bool:
    """Speak of the link above `child` if it is below what both of its ends can do."""
    above = parent.max if parent is not None else pci.Link()
    width = min(filter(None, (child.max.width, above.width)), default=0)
    speed = min(filter(None, (child.max.speed, above.speed)), default=0.0)
    if child.now.width == 0:
        return False
    # Idle GPUs drop their speed, never their width.
    idle = child.kind == "gpu" or child.vendor in pci.GPU_VENDORS
    slow = 0 < child.now.speed < speed and not idle
    thin = child.now.width < width
    unsaid = not child.max.width and (child.said_narrow or (child.said_downgraded and not idle))
    if not (slow or thin or unsaid):
        return False
    ends = f"{parent.address if parent else 'root'} to {child.address}"
    expected = f"where {speed:g} GT/s x{width} is possible" if width else "and lspci calls it downgraded"
    say.fail(
        where,
        f"its PCIe link {ends} runs at {child.now.speed:g} GT/s x{child.now.width} {expected}",
        basis="the smaller of what the two ends of the link can do"
        if width
        else "lspci's word; LnkCap is not told",
        fix="reseat the card and its riser; look for AER errors of this link; then a slot of its own for a test",
        width=child.now.width,
        expected_width=width,
        speed_gts=child.now.speed,
        expected_speed_gts=speed,
    )
    return True


def _remarks(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        text = view.text(DMESG)
        judged = judged_devices(fleet, view)
        if text is None:
            if judged:
                say.missing(view, DMESG)
            continue
        for remark in limited_links(text):
            ratio = remark.available / remark.capable if remark.capable else 1.0
            above = {device.address for address in judged for device in pci.path_to(view.pci, address)}
            if ratio < fleet.limit("pcie-ratio") and (
                not view.pci or remark.pci in judged or remark.pci in above
            ):
                say.warn(
                    judged.get(remark.pci, view.where),
                    f"the kernel found {remark.available:g} of {remark.capable:g} Gbit/s of PCIe, limited by {remark.at}",
                    basis="the device's own capability, printed by the kernel",
                    fix="use a slot of the full width and speed, or reseat; the check pcie-link names the link",
                    limits=["pcie-ratio"],
                    pci=remark.pci,
                )
        if judged and not say.has_spoken(view.host):
            say.ok(view.where, "the kernel remarked on no limited PCIe link of a GPU or NIC")


_TOTAL = re.compile(r"TOTAL_ERR_(COR|FATAL|NONFATAL) (\d{1,18})")


def _errors(fleet: Fleet, say: Verdicts) -> None:
    kinds = {"aer_dev_correctable": "correctable", "aer_dev_nonfatal": "non-fatal", "aer_dev_fatal": "fatal"}
    for view in fleet.hosts:
        earlier = fleet.before.get(view.host)
        devices = {
            device.address: where
            for address, where in judged_devices(fleet, view).items()
            for device in pci.path_to(view.pci, address)
        }
        compared = 0
        for address, where in devices.items():
            for name, kind in kinds.items():
                path = f"/sys/bus/pci/devices/{address}/{name}"
                now, past = _total(view, path), _total(earlier, path) if earlier else None
                if now is None or past is None:
                    continue
                compared += 1
                grown = now - past
                limit = fleet.limit("correctable-aer") if kind == "correctable" else 0
                if grown > limit:
                    say.fail(
                        where,
                        f"{grown} {kind} PCIe errors at {address} since the earlier capture",
                        basis="growth between two captures",
                        fix="reseat the card and its riser; if it stays, change the card, then the slot",
                        limits=["correctable-aer"] if kind == "correctable" else [],
                        grown=grown,
                    )
        if compared and not say.has_spoken(view.host):
            say.ok(view.where, f"no growth of PCIe errors in {compared} counters")
        elif devices and earlier is None:
            say.no_earlier(view)
        elif devices and not compared:
            say.unknown(
                view.where,
                "no AER counters in both captures",
                fix="take both captures as root, with the same collector",
            )


def _total(view: HostView, path: str) -> int | None:
    match = _TOTAL.search(view.text(path) or "")
    return int(match[2]) if match else None


def _requests(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        nics = {
            address: where for address, where in judged_devices(fleet, view).items() if where.kind == "nic"
        }
        sizes = {address: view.pci[address].max_read for address in nics if address in view.pci}
        told = {address: size for address, size in sizes.items() if size}
        for address, size in told.items():
            if size < fleet.limit("read-request"):
                say.warn(
                    nics[address],
                    f"reads at most {size} bytes at a time over PCIe",
                    basis="the limit below",
                    fix=f"setpci or the firmware's MAX_ACC_OUT_READ; the device is {address}",
                    limits=["read-request"],
                )
        if nics and not told:
            why = "lspci tells no MaxReadReq of a NIC" if view.text(LSPCI) else view.why(LSPCI)
            say.unknown(view.where, why, fix="run lspci -vvv as root")
        elif told and not say.has_spoken(view.host):
            say.ok(
                view.where,
                f"{len(told)} NICs read {min(told.values())} bytes at a time or more",
                limits=["read-request"],
            )


def _acs(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        judged = judged_devices(fleet, view)
        bridges = {
            device.address: device for address in judged for device in pci.path_to(view.pci, address)[:-1]
        }
        told = {address: device for address, device in bridges.items() if device.acs is not None}
        bad = {address: device.acs for address, device in told.items() if device.acs}
        if bad:
            listed = ", ".join(
                f"{address} ({' '.join(bits or ())})" for address, bits in sorted(bad.items())[:4]
            )
            say.warn(
                view.where,
                f"peer-to-peer traffic is redirected by {counted(len(bad), 'bridge')} above GPUs and NICs: {listed}",
                basis="bits ReqRedir, CmpltRedir, UpstreamFwd of ACSCtl; SrcValid alone is harmless",
                fix="switch ACS off on these bridges (firmware setup, or setpci ECAP_ACS+6.w=0)",
                bridges=sorted(bad),
            )
        elif told:
            say.ok(view.where, f"none of {len(told)} bridges above GPUs and NICs redirects")
        elif judged:
            say.unknown(
                view.where,
                "no ACSCtl line of a bridge above a GPU or NIC",
                fix="run lspci as root; in a guest ask the host",
            )


RULES = (
    Rule(
        "pcie-link",
        (7,),
        ("/sys/bus/pci/devices/*", LSPCI),
        "the device gets a fraction of its bandwidth to host and peers",
        _links,
        core=True,
    ),
    Rule("pcie-remark", (8,), (DMESG,), "the device gets a fraction of its bandwidth", _remarks),
    Rule(
        "pcie-errors",
        (9,),
        ("/sys/bus/pci/devices/*/aer_dev_*",),
        "packets are sent again on PCIe, or lost",
        _errors,
    ),
    Rule(
        "pcie-read-request", (10,), (LSPCI,), "a fast NIC cannot keep its link full when it reads", _requests
    ),
    Rule(
        "acs",
        (11,),
        (LSPCI,),
        "GPU and NIC talk through the root complex: GPUDirect loses half its bandwidth or more",
        _acs,
    ),
)

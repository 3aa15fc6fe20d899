"""`HostView`: what one capture says, parsed when a check first asks; the sources are kept apart from their absence."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.qualify.checks.parsers import gids as gidtables
from nettune.qualify.checks.parsers import nvidia
from nettune.qualify.checks.parsers import pci as pcitree
from nettune.qualify.checks.parsers import rdma as rdmatools
from nettune.qualify.checks.parsers.numbers import rate_gbps, real, whole
from topology.capture import Captured, CaptureState, HostCapture

_NO_SUCH = Captured(CaptureState.ABSENT, note="not collected")
_IB = "/sys/class/infiniband/"
_NET = "/sys/class/net/"
_PCI = "/sys/bus/pci/devices/"
LSPCI = "lspci -Dvvv"
IP_LINK = "ip -j -d -s -s link"
_PORT = re.compile(r"ports/(\d{1,3})/")
_GID = re.compile(r"ports/(\d{1,3})/gids/(\d{1,5})")


@dataclass(frozen=True)
class HostView:
    """One host as the checks see it."""

    capture: HostCapture

    @property
    def host(self) -> str:
        """Its name."""
        return self.capture.host

    @property
    def where(self) -> ElementId:
        """The element of the host."""
        return ElementId.host(self.host)

    def nic(self, name: str) -> ElementId:
        """The element of a NIC; a name that no element can have (damaged text) becomes one that can."""
        try:
            return ElementId.nic(self.host, name)
        except InputError:
            return ElementId.nic(self.host, re.sub(r"\s+|--", "_", name) or "_")

    def captured(self, source: str) -> Captured:
        """A file or command as it was captured."""
        return self.capture.commands.get(source) or self.capture.files.get(source) or _NO_SUCH

    def text(self, source: str) -> str | None:
        """Text that was read whole and is not empty, else None."""
        captured = self.captured(source)
        whole_text = captured.state is CaptureState.OK and captured.text and not captured.text.isspace()
        return captured.text if whole_text else None

    def why(self, source: str) -> str:
        """Why there is no `text` of a source."""
        captured = self.captured(source)
        if captured.state is CaptureState.OK:
            return f"{source}: printed nothing"
        return f"{source}: {captured.state}" + (f" ({captured.note[:120]})" if captured.note else "")

    @cached_property
    def _below(self) -> dict[str, dict[str, dict[str, str]]]:
        """Root -> folder in it -> path below that -> text, of the files that were read whole."""
        found: dict[str, dict[str, dict[str, str]]] = {_PCI: {}, _IB: {}, _NET: {}}
        for path, captured in self.capture.files.items():
            for root, folders in found.items():
                if path.startswith(root):
                    first, slash, rest = path[len(root) :].partition("/")
                    if slash and first and captured.state is CaptureState.OK:
                        folders.setdefault(first, {})[rest] = captured.text
                    break
        return found

    @cached_property
    def rdma_files(self) -> dict[str, dict[str, str]]:
        """RDMA device -> path below its folder -> text."""
        return self._below[_IB]

    @cached_property
    def net_files(self) -> dict[str, dict[str, str]]:
        """Interface -> path below its folder -> text, with `mtu` and `operstate` of `ip` where it was run.

        /sys may have been mounted in another network namespace: it is believed only of interfaces that `ip` shows with
        the same address.
        """
        of_sys = self._below[_NET]
        links = self.ip_links
        if not links:
            return of_sys
        found: dict[str, dict[str, str]] = {}
        for name, row in links.items():
            files = of_sys.get(name, {})
            if files.get("address", "").strip() not in {"", row.get("address")}:
                files = {}  # another namespace's interface of that name
            found[name] = dict(files)
            found[name].update({key: str(row[key]).lower() for key in ("mtu", "operstate") if key in row})
        return found

    @cached_property
    def ip_links(self) -> dict[str, dict[str, Any]]:
        """Interface -> its row of `ip -j link`."""
        try:
            rows = json.loads(self.text(IP_LINK) or "[]")
        except (ValueError, RecursionError):
            return {}
        rows = rows if isinstance(rows, list) else []
        return {str(row["ifname"]): row for row in rows if isinstance(row, dict) and row.get("ifname")}

    @cached_property
    def real_paths(self) -> dict[str, str]:
        """Path in /sys -> where its link leads."""
        start = "readlink -f "
        return {
            line[len(start) :]: captured.text.strip()
            for line, captured in self.capture.commands.items()
            if line.startswith(start) and captured.state is CaptureState.OK
        }

    @cached_property
    def pci(self) -> dict[str, pcitree.PciDevice]:
        """The PCI tree, of /sys and lspci together."""
        paths = {path[len(_PCI) :]: to for path, to in self.real_paths.items() if path.startswith(_PCI)}
        files = self._below[_PCI]
        by_sys = pcitree.sysfs(files, paths) if files else {}
        return pcitree.merged(pcitree.lspci(self.text(LSPCI) or ""), by_sys)

    @cached_property
    def gpus(self) -> list[pcitree.PciDevice]:
        """GPUs of the PCI tree. One display adapter of an NVIDIA or AMD desktop counts, too."""
        return pcitree.of_kind(self.pci.values(), "gpu")

    @cached_property
    def rdma(self) -> dict[str, rdmatools.Device]:
        """RDMA devices: /sys, else ibstat, ibstatus, ibv_devinfo, `rdma link`; a later source fills the gaps."""
        found: dict[str, rdmatools.Device] = {
            name: self._of_sys(name, files) for name, files in self.rdma_files.items()
        }
        sources = (
            ("ibstat", rdmatools.ibstat),
            ("ibstatus", rdmatools.ibstatus),
            ("ibv_devinfo -v", rdmatools.devinfo),
            ("ibv_devinfo", rdmatools.devinfo),
            ("rdma -j link", rdmatools.rdma_link),
            ("rdma link", rdmatools.rdma_link),
        )
        for source, parse in sources:
            # A tool that gave up half-way has still told of the devices before.
            for name, device in parse(self.captured(source).text).items():
                found[name] = _filled(found[name], device) if name in found else device
        return {name: device for name, device in found.items() if device.ports}

    @cached_property
    def rdma_sources(self) -> list[str]:
        """Why nothing is known of RDMA devices, one line a source; empty where something is."""
        if self.rdma:
            return []
        return [self.why(source) for source in ("ibstat", "ibv_devinfo -v", "rdma -j link")]

    def _of_sys(self, name: str, files: dict[str, str]) -> rdmatools.Device:
        ports: dict[int, rdmatools.Port] = {}
        for path in files:
            match = _PORT.match(path)
            if match and int(match[1]) not in ports:
                ports[int(match[1])] = _port_of_sys(int(match[1]), files)

        def value(key: str) -> str:
            return files.get(key, "").strip()

        folder = self.real_paths.get(f"{_IB}{name}/device", "")
        address = folder.rpartition("/")[2]
        device = rdmatools.Device(
            name,
            model=value("board_id") or value("hca_type"),
            kind=value("hca_type"),
            firmware=value("fw_ver"),
            node_guid=rdmatools.guid(value("node_guid")),
            image_guid=rdmatools.guid(value("sys_image_guid")),
            pci=address if address.count(":") == 2 else "",
            ports=ports,
        )
        if device.pci:
            netdev = next((net for net, at in self.pci_of_net.items() if at == device.pci), "")
            device.ports.update(
                {
                    n: replace(port, netdev=netdev)
                    for n, port in ports.items()
                    if not port.netdev and len(ports) == 1
                }
            )
        return device

    @cached_property
    def pci_of_net(self) -> dict[str, str]:
        """Interface -> PCI address."""
        found = {}
        for path, to in self.real_paths.items():
            if path.startswith(_NET) and path.endswith("/device"):
                address = to.rpartition("/")[2]
                if address.count(":") == 2:
                    found[path[len(_NET) : -len("/device")]] = address
        return found

    @cached_property
    def gids(self) -> list[gidtables.Gid]:
        """GIDs of all ports: /sys, else `show_gids`, else `ibv_devinfo -v`."""
        found = []
        for name, files in self.rdma_files.items():
            for path, text in files.items():
                match = _GID.fullmatch(path)
                if match and (address := gidtables.address(text)) not in {"", "::"}:
                    attributes = f"ports/{match[1]}/gid_attrs"
                    kind = gidtables.version(files.get(f"{attributes}/types/{match[2]}", ""))
                    netdev = files.get(f"{attributes}/ndevs/{match[2]}", "").strip()
                    found.append(gidtables.Gid(name, int(match[1]), int(match[2]), address, kind, netdev))
        if not found:
            found = gidtables.show_gids(self.text("show_gids") or "")
        return found or gidtables.devinfo_gids(self.text("ibv_devinfo -v") or "")

    @cached_property
    def smi(self) -> tuple[int | None, list[nvidia.Gpu]]:
        """`nvidia-smi -q`, also the part before it was cut."""
        return nvidia.query(self.captured("nvidia-smi -q").text)

    @cached_property
    def seconds(self) -> float | None:
        """Time of the capture, seconds since 1970; None where not captured."""
        return real(self.text("date +%s") or "")

    @cached_property
    def uptime(self) -> float | None:
        """Seconds since the machine started."""
        return real(self.text("/proc/uptime") or "")


def _port_of_sys(number: int, files: dict[str, str]) -> rdmatools.Port:
    def value(key: str) -> str:
        return files.get(f"ports/{number}/{key}", "").strip()

    netdevs = {
        text.strip() for path, text in files.items() if path.startswith(f"ports/{number}/gid_attrs/ndevs/")
    } - {""}
    return rdmatools.Port(
        number,
        state=rdmatools.state_word(value("state")),
        physical=rdmatools.physical_word(value("phys_state")),
        rate_gbps=rate_gbps(value("rate")),
        rate_text=value("rate"),
        layer=value("link_layer"),
        netdev=min(netdevs) if netdevs else "",
        lid=whole(value("lid")),
        sm_lid=whole(value("sm_lid")),
    )


def _filled(device: rdmatools.Device, other: rdmatools.Device) -> rdmatools.Device:
    """A device whose gaps another source fills."""
    ports = dict(device.ports)
    for number, port in other.ports.items():
        mine = ports.get(number)
        ports[number] = port if mine is None else _joined(mine, port)
    empty = {name: getattr(other, name) for name in _DEVICE_FIELDS if not getattr(device, name)}
    return replace(device, ports=ports, **empty)


def _joined(port: rdmatools.Port, other: rdmatools.Port) -> rdmatools.Port:
    gaps = {name: getattr(other, name) for name in _PORT_FIELDS if getattr(port, name) in {"", 0.0, None}}
    return replace(port, **gaps)


_DEVICE_FIELDS = ("model", "kind", "firmware", "node_guid", "image_guid", "pci")
_PORT_FIELDS = (
    "state",
    "physical",
    "rate_gbps",
    "rate_text",
    "layer",
    "netdev",
    "lid",
    "sm_lid",
    "active_mtu",
    "max_mtu",
)

"""Captures made for the checks: a sound host by its sources, and changes to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from topology.capture import Captured, CaptureState, HostCapture

DMESG = "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info"
QOS = """DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
	prio:0 dscp:07,06,05,04,03,02,01,00,
	prio:1 dscp:15,14,13,12,11,10,09,08,
	prio:2 dscp:23,22,21,20,19,18,17,16,
	prio:3 dscp:31,30,29,28,27,26,25,24,
	prio:4 dscp:39,38,37,36,35,34,33,32,
	prio:5 dscp:47,46,45,44,43,42,41,40,
	prio:6 dscp:55,54,53,52,51,50,49,48,
	prio:7 dscp:63,62,61,60,59,58,57,56,
Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016
Cable len: 7
PFC configuration:
	priority    0   1   2   3   4   5   6   7
	enabled     0   0   0   1   0   0   0   0
	buffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor
	priority:  0
tc: 6 ratelimit: unlimited, tsa: strict
	priority:  6
"""
MLXLINK = """
Operational Info
----------------
State                              : Active
Physical state                     : LinkUp
Physical Counters and BER Info
------------------------------
Time Since Last Clear [Min]        : 100.0
Effective Physical BER             : 15E-255
Raw Physical BER                   : 1E-9
Module Info
-----------
Temperature [C]                    : 54 [-5..75]
Rx Power Current [dBm]             : 1.886,1.989,2.281,1.976 [-10.41..6]
"""
SMI = """
==============NVSMI LOG==============

Attached GPUs                             : {count}
{gpus}"""
SMI_GPU = """GPU 00000000:{bus}:00.0
    Product Name                          : NVIDIA H100
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
    Remapped Rows
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
        ClusterUUID                       : 00000000-0000-0000-0000-000000000000
"""
PAUSE = "Pause parameters for {}:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n"
LIMITS = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         unlimited            unlimited            bytes\n"
BUSES = ("1a", "3c", "4d", "5e")
GPU_BUSES = ("19", "3b", "4c", "5d")


def sound_files(number: int, *, layer: str = "Ethernet") -> dict[str, str]:
    """Files of a host with four GPUs and four NICs, each pair below a PCIe switch of its own."""
    files = {
        "/proc/modules": "nvidia_peermem 16384 0 - Live 0x0\nmlx5_core 1 0 - Live 0x0\n",
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz iommu=pt intel_iommu=on\n",
        "/proc/self/limits": LIMITS,
        "/proc/uptime": "1000.00 1.0\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    }
    for rail, (nic, gpu) in enumerate(zip(BUSES, GPU_BUSES, strict=True)):
        device, net = f"/sys/class/infiniband/mlx5_{rail}", f"/sys/class/net/eth{rail}"
        port = f"{device}/ports/1"
        files |= {
            f"{device}/board_id": "MT_0000000838\n",
            f"{device}/hca_type": "MT4129\n",
            f"{device}/fw_ver": "28.41.1000\n",
            f"{device}/node_guid": f"a088:c203:00ad:{number:02x}{rail:02x}\n",
            f"{port}/state": "4: ACTIVE\n",
            f"{port}/phys_state": "5: LinkUp\n",
            f"{port}/rate": "400 Gb/sec (4X NDR)\n",
            f"{port}/link_layer": f"{layer}\n",
            f"{port}/lid": "0x0\n" if layer == "Ethernet" else f"0x{number + 1:x}\n",
            f"{port}/sm_lid": "0x0\n" if layer == "Ethernet" else "0x1\n",
            f"{port}/pkeys/0": "0xffff\n",
            f"{port}/gids/3": f"0000:0000:0000:0000:0000:ffff:0a{rail:02x}:{number:04x}\n",
            f"{port}/gid_attrs/types/3": "RoCE v2\n",
            f"{port}/gid_attrs/ndevs/3": f"eth{rail}\n",
            f"{device}/tc/1/traffic_class": "Global tclass=106\n",
            f"{net}/mtu": "9000\n",
            f"{net}/operstate": "up\n",
            f"{net}/speed": "400000\n",
        }
        files |= {
            f"{port}/counters/{name}": "0\n" for name in ("link_downed", "symbol_error", "port_rcv_errors")
        }
        files |= {f"{port}/hw_counters/{name}": "5\n" for name in ("out_of_sequence", "packet_seq_err")}
        for side in ("roce_np", "roce_rp"):
            files |= {f"{net}/ecn/{side}/enable/{prio}": "1\n" for prio in range(8)}
        for address, kind, vendor in (
            (f"0000:{nic}:00.0", "0x020000", "0x15b3"),
            (f"0000:{gpu}:00.0", "0x030200", "0x10de"),
            *((f"0000:{bus}:0{slot}.0", "0x060400", "0x1000") for bus, slot in pci_bridges(rail)),
        ):
            pci = f"/sys/bus/pci/devices/{address}"
            files |= {
                f"{pci}/class": f"{kind}\n",
                f"{pci}/vendor": f"{vendor}\n",
                f"{pci}/max_link_speed": "32.0 GT/s PCIe\n",
                f"{pci}/current_link_speed": "32.0 GT/s PCIe\n",
                f"{pci}/max_link_width": "16\n",
                f"{pci}/current_link_width": "16\n",
                f"{pci}/numa_node": f"{rail // 2}\n",
                f"{pci}/aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0\n",
                f"{pci}/aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 3\n",
            }
    return files


def pci_bridges(rail: int) -> list[tuple[str, int]]:
    """(bus, slot) of the root port, the switch's upstream port, and its two downstream ports."""
    return [(f"1{rail}", 1), (f"2{rail}", 0), (f"3{rail}", 1), (f"3{rail}", 2)]


def sound_commands(number: int, names: Mapping[int, str] | None = None) -> dict[str, str]:
    """Output of the tools of the same host."""
    gpus = "".join(SMI_GPU.format(bus=bus) for bus in GPU_BUSES)
    listed = "".join(f"GPU {i}: NVIDIA H100 (UUID: GPU-{number}-{i})\n" for i in range(4))
    links = "".join(
        f"GPU {i}: NVIDIA H100 (UUID: GPU-{number}-{i})\n"
        + "".join(f"\t Link {k}: 26.562 GB/s\n" for k in range(18))
        for i in range(4)
    )
    neighbours = ",".join(
        f'{{"name":"eth{rail}","via":"LLDP","chassis":[{{"name":[{{"value":"{(names or {}).get(rail, f"leaf{rail}")}"}}]}}],'
        f'"port":[{{"id":[{{"type":"ifname","value":"Ethernet{number}"}}]}}]}}'
        for rail in range(4)
    )
    commands = {
        "nvidia-smi -L": listed,
        "nvidia-smi -q": SMI.format(count=4, gpus=gpus),
        "nvidia-smi nvlink -s": links,
        DMESG: "2026-01-01T00:00:00,000000+00:00 mlx5_core 0000:1a:00.0: firmware version: 28.41.1000\n",
        "date +%s": "1767312000\n",
        "df -Pk /dev/shm": "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 67108864 0 67108864 0% /dev/shm\n",
        "lldpcli -f json0 show neighbors details": f'{{"lldp":[{{"interface":[{neighbours}]}}]}}',
    }
    for rail in range(4):
        commands |= {
            f"mlnx_qos -i eth{rail}": QOS,
            f"ethtool -a eth{rail}": PAUSE.format(f"eth{rail}"),
            f"ethtool -S eth{rail}": "NIC statistics:\n     rx_discards_phy: 0\n     rx_prio3_pause: 0\n",
            f"mlxlink -d mlx5_{rail} -m -c": MLXLINK,
            f"readlink -f /sys/class/infiniband/mlx5_{rail}/device": f"{path(rail, 1)}/0000:{BUSES[rail]}:00.0\n",
            f"readlink -f /sys/class/net/eth{rail}/device": f"{path(rail, 1)}/0000:{BUSES[rail]}:00.0\n",
        }
        ends = {f"0000:{BUSES[rail]}:00.0": path(rail, 1), f"0000:{GPU_BUSES[rail]}:00.0": path(rail, 2)}
        ends |= {f"0000:3{rail}:0{slot}.0": path(rail, slot).rpartition("/")[0] for slot in (1, 2)}
        ends |= {f"0000:2{rail}:00.0": f"/sys/devices/pci0000:1{rail}/0000:1{rail}:01.0"}
        commands |= {
            f"readlink -f /sys/bus/pci/devices/{end}": f"{above}/{end}\n" for end, above in ends.items()
        }
    return commands


def path(rail: int, slot: int) -> str:
    """Folder of a downstream port: root port, upstream port, downstream port."""
    return f"/sys/devices/pci0000:1{rail}/0000:1{rail}:01.0/0000:2{rail}:00.0/0000:3{rail}:0{slot}.0"


def make(host: str, files: Mapping[str, str], commands: Mapping[str, str], role: str = "host") -> HostCapture:
    """Make a capture of texts that were read whole."""
    return HostCapture(
        host,
        role,
        {name: Captured(CaptureState.OK, text) for name, text in files.items()},
        {name: Captured(CaptureState.OK, text) for name, text in commands.items()},
    )


@pytest.fixture
def sound() -> Callable[..., HostCapture]:
    """Make a sound host by number, with files and commands changed; None takes a source away."""

    def build(number: int = 0, *, layer: str = "Ethernet", **changes: Mapping[str, Any]) -> HostCapture:
        files: dict[str, Any] = sound_files(number, layer=layer) | dict(changes.get("files", {}))
        commands: dict[str, Any] = sound_commands(number) | dict(changes.get("commands", {}))
        return make(
            f"h{number}",
            {name: text for name, text in files.items() if text is not None},
            {name: text for name, text in commands.items() if text is not None},
        )

    return build


@pytest.fixture
def capture_of() -> Callable[..., HostCapture]:
    """Make a capture with nothing but the given texts."""

    def build(
        files: Mapping[str, str] | None = None, commands: Mapping[str, str] | None = None, host: str = "h0"
    ) -> HostCapture:
        return make(host, files or {}, commands or {})

    return build


@pytest.fixture
def with_state() -> Callable[..., HostCapture]:
    """Change the state of one source of a capture."""

    def build(
        capture: HostCapture, source: str, state: CaptureState, text: str = "", note: str = ""
    ) -> HostCapture:
        table = "files" if source in capture.files or source.startswith("/") else "commands"
        entries = {**getattr(capture, table), source: Captured(state, text, note)}
        return replace(capture, files=entries) if table == "files" else replace(capture, commands=entries)

    return build


@pytest.fixture
def sound_layer() -> Callable[..., dict[str, str]]:
    """Return the files of a sound host."""
    return sound_files

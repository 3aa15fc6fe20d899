"""Each fault of the catalogue, made in an otherwise sound fleet: the right check names the right element."""

from __future__ import annotations

import pytest

from nettune.checks import Status
from nettune.qualify.checks import Context, judge
from nettune.qualify.checks.frame import Fleet
from topology.capture import CaptureState

DMESG = "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info"
IB, NET, PCI = "/sys/class/infiniband", "/sys/class/net", "/sys/bus/pci/devices"
XID = "2026-01-01T00:00:01,000000+00:00 NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=python3\n"
DOWN = "2026-01-01T0{}:00:00,000000+00:00 mlx5_core 0000:1a:00.0 eth0: Link down\n"
LIMITED = (
    "2026-01-01T00:00:00,1+00:00 mlx5_core 0000:4d:00.0: 126.028 Gb/s available PCIe bandwidth, limited by 16.0 GT/s "
    "PCIe x8 link at 0000:32:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\n"
)
SMI_Q, LINKS = "nvidia-smi -q", "nvidia-smi nvlink -s"


def loud(findings):
    """Check, status and element of what is neither PASS nor UNKNOWN."""
    return {
        (f.check, str(f.status), str(f.where)) for f in findings if f.status in {Status.FAIL, Status.WARN}
    }


def fleet(sound, size=4, **changes):
    """Make `size` sound hosts of which h1 is changed."""
    return [sound(number, **(changes if number == 1 else {})) for number in range(size)]


def test_a_sound_fleet_has_no_finding_but_passes(sound):
    """Nothing is claimed of sound hosts, and every host is passed by the core checks."""
    captures = fleet(sound)
    findings = judge(captures, Context(before={capture.host: capture for capture in captures}))

    assert loud(findings) == set()
    assert not [f for f in findings if f.status is Status.UNKNOWN and f.required]
    passed = {(f.check, str(f.where)) for f in findings if f.status is Status.PASS}
    for check in (
        "port-state",
        "port-rate",
        "nic-missing",
        "pcie-link",
        "gpu-missing",
        "nvlink",
        "mtu",
        "gid",
    ):
        assert {(check, f"host/h{number}") for number in range(4)} <= passed


NIC2 = "host/h1/nic/mlx5_2"
FILES = {
    "16 polling": ({f"{IB}/mlx5_2/ports/1/state": "1: DOWN\n", f"{IB}/mlx5_2/ports/1/phys_state": "2: Polling\n"},
                   "port-state", "FAIL", NIC2),
    "16 slow": ({f"{IB}/mlx5_2/ports/1/rate": "200 Gb/sec (4X HDR)\n"}, "port-rate", "FAIL", NIC2),
    "25 missing": (dict.fromkeys(f"{IB}/mlx5_3/ports/1/{name}" for name in ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "pkeys/0", "gids/3", "gid_attrs/types/3", "gid_attrs/ndevs/3", "counters/link_downed", "counters/symbol_error", "counters/port_rcv_errors", "hw_counters/out_of_sequence", "hw_counters/packet_seq_err")), "nic-missing", "FAIL", "host/h1"),
    "1 mtu": ({f"{NET}/eth2/mtu": "1500\n"}, "mtu", "FAIL", NIC2),
    "2 gid": ({f"{IB}/mlx5_2/ports/1/gid_attrs/types/3": "IB/RoCE v1\n"}, "gid", "FAIL", NIC2),
    "4 ecn": ({f"{NET}/eth2/ecn/roce_rp/enable/3": "0\n"}, "roce-ecn", "FAIL", NIC2),
    "5 tclass": ({f"{IB}/mlx5_2/tc/1/traffic_class": "Global tclass=236\n"}, "roce-pfc", "FAIL", NIC2),
    "7 width": ({f"{PCI}/0000:4d:00.0/current_link_width": "8\n"}, "pcie-link", "FAIL", NIC2),
    "7 nic speed": ({f"{PCI}/0000:4d:00.0/current_link_speed": "16.0 GT/s PCIe\n"}, "pcie-link", "FAIL", NIC2),
    "7 uplink": ({f"{PCI}/0000:22:00.0/current_link_width": "8\n"}, "pcie-link", "FAIL", "host/h1/gpu/2"),
    "7 gpu width": ({f"{PCI}/0000:4c:00.0/current_link_width": "4\n"}, "pcie-link", "FAIL", "host/h1/gpu/2"),
    "12 iommu": ({"/sys/kernel/iommu_groups/7/type": "DMA-FQ\n"}, "iommu", "WARN", "host/h1"),
    "14 gpudirect": ({"/proc/modules": "mlx5_core 1 0 - Live 0x0\n"}, "gpudirect", "FAIL", "host/h1"),
    "15 firmware": ({f"{IB}/mlx5_2/fw_ver": "28.39.1002\n"}, "versions", "WARN", NIC2),
    "35 guid": ({f"{IB}/mlx5_2/node_guid": "a088:c203:00ad:0000\n"}, "duplicates", "FAIL", NIC2),
    "35 address": ({f"{IB}/mlx5_2/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a02:0000\n"},
                   "duplicates", "FAIL", NIC2),
    "35 bond": ({"/proc/net/bonding/bond0": "MII Status: up\nSlave Interface: eth0\nMII Status: up\n"
                 "Slave Interface: eth1\nMII Status: down\n"}, "bonds", "FAIL", "host/h1/nic/bond0"),
    "37 memlock": ({"/proc/self/limits": "Max locked memory         65536      65536     bytes\n"},
                   "host-limits", "WARN", "host/h1"),
    "40 governor": ({"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n"},
                    "cpu-governor", "WARN", "host/h1"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "check", "status", "where"), FILES.values(), ids=FILES)
def test_a_changed_file_is_found(sound, files, check, status, where):
    """One wrong file on one of four hosts is found, at the element that it is of."""
    found = loud(judge(fleet(sound, files=files)))

    assert (check, status, where) in found


COMMANDS = {
    "3 pfc elsewhere": ({"mlnx_qos -i eth2": ("1   0   0   0   0", "0   1   0   0   0")}, "roce-pfc", "FAIL", NIC2),
    "3 pfc off": ({"mlnx_qos -i eth2": ("0   0   0   1   0   0   0   0\n\tbuffer", "0 0 0 0 0 0 0 0\n\tbuffer")},
                  "roce-agreement", "FAIL", NIC2),
    "5 trust": ({"mlnx_qos -i eth2": ("state: dscp", "state: pcp")}, "roce-trust", "FAIL", NIC2),
    "6 pause": ({"ethtool -a eth2": ("RX:\t\toff", "RX:\t\ton")}, "roce-pause", "FAIL", NIC2),
    "18 ber": ({"mlxlink -d mlx5_2 -m -c": ("15E-255", "3E-10")}, "bit-errors", "FAIL", NIC2),
    "18 raw ber": ({"mlxlink -d mlx5_2 -m -c": ("1E-9", "1E-3")}, "bit-errors", "WARN", NIC2),
    "33 dark": ({"mlxlink -d mlx5_2 -m -c": ("1.989", "-12.1")}, "optics", "FAIL", NIC2),
    "33 dim": ({"mlxlink -d mlx5_2 -m -c": ("1.989", "-10.0")}, "optics", "WARN", NIC2),
    "33 hot": ({"mlxlink -d mlx5_2 -m -c": (": 54", ": 76")}, "optics", "FAIL", NIC2),
    "23 miscabled": ({"lldpcli -f json0 show neighbors details": ("leaf2", "leaf3")}, "cabling", "FAIL",
                     "host/h1/nic/eth2"),
    "26 missing": ({"nvidia-smi -L": ("GPU 3: NVIDIA H100 (UUID: GPU-1-3)\n", "")}, "gpu-missing", "FAIL", "host/h1"),
    "27 inactive": ({LINKS: ("26.562 GB/s", "<inactive>", 1)}, "nvlink", "FAIL", "host/h1/gpu/0"),
    "28 fabric": ({SMI_Q: ("Completed", "In Progress", 1)}, "gpu-fabric", "FAIL", "host/h1/gpu/0"),
    "29 xid": ({DMESG: ("", XID.format(79), 1)}, "xid", "FAIL", "host/h1/gpu/1"),
    "29 noted": ({DMESG: ("", XID.format(63), 1)}, "xid", "WARN", "host/h1/gpu/1"),
    "30 pending": ({SMI_Q: ("Pending                           : No", "Pending : Yes", 1)}, "gpu-memory", "FAIL",
                   "host/h1/gpu/0"),
    "30 uncorrectable": ({SMI_Q: ("SRAM Uncorrectable            : 0", "SRAM Uncorrectable : 2", 1)}, "gpu-memory",
                         "FAIL", "host/h1/gpu/0"),
    "31 slowed": ({SMI_Q: ("HW Slowdown                       : Not Active", "HW Slowdown : Active", 1)},
                  "gpu-clocks", "WARN", "host/h1/gpu/0"),
    "8 limited": ({DMESG: ("", LIMITED, 1)}, "pcie-remark", "WARN", NIC2),
    "36 slot power": ({DMESG: ("", "mlx5_core 0000:4d:00.0: Detected insufficient power on the PCIe slot (27W).\n", 1)},
                      "kernel-log", "WARN", "host/h1"),
    "17 flaps": ({DMESG: ("", "".join(DOWN.format(hour) for hour in range(5)), 1), "date +%s": ("1767312000", "1767240000")},
                 "link-flaps", "FAIL", "host/h1/nic/mlx5_0"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "check", "status", "where"), COMMANDS.values(), ids=COMMANDS)
def test_a_changed_output_is_found(sound, changes, check, status, where):
    """One wrong output on one of four hosts is found, at the element that it is of."""
    commands = {}
    for command, (old, new, *count) in changes.items():
        text = sound(1).commands[command].text
        assert old in text
        commands[command] = text.replace(old, new, *count)

    assert (check, status, where) in loud(judge(fleet(sound, commands=commands)))


GROWN = {
    "17": (f"{IB}/mlx5_2/ports/1/counters/link_downed", "0\n", "1\n", "link-downs", "FAIL"),
    "18 fast": (f"{IB}/mlx5_2/ports/1/counters/symbol_error", "0\n", "40\n", "signal-errors", "FAIL"),
    "18 slow": (f"{IB}/mlx5_2/ports/1/counters/symbol_error", "0\n", "20\n", "signal-errors", "WARN"),
    "19": (f"{IB}/mlx5_2/ports/1/counters/port_rcv_errors", "0\n", "20000\n", "signal-errors", "FAIL"),
    "20": (f"{IB}/mlx5_2/ports/1/hw_counters/packet_seq_err", "5\n", "5000\n", "loss", "FAIL"),
    "9": (
        f"{PCI}/0000:4d:00.0/aer_dev_fatal",
        "TOTAL_ERR_FATAL 0\n",
        "TOTAL_ERR_FATAL 1\n",
        "pcie-errors",
        "FAIL",
    ),
}


@pytest.mark.parametrize(("path", "past", "now", "check", "status"), GROWN.values(), ids=GROWN)
def test_a_counter_that_grew_is_found(sound, path, past, now, check, status):
    """Counters are judged by their growth over the 1000 s between two captures."""
    before = sound(1, files={path: past, "/proc/uptime": "1000.0 1.0\n"})
    after = sound(1, files={path: now, "/proc/uptime": "2000.0 1.0\n"})

    assert (check, status, NIC2) in loud(judge([after], Context(before={"h1": before})))


def test_discards_and_unmarked_pauses_are_found_by_growth(sound):
    """Drops on a lossless class fail (22); pauses without a single ECN mark warn (4, 21)."""
    port = f"{IB}/mlx5_2/ports/1/hw_counters/np_ecn_marked_roce_packets"
    text = "NIC statistics:\n     rx_discards_phy: {}\n     rx_prio3_pause: {}\n"
    before = sound(1, files={port: "7\n"}, commands={"ethtool -S eth2": text.format(0, 0)})
    after = sound(1, files={port: "7\n"}, commands={"ethtool -S eth2": text.format(101, 4)})
    found = loud(judge([after], Context(before={"h1": before})))

    assert found == {("discards", "FAIL", NIC2), ("congestion", "WARN", NIC2)}


def test_infiniband_ports_without_manager_or_in_another_partition_are_found(sound):
    """SM LID 0 on an active InfiniBand port and a partition key unlike the others fail (24)."""
    no_manager = {f"{IB}/mlx5_0/ports/1/sm_lid": "0x0\n", f"{IB}/mlx5_1/ports/1/pkeys/0": "0x8001\n"}
    captures = [sound(n, layer="InfiniBand", files=no_manager if n == 1 else {}) for n in range(4)]
    found = {finding for finding in loud(judge(captures)) if finding[0] == "ib-subnet"}

    assert found == {("ib-subnet", "FAIL", "host/h1/nic/mlx5_0"), ("ib-subnet", "FAIL", "host/h1/nic/mlx5_1")}


def test_acs_on_the_path_to_a_gpu_is_found_and_elsewhere_is_not(capture_of):
    """Redirecting bits count on bridges above GPUs and NICs only (11); small read requests of NICs warn (10)."""
    text = (
        "0000:10:01.0 PCI bridge: Intel Corporation Device 352a\n\tBus: primary=10, secondary=11, subordinate=11\n"
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{} CmpltRedir- UpstreamFwd-\n"
        "0000:11:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        "\t\t\tMaxPayload 256 bytes, MaxReadReq {} bytes\n"
        "0000:20:01.0 PCI bridge: Intel Corporation Device 352a\n\tBus: primary=20, secondary=21, subordinate=21\n"
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+\n"
    )
    bad = judge([capture_of(commands={"lspci -Dvvv": text.format("+", 512)})])
    good = judge([capture_of(commands={"lspci -Dvvv": text.format("-", 4096)})])

    assert loud(bad) == {
        ("acs", "WARN", "host/h0"),
        ("pcie-read-request", "WARN", "host/h0/nic/0000:11:00.0"),
    }
    assert loud(good) == set()


def test_a_gpu_away_from_its_nic_is_found_unless_all_are(sound):
    """A GPU alone without a NIC below its switch warns (13); where none has one, that is how the host is built."""
    far = {
        f"readlink -f {PCI}/0000:4c:00.0": "/sys/devices/pci0000:70/0000:70:01.0/0000:4c:00.0\n",
    }
    everywhere = {
        f"readlink -f {PCI}/0000:{bus}:00.0": f"/sys/devices/pci0000:70/0000:7{n}:01.0/0000:{bus}:00.0\n"
        for n, bus in enumerate(("19", "3b", "4c", "5d"))
    }

    assert ("numa", "WARN", "host/h1/gpu/2") in loud(judge([sound(1, commands=far)]))
    assert not [f for f in loud(judge([sound(1, commands=everywhere)])) if f[0] == "numa"]


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_2,mlx5_3"}, set()),
        ({"NCCL_IB_HCA": "mlx5"}, set()),
        ({"NCCL_IB_HCA": "mlx5_0,mlx5_9"}, {"FAIL", "WARN"}),
        ({"NCCL_IB_HCA": "^mlx5_3"}, {"WARN"}),
        ({"NCCL_SOCKET_IFNAME": "eth"}, set()),
        ({"NCCL_SOCKET_IFNAME": "=eth"}, {"FAIL"}),
        ({"NCCL_IB_DISABLE": "1"}, {"FAIL"}),
    ],
)
def test_job_variables_are_held_against_the_host(sound, env, found):
    """NCCL_IB_HCA and NCCL_SOCKET_IFNAME are read by NCCL's rules and compared with what is there (38)."""
    findings = judge([sound(1)], Context(job_env=env))

    assert {str(f.status) for f in findings if f.check == "job-env"} - {"PASS"} == found


def test_a_gid_index_that_differs_between_ports_is_found(sound):
    """An index that is fixed in the environment must be a routable v2 GID on every port."""
    moved = {f"{IB}/mlx5_2/ports/1/gids/3": None, f"{IB}/mlx5_2/ports/1/gids/5": "::ffff:10.9.0.1\n",
             f"{IB}/mlx5_2/ports/1/gid_attrs/types/5": "RoCE v2\n"}  # fmt: skip
    capture = sound(1, files=moved)

    assert ("gid", "FAIL", NIC2) in loud(judge([capture], Context(job_env={"NCCL_IB_GID_INDEX": "3"})))
    assert not [f for f in loud(judge([capture])) if f[0] == "gid"]


NEEDS = {
    "nvidia-smi -q": "gpu-memory",
    LINKS: "nvlink",
    DMESG: "xid",
    "mlnx_qos -i eth0": "roce-trust",
    "ethtool -a eth0": "roce-pause",
    "mlxlink -d mlx5_0 -m -c": "bit-errors",
    "/proc/self/limits": "host-limits",
}


@pytest.mark.parametrize("state", list(CaptureState))
@pytest.mark.parametrize(("source", "check"), NEEDS.items(), ids=NEEDS)
def test_a_source_that_cannot_be_read_is_never_a_pass(sound, with_state, source, check, state):
    """No permission, an error, no tool, or nothing printed: the check that needs it is UNKNOWN for this host."""
    captures = [with_state(sound(0), source, state), sound(1)]
    found = {str(f.status) for f in judge(captures) if f.check == check and f.where.node == "h0"}

    assert found == {"UNKNOWN"}


def test_every_warning_and_failure_says_its_basis_effect_and_cure(sound):
    """What is found carries where the expectation came from, what it does to a job, and what to do."""
    for files, *_ in FILES.values():
        for finding in judge(fleet(sound, files=files)):
            if finding.status in {Status.WARN, Status.FAIL}:
                assert finding.evidence["basis"]
                assert finding.evidence["effect"]
                assert finding.fix


def test_a_host_without_any_device_among_hosts_with_some_is_no_pass(sound, capture_of):
    """All drivers gone, or the collector saw nothing: no rule of its devices would speak of it."""
    bare = capture_of({"/proc/uptime": "1 1\n"}, host="bare")
    found = [f for f in judge([sound(0), sound(1), sound(2), bare]) if f.where.node == "bare"]

    assert [(f.check, str(f.status), f.required) for f in found] == [("nic-missing", "UNKNOWN", True)]


def test_no_earlier_capture_is_said_once(sound):
    """Of all hosts where none was given, else of the host that has none."""
    hosts = [sound(0), sound(1)]

    def said(context):
        return [str(f.where) for f in judge(hosts, context) if f.what.startswith("no earlier capture")]

    assert said(Context()) == ["fabric"]
    assert said(Context(before={"h0": hosts[0]})) == ["host/h1"]
    assert said(Context(before={"h0": hosts[0], "h1": hosts[1]})) == []


@pytest.mark.parametrize("kind", ["unused port", "plain"])
def test_votes_are_counted_once_for_a_fleet(kind, sound, capture_of, monkeypatch):
    """Not once for each host that asks: the work would grow with the square of the hosts."""

    def host(number):
        if kind == "plain":
            files = {"operstate": "down\n" if number % 4 else "up\n", "speed": "100000\n"}
            return capture_of({f"/sys/class/net/eth0/{k}": v for k, v in files.items()}, host=f"h{number}")
        return sound(number, files={f"{IB}/mlx5_3/ports/1/state": "1: DOWN\n"})

    counted = []
    original = Fleet.majority

    def majority(self, votes):
        counted.append(len(votes))
        return original(self, votes)

    monkeypatch.setattr(Fleet, "majority", majority)
    votes = []
    for count in (8, 16):
        counted.clear()
        judge([host(number) for number in range(count)])
        votes.append(sum(counted))

    assert votes[1] <= 2.2 * votes[0]

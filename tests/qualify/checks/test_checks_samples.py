"""Recorded samples: the verdict on each, derived by hand from its text, beside the verdict of the checks."""

from __future__ import annotations

import json

import pytest

from nettune.checks import Status
from nettune.qualify.checks import Context, judge

DMESG = "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info"
LSPCI = "lspci -Dvvv"

# (file, command that prints it): {(check, status, element)} of all WARN and FAIL; nothing else may be claimed.
TABLE = {
    # 8 InfiniBand ports Active at 200, one Ethernet port beside them
    ("ibstat/gpud_a100_all_active.txt", "ibstat"): set(),
    # eight good ports, then `ibpanic: ... stat of IB device 'mlx5_8' failed`
    ("ibstat/gpud_a100_ibpanic_truncated.txt", "ibstat"): {("nic-missing", "FAIL", "host/h0")},
    # 8 ConnectX-7 at 400 and 4 management ports at 100, all Active
    ("ibstat/gpud_h100_all_active_1.txt", "ibstat"): set(),
    # two of the eight ConnectX-7: mlx5_11 Polling, mlx5_5 Disabled; their "Rate: 40" means nothing
    ("ibstat/gpud_h100_some_down_polling.txt", "ibstat"): {
        ("port-state", "FAIL", "host/h0/nic/mlx5_11"),
        ("port-state", "FAIL", "host/h0/nic/mlx5_5"),
    },
    # Down and Polling, but with the LID 868 that it had while it was up
    ("ibstat/polling_rate10_gpud_pr482.txt", "ibstat"): {("port-state", "FAIL", "host/h0/nic/mlx5_10")},
    # a list of hosts and GUIDs: nothing of ibstat in it
    ("ibstat/superbench_sys_image_guid_list.txt", "ibstat"): set(),
    ("ibstatus/gpud_a100_all_active.txt", "ibstatus"): set(),
    ("ibv_devinfo/azure_vf_ib.txt", "ibv_devinfo -v"): set(),
    # 28.42 beside 16.35: two models, no mix; mlx5_3 has no port in the excerpt
    ("ibv_devinfo/h100_roce_mixed_fw.txt", "ibv_devinfo -v"): set(),
    ("ibv_devinfo/gid_table_v1_v2_fragment.txt", "ibv_devinfo -v"): set(),
    # one of two ports down: an unused second port or a lost rail, nothing decides
    ("rdma_link/active_down_mixed_ainic.txt", "rdma link"): {("port-state", "WARN", "host/h0/nic/rdma1")},
    # in a pod seven of eight links show no netdev: no fault
    ("rdma_link/dranet_gke_2.txt", "rdma link"): set(),
    ("rdma_link/dranet_gke_8nic_no_netdev.txt", "rdma link"): set(),
    ("rdma_link/mlx5_single.txt", "rdma link"): set(),
    # downgraded bridges lead to management and storage; all paths to GPUs and NICs run at what their ends can do
    ("lspci/lspci-vvv_full_host.txt", LSPCI): set(),
    ("lspci/lspci.nn.a10.txt", LSPCI): set(),
    ("lspci/lspci.nn.a100.txt", LSPCI): set(),
    # the second card at x2, `(downgraded)`
    ("lspci/lnksta_cx7_gb10_x2_downgraded.txt", LSPCI): {("pcie-link", "FAIL", "host/h0/nic/0002:01:00.0")},
    # everything is N/A on a TITAN V, generation 1 of 3 because it idles at P8
    ("nvidia-smi-q/gpud_560.txt", "nvidia-smi -q"): set(),
    # Remapped Rows, Pending: Yes
    ("nvidia-smi-q/gpud_a10.txt", "nvidia-smi -q"): {("gpu-memory", "FAIL", "host/h0/gpu/0")},
    ("nvidia-smi-nvlink/a100.txt", "nvidia-smi nvlink -s"): set(),
    ("nvidia-smi-nvlink/a10.txt", "nvidia-smi nvlink -s"): set(),
    # Xid 13 and 43 only: programs' own errors
    ("dmesg/gpud_decode_iso_0.txt", DMESG): set(),
    ("dmesg/kmsg_peermem_head.txt", DMESG): {("kernel-log", "WARN", "host/h0")},
    ("dmesg/nccl_segfault.txt", DMESG): set(),
    # 31.504 of 63.012 Gbit/s
    ("dmesg/pcie_bandwidth_limited.txt", DMESG): {("pcie-remark", "WARN", "host/h0")},
}


def claims(findings):
    """Return what is neither PASS nor UNKNOWN."""
    return {
        (f.check, str(f.status), str(f.where)) for f in findings if f.status in {Status.WARN, Status.FAIL}
    }


@pytest.mark.parametrize(("name", "command"), TABLE, ids=[name for name, _ in TABLE])
def test_a_recorded_output_has_the_verdict_that_was_derived_by_hand(shared, capture_of, name, command):
    """Faults are found where they are, and sound hosts have none."""
    text = (shared / "samples" / name).read_text(errors="replace")

    assert claims(judge([capture_of(commands={command: text})])) == TABLE[name, command]


@pytest.mark.parametrize(
    ("name", "check", "status"),
    [
        ("ibstat/gpud_h100_all_active_1.txt", "port-state", "PASS"),
        ("ibstat/superbench_sys_image_guid_list.txt", "captures", "UNKNOWN"),
        ("lspci/lspci-vvv_full_host.txt", "pcie-link", "PASS"),
        ("lspci/lspci-vvv_full_host.txt", "acs", "PASS"),
        ("lspci/lspci-vvv_full_host.txt", "pcie-read-request", "PASS"),
        ("lspci/lspci-vvv_full_host.txt", "nic-missing", "UNKNOWN"),
        ("lspci/lspci.nn.a100.txt", "pcie-link", "UNKNOWN"),
        ("nvidia-smi-nvlink/a100.txt", "nvlink", "PASS"),
        ("nvidia-smi-nvlink/a10.txt", "captures", "UNKNOWN"),
        ("dmesg/gpud_decode_iso_0.txt", "xid", "PASS"),
        ("nvidia-smi-q/gpud_560.txt", "gpu-clocks", "PASS"),
    ],
)
def test_what_was_read_passes_and_what_was_not_is_unknown(shared, capture_of, name, check, status):
    """A pass needs a source that says so; a text that says nothing of a check leaves it UNKNOWN."""
    command = next(command for file, command in TABLE if file == name)
    text = (shared / "samples" / name).read_text(errors="replace")
    found = {(f.check, str(f.status)) for f in judge([capture_of(commands={command: text})])}

    assert {s for c, s in found if c == check} == {status}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("dgx_a100_gpus_only", "PASS"), ("ml_eng_h100_gpus_a", "PASS"), ("c4140_v100_mlx5_named_column", "PASS"),
        ("consumer_2gpu_nvlink", "PASS"), ("two_gpu_ansi_header_nv12", "PASS"),
        # cut: 5 of 8 rows, 1 of 8 rows, and glued cells
        ("dgx_a100_12nic_truncated", "UNKNOWN"), ("a800_nv8_9nic_partial", "UNKNOWN"),
        ("b200_glued_last_cell_MALFORMED", "UNKNOWN"),
        # no NVLink anywhere: a host of PCIe cards; nothing is claimed
        ("consumer_2gpu_phb", ""), ("coyote_4gpu_4nic_spaces", ""), ("l40s_pcie_4gpu_2nic_complete", ""),
        ("h100_pcie_vm_1gpu_1nic", ""), ("six_gpu_ansi_header_pcie", ""), ("h100_no_nvlink_all_sys", ""),
        ("p2p_l4_cns", ""),
    ],
)  # fmt: skip
def test_recorded_matrices(shared, capture_of, name, status):
    """ANSI codes, shifted tabs, lists with commas and columns named mlx5_0 are read; cut matrices are no pass."""
    text = (shared / "samples" / "nvidia-smi-topo" / f"{name}.txt").read_text(errors="replace")
    findings = judge([capture_of(commands={"nvidia-smi topo -m": text})])

    assert {str(f.status) for f in findings if f.check == "nvlink-matrix"} == ({status} if status else set())


def test_a_gpu_that_lost_its_nvlinks_is_named(capture_of):
    """One GPU with NODE and SYS to all others while they have NV18 among themselves fails, alone."""
    kinds = [["X" if a == b else "SYS" if 2 in {a, b} else "NV18" for b in range(8)] for a in range(8)]
    rows = "".join(f"GPU{n}\t" + "\t".join(row) + "\n" for n, row in enumerate(kinds))
    text = "\t" + "\t".join(f"GPU{n}" for n in range(8)) + "\n" + rows

    assert claims(judge([capture_of(commands={"nvidia-smi topo -m": text})])) == {
        ("nvlink-matrix", "FAIL", "host/h0/gpu/2")
    }


def h100(shared):
    """Return the recorded /sys/class/infiniband of an H100 host."""
    folder = shared / "samples" / "sysfs" / "infiniband-h100"
    return {
        f"/sys/class/infiniband/{path.relative_to(folder)}": path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_counters_that_stand_at_their_end_do_not_condemn_a_host(shared, capture_of):
    """link_downed 255 on mlx5_1 and 15 overruns on all ports: the counters are full, nothing is known of today."""
    findings = judge([capture_of(h100(shared))])

    assert claims(findings) == set()
    full = {(f.check, str(f.where)) for f in findings if "at the end of the counter" in f.what}
    assert full == {("link-downs", "host/h0/nic/mlx5_1"), ("signal-errors", "host/h0")}
    ports = next(f for f in findings if f.check == "signal-errors" and "end of the counter" in f.what)
    assert len(ports.evidence["elements"]) == 8


@pytest.mark.parametrize("name", ["json_eth_fail", "json_rdma_pass", "bf3_100g_ok", "osfp_module_info",
                                  "error_invalid_interface", "json_cx5_edr_fragment_TRUNCATED"])  # fmt: skip
def test_recorded_mlxlink_reports(shared, capture_of, name):
    """BER 1e-10 fails, 1e-13 and 15E-255 pass, an error message and cut JSON are UNKNOWN, optics are within range."""
    link = {"ibstat": "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"}
    text = (shared / "samples" / "mlxlink" / f"{name}.txt").read_text()
    findings = judge([capture_of(commands=link | {"mlxlink -d mlx5_0 -m -c": text})])
    bits = {str(f.status) for f in findings if f.check == "bit-errors"}
    optics = {str(f.status) for f in findings if f.check == "optics"}

    expected = {"json_eth_fail": "FAIL", "json_rdma_pass": "PASS", "bf3_100g_ok": "PASS"}
    assert bits == {expected.get(name, "UNKNOWN")}
    assert optics == ({"PASS"} if name == "osfp_module_info" else set())


def rdma_port(netdev="eth0", device="mlx5_0"):
    """Return files of one active RoCE port."""
    port = f"/sys/class/infiniband/{device}/ports/1"
    return {
        f"{port}/state": "4: ACTIVE\n", f"{port}/link_layer": "Ethernet\n", f"{port}/rate": "100 Gb/sec (4X EDR)\n",
        f"{port}/gid_attrs/ndevs/0": f"{netdev}\n",
    }  # fmt: skip


def test_recorded_gid_tables(shared, capture_of):
    """A bond and pods with indices 4 to 7 are sound; a port without an IPv4 GID is not; without types it is UNKNOWN."""
    expected = {"bond_4gids": ("mlx5_bond_0", {"PASS"}), "macvlan_pod_gid4to7": ("mlx5_0", {"PASS"}),
                "partial_no_ip_on_mlx5_0": ("mlx5_0", {"FAIL"}),
                "oci_dr_test_no_ver_column_ODD": ("mlx5_0", {"UNKNOWN"})}  # fmt: skip
    for name, (device, status) in expected.items():
        text = (shared / "samples" / "show_gids" / f"{name}.txt").read_text()
        findings = judge([capture_of(rdma_port(device=device), {"show_gids": text})])
        assert {str(f.status) for f in findings if f.check == "gid"} == status, name


def test_recorded_priorities(shared, capture_of):
    """PFC on 3 while 88 TB came in priority 0 warns; with a traffic class that leads to 0 it fails, with 104 it holds."""
    samples = shared / "samples"
    commands = {
        "mlnx_qos -i eth0": (samples / "mlnx_qos" / "firmware_controlled_pfc3.txt").read_text(),
        "ethtool -S eth0": (samples / "ethtool_S" / "all_traffic_on_prio0_WRONG_PRIORITY.txt").read_text(),
    }
    capture = capture_of(rdma_port(), commands)

    def verdict(**context):
        return {str(f.status) for f in judge([capture], Context(**context)) if f.check == "roce-pfc"}

    assert verdict() == {"WARN"}
    assert verdict(job_env={}) == {"FAIL"}
    assert verdict(job_env={"NCCL_IB_TC": "104"}) == {"PASS"}
    assert verdict(job_env={"NCCL_IB_TC": "236"}) == {"FAIL"}


def test_recorded_counters_grew(shared, capture_of):
    """Time-outs grew by 2705 while no packet was marked: lost packets; a working DCQCN alone is no fault."""
    folder = shared / "samples" / "hw_counters"

    def host(text, uptime):
        port = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/"
        pairs = [line.replace(":", " ").split() for line in text.splitlines()]
        return capture_of(
            rdma_port()
            | {f"{port}{name}": f"{value}\n" for name, value in pairs}
            | {"/proc/uptime": f"{uptime} 1\n"}
        )

    def grown(name):
        text = (folder / name).read_text()
        before = host("\n".join(f"{line.replace(':', ' ').split()[0]} 0" for line in text.splitlines()), 1000)
        return claims(judge([host(text, 2000)], Context(before={"h0": before})))

    assert grown("roce_timeouts_no_ecn.txt") == {("loss", "FAIL", "host/h0/nic/mlx5_0")}
    assert grown("dcqcn_working.txt") == set()


def test_recorded_ethernet_hosts(shared, capture_of):
    """Of gcm's fixtures, the host with MTU 1500 among hosts with 9192 fails; the sound one does not."""
    folder = shared / "samples" / "gcm_fakefs"

    def host(name, fixture):
        data = json.loads((folder / f"{fixture}.json.txt").read_text())
        files = {}
        for row in data["intf_status"]:
            files[f"/sys/class/net/{row['ifname']}/mtu"] = f"{row['mtu']}\n"
            files[f"/sys/class/net/{row['ifname']}/operstate"] = row["operstate"].lower()
        return capture_of(files, {"lldpctl -f json": json.dumps(data["lldp_status"])}, host=name)

    captures = [host(f"h{n}", "eth_learn_good") for n in range(3)] + [host("bad", "eth_learn_mtu_bad")]

    assert claims(judge(captures)) == {
        ("mtu", "FAIL", f"host/bad/nic/{name}") for name in ("enp97s0f0", "enp225s0f0", "front0")
    }


@pytest.mark.parametrize(("fixture", "bad"), [("learn_ib_intf_bad_rate", 8), ("learn_ib_misbound_if", 0)])
def test_recorded_rates_below_the_interface(shared, capture_of, fixture, bad):
    """Eight ports at 100 Gbit/s whose interfaces are of 200 fail, though all eight agree."""
    data = json.loads((shared / "samples" / "gcm_fakefs" / f"{fixture}.json.txt").read_text())
    files, commands = {}, {}
    for path, text in data.items():
        words = path.split("/")
        if len(words) > 8 and words[6] == "infiniband":
            files["/sys/class/infiniband/" + "/".join(words[7:])] = text
            commands[f"readlink -f /sys/class/infiniband/{words[7]}/device"] = f"/sys/devices/{words[5]}\n"
        elif len(words) > 8 and words[6] == "net":
            files["/sys/class/net/" + "/".join(words[7:])] = text
            commands[f"readlink -f /sys/class/net/{words[7]}/device"] = f"/sys/devices/{words[5]}\n"
    slow = [
        f for f in judge([capture_of(files, commands)]) if f.check == "port-rate" and f.status is Status.FAIL
    ]

    assert len(slow) == bad


def test_recorded_sonic_configurations(shared, capture_of):
    """A RoCE configuration leads DSCP 26 to a class with PFC and ECN; SONiC's stock maps leave it in the lossy class 1."""
    folder = shared / "samples" / "switch_qos"
    own = json.loads((folder / "own_sonic_roce_example.json").read_text())
    stock = json.loads((folder / "sonic_qos-arista7260-t0.json").read_text())

    def statuses(config):
        context = Context(job_env={"NCCL_IB_TC": "106"}, switches={"leaf0": config})
        return {str(f.status) for f in judge([capture_of()], context) if f.check == "roce-switch"}

    def without(**changes):
        return own | {table: {**own[table], **rows} for table, rows in changes.items()}

    assert statuses(own) == {"PASS"}
    port = own["PORT_QOS_MAP"]["Ethernet0"]
    assert statuses(without(PORT_QOS_MAP={"Ethernet0": port | {"pfc_enable": "4"}})) == {"FAIL"}
    assert statuses(without(QUEUE={"Ethernet0|3": {"scheduler": "roce.dwrr"}})) == {"FAIL"}
    assert statuses(without(WRED_PROFILE={"ROCE_ECN": {"ecn": "ecn_none"}})) == {"FAIL"}
    assert statuses(without(DSCP_TO_TC_MAP={"ROCE": {"26": "3", "48": "3"}})) == {"WARN"}
    assert statuses(stock) == {"FAIL"}
    assert statuses({}) == {"FAIL"}

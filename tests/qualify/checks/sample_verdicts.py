"""Every recorded sample beside the verdict that was derived by hand from its text.

A row says how the text gets into a capture, what is WARN or FAIL (`check STATUS element`, nothing else may be claimed),
which checks pass, and which are UNKNOWN. Folders that no check and no lint reads have their reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from topology.capture import Captured, CaptureState, HostCapture

DMESG = "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info"
IB = "/sys/class/infiniband"
LSPCI = "lspci -Dvvv"

Fleet = tuple[list[HostCapture], dict[str, HostCapture]]
"""Captures, and earlier ones."""


class Row(NamedTuple):
    """How a sample is read, and what must come of it."""

    way: Callable[[str], Fleet]
    loud: str = ""
    passes: str = ""
    unknown: str = ""


def host(files: Mapping[str, str], commands: Mapping[str, str], name: str = "h0") -> HostCapture:
    """One host with nothing but these texts."""
    tables = (
        {source: Captured(CaptureState.OK, text) for source, text in table.items()}
        for table in (files, commands)
    )
    return HostCapture(name, "host", *tables)


def printed(command: str, before: str = "", after: str = "") -> Callable[[str], Fleet]:
    """The text is what a command printed; excerpts get the lines around them that the command would print."""
    return lambda text: ([host({}, {command: before + text + after})], {})


ROCE = {
    f"{IB}/mlx5_0/ports/1/state": "4: ACTIVE\n",
    f"{IB}/mlx5_0/ports/1/link_layer": "Ethernet\n",
    f"{IB}/mlx5_0/ports/1/rate": "100 Gb/sec (4X EDR)\n",
    f"{IB}/mlx5_0/ports/1/gid_attrs/ndevs/0": "eth0\n",
}
"""One active RoCE port, mlx5_0 with eth0."""
LINK = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"


def beside(command: str, device: str = "mlx5_0") -> Callable[[str], Fleet]:
    """What a command printed on a host with one active RoCE port."""
    files = {path.replace("mlx5_0", device): text for path, text in ROCE.items()}
    return lambda text: ([host(files, {command: text})], {})


def counters(text: str, uptime: int) -> HostCapture:
    """A host whose hardware counters are these lines."""
    pairs = [line.replace(":", " ").split() for line in text.splitlines()]
    files = {f"{IB}/mlx5_0/ports/1/hw_counters/{name}": f"{value}\n" for name, value in pairs}
    return host(ROCE | files | {"/proc/uptime": f"{uptime} 1\n"}, {})


def grown(text: str) -> Fleet:
    """Hardware counters that were all zero 1000 s before."""
    zero = "\n".join(f"{line.replace(':', ' ').split()[0]} 0" for line in text.splitlines())
    return [counters(text, 2000)], {"h0": counters(zero, 1000)}


def statistics(text: str) -> Fleet:
    """`ethtool -S` beside an earlier one with zeros."""

    def one(body: str, uptime: int) -> HostCapture:
        return host(ROCE | {"/proc/uptime": f"{uptime} 1\n"}, {"ethtool -S eth0": body})

    zero = "\n".join(
        f"{line.rpartition(':')[0]}: 0"
        for line in text.splitlines()
        if line.rstrip()[-1:].isdigit() and ":" in line
    )
    return [one(text, 2000)], {"h0": one(zero, 1000)}


def rdma_statistic(text: str) -> Fleet:
    """`rdma statistic` twice, unchanged."""
    made = host(ROCE, {"rdma -j statistic": text})
    return [made], {"h0": made}


def ethernet(text: str) -> Fleet:
    """One host of gcm's fixtures among three sound ones of the same."""
    return [fixture("h0", text), *(fixture(f"sound{n}", GOOD["eth"]) for n in range(3))], {}


def fixture(name: str, text: str) -> HostCapture:
    """A host without RDMA: `ip -j link`, speeds and LLDP."""
    data = json.loads(text)
    files: dict[str, str] = {}
    for row in data["intf_status"]:
        net = f"/sys/class/net/{row['ifname']}"
        files |= {f"{net}/mtu": f"{row['mtu']}\n", f"{net}/operstate": row["operstate"].lower(),
                  f"{net}/speed": data["link_speed"].get(row["ifname"], "")}  # fmt: skip
    return host(files, {"lldpctl -f json": json.dumps(data["lldp_status"])}, name)


def sysfs(text: str) -> Fleet:
    """One host of gcm's fake /sys among three that have sound names and rates."""
    sound = GOOD["ib"].replace("100 Gb/sec (4X EDR)", "200 Gb/sec (4X HDR)")
    return [devices("h0", text), *(devices(f"sound{n}", sound) for n in range(3))], {}


def devices(name: str, text: str) -> HostCapture:
    """InfiniBand devices and interfaces below the folders of their PCI devices; each host has GUIDs of its own."""
    files, commands = {}, {}
    for path, content in json.loads(text).items():
        words = path.split("/")
        if len(words) > 8 and words[6] in {"infiniband", "net"} and not words[-1].endswith("_guid"):
            root = f"/sys/class/{words[6]}/{words[7]}"
            files["/".join([root, *words[8:]])] = content
            commands[f"readlink -f {root}/device"] = f"/sys/devices/{words[5]}\n"
    return host(files, commands, name)


GOOD: dict[str, str] = {}
"""Texts of the sound fixtures, set by the test."""

NIC = "0000:01:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
GPU = "0000:01:00.0 3D controller: NVIDIA Corporation TU102GL [Quadro RTX 6000/8000]\n"
AMD = "0000:01:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Device 74a1\n"
PORT = "0000:00:01.0 PCI bridge: Intel Corporation Device 352a\n\tBus: primary=00, secondary=01, subordinate=01\n"
SMI, TOPO = "nvidia-smi -q", "nvidia-smi topo -m"
MLXLINK = "mlxlink -d mlx5_0 -m -c"


def report(text: str) -> Fleet:
    """A report of mlxlink on an active port."""
    return [host({}, {"ibstat": LINK, MLXLINK: text})], {}


def test(text: str) -> Fleet:
    """The output of nccl-tests."""
    return [host({}, {"all_reduce_perf -b 8": text})], {}


DATA = "wrong-data"
FALSE = f"{DATA} FAIL host/h0"
NOTHING = "captures"
"""The check that says that a capture holds nothing to judge."""

VERDICTS: dict[str, Row] = {
    # --- RDMA devices -------------------------------------------------------------------------------------------
    # 8 InfiniBand ports Active at 200, one Ethernet port beside them; Xid 79 and counters are not in these texts
    "ibstat/gpud_a100_all_active.txt": Row(printed("ibstat"), passes="port-state port-rate nic-missing ib-subnet"),
    # eight good ports, then `ibpanic: ... stat of IB device 'mlx5_8' failed`
    "ibstat/gpud_a100_ibpanic_truncated.txt": Row(
        printed("ibstat"), "nic-missing FAIL host/h0", "port-state port-rate"),
    # 8 ConnectX-7 at 400 and 4 management ports at 100, all Active
    "ibstat/gpud_h100_all_active_1.txt": Row(printed("ibstat"), passes="port-state port-rate nic-missing"),
    # two of the eight ConnectX-7: mlx5_11 Polling, mlx5_5 Disabled; their "Rate: 40" means nothing
    "ibstat/gpud_h100_some_down_polling.txt": Row(
        printed("ibstat"), "port-state FAIL host/h0/nic/mlx5_11; port-state FAIL host/h0/nic/mlx5_5", "port-rate"),
    # Down and Polling, but with the LID 868 that it had while it was up
    "ibstat/polling_rate10_gpud_pr482.txt": Row(printed("ibstat"), "port-state FAIL host/h0/nic/mlx5_10"),
    # a list of hosts and GUIDs: nothing of ibstat in it
    "ibstat/superbench_sys_image_guid_list.txt": Row(printed("ibstat"), unknown=NOTHING),
    "ibstatus/gpud_a100_all_active.txt": Row(printed("ibstatus"), passes="port-state port-rate"),
    "ibv_devinfo/azure_vf_ib.txt": Row(printed("ibv_devinfo -v"), passes="port-state nic-missing ib-subnet"),
    # 28.42 beside 16.35: two models, no mix; mlx5_3 has no port in the excerpt; verbs use 4096 of 4096 bytes
    "ibv_devinfo/h100_roce_mixed_fw.txt": Row(printed("ibv_devinfo -v"), passes="port-state versions", unknown="gid"),
    # with the head of its device: v1 and v2, index 3 is v2 with an IPv4 address
    "ibv_devinfo/gid_table_v1_v2_fragment.txt": Row(
        printed("ibv_devinfo -v", "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tlink_layer:\tEthernet\n"),
        passes="gid port-state"),
    # one of two ports down: an unused second port or a lost rail, nothing decides
    "rdma_link/active_down_mixed_ainic.txt": Row(printed("rdma link"), "port-state WARN host/h0/nic/rdma1"),
    # in a pod seven of eight links show no netdev: no fault
    "rdma_link/dranet_gke_2.txt": Row(printed("rdma link"), passes="port-state nic-missing"),
    "rdma_link/dranet_gke_8nic_no_netdev.txt": Row(printed("rdma link"), passes="port-state nic-missing"),
    "rdma_link/mlx5_single.txt": Row(printed("rdma link"), passes="port-state"),
    # counters of zero, twice zero: nothing that any rule looks at is among them
    "rdma_statistic/mlx5_plain_fragment.txt": Row(rdma_statistic, passes="port-state", unknown="link-downs loss"),
    # a bond and pods with indices 4 to 7 are sound; fe80 alone is not; without the column VER it is not known
    "show_gids/bond_4gids.txt": Row(beside("show_gids", "mlx5_bond_0"), passes="gid"),
    "show_gids/macvlan_pod_gid4to7.txt": Row(beside("show_gids"), passes="gid"),
    "show_gids/partial_no_ip_on_mlx5_0.txt": Row(beside("show_gids"), "gid FAIL host/h0/nic/mlx5_0"),
    "show_gids/oci_dr_test_no_ver_column_ODD.txt": Row(beside("show_gids"), unknown="gid"),
    # --- PCIe ---------------------------------------------------------------------------------------------------
    # downgraded bridges lead to management and storage; all paths to GPUs and NICs run at what their ends can do
    "lspci/lspci-vvv_full_host.txt": Row(
        printed(LSPCI), passes="pcie-link acs pcie-read-request", unknown="nic-missing gpu-missing"),
    # names and numbers only: no link is told
    "lspci/lspci.nn.a10.txt": Row(printed(LSPCI), unknown="pcie-link gpu-missing"),
    "lspci/lspci.nn.a100.txt": Row(printed(LSPCI), unknown="pcie-link gpu-missing"),
    # the second card at x2, `(downgraded)`; no LnkCap of it is told
    "lspci/lnksta_cx7_gb10_x2_downgraded.txt": Row(printed(LSPCI), "pcie-link FAIL host/h0/nic/0002:01:00.0"),
    # 8 of 16 GT/s without the word, below the head of a NIC
    "lspci/lnksta_gen3_no_downgraded_word.txt": Row(printed(LSPCI, NIC), "pcie-link FAIL host/h0/nic/0000:01:00.0"),
    # x1 and 5 GT/s of a GPU with the word, no LnkCap: lanes are never dropped by an idle GPU
    "lspci/lnksta_rtx8000_x1_downgraded.txt": Row(printed(LSPCI, GPU), "pcie-link FAIL host/h0/gpu/0", unknown="gpu-missing"),
    # full width and speed
    "lspci/amd_lnkcap_lnksta_gpu_gen5.txt": Row(printed(LSPCI, AMD), passes="pcie-link"),
    # counts of `uniq -c`: no line begins with LnkSta, nothing is read and nothing is claimed
    "lspci/lnksta_oci_mixed_ODD.txt": Row(printed(LSPCI, NIC), unknown="pcie-link"),
    "lspci/lnksta_oci_uniq_c_counts.txt": Row(printed(LSPCI, NIC), unknown="pcie-link"),
    # bits of a bridge above a NIC
    "lspci/acsctl_enabled_BAD.txt": Row(printed(LSPCI, PORT, NIC), "acs WARN host/h0", unknown="pcie-link"),
    "lspci/acsctl_disabled_GOOD.txt": Row(printed(LSPCI, PORT, NIC), passes="acs", unknown="pcie-link"),
    # --- GPUs ---------------------------------------------------------------------------------------------------
    # everything is N/A on a TITAN V, generation 1 of 3 because it idles at P8
    "nvidia-smi-q/gpud_560.txt": Row(printed(SMI), passes="gpu-missing gpu-clocks straggler-signs"),
    # Remapped Rows, Pending: Yes
    "nvidia-smi-q/gpud_a10.txt": Row(printed(SMI), "gpu-memory FAIL host/h0/gpu/0", "gpu-missing gpu-clocks"),
    "nvidia-smi-nvlink/a100.txt": Row(printed("nvidia-smi nvlink -s"), passes="nvlink"),
    # an A10 has no NVLink
    "nvidia-smi-nvlink/a10.txt": Row(printed("nvidia-smi nvlink -s"), unknown=NOTHING),
    # Xid 13 and 43 only: programs' own errors
    "dmesg/gpud_decode_iso_0.txt": Row(printed(DMESG), passes="xid"),
    "dmesg/kmsg_peermem_head.txt": Row(printed(DMESG), "kernel-log WARN host/h0"),
    # a program crashed inside NCCL: no Xid, no link, nothing of the host
    "dmesg/nccl_segfault.txt": Row(printed(DMESG), unknown=NOTHING),
    # 31.504 of 63.012 Gbit/s; which device it is cannot be told from this line
    "dmesg/pcie_bandwidth_limited.txt": Row(printed(DMESG), "pcie-remark WARN host/h0"),
    **{f"nvidia-smi-topo/{name}.txt": Row(printed(TOPO), passes="nvlink-matrix") for name in (
        "dgx_a100_gpus_only", "ml_eng_h100_gpus_a", "c4140_v100_mlx5_named_column", "consumer_2gpu_nvlink",
        "two_gpu_ansi_header_nv12")},
    # cut: 5 of 8 rows, 1 of 8 rows, and glued cells
    **{f"nvidia-smi-topo/{name}.txt": Row(printed(TOPO), unknown="nvlink-matrix") for name in (
        "dgx_a100_12nic_truncated", "a800_nv8_9nic_partial", "b200_glued_last_cell_MALFORMED")},
    # no NVLink anywhere: a host of PCIe cards, or one that lost all; one matrix alone does not tell
    **{f"nvidia-smi-topo/{name}.txt": Row(printed(TOPO), unknown=NOTHING) for name in (
        "consumer_2gpu_phb", "coyote_4gpu_4nic_spaces", "l40s_pcie_4gpu_2nic_complete", "h100_pcie_vm_1gpu_1nic",
        "six_gpu_ansi_header_pcie", "h100_no_nvlink_all_sys", "p2p_l4_cns")},
    # --- signal and optics --------------------------------------------------------------------------------------
    # effective BER 1e-10 of a fixture; 1e-13 and 15E-255 (zero) are below 1e-12
    "mlxlink/json_eth_fail.txt": Row(report, "bit-errors FAIL host/h0/nic/mlx5_0"),
    "mlxlink/json_rdma_pass.txt": Row(report, passes="bit-errors"),
    "mlxlink/bf3_100g_ok.txt": Row(report, passes="bit-errors"),
    # powers and temperature inside the module's own ranges, no error rate
    "mlxlink/osfp_module_info.txt": Row(report, passes="optics", unknown="bit-errors"),
    "mlxlink/error_invalid_interface.txt": Row(report, unknown="bit-errors"),
    "mlxlink/json_cx5_edr_fragment_TRUNCATED.txt": Row(report, unknown="bit-errors"),
    # --- counters -----------------------------------------------------------------------------------------------
    # 2705 time-outs in 1000 s, and no packet was marked: lost packets
    "hw_counters/roce_timeouts_no_ecn.txt": Row(grown, "loss FAIL host/h0/nic/mlx5_0"),
    # 30 million CNPs: DCQCN at work; how many packets came is not told, so no share can be judged
    "hw_counters/dcqcn_working.txt": Row(grown, passes="port-state", unknown="loss"),
    # 655 million ring discards and 49,337 at the port
    "ethtool_S/bnxt_en.txt": Row(statistics, "discards FAIL host/h0/nic/mlx5_0"),
    # no drop in 12 million packets
    "ethtool_S/ice.txt": Row(statistics, passes="discards"),
    # nothing of drops by a name that is known, in a virtual NIC and in an old driver of mlx5
    "ethtool_S/ena.txt": Row(statistics, unknown="discards"),
    "ethtool_S/mlx5_core.txt": Row(statistics, passes="discards"),
    # 88 TB in priority 0 and none in the others; without mlnx_qos beside it no priority is known to be the right one
    "ethtool_S/all_traffic_on_prio0_WRONG_PRIORITY.txt": Row(statistics, unknown="roce-pfc"),
    # --- RoCE ---------------------------------------------------------------------------------------------------
    # trust dscp, PFC on 3; the job's class is not known
    "mlnx_qos/firmware_controlled_pfc3.txt": Row(beside("mlnx_qos -i eth0"), passes="roce-trust roce-agreement", unknown="roce-pfc"),
    # PFC on 5 and nothing of trust
    "mlnx_qos/pfc5_and_ecn_sysfs.txt": Row(beside("mlnx_qos -i eth0"), unknown="roce-trust roce-pfc"),
    # perftest warns of CPU clocks inside its table; the others have bandwidths, which nothing here is compared with
    "ib_write_bw/deepops_cx5_cpufreq_warning.txt": Row(printed("ib_write_bw -d mlx5_0"), "cpu-governor WARN host/h0"),
    **{f"ib_write_bw/{name}.txt": Row(printed("ib_write_bw -d mlx5_0"), unknown=NOTHING) for name in (
        "dranet_gke_h200_a", "dranet_gke_h200_b", "duration_mode_warning", "superbench_ib_loopback_8M_size.log",
        "superbench_ib_loopback_all_sizes.log")},
    # --- hosts without RDMA, among three sound ones ---------------------------------------------------------------
    "gcm_fakefs/eth_learn_good.json.txt": Row(ethernet, passes="mtu interfaces cabling"),
    # 100 Gbit/s on both slaves and 200 on the bond, where the others have 200 and 400
    "gcm_fakefs/eth_learn_degraded_intf.json.txt": Row(
        ethernet, "interfaces FAIL host/h0/nic/enp97s0f0; interfaces FAIL host/h0/nic/enp225s0f0; interfaces FAIL host/h0/nic/front0",
        "mtu"),
    "gcm_fakefs/eth_learn_missing_intf.json.txt": Row(ethernet, "interfaces FAIL host/h0", "mtu"),
    "gcm_fakefs/eth_learn_mtu_bad.json.txt": Row(
        ethernet, "mtu FAIL host/h0/nic/enp97s0f0; mtu FAIL host/h0/nic/enp225s0f0; mtu FAIL host/h0/nic/front0", "interfaces"),
    # the bond is down, and the slaves have 1500 bytes where the others have 9192; all its switches are others, so it
    # stands in another rack, and the addresses that were exchanged are in no capture
    "gcm_fakefs/eth_learn_nic_swap.json.txt": Row(
        ethernet, "mtu FAIL host/h0/nic/enp97s0f0; mtu FAIL host/h0/nic/enp225s0f0; interfaces FAIL host/h0/nic/front0"),
    # eight ports at 100 whose interfaces are of 200, and whose peers run at 200
    "gcm_fakefs/learn_ib_intf_bad_rate.json.txt": Row(
        sysfs, "; ".join(f"port-rate FAIL host/h0/nic/mlx5_{n}" for n in (0, 1, 2, 3, 6, 7, 8, 9)), "port-state nic-missing nic-names"),
    # mlx5_0 and mlx5_1 have changed places, and the third card is called mlx5_12
    "gcm_fakefs/learn_ib_misbound_if.json.txt": Row(
        sysfs, "; ".join(f"nic-names FAIL host/h0/nic/mlx5_{n}" for n in (0, 1, 12)), "port-state port-rate nic-missing"),
    # --- nccl-tests -----------------------------------------------------------------------------------------------
    # `Out of bounds values : 0 OK` and rows that were compared; a slow one (5.4 GB/s over TCP) has right data, too
    **{f"nccl-tests/{name}": Row(test, passes=DATA) for name in (
        "01-gh200-2n8r-v2.17.1-ok.txt", "03-gh200-2n2r-v2.18.2-wide-columns.txt", "06-p5-mpirun-tag-output-elided.txt",
        "07-awsbatch-tag-output-header-edited.txt", "08-p5en-elided-first-row-cold.txt", "11-gb200-1440-tail-only.txt",
        "12-allgather-2r-none-redop.txt", "14-gke-rdma-allgather.txt", "20-5090-single-gpu-zero-busbw-overflow.txt",
        "22-alltoall-inplace-NA-1rank.txt", "23-alltoall-roce-slow-NA.txt", "28-rccl-mi350x-asterisk.txt",
        "30-fake-8g-ok.txt", "33-fake-timestamps-S1.txt", "34-fake-per-iter-I1-K5.txt", "37-fake-cycles-N2.txt",
        "38-fake-op-all-d-all.txt", "39-fake-broadcast-root-all.txt", "40-fake-sendrecv.txt", "42-fake-reducescatter.txt",
        "43-fake-hypercube.txt", "49-fake-maxbytes-reduced.txt", "50-fake-json-stdout.txt", "50-fake.json",
        "50-fake.json.0", "51-fake-json-second-run.txt", "53-fake-tiny-and-huge-widths.txt", "awsome_p4d_mpi_prefixed.txt",
        "cscs_gh200_socket_fallback_BAD.txt", "dranet_gke_avg15.txt", "dranet_gke_avg59.txt",
        "dranet_mpi_operator_avg15.txt", "gb200_nvl72_72rank_partial.txt", "gcp_a3mega_avg54_shifted_header.txt",
        "gcp_dws_avg120.txt")},
    # no end: hung, killed, or an excerpt
    **{f"nccl-tests/{name}": Row(test, unknown=DATA) for name in (
        "04-p4de-srun-label-prefix.txt", "05-p5-srun-label-prefix.txt", "24-old-error-column-interleaved-ncclinfo.txt",
        "25-old-error-column-root0-hang.txt", "26-hang-after-header-2019.txt", "45-fake-hang-killed.txt",
        "dranet_nvidia_part1.txt", "dranet_nvidia_part2.txt")},
    # -c 0, all #wrong N/A, no row at all, figures replaced by X, one line of JSON: the data was not compared
    **{f"nccl-tests/{name}": Row(test, unknown=DATA) for name in (
        "32-fake-c0-NA.txt", "54-fake-slow-1e.txt", "dranet_gke_avg11_SLOW.txt", "dranet_gke_avg22.txt",
        "gcp_a3high_avg31.txt", "gcp_a3ultra_placeholder_XXX.txt", "superbench_nccl_alltoall.log.txt",
        "rccl_json_line_partial_TRUNCATED.txt")},
    # #wrong 3 in all rows; #wrong 1 twice
    "nccl-tests/31-fake-8g-wrong-FAILED.txt": Row(test, FALSE),
    "nccl-tests/dcgm_mock_fail_wrong_values.txt": Row(test, FALSE),
    # `remote process exited`, average below the minimum that was asked for, 8 GPUs wanted and 4 there, CUDA 802
    "nccl-tests/46-fake-async-remote-error.txt": Row(test, FALSE),
    "nccl-tests/47-fake-min-bw-FAILED.txt": Row(test, FALSE),
    "nccl-tests/dcgm_mock_fail_bw.txt": Row(test, FALSE),
    "nccl-tests/48-fake-too-many-gpus.txt": Row(test, FALSE),
    "nccl-tests/failure_system_not_initialized.txt": Row(test, FALSE),
}  # fmt: skip

ELSEWHERE = {
    "nccl-logs": "tests/collectives/nccl/test_nccl_first_cause.py, SAMPLES",
    "ncclras_and_inspector": "tests/collectives/nccl/test_nccl_first_cause.py, OF_RAS",
    "lldp": "tests/qualify/checks/test_checks_samples.py, NEIGHBOURS",
    "switch_qos": "tests/qualify/checks/test_checks_samples.py, SWITCHES",
    "sysfs": "tests/qualify/checks/test_checks_samples.py, whole trees",
}
"""Folders whose table is another one, which is as complete."""

NOT_READ = {
    "bench": "all_reduce_bench, gpcnet, nvbandwidth: benchmarks that no check reads",
    "ib_lft": "forwarding tables: `nettune discover` reads them",
    "ibdiagnet": "`nettune discover` reads it",
    "iblinkinfo": "`nettune discover` reads it",
    "ibnetdiscover": "`nettune discover` reads it",
    "ibswinfo": "of switches; no host prints it",
    "nccl-topo-xml": "`nettune discover` reads it",
    "netq": "`nettune discover` reads it",
    "perfquery": "asks other ports of the fabric, which the collector never does; /sys has the same counters",
    "topo": "`nettune discover` reads it",
}

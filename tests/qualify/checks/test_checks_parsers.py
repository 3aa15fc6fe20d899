"""Parsers on recorded outputs: values that were read by eye, and the traps of each format."""

from __future__ import annotations

import pytest

from nettune.qualify.checks.deltas import State, growth
from nettune.qualify.checks.parsers import ethernet, gids, kernel, mlxlink, numbers, nvidia, pci, qos, rdma


@pytest.fixture
def sample(shared):
    """Return the function that reads a recorded file."""
    return lambda name: (shared / "samples" / name).read_text(errors="replace")


def ports_of(devices):
    """Return (device, state, physical state, rate, link layer) of all ports."""
    return {
        (d.name, p.state, p.physical, p.rate_gbps, p.layer)
        for d in devices.values()
        for p in d.ports.values()
    }


def test_ibstat(sample):
    """Twelve adapters, of which mlx5_11 polls and mlx5_5 is disabled; a cut end keeps the eight before it."""
    down = rdma.ibstat(sample("ibstat/gpud_h100_some_down_polling.txt"))

    assert len(down) == 12
    assert ("mlx5_11", "DOWN", "Polling", 40.0, "Ethernet") in ports_of(down)
    assert ("mlx5_5", "DOWN", "Disabled", 40.0, "Ethernet") in ports_of(down)
    assert sum(one.kind == "MT4129" for one in down.values()) == 8
    assert (down["mlx5_0"].firmware, down["mlx5_0"].node_guid) == ("28.39.1002", "a088c20300adeab8")
    panicked = sample("ibstat/gpud_a100_ibpanic_truncated.txt")
    assert list(rdma.ibstat(panicked)) == [f"mlx5_{n}" for n in range(8)]
    assert rdma.panic(panicked).startswith("ibpanic: [1400444] main: stat of IB device 'mlx5_8' failed")
    a100 = rdma.ibstat(sample("ibstat/gpud_a100_all_active.txt"))
    assert (a100["mlx5_1"].ports[1].sm_lid, a100["mlx5_0"].ports[1].sm_lid, len(a100)) == (83, 0, 9)
    assert len(rdma.ibstat(sample("ibstat/gpud_h100_all_active_1.txt"))) == 12
    polling = rdma.ibstat(sample("ibstat/polling_rate10_gpud_pr482.txt"))["mlx5_10"].ports[1]
    assert (polling.state, polling.physical, polling.rate_gbps, polling.lid, polling.layer) == (
        "DOWN",
        "Polling",
        10.0,
        868,
        "",
    )
    assert rdma.ibstat(sample("ibstat/superbench_sys_image_guid_list.txt")) == {}


def test_ibstatus(sample):
    """Nine devices; LIDs are hexadecimal, the rate has its width."""
    devices = rdma.ibstatus(sample("ibstatus/gpud_a100_all_active.txt"))
    port = devices["mlx5_0"].ports[1]

    assert (port.lid, port.sm_lid, port.rate_text, port.state) == (0x33BF, 1, "200 Gb/sec (4X HDR)", "ACTIVE")
    assert all(one.ports[1].active for one in devices.values())


def test_ibv_devinfo(sample):
    """States and MTUs carry their number in brackets; a device cut before its port has none."""
    mixed = rdma.devinfo(sample("ibv_devinfo/h100_roce_mixed_fw.txt"))

    assert (mixed["mlx5_2"].model, mixed["mlx5_2"].firmware) == ("MT_0000000838", "28.42.1000")
    assert (mixed["mlx5_2"].ports[1].active_mtu, mixed["mlx5_2"].ports[1].max_mtu) == (4096, 4096)
    assert (mixed["mlx5_3"].firmware, mixed["mlx5_3"].ports) == ("16.35.4030", {})
    azure = rdma.devinfo(sample("ibv_devinfo/azure_vf_ib.txt"))["mlx5_3"]
    assert (azure.kind, azure.ports[1].lid, azure.ports[1].layer, azure.ports[1].active) == (
        "MT4126",
        1690,
        "InfiniBand",
        True,
    )


def test_rdma_link_and_statistic(sample):
    """Prompts before the command and missing netdevs are no trouble; both tools have a JSON form."""
    pod = rdma.rdma_link(sample("rdma_link/dranet_gke_8nic_no_netdev.txt"))

    assert len(pod) == 8
    assert [one.ports[1].netdev for one in pod.values() if one.ports[1].netdev] == ["gpu3rdma0"]
    assert len(rdma.rdma_link(sample("rdma_link/dranet_gke_2.txt"))) == 8
    mixed = rdma.rdma_link(sample("rdma_link/active_down_mixed_ainic.txt"))
    assert {(n, d.ports[1].state, d.ports[1].netdev) for n, d in mixed.items()} == {
        ("rdma0", "ACTIVE", "tw-eth0"), ("rdma1", "DOWN", "tw-eth1")}  # fmt: skip
    assert rdma.rdma_link(sample("rdma_link/mlx5_single.txt"))["mlx5_0"].ports[1].netdev == "enp1s0f0"
    row = '[{"ifname":"mlx5_0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"eth0"}]'
    assert rdma.rdma_link(row)["mlx5_0"].ports[1].physical == "LinkUp"
    assert rdma.rdma_statistic(sample("rdma_statistic/mlx5_plain_fragment.txt")) == {
        ("mlx5_0", 1): {"rx_write_requests": 0, "rx_read_requests": 0, "np_cnp_sent": 0}}  # fmt: skip
    counters = '[{"ifindex":1,"ifname":"mlx5_0","port":1,"np_cnp_sent":7}]'
    assert rdma.rdma_statistic(counters) == {("mlx5_0", 1): {"np_cnp_sent": 7}}


def test_show_gids(sample):
    """The IPv4 column may be empty, VER and DEV may be missing, an address may be left out."""
    bond = gids.show_gids(sample("show_gids/bond_4gids.txt"))
    pod = gids.show_gids(sample("show_gids/macvlan_pod_gid4to7.txt"))
    partial = gids.show_gids(sample("show_gids/partial_no_ip_on_mlx5_0.txt"))
    odd = gids.show_gids(sample("show_gids/oci_dr_test_no_ver_column_ODD.txt"))

    assert [(one.index, one.version, one.ipv4, one.netdev) for one in bond] == [
        (0, 1, "", "bond0"), (1, 2, "", "bond0"), (2, 1, "10.96.83.26", "bond0"), (3, 2, "10.96.83.26", "bond0")]  # fmt: skip
    assert [one.index for one in pod] == [4, 5, 6, 7, 4, 5, 6, 7]
    assert [one.ipv4 for one in pod if one.ipv4 and one.version == 2] == ["10.152.0.12", "10.152.4.12"]
    assert [(one.device, one.address == "") for one in partial if one.ipv4 == ""] == [
        ("mlx5_0", True), ("mlx5_0", True), ("mlx5_1", True), ("mlx5_1", True)]  # fmt: skip
    assert [(one.device, one.index, one.version) for one in odd] == [("mlx5_0", 0, 0), ("mlx5_1", 2, 0)]


def test_gids_of_devinfo(sample):
    """Addresses are printed whole or shortened, and mapped IPv4 with dots."""
    table = gids.devinfo_gids(sample("ibv_devinfo/gid_table_v1_v2_fragment.txt"))

    assert [(one.index, one.version, one.ipv4) for one in table] == [
        (0, 1, ""), (1, 2, ""), (2, 1, "200.0.209.6"), (3, 2, "200.0.209.6")]  # fmt: skip


def test_mlnx_qos(sample):
    """PFC on 3, trust DSCP, 26 in priority 3; a fragment has PFC on 5 and nothing else."""
    found = qos.mlnx_qos(sample("mlnx_qos/firmware_controlled_pfc3.txt"))
    fragment = qos.mlnx_qos(sample("mlnx_qos/pfc5_and_ecn_sysfs.txt"))

    assert (found.trust, found.pfc) == ("dscp", frozenset({3}))
    assert (found.prio_of_dscp[26], found.prio_of_dscp[48], len(found.prio_of_dscp)) == (3, 6, 64)
    assert found.buffers == "0: 0, 1: 0, 2: 0, 3: 1, 4: 0, 5: 0, 6: 0, 7: 0"
    assert found.dscp_map.startswith("0-7: 0, 8-15: 1, ")
    assert (fragment.pfc, fragment.trust, fragment.prio_of_dscp) == (frozenset({5}), "", {})
    assert qos.mlnx_qos("Netdevice eth0 does not exist") == qos.Qos()


def test_traffic_class(sample):
    """The file repeats its line; 236 is DSCP 59."""
    assert qos.global_tclass(sample("sysfs/tc_traffic_class_global_tclass.txt")) == 236
    assert qos.global_tclass("") is None


@pytest.mark.parametrize(
    ("name", "counter", "value"),
    [
        ("mlx5_core", "rx_bytes", 2195783498134),
        ("mlx5_core", "rx_discards_phy", 0),
        ("all_traffic_on_prio0_WRONG_PRIORITY", "rx_prio0_bytes", 88178050405854),
    ],
)
def test_ethtool_statistics(sample, name, counter, value):
    """Counters of drivers by name; with the lines of `ethtool -i` before them they are read, too."""
    assert ethernet.statistics(sample(f"ethtool_S/{name}.txt"))[counter] == value


@pytest.mark.parametrize("name", ["bnxt_en", "ena", "ice"])
def test_ethtool_statistics_of_other_drivers(sample, name):
    """Almost every line with a number is a counter, also `[0]: rx_ucast_packets: 5`."""
    text = sample(f"ethtool_S/{name}.txt")
    lines = [line for line in text.splitlines() if line.rstrip()[-1:].isdigit() and ":" in line]

    assert len(ethernet.statistics(text)) > 0.9 * len(lines)


def test_hardware_counters(sample):
    """Thousands separators, and the form of grep."""
    working = ethernet.statistics(sample("hw_counters/dcqcn_working.txt"))
    timeouts = ethernet.statistics(sample("hw_counters/roce_timeouts_no_ecn.txt"))

    assert (working["np_ecn_marked_roce_packets"], working["rp_cnp_handled"]) == (40510552, 1169933)
    assert (timeouts["local_ack_timeout_err"], timeouts["np_ecn_marked_roce_packets"]) == (2705, 0)


def test_ethtool_pause_speed_and_module():
    """`ethtool -a`, the link's speed, and a module beside its own alarm thresholds; -inf is darkness."""
    assert ethernet.pause("Pause parameters for eth0:\nAutonegotiate:\ton\nRX:\t\toff\nTX:\t\ton\n") == (
        False,
        True,
    )
    assert ethernet.pause("Cannot get device pause settings: Operation not supported") == (None, None)
    assert ethernet.speed_gbps("\tSpeed: 400000Mb/s\n") == 400.0
    assert ethernet.speed_gbps("\tSpeed: Unknown!\n") == 0.0
    text = (
        "\tModule temperature                        : 48.00 degrees C / 118.40 degrees F\n"
        "\tRcvr signal avg optical power(Channel 1)  : 0.0001 mW / -40.00 dBm\n"
        "\tRcvr signal avg optical power(Channel 2)  : 0.0000 mW / -inf dBm\n"
        "\tModule temperature high alarm threshold   : 75.00 degrees C / 167.00 degrees F\n"
        "\tModule temperature low alarm threshold    : -5.00 degrees C / 23.00 degrees F\n"
        "\tLaser rx power high alarm threshold       : 2.1878 mW / 3.40 dBm\n"
        "\tLaser rx power low alarm threshold        : 0.0407 mW / -13.90 dBm\n"
    )
    readings = {(one.value, one.low, one.high) for one in ethernet.module_readings(text)}
    assert readings == {(48.0, -5.0, 75.0), (-40.0, -13.9, 3.4)}


def test_bond():
    """The bond's own state comes first, then one of each slave."""
    text = "Bonding Mode: IEEE 802.3ad\nMII Status: up\n\nSlave Interface: eth0\nMII Status: up\n\nSlave Interface: eth1\nMII Status: down\n"

    assert ethernet.bond("bond0", text) == ethernet.Bond("bond0", "up", {"eth0": "up", "eth1": "down"})


def test_lspci_tree_of_a_whole_host(sample):
    """8 GPUs, 8 ConnectX-7, 4 NVSwitches; GPU 19:00.0 hangs below 15:01.0, 16:00.0, 17:01.0."""
    tree = pci.lspci(sample("lspci/lspci-vvv_full_host.txt"))
    gpus, switches = pci.of_kind(tree.values(), "gpu"), pci.of_kind(tree.values(), "nvswitch")

    assert [gpu.address for gpu in gpus] == [
        f"0000:{bus}:00.0" for bus in ("19", "3b", "4c", "5d", "9b", "bb", "cb", "db")
    ]
    assert [one.address[5:7] for one in switches] == ["83", "84", "85", "86"]
    assert [one.address for one in pci.path_to(tree, "0000:19:00.0")] == [
        "0000:15:01.0", "0000:16:00.0", "0000:17:01.0", "0000:19:00.0"]  # fmt: skip
    assert sum("ConnectX-7" in one.name for one in tree.values()) == 8
    port = tree["0000:17:03.0"]
    assert (port.max, port.now, port.said_downgraded) == (pci.Link(32.0, 16), pci.Link(16.0, 16), True)
    assert (tree["0000:15:01.0"].acs, tree["0000:1a:00.0"].max_read) == ((), 4096)


def test_lspci_of_clouds(sample):
    """Vendor numbers, domains of eight GPUs, virtual functions, a virtual display that is no GPU."""
    a100 = pci.lspci(sample("lspci/lspci.nn.a100.txt"))
    a10 = pci.lspci(sample("lspci/lspci.nn.a10.txt"))

    assert len(pci.of_kind(a100.values(), "gpu")) == 8
    assert len(pci.of_kind(a100.values(), "nvswitch")) == 6
    assert sum(one.virtual for one in a100.values()) == 9
    assert [one.address for one in pci.of_kind(a10.values(), "gpu")] == ["0000:06:00.0"]
    assert a10["0000:06:00.0"].vendor == "10de"


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("amd_lnkcap_lnksta_gpu_gen5", [(32.0, 16), (32.0, 16)]),
        ("lnksta_rtx8000_x1_downgraded", [(5.0, 1)]),
        ("lnksta_oci_uniq_c_counts", [(16.0, 2), (32.0, 16)]),
        ("lnksta_gen3_no_downgraded_word", [(16.0, 4), (8.0, 4), (0.0, 0)]),
        ("lnksta_oci_mixed_ODD", [(16.0, 2), (32.0, 16), (0.0, 0), (16.0, 8), (16.0, 2), (16.0, 16)]),
    ],
)
def test_link_lines(sample, name, links):
    """Speed and width of each line, whatever lspci thinks of them."""
    lines = [line for line in sample(f"lspci/{name}.txt").splitlines() if line.strip()]

    assert [(link.speed, link.width) for link in map(pci.link, lines)] == links


def test_access_control_lines(sample):
    """Only the redirecting bits count."""
    assert pci.redirecting(sample("lspci/acsctl_disabled_GOOD.txt")) == ()
    assert pci.redirecting(sample("lspci/acsctl_enabled_BAD.txt")) == (
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
    )


def test_a_device_that_fell_off_the_bus():
    """`rev ff` is what an absent device answers."""
    assert pci.lspci("3b:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff)\n")["0000:3b:00.0"].gone


def test_nvidia_smi_query(sample):
    """Values by the path of their headings; N/A is not a value."""
    attached, gpus = nvidia.query(sample("nvidia-smi-q/gpud_a10.txt"))
    _, titan = nvidia.query(sample("nvidia-smi-q/gpud_560.txt"))

    assert (attached, len(gpus)) == (1, 1)
    assert gpus[0].value("Remapped Rows/Pending") == "Yes"
    assert gpus[0].number("Remapped Rows/Uncorrectable Error") == 4
    assert gpus[0].number("ECC Errors/Volatile/SRAM Uncorrectable") == 0
    assert gpus[0].number("Remapped Rows/Bank Remap Availability Histogram/Max") == 192
    assert (titan[0].pci, titan[0].value("Fabric/State")) == ("0000:01:00.0", "")
    assert titan[0].value("Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown") == "Not Active"
    assert titan[0].value("PCI/GPU Link Info/Link Width/Current") == "16x"


def test_nvlinks(sample):
    """Eight GPUs of twelve links of 25 GB/s; inactive links have no speed; an empty output has no GPU."""
    links = nvidia.nvlinks(sample("nvidia-smi-nvlink/a100.txt"))

    assert {gpu: set(one.values()) for gpu, one in links.items()} == {gpu: {25.0} for gpu in range(8)}
    assert {len(one) for one in links.values()} == {12}
    assert nvidia.nvlinks(sample("nvidia-smi-nvlink/a10.txt")) == {}
    assert nvidia.nvlinks("GPU 0: X (UUID: y)\n\t Link 0: <inactive>\n") == {0: {0: None}}
    errors = "GPU 0: X (UUID: y)\n\t Link 3: Replay Errors: 12\n\t Link 3: CRC Errors: 0\n"
    assert nvidia.nvlink_errors(errors) == {(0, 3, "Replay Errors"): 12, (0, 3, "CRC Errors"): 0}


def test_mlxlink(sample):
    """Text and JSON, ranges of a module, an error in place of a report, JSON that was cut."""
    optics = mlxlink.mlxlink(sample("mlxlink/osfp_module_info.txt")).readings()

    assert [(one.value, one.low, one.high) for one in optics if one.name.startswith("temperature")] == [
        (54.0, -5.0, 75.0)
    ]
    assert [one.value for one in optics if one.name.startswith("rx power")] == [1.886, 1.989, 2.281, 1.976]
    assert mlxlink.mlxlink(sample("mlxlink/json_rdma_pass.txt")).ber("raw physical ber") == 1e-6
    assert mlxlink.mlxlink(sample("mlxlink/error_invalid_interface.txt")).error == "Invalid interface rdma0"
    assert "cut" in mlxlink.mlxlink(sample("mlxlink/json_cx5_edr_fragment_TRUNCATED.txt")).error


def test_kernel_messages(sample):
    """All three forms of time; Xids; limited PCIe links; links that went down."""
    decoded = list(kernel.messages(sample("dmesg/nccl_segfault.txt")))
    raw = next(kernel.messages(sample("dmesg/kmsg_peermem_head.txt")))
    (limited,) = kernel.limited_links(sample("dmesg/pcie_bandwidth_limited.txt"))

    assert decoded[1].at is not None
    assert decoded[0].at is not None
    assert decoded[1].at - decoded[0].at == 60
    assert (raw.at, raw.text[:15]) == (227.996636, "nvidia-peermem ")
    assert next(kernel.messages("[   12.5] usb 1-1: new")).at == 12.5
    assert (limited.pci, limited.available, limited.capable) == ("0000:01:00.0", 31.504, 63.012)
    xid = "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi\nnvidia-nvswitch0: SXid (PCI:0000:86:00.0): 12028, Non-fatal\n"
    assert kernel.xids(xid) == [
        kernel.Xid("0000:9b:00.0", 119),
        kernel.Xid("0000:86:00.0", 12028, switch=True),
    ]
    log = "2026-01-01T00:00:00,5+00:00 mlx5_core 0000:1a:00.0 eth0: Link down\nbnxt_en 0000:3b:00.0 ens1: NIC Link is Down\n"
    downs = kernel.link_downs(log)
    assert {name: len(times) for name, times in downs.items()} == {"eth0": 1, "ens1": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,169,933", 1169933),
        ("0x33bf", 0x33BF),
        (" 7\n", 7),
        ("N/A", None),
        ("", None),
        ("1.5", None),
        ("9" * 50, None),
    ],
)
def test_whole_numbers(text, value):
    """Separators and hexadecimal are read; what is no whole number is None, never 0."""
    assert numbers.whole(text) == value


@pytest.mark.parametrize(
    ("past", "now", "bits", "state", "by"),
    [
        (0, 5, 0, State.GROWN, 5),
        (5, 5, 8, State.SAME, 0),
        (5, 255, 8, State.GROWN, 250),
        (255, 255, 8, State.SATURATED, 0),
        (15, 15, 4, State.SATURATED, 0),
        (15, 15, 8, State.SAME, 0),
        (300, 300, 8, State.SAME, 0),
        (200, 3, 8, State.RESET, 0),
        (2**32 - 10, 5, 0, State.GROWN, 15),
        (2**64 - 1, 0, 0, State.GROWN, 1),
        (2**31, 5, 0, State.RESET, 0),
        (9, 2, 0, State.RESET, 0),
    ],
)
def test_growth(past, now, bits, state, by):
    """Narrow counters stop at their end, wide ones wrap near it; anything else that fell was reset."""
    assert (growth(past, now, bits).state, growth(past, now, bits).by) == (state, by)

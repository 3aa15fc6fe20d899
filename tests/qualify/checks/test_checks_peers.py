"""Mistakes seen in other tools of this kind, each made impossible or harmless here (see test_checks_mistakes.py)."""

from __future__ import annotations

import pytest

from nettune.checks import Status, exit_code
from nettune.qualify.checks import Context, judge
from nettune.qualify.checks.parsers import kernel, mlxlink, pci
from nettune.qualify.checks.rules.pcie import cables
from nettune.qualify.checks.settings import read_settings
from topology.capture import CaptureState

IB, PCI = "/sys/class/infiniband", "/sys/bus/pci/devices"


def status_of(findings, check, host="h0"):
    """Return the statuses of a check on a host."""
    return {str(f.status) for f in findings if f.check == check and f.where.node == host}


def test_a_tool_that_errs_is_no_success(sound, with_state):
    """Elsewhere a checker's own error ended with exit status 0: here it is UNKNOWN, and exit status 2.

    Mistake: tool error is exit 0.
    """
    capture = sound(0, commands={"nvidia-smi -q": ""})
    broken = with_state(
        capture, "nvidia-smi -L", CaptureState.ERROR, note="NVML: Driver/library version mismatch"
    )
    findings = judge([broken])

    assert status_of(findings, "gpu-missing") == {"UNKNOWN"}
    assert exit_code(findings) == 2


def test_gpus_without_a_network_do_not_pass(capture_of):
    """Elsewhere a node without any NIC for its GPUs passed.

    Mistake: Pass with no GPU NIC.
    """
    lspci = "0000:19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n"
    findings = judge(
        [capture_of(commands={"lspci -Dvvv": lspci, "nvidia-smi -L": "GPU 0: H100 (UUID: GPU-1)\n"})]
    )

    assert status_of(findings, "nic-missing") == {"UNKNOWN"}
    assert exit_code(findings) == 2


def test_a_later_sound_device_does_not_reset_the_verdict(sound):
    """Elsewhere a loop set the status to true again for each device: the first bad one was lost.

    Mistake: Loop resets verdict.
    """
    bad = {f"{IB}/mlx5_0/ports/1/state": "1: DOWN\n", f"{IB}/mlx5_0/ports/1/phys_state": "2: Polling\n"}

    assert status_of(judge([sound(0, files=bad)]), "port-state") == {"FAIL"}


def test_devices_are_discovered_and_not_listed_by_hand(sound, capture_of):
    """Elsewhere a list of devices had one name typed twice: NICs come from the host, and a wrong name is refused.

    Mistake: HCA name typed wrong in a list.
    """
    findings = judge([sound(0)], Context(job_env={"NCCL_IB_HCA": "=mlx5_0,mlx5_1,mlx5_2,mlx5_33"}))

    assert status_of(findings, "job-env") == {"FAIL", "WARN"}


def test_a_device_in_a_slower_slot_is_no_fault(sound):
    """Width and speed are compared with the smaller of both ends, not with a number of the product."""
    slot = {
        f"{PCI}/0000:32:01.0/max_link_speed": "16.0 GT/s PCIe\n",
        f"{PCI}/0000:4d:00.0/current_link_speed": "16.0 GT/s PCIe\n",
    }

    assert status_of(judge([sound(0, files=slot)]), "pcie-link") == {"PASS"}


def test_an_idle_gpu_is_no_fault_but_a_narrow_one_is(sound):
    """GPUs drop their link to 2.5 GT/s when idle; they never drop lanes."""
    idle = {f"{PCI}/0000:19:00.0/current_link_speed": "2.5 GT/s PCIe\n"}
    narrow = {f"{PCI}/0000:19:00.0/current_link_width": "8\n"}

    assert status_of(judge([sound(0, files=idle)]), "pcie-link") == {"PASS"}
    assert status_of(judge([sound(0, files=narrow)]), "pcie-link") == {"FAIL"}


def test_downgraded_links_are_found_without_the_word(shared):
    """Old lspci prints no `(downgraded)`; and not every line with the word leads to a GPU or NIC.

    Mistake: `grep "(downgraded)"` misses old lspci.
    """
    old = (shared / "samples/lspci/lnksta_gen3_no_downgraded_word.txt").read_text()
    head = "0000:01:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
    device = pci.lspci(head + old)["0000:01:00.0"]

    assert (device.now.speed, device.max.speed, device.said_downgraded) == (8.0, 16.0, False)
    tree = pci.lspci((shared / "samples/lspci/lspci-vvv_full_host.txt").read_text())
    words = [one.address for one in tree.values() if one.said_downgraded]
    ends = [path for one in tree.values() if one.kind == "gpu" for path in [pci.path_to(tree, one.address)]]
    assert len(words) > 10
    assert {len(path) for path in ends} == {4}
    assert all(low.now == pci.Link(32.0, 16) for path in ends for _, low in cables(path))


def test_two_ports_of_one_switch_are_no_link():
    """A downstream port describes the link below it: comparing it with the upstream port would blame sound slots."""
    names = ("root", "up", "down", "device")
    path = [pci.PciDevice(name) for name in names]

    assert [(high.address, low.address) for high, low in cables(path) if high] == [
        ("down", "device"),
        ("root", "up"),
    ]
    assert cables(path[:1]) == [(None, path[0])]


def test_the_rate_of_a_port_that_is_down_is_not_a_rate(sound):
    """`Rate: 40` of a disabled port is a leftover: no check of rates speaks of it.

    Mistake: `Rate: 40` on a Disabled port.
    """
    down = {f"{IB}/mlx5_0/ports/1/state": "1: DOWN\n", f"{IB}/mlx5_0/ports/1/phys_state": "3: Disabled\n",
            f"{IB}/mlx5_0/ports/1/rate": "40 Gb/sec (4X QDR)\n"}  # fmt: skip
    findings = judge([sound(0, files=down)])

    assert status_of(findings, "port-rate") == {"PASS"}
    assert status_of(findings, "port-state") == {"FAIL"}


def test_management_ports_are_not_rails(capture_of):
    """A down 100G port beside eight active 400G ports is no lost rail; elsewhere it made hosts unhealthy."""
    port = "CA '{}'\n\tCA type: {}\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: {}\n\t\tLink layer: Ethernet\n"
    rails = "".join(port.format(f"mlx5_{n}", "MT4129", "Active", "LinkUp", 400) for n in range(8))
    text = rails + port.format("mlx5_8", "MT4125", "Down", "Disabled", 40)

    assert status_of(judge([capture_of(commands={"ibstat": text})]), "port-state") == {"PASS"}


def test_second_ports_that_nobody_cabled_are_not_rails(capture_of):
    """Half of a model's ports being down is how two-port cards are cabled, one of many is a lost rail."""
    port = "CA '{}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n\t\tRate: 400\n"
    names = [f"mlx5_{n}" for n in range(8)]

    def statuses(down):
        text = "".join(
            port.format(n, *(("Down", "Disabled") if n in down else ("Active", "LinkUp"))) for n in names
        )
        return status_of(judge([capture_of(commands={"ibstat": text})]), "port-state")

    assert statuses(names[:4]) == {"WARN"}
    assert statuses(names[:1]) == {"FAIL"}


def test_ports_that_are_down_on_all_hosts_are_unused(sound):
    """What is down everywhere is not in use; what is down on one host is a fault."""
    down = {f"{IB}/mlx5_3/ports/1/state": "1: DOWN\n", f"{IB}/mlx5_3/ports/1/phys_state": "3: Disabled\n"}

    assert status_of(judge([sound(n, files=down) for n in range(4)]), "port-state") == {"PASS"}
    assert status_of(
        judge([sound(n, files=down if n == 2 else {}) for n in range(4)]), "port-state", "h2"
    ) == {"FAIL"}


@pytest.mark.parametrize(
    ("past", "now", "status"),
    [("254", "255", "FAIL"), ("255", "255", "UNKNOWN"), ("255", "3", "UNKNOWN"), ("7", "7", "PASS"), ("7", "8", "FAIL"),
     ("300", "301", "FAIL"), (None, "9", "UNKNOWN"), ("9", None, "UNKNOWN")],
)  # fmt: skip
def test_counters_saturate_and_are_reset_and_missing(sound, past, now, status):
    """link_downed stops at 255, is cleared, or is absent: only growth that was seen is a fault, only zero a pass.

    Mistake: link_downed saturates at 255.
    """
    name = f"{IB}/mlx5_0/ports/1/counters/link_downed"
    ports = [f"{IB}/mlx5_{n}/ports/1/counters/link_downed" for n in range(1, 4)]
    others = dict.fromkeys(ports)
    before, after = sound(0, files=others | {name: past}), sound(0, files=others | {name: now})
    findings = judge([after], Context(before={"h0": before}))

    assert status_of(findings, "link-downs") == {status}


def test_counters_do_not_condemn_a_host_for_ever(sound):
    """Large counts from long ago are no fault without growth, and no pass without a second capture."""
    old = {
        f"{IB}/mlx5_0/ports/1/counters/symbol_error": "5000\n",
        f"{IB}/mlx5_0/ports/1/counters/link_downed": "30\n",
    }
    capture = sound(0, files=old)
    alone, twice = judge([capture]), judge([capture], Context(before={"h0": capture}))

    (said,) = (one for one in alone if one.check == "earlier-capture")
    assert (str(said.status), str(said.where)) == ("UNKNOWN", "fabric")
    assert {"signal-errors", "link-downs"} <= set(said.evidence["checks"])
    assert status_of(alone, "signal-errors") == status_of(alone, "link-downs") == set()
    assert status_of(twice, "signal-errors") == status_of(twice, "link-downs") == {"PASS"}


def test_a_reboot_between_captures_is_no_growth(sound):
    """Counters begin anew with the machine: the pair says nothing."""
    before = sound(0, files={"/proc/uptime": "9000.0 1.0\n"})
    after = sound(0, files={"/proc/uptime": "60.0 1.0\n", f"{IB}/mlx5_0/ports/1/counters/link_downed": "3\n"})

    assert status_of(judge([after], Context(before={"h0": before})), "link-downs") == {"UNKNOWN"}


def test_packets_that_only_overtook_each_other_are_no_loss(sound):
    """out_of_sequence grows with adaptive routing: alone it is no fault."""
    names = [f"{IB}/mlx5_0/ports/1/hw_counters/{name}" for name in ("out_of_sequence", "packet_seq_err")]
    before = sound(0)
    overtaken = sound(0, files={names[0]: "999999\n", "/proc/uptime": "2000.0 1\n"})
    lost = sound(0, files={names[0]: "999999\n", names[1]: "99999\n", "/proc/uptime": "2000.0 1\n"})

    assert status_of(judge([overtaken], Context(before={"h0": before})), "loss") == {"PASS"}
    assert status_of(judge([lost], Context(before={"h0": before})), "loss") == {"FAIL"}


def test_a_flap_of_last_week_is_forgotten(sound):
    """Elsewhere a flap stayed until somebody cleared it by hand."""
    log = "".join(
        f"2026-01-01T0{n}:00:00,000000+00:00 mlx5_core 0000:1a:00.0 eth0: Link down\n" for n in range(6)
    )
    dmesg = "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info"
    soon = sound(0, commands={dmesg: log, "date +%s": "1767240000\n"})
    later = sound(0, commands={dmesg: log, "date +%s": "1767840000\n"})

    assert status_of(judge([soon]), "link-flaps") == {"FAIL"}
    assert status_of(judge([later]), "link-flaps") == {"PASS"}


def test_zero_is_written_in_strange_ways(shared):
    """`15E-255` is zero, N/A is no number, keys and sentences of mlxlink differ between releases.

    Mistake: `15E-255` is zero, `N/A`, keys of mlxlink by MFT version.
    """
    report = mlxlink.mlxlink((shared / "samples/mlxlink/bf3_100g_ok.txt").read_text())
    failed = mlxlink.mlxlink((shared / "samples/mlxlink/json_eth_fail.txt").read_text())

    assert report.ber("effective physical ber") == 0.0
    assert report.ber("group opcode") is None
    assert failed.ber("effective physical ber") == 1e-10
    assert failed.lanes("raw physical errors per lane") == [15000.0, 0.0, 0.0, 0.0]


def test_application_xids_are_no_hardware_fault(shared):
    """618 Xids 13 and six 43 are of programs; a host is not drained for them."""
    found = kernel.xids((shared / "samples/dmesg/gpud_decode_iso_0.txt").read_text())

    assert {xid.pci for xid in found} == {"0000:38:00.0"}
    assert {xid.number for xid in found} == {13, 43}


def test_limits_carry_their_unit_and_origin(sound):
    """Elsewhere GB/s and Gb/s were mixed and numbers came from nowhere: each limit that is quoted says both.

    Mistake: README/conf drift and GB/s vs Gb/s.
    """
    findings = judge(
        [sound(0, commands={"mlxlink -d mlx5_2 -m -c": "Effective Physical BER             : 1E-9\n"})]
    )
    (finding,) = [f for f in findings if f.check == "bit-errors" and f.status is Status.FAIL]
    (limit,) = finding.evidence["limits"]

    assert (limit["value"], limit["unit"]) == (1e-12, "errors per bit")
    assert "oci-dr-hpc" in limit["why"]


def test_one_of_an_odd_number_of_hosts_is_judged_like_the_others(sound):
    """Elsewhere the odd host out was never tested.

    Mistake: Odd node untested.
    """
    findings = judge([sound(n) for n in range(5)])

    assert {f.where.node for f in findings if f.check == "port-state"} == {f"h{n}" for n in range(5)}


def test_two_hosts_that_differ_are_not_both_blamed(sound):
    """Elsewhere both nodes of a bad pair were drained: without a majority nothing is claimed against either.

    Mistake: Both nodes of a failed pair drained.
    """
    odd = {f"{IB}/mlx5_{n}/fw_ver": "28.39.1002\n" for n in range(4)}
    findings = judge([sound(0), sound(1, files=odd)])

    assert status_of(findings, "versions") == status_of(findings, "versions", "h1") == {"PASS"}


def test_an_option_in_the_file_reaches_the_verdict(sound, tmp_path):
    """Elsewhere a command line lacked its variable's value: a limit that is set is used and quoted as set.

    Mistake: f-string without f.
    """
    path = tmp_path / "checks.toml"
    path.write_text("[limits]\neffective-ber = 1e-8\n")
    capture = sound(0, commands={"mlxlink -d mlx5_2 -m -c": "Effective Physical BER             : 1E-9\n"})
    findings = judge([capture], Context(settings=read_settings(path, ["acs"])))
    passed = next(f for f in findings if f.check == "bit-errors" and f.status is Status.PASS)

    assert {
        "name": "effective-ber",
        "value": 1e-8,
        "unit": "errors per bit",
        "why": "set in checks.toml",
    } in (passed.evidence["limits"])


def test_container_bridges_are_no_data_interfaces(capture_of):
    """Where a host tells its devices, the MTU of a bridge that differs is not judged; that of a NIC is."""

    def host(name, bridge, nic):
        files = {f"/sys/class/net/{net}/{key}": value for net, mtu in (("docker0", bridge), ("ens1", nic))
                 for key, value in (("mtu", mtu), ("operstate", "up"))}  # fmt: skip
        link = {"readlink -f /sys/class/net/ens1/device": "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"}
        return capture_of(files, link, host=name)

    captures = [host(f"h{n}", "1450" if n == 1 else "1500", "1500" if n == 2 else "9000") for n in range(4)]
    found = {(f.check, str(f.where)) for f in judge(captures) if f.status is Status.FAIL}

    assert found == {("mtu", "host/h2/nic/ens1")}


def test_sys_of_another_namespace_is_not_believed(capture_of):
    """The MTU is that of the interface which `ip` shows, also where /sys shows another one of the same name."""

    def host(name, mtu):
        files = {"/sys/class/net/eth0/mtu": "1400", "/sys/class/net/eth0/address": "02:00:00:00:00:09",
                 "/sys/class/net/ens7/mtu": "1300", "/sys/class/net/ens7/operstate": "up"}  # fmt: skip
        row = f'[{{"ifname":"eth0","mtu":{mtu},"operstate":"UP","address":"02:00:00:00:00:01"}}]'
        return capture_of(files, {"ip -j -d -s -s link": row}, host=name)

    findings = judge([host(f"h{n}", 1500 if n == 2 else 9000) for n in range(4)])

    assert {str(f.where) for f in findings if f.status is Status.FAIL} == {"host/h2/nic/eth0"}
    assert {f.what for f in findings if f.status is Status.PASS and f.check == "mtu"} == {
        "MTU of 1 data interfaces: 9000"
    }


def test_many_slow_ports_are_no_rails(capture_of):
    """Rails are the model with most bandwidth, not the one with most ports."""
    port = "CA '{}'\n\tCA type: {}\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: Polling\n\t\tRate: {}\n"
    rails = "".join(port.format(f"mlx5_{n}", "MT4129", "Active", 400) for n in range(4))
    slow = "".join(
        port.format(f"mlx5_{n}", "MT4125", "Active" if n < 9 else "Down", 25) for n in range(4, 10)
    )

    assert status_of(judge([capture_of(commands={"ibstat": rails + slow})]), "port-state") == {"PASS"}


def test_the_mtu_of_a_port_that_is_down_is_not_judged(sound):
    """A port that is down shows a small MTU: that is one fault, not two."""
    down = {f"{IB}/mlx5_0/ports/1/state": "1: DOWN\n", f"{IB}/mlx5_0/ports/1/phys_state": "3: Disabled\n",
            "/sys/class/net/eth0/mtu": "1500\n"}  # fmt: skip
    findings = judge([sound(n, files=down if n == 0 else {}) for n in range(4)])

    assert status_of(findings, "mtu") == {"PASS"}
    assert status_of(findings, "port-state") == {"FAIL"}

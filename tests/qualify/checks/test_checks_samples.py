"""Recorded samples: the verdict on each, derived by hand from its text, beside the verdict of the checks."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.qualify.checks import Context, judge
from nettune.qualify.checks.neighbours import heard_by
from nettune.qualify.checks.view import HostView

IB = "/sys/class/infiniband"
_SPEC = importlib.util.spec_from_file_location(
    "sample_verdicts", Path(__file__).with_name("sample_verdicts.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
sample_verdicts = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sample_verdicts)


def claims(findings):
    """Return what is neither PASS nor UNKNOWN."""
    return {
        (f.check, str(f.status), str(f.where)) for f in findings if f.status in {Status.WARN, Status.FAIL}
    }


def sample_files(shared):
    """Return all samples but the files that tell their origin, as paths below the folder of samples."""
    folder = shared / "samples"
    every = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in every if path.suffix != ".src")


@pytest.mark.parametrize("name", sample_verdicts.VERDICTS)
def test_a_recorded_sample_has_the_verdict_that_was_derived_by_hand(shared, name):
    """Faults are found where they are, sound hosts have none, and a text that says nothing of a check is no pass."""
    folder = shared / "samples"
    fakes = folder / "gcm_fakefs"
    sample_verdicts.GOOD.update(
        eth=(fakes / "eth_learn_good.json.txt").read_text(),
        ib=(fakes / "learn_ib_intf_bad_rate.json.txt").read_text(),
    )
    row = sample_verdicts.VERDICTS[name]
    captures, before = row.way((folder / name).read_text(errors="replace"))
    findings = judge(captures, Context(before=before))
    of_status = {
        status: {f.check for f in findings if f.status is status and f.where.node in {"h0", None}}
        for status in Status
    }

    assert {" ".join(claim) for claim in claims(findings)} == set(
        filter(None, map(str.strip, row.loud.split(";")))
    )
    assert set(row.passes.split()) <= of_status[Status.PASS]
    assert set(row.unknown.split()) <= of_status[Status.UNKNOWN]
    assert not set(row.unknown.split()) & of_status[Status.PASS]


def test_every_sample_has_a_verdict(shared):
    """A new sample without a row fails here, and so does a row without its sample."""
    names = sample_files(shared)
    folders = {name.partition("/")[0] for name in names}
    beyond = sample_verdicts.ELSEWHERE.keys() | sample_verdicts.NOT_READ.keys()

    assert {name for name in names if name.partition("/")[0] not in beyond} == sample_verdicts.VERDICTS.keys()
    assert beyond <= folders
    assert {name for name in names if name.startswith("switch_qos/")} == {
        f"switch_qos/{name}" for name in SWITCHES
    }
    assert {name for name in names if name.startswith("lldp/")} == {f"lldp/{name}" for name in NEIGHBOURS}
    of_sys = {name for name in names if name.startswith("sysfs/") and "infiniband-h100" not in name}
    assert of_sys == {"sysfs/tc_traffic_class_global_tclass.txt"}


H0 = {"eth0": "leaf0 d0"}
LEAF0 = {"d0": "h0 eth0", "d1": "h1 eth0", "u0": "spine0 d0", "u1": "spine1 d0"}
SPINE1 = {f"d{n}": f"leaf{n} u1" for n in range(4)}
# Interface -> neighbour and its port, as the text tells them; {} for what is not of `show neighbors` in JSON.
NEIGHBOURS = {
    "h0.json": H0, "h0.json0": H0, "leaf0.json": LEAF0, "leaf0.json0": LEAF0, "spine1.json": SPINE1, "spine1.json0": SPINE1,
    **{f"{node}.{form}": {} for node in ("h0", "leaf0", "spine1") for form in ("chassis.json0", "keyvalue", "plain", "xml")},
    "sichek_bjg45.json.txt": {"ens11f0": "bj08-m1-a10-40-swl017 25GE1/0/39"},
    "sichek_clnet36.json.txt": {"ens14f0np0": "CL-A052A Twenty-FiveGigE1/0/16", "eth0": "CL-RLF233 FourHundredGigE1/0/98"},
    "sichek_dracog24.json.txt": {"eth1": "TJWQHY_D2_401-C-01-47.VEGS0-0-50 ethernet12a"},
}  # fmt: skip


@pytest.mark.parametrize(("name", "cables"), NEIGHBOURS.items())
def test_recorded_neighbours(shared, capture_of, name, cables):
    """Both JSON forms give each cable; one host alone has no peers to be compared with, which is no pass."""
    text = (shared / "samples" / "lldp" / name).read_text()
    capture = capture_of(commands={"lldpctl -f json": text})
    heard = heard_by(HostView(capture))
    findings = judge([capture])

    assert {port: f"{one.station.name} {one.far_port}" for port, one in heard.items()} == cables
    assert claims(findings) == set()
    assert {str(f.status) for f in findings} == {"UNKNOWN"}


# config_db -> verdict for traffic class 106 (DSCP 26) and for 12 (DSCP 3); None: it is none.
SWITCHES: dict[str, tuple[str, str] | None] = {
    # 26 to class 3 with PFC and ECN; 3 is in no map and so in class 0
    "own_sonic_roce_example.json": ("PASS", "FAIL"),
    # the maps that SONiC ships: 26 in a class without PFC, 3 and 4 lossless and marked; here but for two service ports
    "sonic_qos-arista7060x6.json": ("FAIL", "WARN"),
    "sonic_qos-arista7260-t0.json": ("FAIL", "PASS"),
    "sonic_qos-mellanox4600c-c64.json": ("FAIL", "PASS"),
    # buffers only: no port has a map
    "sonic_buffers-mellanox2410.json": ("FAIL", "FAIL"),
    "sonic_buffers-mellanox4600c-t0-dynamic.json": ("FAIL", "FAIL"),
    **dict.fromkeys((
        "bnxt_configfs_cc_sequence.txt", "eos_avd_qos.cfg", "eos_rocm_dcqcn_7388.cfg", "eos_show_load_balance.txt",
        "h3c_roce.cfg", "junos_apstra_dcqcn_configlet.txt", "mlxconfig_params_roce_cc.csv", "mlxconfig_q_cx4lx_roce_cc.txt",
        "mlxconfig_q_e_three_columns.txt", "mlxreg_roce_accl_get.txt", "niccli_qos_commands.txt",
        "nicctl_show_qos_dcqcn.txt", "nvue_show_congestion_control_pfc_watchdog.txt",
        "nvue_show_interface_qos_roce_status.txt", "nvue_show_qos_roce_lossless_single_ipool.txt",
        "nvue_show_qos_roce_lossy_multi_tc.txt", "nxos_roce_qos.cfg", "sonic_cli_dell_z9664f_roce.cfg",
        "sonic_nexthop5010_pg_profile_lookup.ini", "sonic_pfcwd_show.txt", "sonic_show_buffer_information.txt",
        "sonic_show_ecn.txt", "sonic_show_pfc_counters.txt", "sonic_show_queue_counters_json.txt",
        "sonic_show_queue_wredcounters.txt", "sonic_show_switch_hash_global.json", "sonic_sn5600_pg_profile_lookup.ini",
        "sysfs_ecn_real_cx.txt",
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, verdict in SWITCHES.items() if verdict])
def test_recorded_switches(shared, capture_of, name):
    """SONiC's own maps are lossless for DSCP 3 and 4 and lossy for 26; a RoCE configuration is the other way round."""
    config = json.loads((shared / "samples" / "switch_qos" / name).read_text())

    def status(traffic_class):
        context = Context(job_env={"NCCL_IB_TC": traffic_class}, switches={"leaf0": config})
        return {str(f.status) for f in judge([capture_of()], context) if f.check == "roce-switch"}

    worst = [max(status(number), key=["PASS", "WARN", "FAIL"].index) for number in ("106", "12")]

    assert tuple(worst) == SWITCHES[name]


def test_a_fault_of_all_ports_is_told_once(shared, capture_of):
    """A switch whose map is wrong gives one finding with its ports, not one a port; two service ports are a warning."""
    config = json.loads((shared / "samples" / "switch_qos" / "sonic_qos-arista7060x6.json").read_text())
    context = Context(job_env={"NCCL_IB_TC": "106"}, switches={"leaf0": config})
    found = [f for f in judge([capture_of()], context) if f.check == "roce-switch"]

    assert [(str(f.status), len(f.evidence["ports"])) for f in found] == [
        ("FAIL", 128),
        ("FAIL", 130),
        ("WARN", 2),
    ]
    assert "128 ports: Ethernet0, Ethernet4, " in found[0].what


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


def rdma_port(netdev="eth0", device="mlx5_0"):
    """Return files of one active RoCE port."""
    port = f"/sys/class/infiniband/{device}/ports/1"
    return {
        f"{port}/state": "4: ACTIVE\n", f"{port}/link_layer": "Ethernet\n", f"{port}/rate": "100 Gb/sec (4X EDR)\n",
        f"{port}/gid_attrs/ndevs/0": f"{netdev}\n",
    }  # fmt: skip


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

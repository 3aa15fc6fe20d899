"""The RoCE audit between ends: hosts, switches and cables that disagree are found, and both ends are named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nettune.checks import Status
from nettune.qualify.checks import Context, judge

IB, NET = "/sys/class/infiniband", "/sys/class/net"
AUDIT = ("roce-", "gid", "mtu")
ENV = {"NCCL_IB_TC": "106"}


def leaf(hosts=4, spine=True, **rows) -> dict[str, Any]:
    """Make a sound config_db: host n on Ethernet<n>, a spine on Ethernet64; `rows` replaces rows of tables."""
    ports = [f"Ethernet{n}" for n in range(hosts)] + ["Ethernet64"] * spine
    identity = {"0": "0", "3": "3", "6": "6"}
    qos = {"dscp_to_tc_map": "R", "tc_to_queue_map": "R", "tc_to_pg_map": "R", "pfc_to_queue_map": "R", "pfc_enable": "3"}  # fmt: skip
    config: dict[str, Any] = {
        "PORT": {port: {"mtu": "9100", "alias": f"etp{n}"} for n, port in enumerate(ports)},
        "DSCP_TO_TC_MAP": {"R": {"0": "0", "26": "3", "48": "6"}},
        "TC_TO_QUEUE_MAP": {"R": identity},
        "TC_TO_PRIORITY_GROUP_MAP": {"R": {"0": "0", "3": "3", "6": "0"}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"R": {"3": "3", "4": "4"}},
        "WRED_PROFILE": {
            "ECN": {"ecn": "ecn_all", "wred_green_enable": "true", "green_drop_probability": "5"}
        },
        "QUEUE": {f"{port}|3": {"wred_profile": "ECN"} for port in ports},
        "PORT_QOS_MAP": {port: dict(qos) for port in ports} | {"global": {"dscp_to_tc_map": "R"}},
    }
    for table, changes in rows.items():
        config.setdefault(table, {}).update(changes)
    return config


def changed(port, **keys) -> dict[str, Any]:
    """Return the sound row of a port in PORT_QOS_MAP with other keys."""
    return {"PORT_QOS_MAP": {port: leaf()["PORT_QOS_MAP"][port] | keys}}


def loud(captures, switches=None, env=ENV, **context):
    """Findings of the audit that are neither PASS nor UNKNOWN."""
    given = Context(job_env=env, switches=switches or {}, **context)
    return [
        finding
        for finding in judge(captures, given)
        if finding.check.startswith(AUDIT) and finding.status in {Status.WARN, Status.FAIL}
    ]


def fleet(sound, size, **changes):
    """Make hosts of which h1 is changed, by its texts or in its files."""
    return [sound(number, **(changes if number == 1 else {})) for number in range(size)]


def of_all_rails(change) -> dict[str, Any]:
    """One change for each rail."""
    found: dict[str, Any] = {}
    for rail in range(4):
        found |= change(rail)
    return found


def qos(sound, old, new):
    """mlnx_qos of all rails with a text replaced."""
    text = sound(0).commands["mlnx_qos -i eth0"].text
    assert old in text
    return {"commands": {f"mlnx_qos -i eth{rail}": text.replace(old, new) for rail in range(4)}}


PFC_ON = "0   0   0   1   0   0   0   0\n\tbuffer"
DISAGREEMENTS = {
    "trust": (lambda s: qos(s, "state: dscp", "state: pcp"), "trust", "pcp", "dscp"),
    "dscp map": (
        lambda s: qos(s, "31,30,29,28,27,26,25,24,\n\tprio:4 dscp:", "31,30,29,28,27,25,24,\n\tprio:4 dscp:26,"),
        "priority of the job's packets", "4", "3"),
    "pfc priority": (lambda s: qos(s, PFC_ON, "0   0   0   0   1   0   0   0\n\tbuffer"), "PFC", "4", "3"),
    "pfc off": (lambda s: qos(s, PFC_ON, "0   0   0   0   0   0   0   0\n\tbuffer"), "PFC", "no priority", "3"),
    "ecn": (lambda s: {"files": of_all_rails(lambda r: {f"{NET}/eth{r}/ecn/roce_rp/enable/3": "0\n"})},
            "ECN of the sender (roce_rp)", "0, 1, 2, 4, 5, 6, 7", "0, 1, 2, 3, 4, 5, 6, 7"),
    "pause": (lambda s: {"commands": of_all_rails(lambda r: {f"ethtool -a eth{r}": "RX:\ton\nTX:\toff\n"})},
              "link-wide pause", "rx on, tx off", "rx off, tx off"),
    "global class": (lambda s: {"files": of_all_rails(lambda r: {f"{IB}/mlx5_{r}/tc/1/traffic_class": "Global tclass=104\n"})},
                     "traffic class", "104", "106"),
    "nccl.conf": (lambda s: {"files": of_all_rails(lambda r: {f"{IB}/mlx5_{r}/tc/1/traffic_class": None})
                             | {"/etc/nccl.conf": "NCCL_IB_TC=96\n"}}, "traffic class", "96", "106"),
    "gid version": (lambda s: {"files": of_all_rails(lambda r: {f"{IB}/mlx5_{r}/ports/1/gid_attrs/types/3": "IB/RoCE v1\n"})},
                    "type of NCCL's GID", "RoCE v1, IPv4", "RoCE v2, IPv4"),
    "gid family": (lambda s: {"files": of_all_rails(lambda r: {f"{IB}/mlx5_{r}/ports/1/gids/3": f"fd00:0:0:{r}::1\n"})},
                   "type of NCCL's GID", "RoCE v2, IPv6", "RoCE v2, IPv4"),
    "mtu": (lambda s: {"files": of_all_rails(lambda r: {f"{NET}/eth{r}/mtu": "1500\n"})}, "MTU (RoCE interface)", "1500", "9000"),
}  # fmt: skip


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("change", "what", "here", "there"), DISAGREEMENTS.values(), ids=DISAGREEMENTS)
def test_hosts_that_disagree_are_both_named(sound, size, change, what, here, there):
    """Of four hosts the one that differs is blamed and its counterpart named; of two hosts nobody is blamed, both are named."""
    # A job that sets no class itself leaves it to the file.
    env = None if what == "traffic class" and here == "96" else ENV
    found = [
        f for f in loud(fleet(sound, size, **change(sound)), env=env) if f.evidence.get("setting") == what
    ]

    assert found
    assert {f.status for f in found} == {Status.FAIL}
    if size == 4:
        assert {str(f.where) for f in found} == {f"host/h1/nic/mlx5_{rail}" for rail in range(4)}
        assert found[0].what == f"{what} is {here} here and {there} on h0 mlx5_0"
    else:
        [finding] = found
        assert str(finding.where) == "fabric"
        assert f"{here} on h1 mlx5_0" in finding.what
        assert f"{there} on h0 mlx5_0" in finding.what


def test_a_sound_set_passes_end_to_end(sound):
    """Two hosts and four hosts, with and without their switches: nothing is claimed, and each part says that it passed."""
    switches = {f"leaf{rail}": leaf(DEVICE_NEIGHBOR={"Ethernet64": {"name": f"leaf{rail ^ 1}", "port": "Ethernet64"}})
                for rail in range(4)}  # fmt: skip
    for size in (2, 4):
        captures = [sound(number) for number in range(size)]
        assert loud(captures) == loud(captures, switches) == []
        passed = {(f.check, str(f.where)) for f in judge(captures, Context(job_env=ENV, switches=switches))
                  if f.status is Status.PASS}  # fmt: skip
        for check in (
            "roce-agreement",
            "roce-cable",
            "roce-trust",
            "roce-pfc",
            "roce-ecn",
            "roce-pause",
            "gid",
            "mtu",
        ):
            assert (check, "host/h1") in passed
        assert ("roce-switch", "switch/leaf2") in passed
        assert ("roce-cable", "link/leaf2:Ethernet64--leaf3:Ethernet64") in passed


CABLE = "link/h1:mlx5_2--leaf2:Ethernet1"
MAPS = {"DSCP_TO_TC_MAP": {"R": {"0": "0", "26": "4", "48": "6"}}}
SWITCH_FAULTS = {
    # DSCP 26 to another queue that is just as lossless and marked: only the two ends together show it
    "another lossless queue": (
        leaf(**MAPS, TC_TO_QUEUE_MAP={"R": {"4": "4"}}, TC_TO_PRIORITY_GROUP_MAP={"R": {"4": "4"}},
             QUEUE={f"Ethernet{n}|4": {"wred_profile": "ECN"} for n in range(4)},
             PORT_QOS_MAP={f"Ethernet{n}": leaf()["PORT_QOS_MAP"]["Ethernet0"] | {"pfc_enable": "3,4"} for n in range(4)}),
        "roce-cable", CABLE, ["DSCP 26 is priority 3 on h1 mlx5_2 and 4 on leaf2 Ethernet1"]),
    "a lossy queue": (leaf(**MAPS), "roce-switch", "switch/leaf2",
                      ["DSCP 26 leads to traffic class 4, queue 4, PFC is on 3", "Ethernet1 to h1 eth2"]),
    "pfc on another priority": (leaf(**changed("Ethernet1", pfc_enable="4")), "roce-cable", CABLE,
                                ["PFC is on 3 on h1 mlx5_2 and 4 on leaf2 Ethernet1"]),
    "mtu": (leaf(PORT={"Ethernet1": {"mtu": "1500"}}), "roce-cable", CABLE,
            ["MTU is 9000 on h1 mlx5_2 and 1500 on leaf2 Ethernet1"]),
    "mtu of 4096": (leaf(PORT={"Ethernet1": {"mtu": "4096"}}), "roce-cable", CABLE, ["9000 on h1 mlx5_2 and 4096 on"]),
    "ecn on another queue": (leaf(QUEUE={"Ethernet1|3": {}, "Ethernet1|4": {"wred_profile": "ECN"}}), "roce-cable", CABLE,
                             ["h1 mlx5_2", "queue 3 of DSCP 26 on leaf2 Ethernet1", "no WRED profile"]),
    "ecn for another colour": (leaf(WRED_PROFILE={"ECN": {"ecn": "ecn_yellow_red"}}), "roce-switch", "switch/leaf2",
                               ["marks nothing: `ecn` of its WRED profile is ecn_yellow_red"]),
    "marks with probability 0": (leaf(WRED_PROFILE={"ECN": {"ecn": "ecn_all", "green_drop_probability": "0"}}),
                                 "roce-switch", "switch/leaf2", ["probability 0"]),
    "a pause that stops another queue": (leaf(MAP_PFC_PRIORITY_TO_QUEUE={"R": {"3": "5"}}), "roce-switch", "switch/leaf2",
                                         ["a pause of its priority 3 stops queue 5"]),
    "a group that pauses nobody": (leaf(TC_TO_PRIORITY_GROUP_MAP={"R": {"3": "0"}}), "roce-switch", "switch/leaf2",
                                   ["PFC is on 3"]),
    "no trust": (leaf(DSCP_TO_TC_MAP={"R": {}}), "roce-switch", "switch/leaf2", ["has no DSCP map"]),
    "an uplink": (leaf(**changed("Ethernet64", pfc_enable="4"),
                       DEVICE_NEIGHBOR={"Ethernet64": {"name": "leaf3", "port": "Ethernet64"}}),
                  "roce-cable", "link/leaf2:Ethernet64--leaf3:Ethernet64",
                  ["PFC is on 4 on leaf2 Ethernet64 and 3 on leaf3 Ethernet64"]),
}  # fmt: skip


@pytest.mark.parametrize(("config", "check", "where", "says"), SWITCH_FAULTS.values(), ids=SWITCH_FAULTS)
def test_a_switch_that_disagrees_with_its_hosts_is_found(sound, config, check, where, says):
    """The cable or the switch, with the host at its other end."""
    captures = [sound(number) for number in range(4)]
    found = loud(captures, {"leaf2": config, "leaf3": leaf()})
    there = [f for f in found if (f.check, str(f.where), f.status) == (check, where, Status.FAIL)]

    assert there
    assert [words for words in says if not any(words in f.what for f in there)] == []
    assert not [f for f in found if f.where.node in {"h0", "h1", "h2", "h3"}]


def test_the_switch_may_be_captured_or_tell_its_neighbours_itself(sound, capture_of):
    """A config_db in a capture counts like one that is given; DEVICE_NEIGHBOR stands in for LLDP, in both of its forms."""
    bad = changed("Ethernet1", pfc_enable="4")
    forms = (
        {"Ethernet1": {"name": "h1", "port": "eth2"}},
        {"h1": {"local_port": "Ethernet1", "port": "eth2"}},
    )
    silent = [sound(n, commands={"lldpcli -f json0 show neighbors details": None}) for n in range(2)]
    for rows in forms:
        config = json.dumps(leaf(**bad, DEVICE_NEIGHBOR=rows))
        switch = capture_of({"/etc/sonic/config_db.json": config}, host="leaf2")
        assert {str(f.where) for f in loud([*silent, switch]) if f.check == "roce-cable"} == {CABLE}


def test_a_front_panel_name_and_a_long_name_are_found(sound):
    """LLDP may tell the alias of a port and the full name of a switch."""
    lldp = "lldpcli -f json0 show neighbors details"
    text = sound(1).commands[lldp].text.replace("leaf2", "leaf2.example.org").replace("Ethernet1", "etp1")
    found = loud(
        [sound(0), sound(1, commands={lldp: text})], {"leaf2": leaf(**changed("Ethernet1", pfc_enable="4"))}
    )

    assert ["leaf2 Ethernet1" in f.what for f in found if f.check == "roce-cable"] == [True]


def test_a_port_that_the_switch_does_not_know_is_unknown(sound):
    """A cable into a port without settings is no pass."""
    config = leaf(hosts=1)
    found = {(str(f.status), str(f.where)) for f in judge([sound(1)], Context(job_env=ENV, switches={"leaf2": config}))
             if f.check == "roce-cable"}  # fmt: skip

    assert ("UNKNOWN", CABLE) in found


def test_pfc_and_mtu_are_compared_without_the_jobs_class(sound):
    """What the traffic class does not decide is judged where it is not known."""
    without = {"files": of_all_rails(lambda r: {f"{IB}/mlx5_{r}/tc/1/traffic_class": None})}
    captures = [sound(n, **without) for n in range(2)]
    config = leaf(**changed("Ethernet1", pfc_enable="4"), PORT={"Ethernet1": {"mtu": "1500"}})
    found = [f.what for f in loud(captures, {"leaf2": config}, env=None) if f.check == "roce-cable"]

    assert len(found) == 2


def test_a_fixed_index_that_is_another_type_on_one_host(sound):
    """Index 3 is RoCE v2 on h0 and v1 on h1: the port fails by itself, and both ends are named."""

    def moved(rail):
        port = f"{IB}/mlx5_{rail}/ports/1"
        gid = f"0000:0000:0000:0000:0000:ffff:0a{rail:02x}:0001\n"
        return {f"{port}/gid_attrs/types/3": "IB/RoCE v1\n", f"{port}/gids/5": gid,
                f"{port}/gid_attrs/types/5": "RoCE v2\n"}  # fmt: skip

    captures = fleet(sound, 2, files=of_all_rails(moved))
    fixed = loud(captures, env=ENV | {"NCCL_IB_GID_INDEX": "3"})
    free = loud(captures)

    assert {(f.check, str(f.where)) for f in fixed if f.status is Status.FAIL} == {
        ("roce-agreement", "fabric"), *(("gid", f"host/h1/nic/mlx5_{rail}") for rail in range(4))}  # fmt: skip
    assert "RoCE v1, IPv4 on h1 mlx5_0" in next(f.what for f in fixed if f.check == "roce-agreement")
    # NCCL 2.21 finds the right one on each: only a fixed index would break it.
    assert [(str(f.status), f.evidence["setting"]) for f in free] == [("WARN", "index of NCCL's GID")]


def test_a_class_that_the_device_overrides_warns(sound):
    """NCCL_IB_TC=104 beside a device whose global class is 106: the job's word has no effect."""
    found = [f.what for f in loud([sound(0)], env={"NCCL_IB_TC": "104"}) if f.check == "roce-trust"]

    assert len(found) == 4
    assert found[0] == "NCCL_IB_TC=104 has no effect: the device's global tclass is 106"


def test_what_differs_beside_the_jobs_packets_only_warns(sound):
    """Another priority for DSCP 40, or another receive buffer for priority 5."""
    for old, new in (("dscp:47,46,45,44,43,42,41,40", "dscp:47,46,45,44,43,42,41"),
                     ("buffer      0   0   0   1   0   0", "buffer      0   0   0   1   0   1")):  # fmt: skip
        found = loud(fleet(sound, 4, **qos(sound, old, new)))
        assert {(f.check, str(f.status)) for f in found} == {("roce-agreement", "WARN")}


def test_one_port_that_differs_on_a_lone_host(sound):
    """Three ports of one host outvote the fourth; at two against two the host is named."""
    text = sound(0).commands["mlnx_qos -i eth0"].text.replace("state: dscp", "state: pcp")
    one = loud([sound(0, commands={"mlnx_qos -i eth2": text})])
    two = loud([sound(0, commands={"mlnx_qos -i eth2": text, "mlnx_qos -i eth3": text})])

    def places(found):
        return {str(f.where) for f in found if f.evidence.get("setting") == "trust"}

    assert (places(one), places(two)) == ({"host/h0/nic/mlx5_2"}, {"host/h0"})


def test_ports_of_one_host_do_not_outvote_another_host(sound):
    """Four ports of h0 against one of h1 are two hosts that differ: neither is blamed."""
    pcp = sound(0).commands["mlnx_qos -i eth0"].text.replace("state: dscp", "state: pcp")
    commands = {f"mlnx_qos -i eth{rail}": None for rail in range(1, 4)} | {"mlnx_qos -i eth0": pcp}
    found = [f for f in loud([sound(0), sound(1, commands=commands)]) if f.evidence.get("setting") == "trust"]

    assert [str(f.where) for f in found] == ["fabric"]

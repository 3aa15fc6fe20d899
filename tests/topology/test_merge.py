from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Status
from topology.columns import NodeKind
from topology.filters import apply_filters
from topology.matching import hardware_key, match
from topology.merge import merge
from topology.readers.ethernet import UnnamedNeighbor
from topology.readers.said import Said

HOST, SWITCH = NodeKind.HOST, NodeKind.SWITCH


def said(source: str, *cables: str, logical: bool = False, **nodes: NodeKind) -> Said:
    """A source with cables `h0:eth0 leaf0:d0` and nodes; `leaf`, `spine`, `rack` in a name make a switch."""
    result = Said(source, "x", logical=logical)
    for name, kind in nodes.items():
        result.node(name, kind)
    for cable in cables:
        ends = [(end.split(":", 1)[0], end.split(":", 1)[1]) for end in cable.split()]
        for node, port in ends:
            result.node(node, SWITCH if any(word in node for word in ("leaf", "spine", "rack")) else HOST)
            result.port(node, port)
        result.link(*ends)
    return result


def of_check(result: Said, check: str) -> list[tuple[Status, str]]:
    return [(finding.status, str(finding.where)) for finding in result.findings if finding.check == check]


def test_one_source_stays_as_it_is():
    """Nothing is matched or copied where there is nothing to merge with."""
    only = said("a.txt", "h0:eth0 leaf0:d0")
    assert merge([only]) is only


def test_two_halves_of_a_cable_become_one_with_both_sources():
    """LLDP from both ends: one cable, each element remembers all that spoke of it, up to the fabric's provenance."""
    merged = merge(
        [said("h0.json", "h0:eth0 leaf0:d0"), said("leaf0.json", "leaf0:d0 h0:eth0", "leaf0:d1 h1:eth0")]
    )
    assert len(merged.links) == 2
    assert merged.ports["h0", "eth0"].sources == {"h0.json", "leaf0.json"}
    assert merged.nodes["h1"].sources == {"leaf0.json"}
    fabric = merged.to_fabric()
    assert fabric.provenance[fabric.links.source[0]] == "h0.json + leaf0.json"
    assert merged.findings == []
    assert merged.source == "h0.json + leaf0.json"


def test_what_one_source_lacks_the_other_fills_in():
    """Speed from one, rail and GPU from the other."""
    cables = said("cables.txt", "h0:mlx5_0 leaf0:1")
    cables.port("leaf0", "1", speed_gbps=400.0)
    host = Said("h0.xml", "nccl-topology")
    host.port("h0", "mlx5_0", rail=3)
    host.gpu("h0", 0, nics=("mlx5_0",))
    fabric = merge([cables, host]).to_fabric()
    row = fabric.port_row("h0", "mlx5_0")
    assert (fabric.ports.rail[row], fabric.ports.speed_gbps[row], fabric.gpus.nic[0]) == (3, 400.0, row)


def test_contradictions_are_findings_that_name_both_sources():
    """The first source is kept; the finding says what the second said."""
    first, second = said("one.txt", "h0:eth0 leaf0:d0"), said("two.txt", "h0:eth0 leaf0:d1")
    first.port("h0", "eth0", speed_gbps=400.0)
    second.port("h0", "eth0", speed_gbps=200.0)
    merged = merge([first, second])
    assert merged.far(("h0", "eth0")) == ("leaf0", "d0")
    assert of_check(merged, "source-conflict") == [(Status.WARN, "host/h0/nic/eth0")] * 2
    assert "speed in Gbit/s is 400 in one.txt, but 200 in two.txt" in merged.findings[0].what
    assert "but leaf0:d1 in two.txt" in merged.findings[1].what


def test_case_and_domain_are_no_difference():
    """`H1`, `h1` and `h1.example.com` are one node where nothing else could be meant; the first name stays."""
    merged = merge(
        [
            said("a", "h1.example.com:eth0 leaf0:d0"),
            said("b", "H1.example.com:eth0 Leaf0:d0"),
            said("c", h1=HOST),
        ]
    )
    assert list(merged.nodes) == ["h1.example.com", "leaf0"]
    assert merged.nodes["h1.example.com"].sources == {"a", "b", "c"}


def test_a_short_name_of_two_domains_stays_apart_and_is_told():
    """`h1` may be either of two: merging it with one would be a guess."""
    full = said("a")
    for name in ("h1.a.com", "h1.b.com"):
        full.node(name, HOST)
    merged = merge([full, said("b", h1=HOST)])
    assert set(merged.nodes) == {"h1.a.com", "h1.b.com", "h1"}
    assert of_check(merged, "source-names") == [(Status.WARN, "host/h1")]


def test_a_source_with_two_spellings_means_two_nodes():
    """Where one source has `Leaf1` and `leaf1`, letters' case tells nodes apart; so do addresses as names."""
    merged = merge([said("a", leaf1=SWITCH, Leaf1=SWITCH), said("b", leaf1=SWITCH)])
    assert set(merged.nodes) == {"leaf1", "Leaf1"}
    address, number = said("a"), said("b")
    address.node("10.0.0.1", HOST)
    number.node("10", HOST)
    assert set(merge([address, number]).nodes) == {"10.0.0.1", "10"}


def test_an_rdma_device_meets_its_netdev_by_guid_and_mac():
    """nvidia-smi's mlx5_0 with a GUID and LLDP's ens1f0np0 with the MAC that it was made from are one port."""
    host = Said("h0.txt", "nvidia-smi-topo")
    host.port("h0", "mlx5_0", guid="0x1070fd0300478cf8")
    host.gpu("h0", 0, nics=("mlx5_0",))
    lldp = said("lldp.json", "h0:ens1f0np0 leaf0:swp1")
    lldp.port("h0", "ens1f0np0", guid="10:70:fd:47:8c:f8")
    merged = merge([host, lldp])
    assert [end for end in merged.ports if end[0] == "h0"] == [("h0", "mlx5_0")]
    assert merged.far(("leaf0", "swp1")) == ("h0", "mlx5_0")
    other_way = merge(
        [said("lldp.json", "h0:ens1 leaf0:swp1"), host_with("ens1", "aa:bb:cc:00:00:01"), gpu_host()]
    )
    assert other_way.gpus["h0", 0].nics == ("ens1",)


def host_with(nic: str, mac: str) -> Said:
    result = Said("ip.json", "x")
    result.port("h0", nic, guid=mac)
    return result


def gpu_host() -> Said:
    result = Said("topo.xml", "x")
    result.port("h0", "mlx5_7", guid="0xaabbccfffe000001")
    result.gpu("h0", 0, nics=("mlx5_7",))
    return result


def test_one_mac_on_two_nics_matches_neither():
    """A bond gives its MAC to both members: it tells nothing about which is which."""
    bonded = Said("bond.txt", "x")
    bonded.port("h0", "mlx5_0", guid="aa:bb:cc:00:00:01")
    bonded.port("h0", "mlx5_1", guid="aa:bb:cc:00:00:01")
    merged = merge([said("lldp", "h0:ens1 leaf0:d0"), host_with("ens1", "aa:bb:cc:00:00:01"), bonded])
    assert {port for node, port in merged.ports if node == "h0"} == {"ens1", "mlx5_0", "mlx5_1"}


def test_hosts_without_a_name_are_found_by_the_mac_of_their_nics():
    """Firmware LLDP gives each NIC a chassis of its own: all are the host whose NICs have these addresses."""
    lldp = said("lldp", "aa_bb_cc_00_00_01:p leaf0:d0", "aa_bb_cc_00_00_02:p leaf1:d0")
    host = host_with("ens1", "aa:bb:cc:00:00:01")
    host.port("h0", "ens2", guid="aa:bb:cc:00:00:02")
    for name in ("aa_bb_cc_00_00_01", "aa_bb_cc_00_00_02"):
        lldp.port(name, "p", guid=name.replace("_", ":"))
    merged = merge([lldp, host])
    assert {name for name, node in merged.nodes.items() if node.kind is not SWITCH} == {"h0"}
    assert {(merged.far(("leaf0", "d0"))), merged.far(("leaf1", "d0"))} == {
        end for end in merged.ports if end[0] == "h0"
    }
    assert len([end for end in merged.ports if end[0] == "h0"]) == 2


def test_a_neighbour_that_told_only_its_mac_is_cabled():
    """What the LLDP reader could not name becomes a cable once a host's own capture has the address."""
    lldp = said("leaf0.json", leaf0=SWITCH)
    lldp.port("leaf0", "swp1")
    lldp.dropped["host/aa_bb_cc_00_00_01"] = "tells no system name"
    lldp.events.append(UnnamedNeighbor("leaf0", "swp1", "aa:bb:cc:00:00:01"))
    merged = merge([lldp, host_with("ens1", "aa:bb:cc:00:00:01")])
    assert merged.far(("leaf0", "swp1")) == ("h0", "ens1")
    assert merged.events == []
    assert merged.dropped == {}


def test_a_port_that_two_sources_name_otherwise_is_told_by_its_cable():
    """`rail0` of a plan and `mlx5_0` of the host are cabled to the same port; names that both know are no such case."""
    merged = merge([said("found", "h0:mlx5_0 leaf0:5"), said("plan", "h0:rail0 leaf0:5")])
    assert merged.findings == []
    assert ("h0", "rail0") not in merged.ports
    both = merge([said("a", "h0:eth0 leaf0:5", "h0:eth1 leaf0:6"), said("b", "h0:eth1 leaf0:5")])
    assert of_check(both, "source-conflict") != []


def test_switch_ports_may_be_abbreviated():
    """Et5/1 is Ethernet5/1; eth0 beside it is the management port and stays."""
    merged = merge(
        [
            said("eos", "h0:a leaf0:Ethernet5/1"),
            said("plan", "h0:a leaf0:Et5/1"),
            said("x", "h1:m leaf0:Ethernet0"),
            said("y", "h2:m leaf0:eth0"),
        ]
    )
    assert {port for node, port in merged.ports if node == "leaf0"} == {"Ethernet5/1", "Ethernet0", "eth0"}


def test_an_element_that_another_source_has_is_not_left_out():
    """A port that one reader left out and another one told is in the fabric, and not in `dropped`."""
    first, second = said("a", "h0:eth0 leaf0:d0"), said("b", "h0:eth1 leaf0:d1")
    first.port("h0", "eth1")
    first.drop("h0", "down", "eth1")
    first.dropped["host/gone"] = "because"
    assert merge([first, second]).dropped == {"host/gone": "because"}


def test_forwarding_tables_follow_their_switch():
    """LIDs of a switch that another source spells otherwise stand under the common name; the first entry is kept."""
    first, second = said("a", leaf1=SWITCH), said("b", LEAF1=SWITCH)
    first.forwarding["leaf1"] = {5: 1}
    second.forwarding["LEAF1"] = {5: 2, 6: 3}
    assert merge([first, second]).forwarding == {"leaf1": {5: 1, 6: 3}}


def wiring(source: str = "ib.txt") -> Said:
    """leaf0 with h0 to h3, leaf1 with h4 to h7."""
    return said(source, *(f"h{host}:hca leaf{host // 4}:{host}" for host in range(8)))


def tree(groups: dict[str, str], source: str = "topology.conf") -> Said:
    return said(
        source,
        *(f"{host}:{name} {name}:{host}" for name, hosts in groups.items() for host in hosts.split()),
        logical=True,
    )


def test_a_schedulers_tree_adds_no_cables_and_is_compared():
    """Under the names of real leaves: a host that the file has elsewhere is told; else one line says that it holds."""
    sound = merge([wiring(), tree({"leaf0": "h0 h1 h2 h3", "leaf1": "h4 h5 h6 h7"})])
    assert len(sound.links) == 8
    assert not sound.logical
    assert of_check(sound, "scheduler-tree") == [(Status.PASS, "fabric")]
    wrong = merge([tree({"leaf0": "h0 h1 h2", "leaf1": "h3 h4 h5 h6 h7"}), wiring()])
    assert of_check(wrong, "scheduler-tree") == [(Status.WARN, "host/h3")]
    assert "has it under leaf1, it is cabled to leaf0" in wrong.findings[0].what


def test_groups_of_other_names_are_told_by_most_of_their_hosts():
    """rack0 stands for leaf0; a group that spans several leaves is coarser and contradicts nothing."""
    wrong = merge([wiring(), tree({"rack0": "h0 h1 h2 h4", "rack1": "h3 h5 h6 h7"})])
    assert sorted(of_check(wrong, "scheduler-tree")) == [(Status.WARN, "host/h3"), (Status.WARN, "host/h4")]
    coarse = merge([wiring(), tree({"rack0": "h0 h1 h2 h3 h4 h5 h6 h7"})])
    assert Status.WARN not in {finding.status for finding in coarse.findings}
    uneven = merge([wiring(), tree({"rack0": "h0 h1 h2 h3 h4 h5"})])
    assert of_check(uneven, "scheduler-tree") == [(Status.PASS, "fabric")]


def test_a_tree_is_held_against_what_is_left_of_the_cables():
    """All hosts have a NIC on one management switch: without it a host under another rack is seen, and no ghost made."""
    whole = said(
        "lldp", *(f"h{host}:hca leaf{host // 4}:{host}" for host in range(8)),
        *(f"h{host}:eno1 oob-leaf:{host}" for host in range(8)), "mgmt1:eno1 oob-leaf:9",
    )  # fmt: skip
    wrong = tree({"rack0": "h0 h1 h2 h4", "rack1": "h3 h5 h6 h7 mgmt1"})
    merged = merge([whole, wrong], apply_filters)
    assert "switch/oob-leaf" in merged.dropped
    assert sorted(of_check(merged, "scheduler-tree")) == [(Status.WARN, "host/h3"), (Status.WARN, "host/h4")]
    assert of_check(merged, "scheduler-hosts") == []
    told = next(one for one in merged.findings if one.where == "host/h3")
    assert told.what.endswith("it is cabled to leaf0")


def test_blocks_have_no_leaves_to_compare():
    """A block topology puts no host under a leaf: nothing is said of its leaves."""
    blocks = Said("topology.conf", "slurm-conf", logical=True)
    for host in range(8):
        blocks.node(f"h{host}", HOST, nvl_domain=f"b{host // 4}")
    assert merge([wiring(), blocks]).findings == []


def test_hosts_that_only_one_of_both_has_are_counted():
    """The scheduler's ghost and the host without a job are two different statements."""
    merged = merge([wiring(), tree({"leaf0": "h0 h1 h2 h3", "leaf1": "h4 h5 h6 ghost"})])
    assert of_check(merged, "scheduler-hosts") == [(Status.WARN, "host/ghost"), (Status.WARN, "host/h7")]


def test_domains_of_a_tree_are_taken_over():
    """A block topology knows the NVLink domain of a host, the wiring does not."""
    blocks = tree({"rack0": "h0 h1 h2 h3"})
    blocks.node("h0", nvl_domain="block7")
    merged = merge([wiring(), blocks])
    assert merged.nodes["h0"].nvl_domain == "block7"
    assert merged.nodes["h0"].sources == {"ib.txt", "topology.conf"}


def test_trees_alone_stay_a_tree():
    """Without real cables of hosts the tree is all there is; GPUs of hosts join it."""
    host = Said("h0.txt", "nvidia-smi-topo")
    host.gpu("h0", 0)
    merged = merge([tree({"rack0": "h0 h1"}), host])
    assert merged.logical
    assert len(merged.links) == 2
    assert ("h0", 0) in merged.gpus


def test_speed_of_one_end_is_the_cables():
    """A cable runs at one speed: the end that does not tell has that of the other; ends that differ stay."""
    only = said("a", "h0:eth0 leaf0:d0", "h1:eth0 leaf0:d1")
    only.port("leaf0", "d0", speed_gbps=100.0)
    only.port("leaf0", "d1", speed_gbps=100.0)
    only.port("h1", "eth0", speed_gbps=50.0)
    merged = merge([only])
    assert (merged.ports["h0", "eth0"].speed_gbps, merged.ports["h1", "eth0"].speed_gbps) == (100.0, 50.0)


def test_hardware_keys():
    """GUIDs and MACs in every spelling; EUI-64 and Mellanox GUIDs are the MAC inside; zeros and names are nothing."""
    same = [
        "10:70:fd:47:8c:f8",
        "1070.fd47.8cf8",
        "10-70-FD-47-8C-F8",
        "0x1070fd0300478cf8",
        "1070:fdff:fe47:8cf8",
    ]
    assert {hardware_key(text) for text in same} == {"1070fd478cf8"}
    assert hardware_key("0xe09d730300155c4a") != hardware_key("0xe09d730300155c4b")
    assert [hardware_key(text) for text in ("", "00:00:00:00:00:00", "ff" * 8, "leaf1", "Ethernet1/1")] == [
        ""
    ] * 5


@given(data=st.data())
def test_any_split_of_what_is_said_merges_into_the_whole(data):
    """Elements dealt to several sources in any way give the same nodes, ports and cables, without a finding."""
    cables = [f"h{host}:eth{rail} leaf{rail}:d{host}" for host in range(4) for rail in range(2)]
    cables += [f"leaf{leaf}:u{spine} spine{spine}:d{leaf}" for leaf in range(2) for spine in range(2)]
    dealt: list[list[str]] = [[], [], []]
    for cable in cables:
        for number in data.draw(st.sets(st.integers(0, 2), min_size=1)):
            dealt[number].append(cable if data.draw(st.booleans()) else " ".join(cable.split()[::-1]))
    merged = merge([said(f"s{number}", *own) for number, own in enumerate(dealt)])
    whole = said("all", *cables)
    assert set(merged.links) == set(whole.links)
    assert set(merged.ports) == set(whole.ports)
    assert {name: node.kind for name, node in merged.nodes.items()} == {
        n: one.kind for n, one in whole.nodes.items()
    }
    assert merged.findings == []


def test_matching_is_the_identity_for_equal_names():
    """Two sources about the same names: every name stands for itself."""
    first, second = wiring("a"), wiring("b")
    matching = match([first, second])
    assert all(own == common for names in matching.nodes for own, common in names.items())
    assert all(own == common for ports in matching.ports for own, common in ports.items())

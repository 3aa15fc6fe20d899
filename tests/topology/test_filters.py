from __future__ import annotations

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.columns import LinkState, NodeKind
from topology.filters import FILTERS, apply_filters
from topology.railing import assign_rails
from topology.readers.said import Said


def add(
    said: Said, host: str, nic: str, leaf: str, gbps: float = 400.0, layer: str = "IB", subnet: str = ""
) -> None:
    """A host's NIC on the next free port of a leaf."""
    said.node(host, NodeKind.HOST)
    said.node(leaf, NodeKind.SWITCH)
    port = f"d{len(said.ports)}"
    said.port(host, nic, speed_gbps=gbps, link_layer=layer, subnet=subnet)
    said.port(leaf, port, speed_gbps=gbps, link_layer=layer)
    said.link((host, nic), (leaf, port))


def trunk(said: Said, low: str, high: str, gbps: float = 400.0) -> None:
    """A cable between two switches."""
    ends = []
    for node in (low, high):
        said.node(node, NodeKind.SWITCH)
        ends.append((node, f"t{len(said.ports)}"))
        said.port(*ends[-1], speed_gbps=gbps)
    said.link(*ends)


def cluster(hosts: int = 8, rails: int = 4) -> Said:
    """Each rail on a leaf of its own below one spine, all 400 Gbit/s InfiniBand."""
    said = Said("cluster", "x")
    for rail in range(rails):
        for host in range(hosts):
            add(said, f"h{host}", f"mlx5_{rail}", f"leaf{rail}")
        trunk(said, f"leaf{rail}", "spine0")
    return said


def test_a_sound_fabric_loses_nothing():
    """No filter touches a fabric of equal NICs, with or without a spine above its rails (rail-only)."""
    for said in (cluster(), without_spine(cluster())):
        before = (set(said.nodes), set(said.ports), set(said.links))
        apply_filters(said)
        assert (set(said.nodes), set(said.ports), set(said.links)) == before
        assert said.dropped == {}


def without_spine(said: Said) -> Said:
    said.drop("spine0", "")
    said.dropped.clear()
    for end in [end for end in said.ports if end[1].startswith("t")]:
        said.drop(end[0], "", end[1])
    said.dropped.clear()
    return said


def test_aggregation_nodes_are_left_out():
    """A SHARP node makes a spine look like a leaf: it goes, and the spine's tier is 2 again."""
    said = cluster()
    add(said, "Mellanox_Technologies_Aggregation_Node-1", "1", "spine0")
    assert apply_filters(said).dropped == {
        "host/Mellanox_Technologies_Aggregation_Node-1": "SHARP aggregation node inside a switch"
    }
    fabric = said.to_fabric()
    assert fabric.nodes.tier[fabric.node_row("spine0")] == 2


def test_storage_goes_by_name_with_its_switch():
    """A storage server, the NICs on a storage switch, and a NIC that is called so; a host with GPUs is none."""
    said = cluster()
    add(said, "oss01", "mlx5_0", "leaf0")
    add(said, "h0", "mlx5_8", "storage-sw1")
    add(said, "h1", "stor0", "leaf1")
    said.gpu("nfs-gpu7", 0)
    apply_filters(said)
    assert said.dropped == {
        "host/oss01": "storage node, by its name",
        "switch/storage-sw1": "storage node, by its name",
        "host/h0/nic/mlx5_8": "NIC on a storage switch",
        "host/h1/nic/stor0": "storage NIC, by its name",
    }
    assert "nfs-gpu7" in said.nodes


def test_management_goes_by_name():
    """BMCs, management switches and ports, bridges of containers; eth0 of a switch only beside swp ports."""
    said = cluster()
    add(said, "h0", "bmc", "oob-sw1", 1.0, "Ethernet")
    said.port("h1", "docker0")
    said.port("leaf0", "mgmt0")
    said.port("leaf1", "eth0")
    said.port("leaf1", "swp1")
    said.port("leaf2", "eth0")
    said.port("leaf2", "eth7")
    apply_filters(said)
    assert set(said.dropped) == {
        "host/h0/nic/bmc", "switch/oob-sw1", "host/h1/nic/docker0", "switch/leaf0/port/mgmt0", "switch/leaf1/port/eth0",
    }  # fmt: skip


def test_a_word_that_most_hosts_have_is_the_sites_own():
    """r-ufm1 to r-ufm8 are the cluster, not eight fabric managers; a management switch still goes."""
    said = Said("cluster", "x")
    for host in range(8):
        add(said, f"r-ufm{host}", "mlx5_0", "leaf0")
    add(said, "r-ufm0", "eno1", "oob-sw1", 1.0, "Ethernet")
    apply_filters(said)
    assert set(said.dropped) == {"host/r-ufm0/nic/eno1", "switch/oob-sw1"}


def test_a_gigabit_nic_beside_400_goes_with_its_switch():
    """NICs that are far slower than most, on a network of their own, and the switches that carry only those."""
    said = cluster()
    for host in range(8):
        add(said, f"h{host}", "eno1", "tor1", 1.0, "")
    trunk(said, "tor1", "core9", 10.0)
    apply_filters(said)
    assert said.dropped["host/h3/nic/eno1"] == "1 Gbit/s, most NICs have 400 Gbit/s"
    assert {"switch/tor1", "switch/core9"} <= set(said.dropped)
    assert len(said.dropped) == 10


def test_a_spine_keeps_its_place_without_its_management_server():
    """A storage leaf of the compute fabric goes with its servers; a spine to which one server was cabled does not."""
    said = cluster()
    add(said, "ufm1", "p", "spine0")
    for host in range(3):
        add(said, f"oss{host}", "p", "leaf9")
    trunk(said, "leaf9", "spine0")
    apply_filters(said)
    assert {name for name in said.dropped if name.startswith("switch/")} == {"switch/leaf9"}
    assert "spine0" in said.nodes


def test_a_slow_link_on_a_compute_leaf_is_a_fault_and_stays():
    """A NIC that trained at a quarter, or at a sixteenth, of its namesakes' speed on its rail's leaf is not left out."""
    for gbps in (100.0, 25.0):
        said = cluster()
        said.ports["h3", "mlx5_1"].speed_gbps = gbps
        far = said.far(("h3", "mlx5_1"))
        assert far is not None
        said.ports[far].speed_gbps = gbps
        assert apply_filters(said).dropped == {}
    said = cluster()
    add(said, "odd", "p0", "leaf0", 25.0)
    assert apply_filters(said).dropped == {}


def test_slower_nics_of_a_network_of_their_own_go():
    """Two 200 Gbit/s NICs a host beside four of 400, on switches that no fast NIC reaches: a storage network."""
    said = cluster()
    for host in range(8):
        add(said, f"h{host}", "mlx5_8", "st1", 200.0)
    apply_filters(said)
    assert said.dropped["host/h0/nic/mlx5_8"] == "200 Gbit/s, most NICs have 400 Gbit/s"
    shared = cluster()
    for host in range(8):
        add(shared, f"h{host}", "mlx5_8", "st1", 200.0)
    trunk(shared, "st1", "spine0")
    assert apply_filters(shared).dropped == {}


def test_ethernet_among_infiniband_goes_but_a_port_in_the_wrong_mode_is_a_finding():
    """eth2 of every host is another network; one mlx5_1 in Ethernet mode is a fault."""
    said = cluster()
    for host in range(8):
        add(said, f"h{host}", "eth2", "frontend", 400.0, "Ethernet")
    said.ports["h5", "mlx5_1"].link_layer = "Ethernet"
    apply_filters(said)
    assert said.dropped["host/h0/nic/eth2"] == "link layer Ethernet, most NICs are InfiniBand"
    assert ("h5", "mlx5_1") in said.ports
    assert [(f.check, f.status, f.where) for f in said.findings] == [
        ("link-layer", Status.FAIL, "host/h5/nic/mlx5_1")
    ]


def test_few_hosts_of_another_network_or_subnet_go():
    """Two of eight hosts with a NIC on switches of their own; a NIC in a subnet that nobody else has."""
    said = cluster()
    for host in (0, 1):
        add(said, f"h{host}", "extra", "lab-sw")
    add(said, "solo", "mlx5_0", "island")
    assert apply_filters(said).dropped["host/h0/nic/extra"].startswith("on switches of another network")
    assert said.far(("solo", "mlx5_0")) is not None
    said = cluster()
    for host in range(8):
        for rail in range(4):
            said.ports[f"h{host}", f"mlx5_{rail}"].subnet = f"fe8000000000000{rail}"
    said.ports["h7", "mlx5_3"].subnet = "fe80000000000009"
    assert apply_filters(said).dropped == {
        "host/h7/nic/mlx5_3": "subnet fe80000000000009, which few hosts reach"
    }


def test_down_ports_without_a_cable_go_and_a_dead_cable_stays():
    """An empty cage is nothing; a cable whose port is down is a fault."""
    said = cluster()
    said.port("leaf0", "37", state=LinkState.DOWN)
    said.port("leaf0", "38")
    said.ports["h0", "mlx5_0"].state = LinkState.DOWN
    apply_filters(said)
    assert said.dropped == {"switch/leaf0/port/37": "down, without a cable"}
    assert said.to_fabric().links.state.tolist().count(LinkState.DOWN) == 1


def test_hosts_that_lose_all_nics_stay():
    """A host is never left out because its NICs are: its absence from the fabric is to be seen."""
    said = cluster()
    add(said, "login1", "eno1", "tor1", 1.0)
    apply_filters(said)
    assert "login1" in said.nodes
    assert "host/login1/nic/eno1" in said.dropped


@pytest.mark.parametrize("kept", [*FILTERS, "all"])
def test_what_is_kept_stays(kept):
    """Each filter can be switched off by its name, and all at once."""
    said = cluster()
    add(said, "x_Aggregation_Node", "1", "spine0")
    add(said, "oss1", "p", "leaf0")
    add(said, "h0", "bmc", "leaf0")
    for host in range(8):
        add(said, f"h{host}", "eth2", "frontend", 400.0, "Ethernet")
        add(said, f"h{host}", "slow", "tor1", 1.0)
    add(said, "h0", "extra", "lab-sw")
    add(said, "h0", "odd", "leaf1", subnet="fe80000000000009")
    for host in range(1, 8):
        said.ports[f"h{host}", "mlx5_0"].subnet = "fe80000000000000"
    said.port("leaf0", "37", state=LinkState.DOWN)
    of_filter = {
        "sharp": "host/x_Aggregation_Node", "storage": "host/oss1", "management": "host/h0/nic/bmc",
        "link-layer": "host/h0/nic/eth2", "slow": "host/h0/nic/slow", "apart": "host/h0/nic/extra",
        "subnet": "host/h0/nic/odd", "down": "switch/leaf0/port/37",
    }  # fmt: skip
    dropped = set(apply_filters(said, [kept]).dropped)
    assert set(of_filter.values()) - dropped == (
        set(of_filter.values()) if kept == "all" else {of_filter[kept]}
    )


def test_an_unknown_filter_is_refused():
    """The error lists the known ones."""
    with pytest.raises(InputError, match=r"--keep 'printers' is not known; known: sharp, down"):
        apply_filters(cluster(), ["printers"])


def rails_of(said: Said) -> dict[str, int]:
    return {f"{node}:{port}": one.rail for (node, port), one in said.ports.items() if one.rail >= 0}


def test_rails_by_the_names_that_most_hosts_have():
    """mlx5_0, 1, 4, 5 are rails 0 to 3, also on a host that lacks one; a told rail is left alone."""
    said = Said("a", "x")
    for host in range(3):
        for nic in ("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"):
            if (host, nic) != (1, "mlx5_1"):
                said.port(f"h{host}", nic)
    said.node("h0", NodeKind.HOST)
    assert "names" in assign_rails(said)
    assert rails_of(said)["h1:mlx5_4"] == 2
    assert len(rails_of(said)) == 11
    told = Said("a", "x")
    for host in range(2):
        told.port(f"h{host}", "ib7", rail=0 if host == 0 else -1)
    assign_rails(told)
    assert rails_of(told) == {"h0:ib7": 0, "h1:ib7": 0}


def test_rails_of_nics_without_names_by_their_leaves():
    """NICs that are known by MAC only have the rail of the leaf they are on."""
    said = Said("a", "x")
    for host in range(3):
        for rail in range(2):
            add(said, f"h{host}", f"aa:bb:cc:00:0{1 - rail}:0{host}", f"leaf{rail}", layer="")
    assert assign_rails(said).startswith("by leaf")
    assert {rail for end, rail in rails_of(said).items() if ":01:" in end} == {0}
    assert rails_of(said)["h0:aa:bb:cc:00:00:00"] == 1


def test_a_name_that_no_cabled_nic_has_is_no_rail():
    """Beside ens1f0np0 with its cable nvidia-smi calls the same NIC mlx5_0: still two rails, not four."""
    said = cluster(rails=2)
    for nic in ("ens1f0np0", "ens2f0np0"):
        said.port("h0", nic)
    assign_rails(said)
    assert sorted(set(rails_of(said).values())) == [0, 1]
    assert said.ports["h0", "ens1f0np0"].rail == -1
    said.port("h8", "mlx5_1")  # its cable is out, the name tells the rail
    assign_rails(said)
    assert said.ports["h8", "mlx5_1"].rail == 1

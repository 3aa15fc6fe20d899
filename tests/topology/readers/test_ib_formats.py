"""InfiniBand dumps that tell the same subnet: the examples of all formats, and the traps of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.columns import LinkState
from topology.readers import Source, read
from topology.readers.said import Said

EXAMPLES = Path(__file__).parent / "examples"
TOPOLOGIES = ("ibnetdiscover", "ibnetdiscover-ports", "iblinkinfo", "ibdiagnet", "opensm-subnet")
GUID = "02c0ffee0000"
SWITCH = f'Switch\t36 "S-{GUID}0100"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 7 lmc 0\n'


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def told(text: str, name: str | None = None) -> Said:
    return read(Source("in put.x", text), name)


def port_line(number: int, guid: str, description: str, rate: str = "4xHDR", port: int = 1) -> str:
    return f'[{number}]\t"H-{GUID}{guid}"[{port}]({GUID[1:]}{guid}) \t\t# "{description}" lid {number + 20} {rate}\n'


def warnings(said: Said) -> list[str]:
    return [one.what for one in said.findings if one.status is Status.WARN]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_all_formats_tell_the_same_subnet(name: str) -> None:
    """3 hosts with 2 NICs, 2 leaves by rail, 1 spine with 2 cables to each leaf, all 400 Gbit/s, one node dropped."""
    said = told(example(name))
    leaf_links = {
        ((f"leaf{rail + 1}", str(host)), (f"node{host}", f"mlx5_{rail}"))
        for host in (1, 2, 3)
        for rail in (0, 1)
    }
    spine_links = {
        ((f"leaf{leaf}", str(33 + cable)), ("spine1", str(2 * leaf - 1 + cable)))
        for leaf in (1, 2)
        for cable in (0, 1)
    }
    assert set(said.links) == leaf_links | spine_links
    assert {end for end in said.ports if end[1] != "64"} == {end for link in said.links for end in link}
    fabric = said.to_fabric()
    assert set(fabric.ports.speed_gbps[fabric.link_of_port >= 0].tolist()) == {400.0}
    nic = said.ports["node2", "mlx5_1"]
    assert (nic.rail, nic.lid, nic.guid, nic.link_layer) == (1, 13, f"0x{GUID}a021", "IB")
    assert fabric.nodes.guid[fabric.node_row("leaf1")] == "0x02c0ffee00000010"
    assert said.dropped == {
        "host/H-02c0ffee00000018": "SHARP aggregation node at port 65 of leaf1: no job runs there"
    }


def test_ports_that_are_down_are_told_by_the_formats_that_list_them() -> None:
    """Port 64 of each switch has no cable and means nothing by its rate."""
    for name in ("ibnetdiscover-ports", "iblinkinfo", "ibdiagnet"):
        port = told(example(name)).ports["leaf1", "64"]
        assert (port.speed_gbps, port.state) == (0.0, LinkState.DOWN)


@pytest.mark.parametrize(
    ("rate", "gbps"),
    [
        ("4xSDR", 10), ("4xDDR", 20), ("4xQDR", 40), ("4xFDR10", 40), ("4xFDR", 56), ("4xEDR", 100), ("4xHDR", 200),
        ("2xHDR", 100), ("4xNDR", 400), ("2xNDR", 200), ("4xXDR", 800), ("1xSDR", 2.5), ("8xDDR", 40), ("12xQDR", 120),
        ("4x??? s=4 w=2 v=4 e=16", 800), ("4x??? s=4 w=2 v=4", 0), ("4x???", 0), ("??SDR", 0), ("4xGDR", 0),
    ],
)  # fmt: skip
def test_a_speed_is_lanes_times_the_rate_of_one(rate: str, gbps: float) -> None:
    """All widths and rates; -f's numbers tell what an older tool prints as ???, else it is unknown and said so."""
    said = told(SWITCH + port_line(1, "0001", "node1 mlx5_0", rate))
    assert said.ports["leaf1", "1"].speed_gbps == gbps
    # the adapter's own line is not there: the other end of a cable has the same rate
    assert said.ports["node1", "mlx5_0"].speed_gbps == gbps
    assert any("rate that is not known" in what for what in warnings(said)) == (gbps == 0)


def test_copies_with_blanks_for_tabs_and_indented_ones_are_read() -> None:
    """Documentation and mails change white space."""
    text = example("ibnetdiscover").replace("\t", "    ").replace("\n", "\n  ")
    assert set(told(text).links) == set(told(example("ibnetdiscover")).links)


def test_grouped_output_has_headings_external_ports_and_nodes_twice() -> None:
    """-g prints the switches of a chassis under several headings, and Xsigo's marks."""
    block = (
        "vendid=0x8f1\ndevid=0x5a30\nsysimgguid=0x8f1000000\t\t# Chassis 1 (core) slot 2\n"
        f"switchguid=0x{GUID[1:]}0100({GUID[1:]}0100)\t# ISR9288/ISR9096 spine 1 Chip 1\n"
        f'Switch\t24 "S-{GUID}0100"\t\t# "ISR9288 Voltaire" base port 0 lid 6 lmc 0\n'
        f'[22][ext 3]\t"H-{GUID}0001"[1](2c0ffee00000001) \t\t# "node1 HCA-1" lid 4 4xSDR (scp)\n'
        f'[2]\t"S-{GUID}0200"[10][ext 1]\t\t# "other" lid 3 4xSDR slot 2\n'
    )
    adapter = f'\nvendid=0x2c9\ncaguid=0x1\nCa\t2 "H-{GUID}0001"\t\t# "node1 HCA-1" (scp)\n'
    adapter += (
        f'[1](2c0ffee00000001) \t"S-{GUID}0100"[22][ext 3]\t\t# lid 4 lmc 1 "ISR9288 Voltaire" lid 6 4xSDR\n'
    )
    text = f"\nChassis 1 (guid 0x8f1)\nHostname: core\n\n# Spine Nodes\n{block}\n# Line Nodes\n# Chassis Switches\n{block}"
    said = told(f"{text}\n# Chassis CAs\n{adapter}\nNon-Chassis Nodes\n")
    assert set(said.links) == {
        (("ISR9288_Voltaire", "22"), ("node1", "HCA-1")),
        (("ISR9288_Voltaire", "2"), ("other", "10")),
    }
    assert warnings(said) == [
        "in put.x: nodes that cables name and no line describes: 1; the dump is cut or partial"
    ]


def test_a_router_forwards_and_is_a_switch() -> None:
    """A router between subnets is no end node: hosts do not make a leaf of what it hangs on."""
    text = SWITCH + f'[1]\t"R-{GUID}0009"[1]({GUID[1:]}0009) \t\t# "SX6036G gateway" lid 3 4xFDR\n'
    text += f'\nrtguid=0x9\nRt\t2 "R-{GUID}0009"\t\t# "SX6036G gateway"\n'
    text += f'[1]({GUID[1:]}0009) \t"S-{GUID}0100"[1]\t\t# lid 3 lmc 0 "MF0;leaf1:MQM8700/U1" lid 7 4xFDR\n'
    assert told(text).to_fabric().switches == ("leaf1", "SX6036G_gateway")


def test_nodes_that_share_a_description_are_named_by_guid() -> None:
    """Two unmanaged switches, two adapters that call themselves alike, and one with a vendor's words."""
    text = ""
    for own, other in (("0100", "0200"), ("0200", "0100")):
        text += f'\nSwitch\t36 "S-{GUID}{own}"\t\t# "Quantum Mellanox Technologies" base port 0 lid 7 lmc 0\n'
        text += f'[9]\t"S-{GUID}{other}"[9]\t\t# "Quantum Mellanox Technologies" lid 8 4xHDR\n'
        text += port_line(1, f"{own[:2]}01", "localhost mlx5_0") + port_line(2, f"{own[:2]}02", "node1 HCA-1")
        text += port_line(3, f"{own[:2]}03", "MT4123 ConnectX6   Mellanox Technologies")
    said = told(text)
    assert set(said.nodes) == {f"S-{GUID}0{n}00" for n in "12"} | {
        f"H-{GUID}0{n}0{m}" for n in "12" for m in "123"
    }
    assert ((f"S-{GUID}0100", "9"), (f"S-{GUID}0200", "9")) in said.links
    assert any(
        what.startswith("channel adapters that do not say") and "adapter: 6, " in what
        for what in warnings(said)
    )


def test_modules_of_a_chassis_keep_their_names() -> None:
    """Spines and lines of a director have one host name; so have the chips of a switch."""
    text = ""
    for number, module in enumerate(("S01/U1", "L01/U1", "U1", "U2"), 1):
        text += SWITCH.replace("0100", f"0{number}00").replace("leaf1:MQM8700/U1", f"core:CS8500/{module}")
        text += port_line(number, f"000{number}", f"node{number} mlx5_0")
    assert set(told(text).to_fabric().switches) == {"core_S01_U1", "core_L01_U1", "core", "core_U2"}


def test_a_second_port_of_an_adapter_is_a_nic_and_a_rail_of_its_own() -> None:
    """Port 1 has the device's name, port 2 says its number; rails follow device, then port."""
    text = SWITCH + port_line(1, "0001", "node1 mlx4_0") + port_line(2, "0001", "node1 mlx4_0", port=2)
    text += port_line(3, "0002", "node1 mlx4_1")
    said = told(text)
    assert {name: port.rail for (node, name), port in said.ports.items() if node == "node1"} == {
        "mlx4_0": 0, "mlx4_0:2": 1, "mlx4_1": 2
    }  # fmt: skip


def test_rails_are_ranks_so_that_devices_of_another_network_leave_no_gap() -> None:
    """mlx5_3 and HCA-4 are one rail; names without a number count in order on their host."""
    text = SWITCH + port_line(1, "0001", "a mlx5_3") + port_line(2, "0002", "a mlx5_10")
    text += (
        port_line(3, "0003", "b HCA-4") + port_line(4, "0004", "c ibp26s0") + port_line(5, "0005", "c ibp9s0")
    )
    rails = {end: port.rail for end, port in told(text).ports.items() if port.rail >= 0}
    assert rails == {
        ("a", "mlx5_3"): 0, ("a", "mlx5_10"): 1, ("b", "HCA-4"): 0, ("c", "ibp9s0"): 0, ("c", "ibp26s0"): 1
    }  # fmt: skip


def test_a_contradiction_between_two_lines_is_a_finding() -> None:
    """A port with two cables, and two LIDs for one port: the first stays."""
    text = SWITCH + port_line(1, "0001", "node1 mlx5_0") + port_line(2, "0001", "node1 mlx5_0")
    conflicts = [one.evidence for one in told(text).findings if one.check == "source-conflict"]
    assert {"attribute": "lid", "kept": "21", "other": "22"} in conflicts
    assert any(one["attribute"] == "cable" for one in conflicts)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SWITCH + '[1]\t"H-02c0ffee', r"in put.x:2: is not a whole line of ibnetdiscover's: .*is the file cut"),
        (SWITCH[:50], r"in put.x:1: is not a whole line of ibnetdiscover's"),
        (SWITCH + "switchguid=0x1(1)\n" + port_line(1, "0001", "x"), "in put.x:3: a port's line without the node"),
        ("# Topology file: generated on x\n", "has no cable"),
        (f'Switch\t : 0x{GUID}0100 ports 36 devid 0xd2f0 vendid 0x2c9 "l"\n', "in put.x:1: is a list of nodes"),
        (SWITCH + port_line(1, "0001", "x" * 2000), "in put.x:2: a line of 2"),
    ],
)  # fmt: skip
def test_a_cut_ibnetdiscover_dump_is_refused_with_its_line(text: str, why: str) -> None:
    """What is no whole line of the tool is no guess."""
    with pytest.raises(InputError, match=why):
        told(text)


@pytest.mark.parametrize(
    ("name", "end", "why"),
    [
        ("ibnetdiscover-ports", 150, "in put.x:2: is not a whole line of ibnetdiscover -p's"),
        ("iblinkinfo", 150, "in put.x:2: is not a whole line of iblinkinfo's"),
        ("ibdiagnet", 700, "section NODES has no END_NODES: the file is cut"),
        ("ibdiagnet", -60, "section PM_INFO has no END_PM_INFO"),
        ("opensm-subnet", 700, "in put.x:2: is not a whole line of opensm-subnet.lst's"),
        ("lft", 165, "in put.x:4: is not a whole line of a forwarding table's"),
    ],
)
def test_a_cut_dump_is_refused_with_its_line(name: str, end: int, why: str) -> None:
    """Cut in the middle of a line or of a section."""
    with pytest.raises(InputError, match=why):
        told(example(name)[:end])


def test_iblinkinfo_with_one_line_a_link_finds_out_what_is_a_switch() -> None:
    """-l prints no kinds: a GUID with several ports is a switch, and so is what has a managed switch's name."""
    arrow = "==( 4X           53.125 Gbps Active/  LinkUp)==>"
    leaf, spine = f"0x{GUID}0100", f"0x{GUID}0200"
    text = f'{leaf} "             MF0;leaf1:MQM8700/U1"      7    1[  ] {arrow}  0x{GUID}0001     21    1[  ] "node1 mlx5_0" ( )\n'
    text += f'{leaf} "             MF0;leaf1:MQM8700/U1"      7    9[  ] {arrow}  {spine}      8    9[  ] "old \\"core\\" switch" ( Could be 4X / )\n'
    text += f'{leaf} "             MF0;leaf1:MQM8700/U1"      7   10[  ] {arrow}  {spine}      8   10[  ] "old \\"core\\" switch" ( )\n'
    text += f'0x{GUID}0001 "                  node1 mlx5_0"     21    1[  ] {arrow}  {leaf}      7    1[  ] "MF0;leaf1:MQM8700/U1" ( )\n'
    said = told(text)
    fabric = said.to_fabric()
    assert fabric.switches == ("leaf1", 'old_\\"core\\"_switch')
    assert (len(fabric.links.port_a), set(fabric.ports.speed_gbps.tolist())) == (3, {200.0})
    assert said.ports["node1", "mlx5_0"].lid == 21
    assert any("could be" in what.lower() and "port 9" in what for what in warnings(said))


def test_iblinkinfo_ports_that_are_not_active_carry_nothing() -> None:
    """Initialize and Armed are up, but not yet routed; the rates of FDR10 and of an unknown speed."""
    text = f"Switch: 0x{GUID}0100 MF0;leaf1:SX6036/U1:\n"
    states = (
        "4X     10.0 Gbps (FDR10) Active/  LinkUp",
        "4X   14.0625 Gbps Initialize/  LinkUp",
        "4X  undefined (32) Active/  LinkUp",
    )
    for port, state in enumerate(states, 1):
        text += f'           7    {port}[  ] ==( {state}) (HOQ:18 VL_Stall:7)==>      2{port}    1[  ] "node{port} mlx5_0" ( )\n'
    said = told(text)
    assert [said.ports["leaf1", str(port)].speed_gbps for port in (1, 2, 3)] == [40, 0, 0]
    assert said.to_fabric().links.state.tolist() == [1, 0, 1]
    assert any("'4X undefined (32)' (1)" in what for what in warnings(said))


def test_ibdiagnet_reads_columns_by_name_and_checks_what_belongs_together() -> None:
    """Order of columns and further sections do not matter; unknown nodes, wrong numbers and counts do."""
    good = "START_RUN_INFO\nDate\nx\nEND_RUN_INFO\nSTART_NODES\nNodeGUID,NodeType,NodeDesc\n"
    good += (
        '0x1,2,"a, b"\n0x2,1,node1 mlx5_0\nEND_NODES\nSTART_LINKS\nPortNum2,NodeGuid2,PortNum1,NodeGuid1\n'
    )
    good += "1,0x2,7,0x1\nEND_LINKS\n"
    assert set(told(good).links) == {(("a,_b", "7"), ("node1", "mlx5_0"))}
    for old, new, why in (
        ("1,0x2,7,0x1", "1,0x3,7,0x1", "in put.x:12: a link's node 0x0000000000000003 is not among NODES"),
        ("1,0x2,7,0x1", "1,0x2,7", "in put.x:12: has 3 values for 4 columns"),
        ("1,0x2,7,0x1", "1,0x2,x,0x1", "in put.x:12: PortNum1 is 'x', not a number"),
        ("0x1,2,", "0x1,9,", "in put.x:7: NodeType is none of 1"),
        ("NodeGUID,", "Guid,", "in put.x:7: has no column NodeGUID"),
        ("END_NODES", "END_PORTS", "in put.x:9: END_PORTS ends no section that is open"),
        ("END_NODES\n", "", "in put.x:9: section NODES has no end before this line"),
        ("LINKS", "OTHER", "has no section LINKS"),
    ):
        with pytest.raises(InputError, match=why):
            told(good.replace(old, new))


def test_opensm_writes_ports_in_hexadecimal_and_the_rate_of_a_lane() -> None:
    """PN:41 is port 65; LOG says whether the link is active; older files have no rate."""
    text = example("opensm-subnet").replace("SPD=100", "SPD=25")
    assert told(text).ports["leaf1", "33"].speed_gbps == 100
    assert told(text.replace(" SPD=25", "")).ports["leaf1", "33"].speed_gbps == 0
    assert told(text.replace("LOG=ACT", "LOG=INI")).to_fabric().links.state.sum() == 0


FDBS = f"""
osm_ucast_mgr_dump_ucast_routes: Switch 0x{GUID}0100
LID    : Port : Hops : Optimal
PLFT_NUM: 0
0x0001 : UNREACHABLE
0x0002 : 003  : 00   : yes
0x000A : 012  : 02   : No 1 hop path possible via port 4!
0x000B : 012  : HOPS UNKNOWN
PLFT_NUM: 1
0x0002 : 009  : 00   : yes
"""


def test_the_spellings_of_forwarding_tables() -> None:
    """dump_fts with paths and illegal ports, opensm's own file, and .fdbs with private tables of adaptive routing."""
    assert told(FDBS).forwarding == {f"S-{GUID}0100": {2: 3, 10: 12, 11: 12}}
    fts = (
        f"Unicast lids [0x0-0x9] of switch Lid 7 guid 0x{GUID}0100 (MF0;leaf1:MQM8700/U1):\n"
        "  Lid  Out   Destination\n       Port     Info \n"
        "0x0004 001 : (Channel Adapter portguid 0x02c0ffee00000001: 'node1 mlx5_0')\n"
        "0x0005 001 : (path #2 out of 2: portguid 0x02c0ffee00000001)\n0x0006 255 : (illegal port)\n0x0007 002 \n"
    )
    said = told(
        fts
        + "3 valid lids dumped \nMulticast mlids [0xc000-0xc3ff] of switch x:\n MLid\n0xc000   x x\n1 valid mlids dumped \n"
    )
    assert said.forwarding == {"leaf1": {4: 1, 5: 1, 7: 2}}
    lfts = f"Unicast lids [0-9] of switch Lid 7 guid 0x{GUID}0100 ('leaf 1'):\n0x0004 001 # Channel Adapter portguid 0x01: 'x'\n"
    assert told(lfts + "0x0005 002 # unknown node and type\n9 lids dumped\n").forwarding == {
        "leaf_1": {4: 1, 5: 2}
    }


def test_a_forwarding_table_without_its_end_and_one_that_contradicts_itself() -> None:
    """Both are warnings: what was read stays."""
    text = example("lft")
    assert warnings(told(text)) == []
    cut_off = told(text.replace("10 valid lids dumped", "11 valid lids dumped", 1))
    assert "tables without an end, or with fewer lines than it says: 1, of 0x02c0" in warnings(cut_off)[0]
    twice = told(f"{FDBS}\ndump_ucast_routes: Switch 0x{GUID}0100\n0x0002 : 004  : 00   : yes\n")
    assert f"two ports out for a LID: 1, 0x{GUID}0100 for LID 2" in warnings(twice)[0]
    assert twice.forwarding[f"S-{GUID}0100"][2] == 3

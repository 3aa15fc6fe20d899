from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nettune.errors import InputError
from topology.fabric import Fabric, NodeKind
from topology.readers import Said, Source, detect, lldp, read
from topology.readers.ethernet import UnnamedNeighbor, kind_of, mac, media_gbps, port_name

MAC = "b8:59:9f:00:00:1{}"
UBUNTU = "Ubuntu 22.04.4 LTS Linux 5.15.0-105-generic x86_64"


def said(text: str, name: str = "g1.json0") -> Said:
    return read(Source(name, text), "lldpcli")


def cables(fabric: Fabric) -> list[str]:
    return sorted(str(fabric.link_element(row)) for row in range(len(fabric.links.port_a)))


def json0(
    port: str, system: str, identifier: tuple[str, str], description: str = "", **more: Any
) -> dict[str, Any]:
    chassis: dict[str, Any] = {"id": [{"type": "mac", "value": more.get("chassis", "04:3f:72:00:00:01")}]}
    if system:
        chassis["name"] = [{"value": system}]
    chassis["capability"] = [
        {"type": name, "enabled": True} for name in more.get("capabilities", ("Bridge",))
    ]
    if "descr" in more:
        chassis["descr"] = [{"value": more["descr"]}]
    told: dict[str, Any] = {"id": [{"type": identifier[0], "value": identifier[1]}]}
    if description:
        told["descr"] = [{"value": description}]
    if "media" in more:
        told["auto-negotiation"] = [
            {"supported": more.get("negotiates", True), "current": [{"value": more["media"]}]}
        ]
    if "lag" in more:
        told["aggregation"] = [{"value": more["lag"]}]
    return {"name": port, "via": "LLDP", "rid": "1", "chassis": [chassis], "port": [told]}


def neighbors(*entries: dict[str, Any]) -> str:
    return json.dumps({"lldp": [{"interface": list(entries)}]})


def chassis(name: str, *enabled: str, descr: str = "") -> str:
    station = {
        "id": [{"type": "mac", "value": "04:3f:72:00:00:09"}],
        "name": [{"value": name}],
        "descr": [{"value": descr}],
        "capability": [{"type": kind, "enabled": True} for kind in enabled],
    }
    return json.dumps({"local-chassis": [{"chassis": [station]}]})


# Counted by hand with grep, independent of the parser: cables are entries with `"via"` (`grep -c via`), switches and
# hosts are the chassis names in them (`grep -A1 '"name": \['` in json0, `chassis.name=` in keyvalue, the key under
# `"chassis"` in json), plus the host of the file's name. leaf0 is a switch because h0 answers on `eth0`; spine1 hears
# only leaves that route, on ports that nobody's NIC is called like, and does not say what it is itself.
SAMPLES = {
    "lldp/h0.json": (1, 1, 1, {"h0:eth0--leaf0:d0"}),
    "lldp/h0.json0": (1, 1, 1, {"h0:eth0--leaf0:d0"}),
    "lldp/h0.keyvalue": (1, 1, 1, {"h0:eth0--leaf0:d0"}),
    "lldp/leaf0.json": (2, 3, 4, {"h0:eth0--leaf0:d0", "h1:eth0--leaf0:d1", "leaf0:u1--spine1:d0"}),
    "lldp/leaf0.json0": (2, 3, 4, {"h0:eth0--leaf0:d0", "h1:eth0--leaf0:d1", "leaf0:u0--spine0:d0"}),
    "lldp/leaf0.keyvalue": (2, 3, 4, {"h0:eth0--leaf0:d0", "leaf0:u0--spine0:d0"}),
    "lldp/spine1.json": (1, 4, 4, {"leaf0:u1--spine1:d0", "leaf3:u1--spine1:d3"}),
    "lldp/spine1.json0": (1, 4, 4, {"leaf1:u1--spine1:d1", "leaf2:u1--spine1:d2"}),
    "lldp/spine1.keyvalue": (1, 4, 4, {"leaf0:u1--spine1:d0"}),
    "lldp/h0.chassis.json0": (1, 0, 0, set()),
    "lldp/leaf0.chassis.json0": (1, 0, 0, set()),
    "lldp/spine1.chassis.json0": (1, 0, 0, set()),
    "lldp/sichek_bjg45.json.txt": (1, 1, 1, {"bj08-m1-a10-40-swl017:25GE1/0/39--sichek_bjg45:ens11f0"}),
    "lldp/sichek_clnet36.json.txt": (
        1,
        2,
        2,
        {
            "CL-A052A:Twenty-FiveGigE1/0/16--sichek_clnet36:ens14f0np0",
            "CL-RLF233:FourHundredGigE1/0/98--sichek_clnet36:eth0",
        },
    ),
    "lldp/sichek_dracog24.json.txt": (
        1,
        1,
        1,
        {"TJWQHY_D2_401-C-01-47.VEGS0-0-50:ethernet12a--sichek_dracog24:eth1"},
    ),
    "topo/lldpctl-json/lldpcli-json-single-object-form.json": (
        1,
        1,
        1,
        {"B2-Tor:ge-1/1/28--lldpcli-json-single-object-form:eth0"},
    ),
}
REFUSED = {f"lldp/{node}.{form}": form for node in ("h0", "leaf0", "spine1") for form in ("plain", "xml")}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_the_counts_that_grep_gives(shared: Path, name: str) -> None:
    """Hosts, switches and cables of each recorded output, and cables by name."""
    hosts, switches, links, some = SAMPLES[name]
    source = Source.open(shared / "samples" / name)
    assert detect(source).name == "lldpcli"
    fabric = read(source).to_fabric()
    assert (len(fabric.hosts), len(fabric.switches), len(fabric.links.port_a)) == (hosts, switches, links)
    assert {f"link/{cable}" for cable in some} <= set(cables(fabric))


@pytest.mark.parametrize("name", REFUSED)
def test_forms_that_are_not_read_say_which_one_is(shared: Path, name: str) -> None:
    """Plain text and XML of lldpcli are recognised and refused with the form to use."""
    with pytest.raises(InputError, match="which is not read: print it with -f json0"):
        read(Source.open(shared / "samples" / name))


def test_the_sample_table_is_complete(shared: Path) -> None:
    """Every file under samples/lldp is in a table."""
    there = {f"lldp/{path.name}" for path in (shared / "samples/lldp").iterdir() if path.suffix != ".src"}
    assert there == {name for name in SAMPLES if name.startswith("lldp/")} | set(REFUSED)


def test_all_three_forms_say_the_same(shared: Path) -> None:
    """json, json0 and keyvalue of one node give one fabric."""
    for node in ("h0", "leaf0", "spine1"):
        folder = shared / "samples/lldp"
        forms = [
            Source(node, (folder / f"{node}.{form}").read_text()) for form in ("json", "json0", "keyvalue")
        ]
        assert len({json.dumps(read(form).to_fabric().to_json()) for form in forms}) == 1


def test_sample_speeds_and_groups(shared: Path) -> None:
    """A media type in operation is the rate of both ends; an aggregation belongs to the far port."""
    fabric = read(Source.open(shared / "samples/lldp/sichek_clnet36.json.txt")).to_fabric()
    speed = dict(zip(fabric.ports.name, fabric.ports.speed_gbps.tolist(), strict=True))
    assert speed == {"ens14f0np0": 25, "Twenty-FiveGigE1/0/16": 25, "eth0": 0, "FourHundredGigE1/0/98": 0}
    fabric = read(Source.open(shared / "samples/lldp/sichek_bjg45.json.txt")).to_fabric()
    assert dict(zip(fabric.ports.name, fabric.ports.lag.tolist(), strict=True)) == {
        "ens11f0": -1,
        "25GE1/0/39": 139,
    }


def test_one_neighbour_as_an_object_and_as_an_array() -> None:
    """In json the interface is an object with one neighbour, an array of objects with several; both are read."""
    entry = {
        "via": "LLDP",
        "chassis": {"leaf1": {"id": {"type": "mac", "value": "04:3f:72:00:00:01"}}},
        "port": {"id": {"type": "ifname", "value": "swp1"}},
    }
    for interface in ({"ens1f0": entry}, [{"ens1f0": entry}]):
        text = json.dumps({"lldp": {"interface": interface}})
        assert cables(said(text).to_fabric()) == ["link/g1:ens1f0--leaf1:swp1"]


def test_two_neighbours_on_one_port_are_a_conflict() -> None:
    """A second system on the same port contradicts: the first cable stays and a finding says so."""
    result = said(
        neighbors(json0("ens1f0", "leaf1", ("ifname", "swp1")), json0("ens1f0", "leaf2", ("ifname", "swp9")))
    )
    assert cables(result.to_fabric()) == ["link/g1:ens1f0--leaf1:swp1"]
    assert [finding.check for finding in result.findings] == ["source-conflict"]


def test_nobody_heard_is_a_node_without_cables() -> None:
    """An empty object is printed where nobody was heard."""
    fabric = said('{"lldp": [{}]}').to_fabric()
    assert (fabric.hosts, len(fabric.ports.name)) == (("g1",), 0)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("h0.json0", "h0"),
        ("a/b/node7.neighbors.json", "node7"),
        ("g1.pod2.example.json.txt", "g1.pod2.example"),
        ("leaf0.neighbors-details.keyvalue", "leaf0"),
        ("rack 3.json", "rack_3"),
    ],
)
def test_the_host_is_the_file_name(name: str, host: str) -> None:
    """Who printed `show neighbors` is the file's name without its suffixes."""
    assert host in said(neighbors(json0("ens1f0", "leaf1", ("ifname", "swp1"))), name).nodes


@pytest.mark.parametrize("name", ["-", "<stdin>", ".json", "_.json0"])
def test_an_input_without_a_file_name_needs_a_chassis(name: str) -> None:
    """Nobody can tell who printed `show neighbors` on standard input, unless `show chassis` stands before it."""
    text = neighbors(json0("ens1f0", "leaf1", ("ifname", "swp1")))
    with pytest.raises(InputError, match=r"does not say which node printed it: name the file after the node"):
        said(text, name)
    assert "g7" in said(chassis("g7", "Station") + text, name).nodes


def test_a_chassis_names_the_outputs_after_it() -> None:
    """Outputs of several nodes one after the other: each is of the node whose chassis stands before it."""
    text = "\n".join(
        [
            chassis("g1", "Station"),
            neighbors(json0("ens1f0", "leaf1", ("ifname", "swp1"))),
            chassis("leaf1", "Bridge", "Router"),
            neighbors(
                json0("swp1", "g1", ("mac", MAC.format(0)), "ens1f0", capabilities=("Station",)),
                json0("swp2", "g2", ("mac", MAC.format(1)), "ens1f0", capabilities=("Station",)),
            ),
        ]
    )
    fabric = said(text, "all.json0").to_fabric()
    assert (fabric.hosts, fabric.switches) == (("g1", "g2"), ("leaf1",))
    assert cables(fabric) == ["link/g1:ens1f0--leaf1:swp1", "link/g2:ens1f0--leaf1:swp2"]


def test_several_nodes_without_a_chassis_are_refused() -> None:
    """Two outputs of `show neighbors` in one file could be of two nodes."""
    text = neighbors(json0("ens1f0", "leaf1", ("ifname", "swp1")))
    with pytest.raises(InputError, match=r"2 outputs of `show neighbors` and none of `show chassis`"):
        said(text + text)


def test_interfaces_are_no_neighbours() -> None:
    """`show interfaces` looks like `show neighbors`, but its ports are the node's own: no cable to itself."""
    own = json0("ens1f0", "g1", ("mac", MAC.format(0)), "ens1f0", capabilities=("Station",)) | {
        "status": [{"value": "RX and TX"}]
    }
    del own["via"], own["rid"]
    result = said(neighbors(own), "anything.json0")
    assert list(result.ports) == [("g1", "ens1f0")]
    assert result.ports["g1", "ens1f0"].guid == MAC.format(0)
    assert not result.links
    assert not result.findings


@pytest.mark.parametrize(
    ("identifier", "description", "port"),
    [
        (("ifname", "Ethernet1/1"), "uplink", "Ethernet1/1"),
        (("mac", MAC.format(0)), "ens1f0np0", "ens1f0np0"),
        (("mac", MAC.format(0)), "", MAC.format(0)),
        (("mac", MAC.format(0)), "uplink to leaf 3", MAC.format(0)),
        (("local", "514"), "et-0/0/7", "et-0/0/7"),
        (("local", "514"), "", "514"),
        (("local", "Eth1(Port1)"), "etp1", "Eth1(Port1)"),
        (("local", "Port 7 -- b"), "", "Port_7_b"),
        (("", ""), "swp3", "swp3"),
    ],
)
def test_port_names(identifier: tuple[str, str], description: str, port: str) -> None:
    """An interface's name first; a MAC or a bare number gives way to a description of one word."""
    result = said(neighbors(json0("ens1f0", "leaf1", identifier, description)))
    assert cables(result.to_fabric()) == [f"link/g1:ens1f0--leaf1:{port}"]


def test_a_port_without_any_name_leaves_the_cable_out() -> None:
    """Older builds leave keys out: a neighbour without a port is named in a finding, not invented."""
    result = said(neighbors(json0("ens1f0", "leaf1", ("", ""))))
    assert not result.links
    assert [(f.check, str(f.where), f.required) for f in result.findings] == [
        ("lldp-neighbor", "host/g1/nic/ens1f0", False)
    ]


def test_firmware_without_a_name_is_dropped_with_its_addresses_kept() -> None:
    """A NIC's firmware (DCBX) tells MACs but no name: no node, the reason, and an event for a later merge."""
    result = said(
        chassis("leaf1", "Bridge")
        + neighbors(json0("swp3", "", ("mac", MAC.format(5)), chassis=MAC.format(4)))
    )
    assert list(result.nodes) == ["leaf1"]
    assert result.events == [UnnamedNeighbor("leaf1", "swp3", MAC.format(4), MAC.format(5))]
    (element, why), *others = result.dropped.items()
    assert (element, others) == ("host/b8_59_9f_00_00_14", [])
    assert "no system name on leaf1:swp3" in why


def test_firmware_is_found_by_its_mac_in_the_same_input() -> None:
    """Where another output in the file has the MAC on a port, the cable is known."""
    own = json0("ens1f0", "g1", ("mac", MAC.format(5)), "ens1f0", capabilities=("Station",)) | {
        "status": [{"value": "RX and TX"}]
    }
    del own["via"], own["rid"]
    text = chassis("leaf1", "Bridge") + neighbors(json0("swp3", "", ("mac", MAC.format(5)))) + neighbors(own)
    result = said(text)
    assert cables(result.to_fabric()) == ["link/g1:ens1f0--leaf1:swp3"]
    assert not result.dropped
    assert not result.events


@pytest.mark.parametrize(
    ("capabilities", "description", "port", "kind"),
    [
        (("bridge", "router"), "Cumulus Linux version 5.9.1", "swp1", NodeKind.SWITCH),
        (("bridge",), "", "", NodeKind.SWITCH),
        (("station",), "", "", NodeKind.HOST),
        # A bridge for containers, and forwarding, on a host: its system's name decides, else its NIC's.
        (("bridge", "router"), UBUNTU, "rail0", NodeKind.HOST),
        (("bridge", "router"), "gpu node", "enp23s0f0np0", NodeKind.HOST),
        # A network system that is built on a general-purpose one.
        (("bridge", "router"), "Debian GNU/Linux 11 SONiC Software Version", "Ethernet0", NodeKind.SWITCH),
        # Routers that do not bridge: a leaf of routed ports, or a host that forwards.
        (("router",), "", "d0", NodeKind.SWITCH),
        (("router",), "", "swp1", NodeKind.SWITCH),
        (("router",), "", "eth0", NodeKind.HOST),
        (("router",), "", "", None),
        (("router",), "", MAC.format(0), None),
        ((), "", "rail0", None),
        ((), "", "Ethernet1/1", NodeKind.SWITCH),
        ((), "", "mlx5_0", NodeKind.HOST),
    ],
)
def test_what_a_neighbour_is(
    capabilities: tuple[str, ...], description: str, port: str, kind: NodeKind | None
) -> None:
    """Capabilities, the system's description and the port's name together tell a host from a switch."""
    assert kind_of(frozenset(capabilities), description, port) is kind


@pytest.mark.parametrize(
    ("media", "gbps"),
    [
        ("1000BaseTFD - Four-pair Category 5 UTP, full duplex mode", 1),
        ("100BaseTXFD - 2 pair", 0.1),
        ("10GigBaseSR - R fiber over 850 nm optics", 10),
        ("10GbaseT - Four-pair Category 6A", 10),
        ("2p5GbaseX - 2.5GBASE-X", 2.5),
        ("5GigT - 5GBASE-T", 5),
        ("25GbaseSR - 25GBASE-R PCS/PMA over multimode fiber", 25),
        ("100GbaseCR4 - 100GBASE-R", 100),
        ("400GbaseDR4 - 400GBASE-R", 400),
        ("800GBASE-2DR4", 800),
        ("other or unknown", 0),
        ("", 0),
    ],
)
def test_media_types(media: str, gbps: float) -> None:
    """The rate stands in the media type's name: lldpd's spellings of RFC 4836 and later, and IEEE's."""
    assert media_gbps(media) == gbps


def test_virtual_ports_have_no_speed() -> None:
    """A veth is printed as 10GbaseT; twisted pair that cannot negotiate is none, so its rate is not believed."""
    media = "10GbaseT - Four-pair Category 6A or better, full duplex mode only"
    for negotiates, gbps in ((False, 0.0), (True, 10.0)):
        entry = json0("eth0", "leaf0", ("ifname", "d0"), media=media, negotiates=negotiates)
        assert set(said(neighbors(entry)).to_fabric().ports.speed_gbps.tolist()) == {gbps}
    fixed = json0("eth0", "leaf0", ("ifname", "d0"), media="400GbaseDR4 - x", negotiates=False)
    assert set(said(neighbors(fixed)).to_fabric().ports.speed_gbps.tolist()) == {400.0}


def test_hardware_addresses_in_one_spelling() -> None:
    """Colons, hyphens and Arista's dots become one spelling; other texts are none."""
    assert {mac(text) for text in ("B8:59:9F:00:00:10", "b8-59-9f-00-00-10", "b859.9f00.0010")} == {
        MAC.format(0)
    }
    assert {mac(text) for text in ("b8:59:9f:00:00", "leaf1", "", "b8:59:9f:00:00:1g")} == {""}
    assert port_name(" Port 1--a\t") == "Port_1_a"


KEYVALUE = """\
lldp.ens1f0.via=LLDP
lldp.ens1f0.rid=1
lldp.ens1f0.chassis.mac=04:3f:72:00:00:01
lldp.ens1f0.chassis.name=leaf1
lldp.ens1f0.chassis.descr=Cisco NX-OS(tm) n9000
TAC support: http://example.com
lldp.ens1f0.chassis.Bridge.enabled=on
lldp.ens1f0.port.ifname=Ethernet1/1
lldp.ens1f0.port.descr=a=b
lldp.ens1f0.via=LLDP
lldp.ens1f0.rid=2
lldp.ens1f0.chassis.mac=b8:59:9f:00:00:14
lldp.ens1f0.port.mac=b8:59:9f:00:00:15
lldp.eth0.1.via=LLDP
lldp.eth0.1.chassis.name=mgmt
lldp.eth0.1.port.local=17
"""


def test_keyvalue() -> None:
    """Keys of a port with dots, several neighbours of one port, a description of several lines."""
    result = said(KEYVALUE, "g1.keyvalue")
    assert cables(result.to_fabric()) == ["link/g1:ens1f0--leaf1:Ethernet1/1", "link/g1:eth0.1--mgmt:17"]
    assert list(result.dropped) == ["host/b8_59_9f_00_00_14"]
    for bad, line in (
        ("lldp.ens1f0.via=LLDP\nlldp.ens1f0.chass", 2),
        ("lldp.ens1f0.via=LLDP\nlldp.ens2f0.chassis.name=x", 2),
    ):
        with pytest.raises(InputError, match=rf"^g1\.keyvalue:{line}: "):
            said(bad, "g1.keyvalue")


def own_keyvalue(node: str, number: int) -> str:
    chassis = (
        f"chassis.mac={MAC.format(number)}\n{{0}}chassis.name={node}\n{{0}}chassis.mgmt-ip=192.0.2.{number}\n"
    )
    chassis += "{0}chassis.mgmt-ip=fe80::1\n{0}chassis.Station.enabled=on\n"
    text = "{0}" + chassis
    ports = "".join(
        f"lldp.ens{port}f0.status=RX and TX\n"
        + text.format(f"lldp.ens{port}f0.")
        + f"lldp.ens{port}f0.port.ifname=ens{port}f0\n"
        for port in (1, 2)
    )
    return text.format("local-chassis.") + ports


def test_keyvalue_of_several_nodes() -> None:
    """`show chassis` and `show interfaces` of two nodes in one file: each port is its own node's, no cable anywhere."""
    result = said(own_keyvalue("g1", 1) + own_keyvalue("g2", 2), "all.keyvalue")
    assert list(result.ports) == [(node, port) for node in ("g1", "g2") for port in ("ens1f0", "ens2f0")]
    assert {name: (node.kind, node.guid) for name, node in result.nodes.items()} == {
        "g1": (NodeKind.HOST, MAC.format(1)),
        "g2": (NodeKind.HOST, MAC.format(2)),
    }
    assert not result.links
    assert not result.findings
    chassis = own_keyvalue("g1", 1).split("lldp.", 1)[0] + own_keyvalue("g2", 2).split("lldp.", 1)[0]
    assert list(said(chassis, "all.keyvalue").nodes) == ["g1", "g2"]


def test_a_name_that_is_a_hardware_address_is_none() -> None:
    """Some firmware tells its MAC as its name: no node is called so."""
    result = said(neighbors(json0("ens1f0", MAC.format(7), ("mac", MAC.format(7)))))
    assert (list(result.nodes), len(result.events)) == (["g1"], 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"lldp": [{"interface": [', r"g1\.json0:1: the JSON is cut short"),
        ('{"lldp": {}}{"other": 1}', r"g1\.json0: is not of lldpcli"),
        ('{"lldp": {"interface": {"{{ item }}": }}}', r"g1\.json0:1: is a template"),
        (neighbors(json0("ens1f0", "//", ("ifname", "swp1"))), r"g1\.json0: the neighbour on port ens1f0: "),
    ],
)
def test_errors_name_the_file(text: str, why: str) -> None:
    """Cut, foreign and templated inputs are refused with the reason."""
    with pytest.raises(InputError, match=f"^{why}"):
        said(text)


def test_more_neighbours_than_any_cluster_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a million of them in 8 MB would take minutes and gigabytes."""
    monkeypatch.setattr(lldp, "MAX_NEIGHBOURS", 3)
    interfaces = ",".join(f'{{"name": "e{number}", "via": "LLDP"}}' for number in range(4))
    with pytest.raises(InputError, match="more than 3 in one file"):
        read(Source("h0.json0", f'{{"lldp": [{{"interface": [{interfaces}]}}]}}'))

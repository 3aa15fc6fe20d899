"""NCCL topology XML: hand-checked counts of recorded files, and the traps of the format one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.readers import Source, read
from topology.readers.nccl_topology import READER, NetDevice, system_image_guid
from topology.readers.said import Said
from topology.readers.single_host import DeviceLink

EXAMPLE = Path(__file__).parent / "examples" / "nccl-topology.xml"

SAMPLES = {
    # file: (GPUs, NICs, links between GPUs), counted with
    #   grep -c '<gpu ' / '<net ' / '<nvlink' + '<xgmi', one element a line; where a file has none of these,
    #   grep -c 'class="0x0302' for GPUs and 'class="0x02' for NICs
    "aws-ofi-nccl-g5.48xl-topo.xml": (0, 0, 0),  # 9 <pci>, none with a class
    "aws-ofi-nccl-p4d-24xl-topo.xml": (8, 4, 0),
    "aws-ofi-nccl-p4de-24xl-topo.xml": (8, 4, 0),
    "aws-ofi-nccl-p5.48xl-topo.xml": (8, 32, 0),
    "azhpc-images-ncv4-topo.xml": (4, 1, 4),
    "azhpc-images-ndv2-topo.xml": (8, 1, 0),
    "azhpc-images-ndv4-topo.xml": (8, 8, 0),
    "azhpc-images-ndv5-topo.xml": (8, 8, 0),
    "oci-hpc-H100-topology-kubernetes.xml": (8, 16, 32),
    "oci-hpc-topo-flattened-b4.xml": (8, 8, 0),
    "oci-hpc-topo-flattened.xml": (8, 8, 0),
    "rccl-topo_4p_940.xml": (4, 4, 12),
    "rccl-topo_8p1h.xml": (8, 4, 24),
    "rccl-topo_8p_90a.xml": (8, 1, 24),
    "rccl-topo_8p_940.xml": (8, 8, 56),
    "rccl-topo_8p_rome_4nics.xml": (8, 4, 24),
}

NEAREST: dict[str, dict[int, tuple[str, ...]]] = {
    # file: GPU -> its nearest NICs, read off the file by hand: the NICs under the same switch
    "aws-ofi-nccl-p4d-24xl-topo.xml": {0: ("0000:10:1b.0",), 3: ("0000:20:1b.0",), 7: ("0000:a0:1b.0",)},
    "aws-ofi-nccl-p5.48xl-topo.xml": {1: ("rdmap96s0", "rdmap97s0", "rdmap98s0", "rdmap99s0")},
    "azhpc-images-ndv5-topo.xml": {0: ("0101:00:00.0",), 3: ("0104:00:00.0",), 4: ("0105:00:00.0",)},
    "oci-hpc-H100-topology-kubernetes.xml": {0: ("mlx5_18", "mlx5_19"), 2: ("mlx5_28", "mlx5_29")},
    "rccl-topo_4p_940.xml": {0: ("cxi0",), 3: ("cxi3",)},
    "rccl-topo_8p_940.xml": {0: ("mlx5_0",), 1: ("mlx5_1",)},
    # two GPUs and two NICs of one switch: each GPU begins with another
    "azhpc-images-ndv4-topo.xml": {
        0: ("0101:00:00.0", "0102:00:00.0"),
        1: ("0102:00:00.0", "0101:00:00.0"),
    },
}


def links_of(said: Said) -> list[DeviceLink]:
    return [event for event in said.events if isinstance(event, DeviceLink)]


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_files_have_the_counts_of_grep(shared: Path, name: str) -> None:
    """GPUs, NICs and links of every recorded topology; one host, named after the file."""
    said = read(Source.open(shared / "samples" / "topo" / "nccl-topo-xml" / name))
    assert said.format == "nccl-topology"
    assert list(said.nodes) == [name.removesuffix(".xml")]
    assert (len(said.gpus), len(said.ports), len(links_of(said))) == SAMPLES[name]
    for index, nics in NEAREST.get(name, {}).items():
        assert said.gpus[name.removesuffix(".xml"), index].nics == nics
    assert len(said.to_fabric().gpus.index) == SAMPLES[name][0]


def test_all_recorded_files_are_in_the_table(shared: Path) -> None:
    """A new sample needs its counts."""
    found = {path.name for path in (shared / "samples" / "topo" / "nccl-topo-xml").glob("*.xml")}
    assert found == set(SAMPLES)


def test_a_recorded_fragment_is_refused_as_one(shared: Path) -> None:
    """Elements without <system> come from an excerpt."""
    path = shared / "samples" / "nccl-topo-xml" / "a100_1505_fragment.txt"
    with pytest.raises(InputError, match="fragment of an NCCL topology, without <system>"):
        read(Source.open(path))


def test_the_example_in_full() -> None:
    """Addresses, NUMA nodes, speeds, rails, link layers, a NIC with two ports under one <nic>."""
    said = READER.read(Source("runs/g17.xml", EXAMPLE.read_text()))
    assert list(said.nodes) == ["g17"]
    gpus = {index: (gpu.bus, gpu.numa, gpu.nics) for (_, index), gpu in said.gpus.items()}
    assert gpus == {
        0: ("0000:0c:00.0", 0, ("mlx5_0",)),
        1: ("0000:8c:00.0", 1, ("mlx5_1", "mlx5_2")),
    }
    ports = {name: (port.speed_gbps, port.rail, port.link_layer) for (_, name), port in said.ports.items()}
    assert ports == {
        "mlx5_0": (400.0, 0, "IB"),
        "mlx5_1": (200.0, 1, "Ethernet"),
        "mlx5_2": (0.0, -1, "Ethernet"),
    }
    nets = [event for event in said.events if isinstance(event, NetDevice)]
    assert [(net.dev, net.port, net.guid, net.bus) for net in nets] == [
        (0, 1, "946dae030050217e", "0000:0d:00.0"),
        (1, 1, "946dae03001e0ec4", "0000:8d:00.0"),
        (2, 2, "946dae03001e0ec4", "0000:8d:00.0"),
    ]
    assert links_of(said)[0] == DeviceLink("g17", "0000:0c:00.0", "0000:8c:00.0", "NVL", 18)


def topology(body: str, head: str = 'version="1"') -> Said:
    return READER.read(Source("h.xml", f"<system {head}>\n{body}\n</system>"))


CPU = '<cpu numaid="{0}" arch="x86_64">{1}</cpu>'
GPU = '<pci busid="{0}" class="0x030200"><gpu dev="{1}" sm="90" rank="{1}" gdr="1"/></pci>'
NET = '<pci busid="{0}" class="{3}"><nic><net name="{1}" dev="{2}" speed="400000" port="1" guid="0x0"/></nic></pci>'


def test_how_near_a_nic_is_follows_from_the_tree() -> None:
    """PIX under the same switch, before PXB under a switch above both, before PHB at the CPU, before SYS at another."""
    gpu = GPU.format("01:00.0", 0)
    pix, pxb, phb, sys = (NET.format(f"0{i + 2}:00.0", f"n{i}", i, "0x020000") for i in range(4))

    def nearest(pix: str, pxb: str, phb: str, sys: str) -> tuple[str, ...]:
        low = f'<pci busid="b0:00.0" class="0x060400">{pix}{gpu}</pci>'
        high = f'<pci busid="a0:00.0" class="0x060400">{low}{pxb}</pci>'
        return topology(CPU.format(0, phb + high) + CPU.format(1, sys)).gpus["h", 0].nics

    assert nearest(pix, pxb, phb, sys) == ("n0",)
    assert nearest("", pxb, phb, sys) == ("n1",)
    assert nearest("", "", phb, sys) == ("n2",)
    assert nearest("", "", "", sys) == ("n3",)
    assert nearest("", "", "", "") == ()


def test_elements_that_nccl_ignores_are_dropped_with_the_reason() -> None:
    """A gpu without rank is not of this job, a net without dev has no plugin: NCCL leaves both out."""
    body = '<pci busid="1:0.0" class="0x030200">\n<gpu dev="3" sm="90"/></pci><nic><net name="eth9"/></nic>'
    said = topology(CPU.format(0, body))
    assert (said.gpus, said.ports) == ({}, {})
    assert said.dropped == {
        "host/h/gpu/3": "line 3: no rank, NCCL ignores it",
        "host/h/nic/eth9": "line 3: no dev, NCCL ignores it",
    }


@pytest.mark.parametrize("pci_class", ["0x030200", "030000", "0x038000", "0x120000"])
def test_gpus_without_elements_are_found_by_class_in_order_of_address(pci_class: str) -> None:
    """Static files of clouds: NCCL fills the elements in at run time, CUDA numbers GPUs by PCI address."""
    devices = [
        f'<pci busid="{bus}" class="{pci_class}"/>'
        for bus in ("000b:00:00.0", "0003:00:00.0", "000B:00:00.1")
    ]
    said = topology(CPU.format(0, "".join(devices)))
    assert [(index, gpu.bus) for (_, index), gpu in said.gpus.items()] == [
        (0, "0003:00:00.0"),
        (1, "000b:00:00.0"),
        (2, "000b:00:00.1"),
    ]


def test_made_up_switches_with_the_same_address_are_different_ones() -> None:
    """`ffff:ff:01.0` is nobody's address; what hangs together is the element, not the address."""
    switch = '<pci busid="ffff:ff:01.0" class="0x060400">{0}</pci>'
    body = switch.format(GPU.format("1:0.0", 0) + NET.format("2:0.0", "n0", 0, "0x0207")) + switch.format(
        GPU.format("3:0.0", 1) + NET.format("4:0.0", "n1", 1, "0x0207")
    )
    said = topology(CPU.format(0, body))
    assert [gpu.nics for gpu in said.gpus.values()] == [("n0",), ("n1",)]


def test_a_file_without_classes_says_so() -> None:
    """The g5 file has bus ids only: nothing is known, and that is not a host without GPUs."""
    said = topology(CPU.format(0, '<pci busid="0000:00:16.0"/><pci busid="0000:00:17.0"/>'))
    [finding] = said.findings
    assert (finding.status, finding.what) == (
        Status.UNKNOWN,
        "2 PCI devices have no class: NCCL finds out at run time what they are",
    )


def test_several_host_hashes_are_several_hosts_of_one_nvlink_domain() -> None:
    """A dump of an NVLink domain that spans hosts; the same devices stand in each."""
    body = "".join(
        f'<cpu host_hash="0x{host}" numaid="0">{GPU.format("1:0.0", 0)}{NET.format("2:0.0", "mlx5_0", 0, "0x0207")}</cpu>'
        for host in ("aa", "bb", "aa1", "bb1")
    )
    said = topology(body)
    assert list(said.nodes) == ["host-aa", "host-bb", "host-aa1", "host-bb1"]
    assert len(said.gpus) == len(said.ports) == 4
    assert {node.nvl_domain for node in said.nodes.values()} == {"h"}
    assert set(said.to_fabric().nodes.nvl_domain.tolist()) == {0}


def test_one_host_hash_is_one_host_with_the_files_name() -> None:
    """The hash changes with every boot: it is no name where none is needed."""
    assert list(topology('<cpu host_hash="0xaa" numaid="0"/><cpu host_hash="0xaa" numaid="1"/>').nodes) == [
        "h"
    ]


def test_rccl_has_version_2_and_xgmi() -> None:
    """AMD's accelerators are linked by xGMI, and `gcn` and `arch` are attributes of its GPUs."""
    gpu = '<gpu dev="0" sm="304" gcn="gfx942" arch="38911" rank="0" gdr="1"><xgmi target="2:0.0" count="1"/></gpu>'
    said = topology(CPU.format(0, f'<pci busid="1:0.0" class="0x120000">{gpu}</pci>'), 'version="2"')
    assert links_of(said) == [DeviceLink("h", "0000:01:00.0", "0000:02:00.0", "XGMI", 1)]


def test_a_speed_is_told_believed_or_left_out() -> None:
    """-1 is unknown (NCCL takes 10 Gbit/s), 200,000,000 Mbit/s is a plugin's mistake and gives a finding."""
    body = "".join(
        f'<nic><net name="n{i}" dev="{i}" speed="{speed}"/></nic>'
        for i, speed in enumerate((400000, -1, 200000000))
    )
    said = topology(CPU.format(0, body))
    assert [port.speed_gbps for port in said.ports.values()] == [400.0, 0.0, 0.0]
    assert [str(finding.where) for finding in said.findings] == ["host/h/nic/n2"]


def test_two_ports_of_one_device_have_names_of_their_own() -> None:
    """Where a NIC is one device with two ports, the second is named as NCCL_IB_HCA names it."""
    nets = "".join(f'<net name="mlx5_0" dev="{port - 1}" port="{port}"/>' for port in (1, 2))
    assert [name for _, name in topology(CPU.format(0, f"<nic>{nets}</nic>")).ports] == ["mlx5_0", "mlx5_0:2"]


@pytest.mark.parametrize(
    ("text", "guid"),
    [
        ("0x9a70500003ae6d94", "946dae030050709a"),  # from the H100 sample: Mellanox' prefix is 94:6d:ae
        ("9a70500003ae6d94", "946dae030050709a"),
        ("0x8011e0003ae6d94", "946dae03001e0108"),
        ("0x0", ""),
        ("31", ""),
        ("", ""),
        ("xyz", ""),
        ("0x" + "f" * 20, ""),
    ],
)
def test_a_guid_is_printed_in_the_hosts_byte_order(text: str, guid: str) -> None:
    """With and without 0x; counters of static files are none."""
    assert system_image_guid(text) == guid


@pytest.mark.parametrize(
    ("body", "head", "reason"),
    [
        ("", 'version="3"', "<system> of version 3 is no NCCL topology"),
        ("", "", "<system> of version not told"),
        ("", 'version="1"', "has no <cpu>"),
        (CPU.format("x", GPU.format("1:0.0", 0)), 'version="1"', "numaid='x' of <cpu>"),
        (CPU.format(0, GPU.format("1:0.0", 0) * 2), 'version="1"', "<gpu> dev 0 appears twice"),
        (CPU.format(0, NET.format("1:0.0", "n", 0, "2") * 2), 'version="1"', "<net> 'n' appears twice"),
        (CPU.format(0, '<nic><net name="a b" dev="0"/></nic>'), 'version="1"', "'a b' of <net> cannot be"),
        (CPU.format(0, '<pci busid="" class="0x0200"/>'), 'version="1"', "'' of <pci> cannot be"),
        (CPU.format(0, '<pci class="0x03"><gpu rank="0"/></pci>'), 'version="1"', "<gpu> has no dev"),
    ],
)
def test_what_does_not_follow_the_grammar_is_an_error_with_its_line(
    body: str, head: str, reason: str
) -> None:
    """One line that names the element."""
    with pytest.raises(InputError) as caught:
        topology(body, head)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("h.xml:")
    assert caught.value.line is not None

"""lstopo XML: hand-checked recorded files of hwloc 1 and 3, an own one of hwloc 2, places in the PCI tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.columns import LinkState
from topology.readers import Source, read
from topology.readers.lstopo import READER
from topology.readers.said import Said

EXAMPLE = Path(__file__).parent / "examples" / "lstopo.xml"

SAMPLES = {
    # file: (host, GPUs, NICs). Host: grep HostName. NICs: grep -c 'pci_type="02', one OSDev under each (the ConnectX
    # has two, ib0 and mlx5_0). GPUs: grep -c 'pci_type="0302', and in the first one a 0300 with `opencl0d1` below
    "hwloc-32em64t-2n8c2t-pci-wholeio.xml": ("conan", 4, 3),
    "hwloc-96em64t-4n4d3ca2co-pci.xml": ("bertha", 0, 8),
    "hwloc-cxlmem+dax.v3.xml": ("efi", 0, 1),
    "hwloc-nvidiaDGX2.xml": ("hwloc-nvidiaDGX2", 16, 0),
    "mpich-topo1.xml": ("snowflake.local", 0, 0),
    "mpich-topo2.xml": ("stomp", 0, 2),
    "mpich-topo4.xml": ("crush", 0, 2),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_files_have_the_counts_of_grep(shared: Path, name: str) -> None:
    """Host, GPUs and NICs; a board's VGA (Matrox, ES1000, QEMU's) is no GPU."""
    said = read(Source.open(shared / "samples" / "topo" / "hwloc-xml" / name))
    assert said.format == "lstopo"
    assert ([*said.nodes], len(said.gpus), len(said.ports)) == ([SAMPLES[name][0]], *SAMPLES[name][1:])
    assert len(said.to_fabric().ports.name) == SAMPLES[name][2]


def test_all_recorded_files_are_in_the_table(shared: Path) -> None:
    """A new sample needs its counts."""
    assert {path.name for path in (shared / "samples" / "topo" / "hwloc-xml").glob("*.xml")} == set(SAMPLES)


def test_recorded_files_in_detail(shared: Path) -> None:
    """The ConnectX under the same root port as the Tesla of the second socket; GPUs numbered by NVML; no I/O at all."""
    folder = shared / "samples" / "topo" / "hwloc-xml"
    conan = read(Source.open(folder / "hwloc-32em64t-2n8c2t-pci-wholeio.xml"))
    assert [(gpu.bus, gpu.numa) for gpu in conan.gpus.values()] == [
        ("0000:03:00.0", 0),
        ("0000:83:00.0", 1),
        ("0000:84:00.0", 1),
        ("0000:84:00.1", 1),
    ]
    assert conan.gpus["conan", 2].nics == ("mlx5_0",)
    card = conan.ports["conan", "mlx5_0"]
    assert (card.link_layer, card.guid, card.lid, card.state) == ("IB", "0x248a0703001e39fe", 1, LinkState.UP)
    assert conan.ports["conan", "eth0"].guid == "00:25:90:95:71:12"
    dgx2 = read(Source.open(folder / "hwloc-nvidiaDGX2.xml"))
    assert [(index, gpu.numa) for (_, index), gpu in dgx2.gpus.items()] == [(n, n // 8) for n in range(16)]
    [finding] = read(Source.open(folder / "mpich-topo1.xml")).findings
    assert finding.status is Status.UNKNOWN


def test_the_example_in_full() -> None:
    """Of hwloc 2: a switch's two levels count as one, RDMA names come first, the BMC's VGA is left out."""
    said = READER.read(Source("x.xml", EXAMPLE.read_text()))
    assert {index: (gpu.bus, gpu.numa, gpu.nics) for (_, index), gpu in said.gpus.items()} == {
        0: ("0000:13:00.0", 0, ("mlx5_0",)),
        1: ("0000:81:00.0", 1, ("mlx5_0", "eno1")),
    }
    ports = {name: (port.link_layer, port.guid, port.lid) for (_, name), port in said.ports.items()}
    assert ports == {"mlx5_0": ("IB", "0x946dae030050709a", 42), "eno1": ("Ethernet", "3c:ec:ef:01:02:03", 0)}


def machine(body: str, attributes: str = "") -> Said:
    text = f'<topology version="2.0">\n<object type="Machine" nodeset="0x1">{body}</object></topology>'
    return READER.read(Source("h.xml", text.replace("<topology version", f"<topology {attributes} version")))


def bridge(body: str, kind: str = "1-1") -> str:
    return f'<object type="Bridge" bridge_type="{kind}">{body}</object>'


def device(bus: str, pci_class: str, *names: str) -> str:
    parts = "".join(f'<object type="OSDev" name="{name}"/>' for name in names)
    return f'<object type="PCIDev" pci_busid="{bus}" pci_type="{pci_class} [10de:0001] [0:0] 01">{parts}</object>'


def test_how_near_a_nic_is_follows_from_the_tree() -> None:
    """Same switch, switch above, host bridge, NUMA node, other NUMA node."""
    gpu = device("0000:05:00.0", "0302")
    same, above, root, numa, other = (device(f"0000:0{n}:00.0", "0200", f"n{n}") for n in range(6, 11))

    def nearest(*without: str) -> tuple[str, ...]:
        inner = bridge(bridge(gpu) + bridge(same))
        switch = bridge(bridge(inner) + bridge(above))
        body = bridge(bridge(switch) + bridge(root), "0-1") + bridge(bridge(numa), "0-1")
        packages = f'<object type="Package" nodeset="0x1">{body}</object>'
        packages += f'<object type="Package" nodeset="0x2">{bridge(bridge(other), "0-1")}</object>'
        for part in without:
            packages = packages.replace(part, "")
        return machine(packages).gpus["h", 0].nics

    assert nearest() == ("n6",)
    assert nearest(same) == ("n7",)
    assert nearest(same, above) == ("n8",)
    assert nearest(same, above, root) == ("n9",)
    assert nearest(same, above, root, numa) == ("n10",)


@pytest.mark.parametrize(
    ("pci_class", "names", "found"),
    [
        ("0302", (), True),
        ("1200", (), True),
        ("0300", (), False),
        ("0300", ("card0",), False),
        ("0300", ("card0", "nvml3"), True),
        ("0380", ("rsmi0",), True),
        ("0604", ("cuda0",), False),
    ],
)
def test_an_accelerator_is_told_by_class_or_by_its_software(
    pci_class: str, names: tuple[str, ...], found: bool
) -> None:
    """A display adapter counts where NVML, CUDA, ROCm or OpenCL sees it."""
    assert bool(machine(device("0000:01:00.0", pci_class, *names)).gpus) == found


def test_numbers_of_nvml_come_before_the_order_of_addresses() -> None:
    """NVML counts all GPUs of a host; CUDA only those that lstopo's process saw, so not where one is missing."""
    both = [("0000:01:00.0", "nvml1"), ("0000:02:00.0", "nvml0")]
    said = machine("".join(device(bus, "0302", name) for bus, name in both))
    assert {index: gpu.bus for (_, index), gpu in said.gpus.items()} == {1: "0000:01:00.0", 0: "0000:02:00.0"}
    said = machine(device("0000:02:00.0", "0302", "cuda0") + device("0000:01:00.0", "0302"))
    assert {index: gpu.bus for (_, index), gpu in said.gpus.items()} == {0: "0000:01:00.0", 1: "0000:02:00.0"}


def test_a_second_port_of_an_rdma_device_has_its_own_name_and_state() -> None:
    """Ports are infos of the OSDev; 4 is ACTIVE."""
    info = {"NodeGUID": "1:2:3:4", "Port1State": "4", "Port2State": "1", "Port2LID": "0x0"}
    infos = "".join(f'<info name="{name}" value="{value}"/>' for name, value in info.items())
    part = f'<object type="OSDev" name="mlx4_0">{infos}</object>'
    said = machine(f'<object type="PCIDev" pci_busid="1:0.0" pci_type="0207 [x]">{part}</object>')
    assert {name: port.state for (_, name), port in said.ports.items()} == {
        "mlx4_0": LinkState.UP,
        "mlx4_0:2": LinkState.DOWN,
    }


@pytest.mark.parametrize(
    ("nodeset", "numa"),
    [("0x00000004", 2), ("0x1,0x0", 32), ("0x3", -1), ("0x0", -1), ("0xf...f", -1), (",,0x1", 0)],
)
def test_the_numa_node_is_the_one_bit_of_the_mask(nodeset: str, numa: int) -> None:
    """Words of 32 bits, most significant first; several bits are no NUMA node."""
    said = machine(f'<object type="Group" nodeset="{nodeset}">{device("1:0.0", "0302")}</object>')
    assert said.gpus["h", 0].numa == numa


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<topology/>", "h.xml:1: <topology> without <object>"),
        ('<topology><object type="Machine">\n', "h.xml:2: ends too early inside <object>"),
        (
            f'<topology><object type="Machine">\n{device("1:0.0", "0200", "a b")}</object></topology>',
            "h.xml:2: 'a b' cannot be the name of a NIC",
        ),
        (
            f'<topology><object type="M" nodeset="zz">{device("1:0.0", "0302")}</object></topology>',
            "h.xml:1: nodeset='zz' is no mask",
        ),
        (
            '<!DOCTYPE topology [<!ENTITY a "b">]><topology><object type="Machine"/></topology>',
            "h.xml:1: has a DOCTYPE with declarations",
        ),
    ],
)
def test_what_does_not_follow_the_grammar_is_an_error_with_its_line(text: str, reason: str) -> None:
    """One line that names file, line and what is wrong."""
    with pytest.raises(InputError) as caught:
        READER.read(Source("h.xml", text))
    assert str(caught.value).startswith(reason)


def test_a_host_name_that_is_none_gives_way_to_the_files() -> None:
    """Blanks only."""
    said = machine('<info name="HostName" value="  "/>')
    assert list(said.nodes) == ["h"]

"""`nvidia-smi topo -m`: hand-checked recorded matrices, layouts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.readers import Source, read
from topology.readers.nvidia_smi_topo import READER
from topology.readers.said import Said
from topology.readers.single_host import DeviceLink

EXAMPLE = Path(__file__).parent / "examples" / "nvidia-smi-topo.txt"

SAMPLES: dict[str, tuple[int, int, int, str] | str] = {
    # file: (GPUs, NICs, pairs, words of the finding or of the error). GPUs and NICs counted in the head with
    #   head -n1 | grep -o 'GPU[0-9]\|NIC[0-9]*\|mlx5_[0-9]' | wc -l
    # pairs: n(n-1)/2 of all devices where all rows are there, else those that a row that is there tells
    "a800_nv8_9nic_partial.txt": (8, 9, 16, "rows of GPU1, GPU2"),  # one row of 17 devices
    "b200_glued_last_cell_MALFORMED.txt": "2: row GPU0, column NIC8: 'SYSSYS' is no kind of link: 2 cells run",
    "c4140_v100_mlx5_named_column.txt": (4, 1, 10, ""),
    "consumer_2gpu_nvlink.txt": (2, 0, 1, ""),
    "consumer_2gpu_phb.txt": (2, 0, 1, ""),
    "coyote_4gpu_4nic_spaces.txt": (4, 4, 28, ""),
    # 5 rows of 20 devices: 5*4/2 + 5*15; the last one is cut in its affinity
    "dgx_a100_12nic_truncated.txt": (8, 12, 85, "the row of GPU4 ends before its affinity"),
    "dgx_a100_gpus_only.txt": (8, 0, 28, ""),
    "h100_no_nvlink_all_sys.txt": (8, 8, 92, "rows of NIC0, NIC1"),  # 8*7/2 + 8*8
    "h100_pcie_vm_1gpu_1nic.txt": (1, 1, 1, ""),
    "l40s_pcie_4gpu_2nic_complete.txt": (4, 2, 15, ""),
    "ml_eng_h100_gpus_a.txt": (8, 0, 28, ""),
    "p2p_l4_cns.txt": "2: row GPU0 has 'CNS': this is `nvidia-smi topo -p2p`",
    "six_gpu_ansi_header_pcie.txt": (6, 0, 15, ""),
    "two_gpu_ansi_header_nv12.txt": (2, 0, 1, ""),
}

DETAILS: dict[str, dict[int, tuple[int, tuple[str, ...]]]] = {
    # file: GPU -> (NUMA node, nearest NICs), read off the matrix by eye
    "a800_nv8_9nic_partial.txt": {0: (0, ("NIC2",)), 1: (-1, ())},
    "c4140_v100_mlx5_named_column.txt": {3: (0, ("mlx5_0",))},
    "consumer_2gpu_phb.txt": {0: (-1, ())},  # N/A
    "coyote_4gpu_4nic_spaces.txt": {1: (0, ("NIC1", "NIC0")), 2: (1, ("NIC2", "NIC3"))},
    "dgx_a100_12nic_truncated.txt": {
        0: (3, ("NIC0", "NIC1")),
        3: (1, ("NIC3", "NIC2")),
        4: (-1, ("NIC6", "NIC7")),
    },
    "h100_no_nvlink_all_sys.txt": {5: (1, ("NIC5",))},
    "h100_pcie_vm_1gpu_1nic.txt": {0: (0, ("mlx5_0",))},
    "l40s_pcie_4gpu_2nic_complete.txt": {2: (1, ("mlx5_0", "mlx5_1"))},
    "six_gpu_ansi_header_pcie.txt": {5: (1, ())},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_matrices_have_the_counts_of_grep(shared: Path, name: str) -> None:
    """Devices and pairs of every recorded matrix, or the reason why it is refused."""
    source = Source.open(shared / "samples" / "nvidia-smi-topo" / name)
    expected = SAMPLES[name]
    if isinstance(expected, str):
        with pytest.raises(InputError) as caught:
            read(source)
        assert f"{name}:{expected}" in str(caught.value)
        return
    gpus, nics, pairs, words = expected
    said = read(source)
    host = name.removesuffix(".txt")
    assert (said.format, list(said.nodes)) == ("nvidia-smi-topo", [host])
    assert (len(said.gpus), len(said.ports), len(said.events)) == (gpus, nics, pairs)
    assert all(words in finding.what and finding.status is Status.UNKNOWN for finding in said.findings)
    assert bool(said.findings) == bool(words)
    for index, (numa, near) in DETAILS.get(name, {}).items():
        assert (said.gpus[host, index].numa, said.gpus[host, index].nics) == (numa, near)
    assert len(said.to_fabric().gpus.index) == gpus


def test_all_recorded_matrices_are_in_the_table(shared: Path) -> None:
    """A new sample needs its counts."""
    found = {path.name for path in (shared / "samples" / "nvidia-smi-topo").glob("*.txt")}
    assert found == set(SAMPLES)


def test_the_example_in_full() -> None:
    """Escapes around the head, doubled tabs, rows of NICs without affinity, names from the legend."""
    said = READER.read(Source("captures/g17.topo.txt", EXAMPLE.read_text()))
    assert [name for _, name in said.ports] == ["mlx5_0", "mlx5_bond_0", "mlx5_3"]
    assert {index: (gpu.numa, gpu.nics) for (_, index), gpu in said.gpus.items()} == {
        0: (0, ("mlx5_0",)),
        1: (1, ("mlx5_3",)),
    }
    assert said.events[0] == DeviceLink("g17.topo", "GPU0", "GPU1", "NV18", 18)
    assert (len(said.events), said.findings) == (10, [])


def smi(text: str) -> Said:
    return READER.read(Source("h.txt", text))


MATRIX = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\tPIX\t0-7\t0\nGPU1\tSYS\t X \tNODE\t8-15\t1\nNIC0\tPIX\tNODE\t X \n"


@pytest.mark.parametrize("blanks", ["\t", "    ", " ", "\t\t"])
def test_columns_are_separated_by_any_blanks(blanks: str) -> None:
    """Pastes turn tabs into blanks, and `CPU Affinity` is one column all the same."""
    said = smi(MATRIX.replace("\t", blanks))
    assert [(gpu.numa, gpu.nics) for gpu in said.gpus.values()] == [(0, ("NIC0",)), (1, ("NIC0",))]
    assert said.findings == []


def test_words_around_the_matrix_are_left_aside() -> None:
    """A prompt before it, a legend behind it."""
    said = smi(f"$ nvidia-smi topo -m\n\n{MATRIX}\nLegend:\n\n  X    = Self\n  PIX  = one bridge\n")
    assert len(said.gpus) == 2


def test_an_affinity_that_the_driver_does_not_know_moves_nothing() -> None:
    """Between tabs, an empty cell keeps its place."""
    said = smi("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t\t1\n")
    assert said.gpus["h", 0].numa == 1


def test_a_last_row_that_ends_in_its_affinity_is_a_finding() -> None:
    """Its links are whole; which NUMA node it has is not told, for the cell may be cut, too."""
    said = smi("\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tSYS\t0-7\t0\nGPU1\tSYS\tX\t8-1")
    assert [gpu.numa for gpu in said.gpus.values()] == [0, -1]
    assert [finding.what for finding in said.findings] == [
        "the matrix is not whole: the row of GPU1 ends before its affinity"
    ]


@pytest.mark.parametrize(
    ("cells", "near"),
    [
        ("PXB PIX SYS", ("NIC1",)),
        ("SYS PHB NODE", ("NIC1",)),
        ("SYS NODE SYS", ("NIC1",)),
        ("PHB PXB NODE", ("NIC1",)),
        ("SYS SYS SYS", ("NIC0", "NIC1", "NIC2")),
        ("SOC PSB SOC", ("NIC1",)),
    ],
)
def test_nearest_is_by_pix_pxb_phb_node_sys(cells: str, near: tuple[str, ...]) -> None:
    """The order of distance, words of old drivers included."""
    said = smi(f"\tGPU0\tNIC0\tNIC1\tNIC2\nGPU0\tX\t{cells}\n")
    assert said.gpus["h", 0].nics == near


def test_two_gpus_with_the_same_nics_begin_with_different_ones() -> None:
    """As NCCL spreads them."""
    said = smi("\tGPU0 GPU1 NIC0 NIC1\nGPU0 X NV4 PXB PXB\nGPU1 NV4 X PXB PXB\n")
    assert [gpu.nics[0] for gpu in said.gpus.values()] == ["NIC0", "NIC1"]


def test_a_matrix_that_contradicts_itself_gives_a_finding() -> None:
    """GPU0 to NIC0 and NIC0 to GPU0 are the same path."""
    said = smi(MATRIX.replace("NIC0\tPIX", "NIC0\tSYS"))
    assert [finding.what for finding in said.findings] == [
        "GPU0 reaches NIC0 by PIX, but NIC0 reaches GPU0 by SYS; the first is kept"
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing\n", "h.txt: has no head of a matrix"),
        ("\tGPU0\tGPU1\n", "h.txt:1: has a head of a matrix and no rows"),
        ("\tGPU0\tGPU0\nGPU0\tX\tX\n", "h.txt:1: names a device twice"),
        ("\tGPU0\tGPU1\nGPU0\t X\n", "h.txt:2: row GPU0 has 1 of 2 cells: cut short?"),
        (
            "\tGPU0\tGPU1\nGPU0\t X\tSYSPIX\n",
            "h.txt:2: row GPU0, column GPU1: 'SYSPIX' is no kind of link: 2 cells",
        ),
        ("\tGPU0\tGPU1\nGPU0\t X\tSY\n", "h.txt:2: row GPU0, column GPU1: 'SY' is no kind of link"),
        ("\tGPU0\tGPU1\nGPU0\t X\tOK\n", "h.txt:2: row GPU0 has 'OK': this is `nvidia-smi topo -p2p`"),
        ("\tGPU0\tGPU1\nGPU1\t X\tSYS\n", "h.txt:2: row GPU1 has 'SYS' where X stands for itself"),
        ("\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU0\tX\tSYS\n", "h.txt:3: has a second row of GPU0"),
        (f"{MATRIX}NIC Legend:\n NIC0: mlx--5\n", "h.txt: its legend gives NICs the same name"),
    ],
)
def test_what_is_no_whole_matrix_is_refused(text: str, reason: str) -> None:
    """The error names line, row and column."""
    with pytest.raises(InputError) as caught:
        smi(text)
    assert str(caught.value).startswith(reason)

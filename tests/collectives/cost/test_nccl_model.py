"""NCCL's tuning model against a table and choices that a real NCCL printed, and what is not covered by them."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from collectives.cost.nccl_model import Communicator, Graph, choose, table
from collectives.cost.nccl_model import constants as c
from nettune.errors import InputError

NAMES = {printed: op for op, printed in c.OPERATIONS.items()}


def sockets(**changes) -> Communicator:
    """The communicator of the vector: 2 ranks on 2 nodes over sockets, no LL128, CollNet or NVLS."""
    ring = Graph(2, 1.2, 1.2, "PHB", "SYS")
    tree = Graph(4, 1.2, 1.2, "PHB", "SYS")
    values: dict[str, Any] = {"ranks": 2, "nodes": 2, "graphs": {"ring": ring, "tree": tree}, "min_cc": 120}
    return Communicator(**values | changes)


def hopper(nodes: int, **changes) -> Communicator:
    """DGX H100: 8 GPUs with a NIC each on every node; plausible graphs, not from a log."""
    graphs = {
        "ring": Graph(16, 20.0, 20.0, "NVL", "PIX"),
        "tree": Graph(16, 20.0, 20.0, "NVL", "PIX"),
        "nvls": Graph(16, 20.0, 20.0, "NVL", "PIX"),
    }
    values: dict[str, Any] = {"ranks": 8 * nodes, "nodes": nodes, "graphs": graphs, "nvswitch": True}
    return Communicator(**values | changes)


@pytest.fixture(scope="session")
def log(shared) -> list[str]:
    """Lines of NCCL 2.29.7's table and choices."""
    file = Path(shared) / "samples/nccl-logs/01-tuning-table-2.29.7-2ranks-socket.log"
    return file.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def printed(log) -> dict[tuple[str, str, str], tuple[float, float]]:
    """(operation, algorithm, protocol) -> latency and bandwidth of every cell of the log."""
    cells = {}
    block = -1
    for line in log:
        text = line.split("NCCL INFO", 1)[-1].strip()
        block += text.startswith("Algorithm ")
        name = text.split(" ", 1)[0]
        if name in NAMES and "->" not in text:
            for place, cell in enumerate(re.findall(r"([\d.]+)/\s*([\d.]+)", text)):
                algorithm, protocol = c.ALGORITHMS[3 * block + place // 3], c.PROTOCOLS[place % 3]
                cells[NAMES[name], algorithm, protocol] = (float(cell[0]), float(cell[1]))
    return cells


def test_every_cell_of_the_printed_table_matches(printed):
    """All 105 latencies and 105 bandwidths, to the one digit that NCCL prints."""
    ours = {(cell.op, cell.algorithm, cell.protocol): cell for cell in table(sockets())}

    assert len(printed) == len(ours) == 105
    wrong = {
        key: (cell.latency_us, cell.bandwidth_gbytes_per_s, printed[key])
        for key, cell in ours.items()
        if (f"{cell.latency_us:.1f}", f"{cell.bandwidth_gbytes_per_s:.1f}") != tuple(map(str, printed[key]))
    }
    assert wrong == {}


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the oracle leaves its file open
def test_the_oracle_agrees(shared, monkeypatch, capsys):
    """The independent re-statement of the formulas gives the same 20 latencies of ring, tree and PAT."""
    monkeypatch.chdir(shared / "oracles")
    oracle = runpy.run_path("nccl_model_check.py")
    assert "matching 20 differing 0" in capsys.readouterr().out

    compared = 0
    for cell in table(sockets()):
        expected = oracle["lat"](c.OPERATIONS[cell.op], cell.algorithm, c.PROTOCOLS.index(cell.protocol))
        if expected is not None and not cell.algorithm.startswith("CollNet"):
            assert cell.latency_us == pytest.approx(expected)
            compared += 1
    assert compared == 20


def test_bandwidths_worked_out_by_hand():
    """The seven bandwidths of the field notes, from graphs of 2.4 (ring) and 4.8 GB/s (tree)."""
    ours = {
        (cell.op, cell.algorithm, cell.protocol): cell.bandwidth_gbytes_per_s for cell in table(sockets())
    }

    assert ours["all_reduce", "Ring", "LL"] == pytest.approx(1.2)
    assert ours["all_reduce", "Ring", "Simple"] == pytest.approx(2.4)
    assert ours["all_reduce", "Tree", "Simple"] == pytest.approx(4.8 * 0.92 * 0.85 * 0.5)
    assert ours["all_gather", "Ring", "Simple"] == pytest.approx(4.8)
    assert ours["all_gather", "PAT", "Simple"] == pytest.approx(3.6)


def test_logged_choices_match(log):
    """Algorithm, protocol and channels of every broadcast that the log names; all are marked verified."""
    seen = set()
    for line in log:
        found = re.search(
            r"Broadcast: (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo..Hi\}=\{0..(\d+)\}", line
        )
        if found:
            size, last = int(found[1]), int(found[4])
            choice = choose(sockets(), "broadcast", size)
            got = (choice.algorithm.upper(), choice.protocol.upper(), choice.channels)
            assert got == (found[2], found[3], last + 1), size
            assert choice.verified, choice.why
            seen.add(size)
    assert len(seen) == 18


def test_only_the_vector_is_verified():
    """Every cell of the vector's communicator is; none of an H100 cluster's, and each says why."""
    assert all(cell.verified for cell in table(sockets()))
    for nodes in (1, 2, 4):
        assert not any(cell.verified for cell in table(hopper(nodes)))
        choice = choose(hopper(nodes), "all_reduce", 1 << 20)
        assert not choice.verified
        assert choice.why
    fast = Graph(2, 30.0, 30.0, "NVL", "PIX")
    cells = {
        (cell.op, cell.algorithm, cell.protocol): cell
        for cell in table(sockets(graphs={"ring": fast, "tree": fast}))
    }
    assert cells["all_reduce", "Ring", "LL128"].why == "no vector with LL128"
    assert cells["all_reduce", "Tree", "Simple"].verified
    assert cells["all_reduce", "Ring", "Simple"].verified


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"channels": 1}, "rings"),
        (
            {"graphs": {"ring": Graph(8, 1.2, 1.2, "PHB", "SYS"), "tree": Graph(4, 1.2, 1.2, "PHB", "SYS")}},
            "rings",
        ),
        (
            {"graphs": {"ring": Graph(2, 9.0, 9.0, "PHB", "SYS"), "tree": Graph(4, 1.2, 1.2, "PHB", "SYS")}},
            "rings",
        ),
        ({"min_cc": 80}, "compute capability"),
        ({"cpu": "amd"}, "CPUs"),
        ({"net_overhead_us": 5.0}, "NCCL_NET_OVERHEAD"),
    ],
)
def test_what_the_log_did_not_show_is_not_verified(changes, why):
    """Other channels, faster rings (other threads), older GPUs, other CPUs: the log has none of their choices."""
    assert choose(sockets(), "broadcast", 1 << 20).verified
    choice = choose(sockets(**changes), "broadcast", 1 << 20)
    assert not choice.verified
    assert why in choice.why
    assert not choose(sockets(), "broadcast", 1 << 20, fp8=True).verified


def test_channels_are_doubled_once_more_where_few_fast_rings_cross_the_network():
    """Hopper and later, several nodes, more than 45 GB/s a ring, fewer than 16 channels; never beyond 64."""

    def channels(rings, speed, cc=90, nodes=2):
        graph = Graph(rings, speed, speed)
        comm = Communicator(ranks=8 * nodes, nodes=nodes, graphs={"ring": graph, "tree": graph}, min_cc=cc)
        return comm.used_channels

    assert channels(4, 48.0) == 16
    assert [channels(4, 45.0), channels(4, 48.0, cc=80), channels(4, 48.0, nodes=1)] == [8, 8, 8]
    assert channels(8, 48.0) == 16
    assert channels(40, 48.0) == 64


def test_all_gpus_are_alike_where_only_the_oldest_is_named():
    """LL128 is off for mixed GPUs before Hopper, not for a cluster of A100."""
    graph = Graph(8, 20.0, 20.0, "NVL", "PIX")

    def why(**changes):
        comm = Communicator(ranks=16, nodes=2, graphs={"ring": graph, "tree": graph}, min_cc=80, **changes)
        cells = {(cell.op, cell.algorithm, cell.protocol): cell for cell in table(comm)}
        return cells["all_reduce", "Ring", "LL128"].off

    assert why() == ""
    assert why(max_cc=90) == "LL128 on these GPUs"


def test_all_reduces_are_never_verified():
    """No choice for one was logged, and trees have factors by size that no vector covers."""
    choice = choose(sockets(), "all_reduce", 1 << 20)

    assert not choice.verified
    assert [price.verified for price in choice.prices if price.algorithm == "Tree"] == [False, False]


@pytest.mark.parametrize("cpu", ["intel", "amd", "mixed", "other"])
@pytest.mark.parametrize(("cc", "one_node"), [(70, 39.0), (80, 87.7), (90, 141.0), (100, 282.0)])
def test_the_cap_of_ll_is_by_gpu_on_one_node_and_by_cpu_on_several(cpu, cc, one_node):
    """On several nodes even Blackwell gets Volta's row with Intel and Ampere's with AMD: the quirk of the source."""
    graph = Graph(32, 100.0, 100.0)

    def cap(nodes):
        comm = Communicator(
            ranks=8 * nodes, nodes=nodes, graphs={"ring": graph, "tree": graph}, min_cc=cc, max_cc=cc, cpu=cpu
        )
        cells = {(cell.op, cell.algorithm, cell.protocol): cell for cell in table(comm)}
        steps = 2 * (comm.ranks - 1)
        return cells["all_reduce", "Ring", "LL"].bandwidth_gbytes_per_s * steps / comm.ranks

    assert cap(1) == pytest.approx(one_node)
    assert cap(2) == pytest.approx(22.5 if cpu in {"amd", "mixed"} else 39.0)
    assert cap(4) == pytest.approx(19.0 if cpu in {"amd", "mixed"} else 20.4)


def test_small_messages_take_ll_and_large_ones_simple():
    """On 4 nodes of H100 latency decides first and bandwidth last; the time never falls as the message grows."""
    choices = [choose(hopper(4), "all_gather", 1 << power) for power in range(10, 34)]

    assert choices[0].protocol == "LL"
    assert choices[-1].protocol == "Simple"
    times = [choice.time_us for choice in choices]
    assert times == sorted(times)
    assert choices[-1].channels == 32
    assert choices[-1].threads == 512 + 32


def test_what_a_communicator_lacks_is_off_with_the_reason():
    """NVLSTree needs two nodes, CollNet needs SHARP, PAT one rank a node, LL128 a near path."""
    cells = {(cell.op, cell.algorithm, cell.protocol): cell for cell in table(hopper(1))}
    assert cells["all_reduce", "NVLSTree", "Simple"].off == "one node"
    assert cells["all_reduce", "NVLS", "Simple"].bandwidth_gbytes_per_s > 0
    assert cells["all_reduce", "CollNetChain", "Simple"].off == "no graph"
    assert cells["all_gather", "PAT", "Simple"].off
    far = Graph(16, 20.0, 20.0, "NVL", "PHB")
    cells = {
        (cell.op, cell.algorithm, cell.protocol): cell
        for cell in table(hopper(2, graphs={"ring": far, "tree": far}))
    }
    assert cells["all_reduce", "Ring", "LL128"].off == "LL128 over PHB between nodes"


def test_fp8_leaves_long_rings():
    """Above 8 ranks a ring of 8-bit floats is priced away."""
    assert (
        choose(hopper(2, graphs=dict(sockets().graphs)), "all_reduce", 1 << 30, fp8=True).algorithm == "Tree"
    )


def test_a_choice_is_json():
    """With its schema, the modelled version and `verified` on the choice and on each price."""
    data = json.loads(json.dumps(choose(hopper(2), "all_reduce", 1 << 20).to_json()))

    assert data["schema"] == "nettune.nccl-choice/1"
    assert data["nccl"] == "2.30.7"
    assert data["verified"] is False
    assert all(price["verified"] is False and price["why"] for price in data["prices"])


@pytest.mark.parametrize(
    "changes",
    [
        {"ranks": 1, "nodes": 1},
        {"ranks": 3},
        {"graphs": {}},
        {"cpu": "vax"},
        {"channels": 0},
        {"channels": 65},
        {"nvls_channels": -1},
        {"net_overhead_us": -1.0},
        {"net_overhead_us": float("nan")},
        {"min_cc": 90, "max_cc": 80},
        {"graphs": {"ring": 1, "tree": 2}},
        {"graphs": {"ring": None, "tree": None, "star": None}},
    ],
)
def test_impossible_communicators_are_refused(changes):
    """Too few ranks, unequal nodes, missing or unknown graphs, an unknown CPU."""
    with pytest.raises(InputError):
        sockets(**changes)


def test_impossible_questions_are_refused():
    """Unknown operations and paths, and empty messages."""
    wrong: Any
    for op, wrong in (("sendrecv", 1), ("all_reduce", 0), ("all_reduce", 1.5), ("all_reduce", "1M")):
        with pytest.raises(InputError):
            choose(sockets(), op, wrong)
    with pytest.raises(InputError):
        Graph(1, 1.0, 1.0, "NVL", "wire")
    for speed in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError):
            Graph(1, speed, 1.0)

"""Latency and bandwidth of one operation by one algorithm and protocol: the cells of the table that NCCL_TUNING prints.

Formulas of ncclTopoTuneModel (src/graph/tuning.cc, 2.30.7), restated. Not modelled: limits that are applied when an
operation is queued (the operator's type, how many local ranks CollNetDirect takes), Power CPUs, CUDA 11.8's exception.
"""

from __future__ import annotations

from collections.abc import Callable

from collectives.cost.nccl_model import constants as c
from collectives.cost.nccl_model.communicator import Communicator, Graph

_RING_LIKE = ("Ring", "NVLS", "NVLSTree")
_SCATTERS = ("all_gather", "reduce_scatter")


def exists(comm: Communicator, op: str, algorithm: str, protocol: str) -> bool:
    """Whether NCCL fills the cell at all; elsewhere it prints 0/0."""
    if op in {"broadcast", "reduce"}:
        return algorithm == "Ring"
    if op in _SCATTERS and algorithm not in {"PAT", "Ring", "NVLS", "CollNetDirect"}:
        return False
    if algorithm == "PAT":
        return op in _SCATTERS and protocol == "Simple" and _pat_on(comm)
    if algorithm in {"NVLS", "NVLSTree"}:
        # One of its channels is lost, so it needs two.
        return protocol == "Simple" and comm.graph(algorithm).channels > 1
    return True


def latency_us(comm: Communicator, op: str, algorithm: str, protocol: str) -> float:
    """Latency of the cell; UNVERIFIED but at one rank a node on two nodes (see `coverage`)."""
    if not exists(comm, op, algorithm, protocol):
        return 0.0
    p = c.PROTOCOLS.index(protocol)
    graph = comm.graph(algorithm)
    kind = "NVLINK" if graph.within("NVL", inter=False) else "PCI"
    base = c.BASE_LATENCY_US[algorithm][p]
    intra = c.HARDWARE_LATENCY_US[kind][algorithm][p]
    inter = c.HARDWARE_LATENCY_US["NET"]["Tree" if comm.per_node == 1 else algorithm][p]
    # Simple pays the network's latency twice: data, then a flush.
    inter += graph.latency_inter_us * (2 if protocol == "Simple" else 1)
    per_node, nodes = comm.per_node, comm.nodes
    depth = nodes.bit_length() - 1
    if algorithm == "Ring":
        return base + _ring(comm, op, protocol, intra, inter)
    formulas: dict[str, Callable[[], float]] = {
        "Tree": lambda: base + 2 * ((per_node - 1) * intra + depth * inter),
        "CollNetDirect": lambda: base + 2 * (min(1, per_node - 1) * intra + (per_node - 1) * 0.4) + inter,
        "CollNetChain": lambda: base + 2 * (per_node - 1) * intra + inter,
        "NVLS": lambda: intra + (inter if nodes > 1 else 0.0),
        "NVLSTree": lambda: base + intra + 2 * depth * inter,
        "PAT": lambda: base + depth * inter / 3.5 + comm.ranks * 2.8,
    }
    return formulas[algorithm]()


def bandwidth_gbytes_per_s(comm: Communicator, op: str, algorithm: str, protocol: str) -> float:
    """Bandwidth of the cell, 1e9 bytes of the message a second; 0 where NCCL will not choose it.

    UNVERIFIED but at one rank a node on two nodes below every cap (see `coverage`).
    """
    return (
        0.0 if off(comm, op, algorithm, protocol) else _bandwidth(comm, op, algorithm, protocol, capped=True)
    )


def capped(comm: Communicator, op: str, algorithm: str, protocol: str) -> bool:
    """Whether a cap of `constants` decides the bandwidth."""
    free = _bandwidth(comm, op, algorithm, protocol, capped=False)
    return free > _bandwidth(comm, op, algorithm, protocol, capped=True)


def off(comm: Communicator, op: str, algorithm: str, protocol: str) -> str:
    """Why NCCL will not choose the cell; empty where it may."""
    graph = comm.graph(algorithm)
    if not exists(comm, op, algorithm, protocol):
        return "no such way of doing it"
    if graph.channels == 0:
        return "no graph"
    if algorithm == "NVLSTree" and comm.nodes == 1:
        return "one node"
    needs_collnet = algorithm.startswith("CollNet") or (algorithm == "NVLS" and comm.nodes > 1)
    if needs_collnet and not comm.collnet:
        return "CollNet is off"
    if algorithm.startswith("CollNet") and protocol != "Simple":
        return "CollNet is Simple only"
    if algorithm == "CollNetDirect" and not comm.nvswitch:
        return "no NVSwitch"
    if needs_collnet and op in _SCATTERS and comm.nodes > 1 and comm.per_node > comm.collnet_heads:
        return "more ranks on a node than heads"
    return _ll128_off(comm, graph) if protocol == "LL128" else ""


def _ll128_off(comm: Communicator, graph: Graph) -> str:
    farthest = "PXN" if comm.ll128_c2c and comm.min_cc >= 90 else "PXB"
    if not graph.within(farthest, inter=True):
        return f"LL128 over {graph.type_inter} between nodes"
    if not graph.within("NVB", inter=False):
        return f"LL128 over {graph.type_intra} inside a node"
    mixed = comm.max_cc is not None and comm.min_cc != comm.max_cc
    if comm.min_cc < 70 or (mixed and comm.min_cc < 90):
        return "LL128 on these GPUs"
    return ""


def _pat_on(comm: Communicator) -> bool:
    if comm.min_cc < 60:
        return False
    return comm.per_node == 1 if comm.pat is None else comm.pat


def _steps(comm: Communicator, op: str) -> int:
    if op == "all_reduce":
        return 2 * (comm.ranks - 1)
    return comm.ranks - 1 if op in _SCATTERS else comm.ranks


def _ring(comm: Communicator, op: str, protocol: str, intra: float, inter: float) -> float:
    """Latency beyond the base."""
    p = c.PROTOCOLS.index(protocol)
    steps = _steps(comm, op)
    graph = comm.graph("Ring")
    if op in {"broadcast", "reduce"}:
        kind = "NET" if comm.nodes > 1 else "NVLINK" if graph.within("NVL", inter=False) else "PCI"
        if graph.same_channels:
            return c.HARDWARE_LATENCY_US[kind]["Ring"][p]
        return steps * c.HARDWARE_LATENCY_US[kind]["Tree" if protocol == "Simple" else "Ring"][p]
    crossings = 0 if comm.nodes == 1 else (2 if op == "all_reduce" else 1) * (comm.nodes - 1)
    if comm.nodes > 1:
        intra = max(intra, comm.overhead_us * (3 if protocol == "Simple" else 1))
    return (steps - crossings) * intra + crossings * inter


def _bandwidth(comm: Communicator, op: str, algorithm: str, protocol: str, *, capped: bool) -> float:
    graph = comm.graph(algorithm)
    if not exists(comm, op, algorithm, protocol) or graph.channels == 0:
        return 0.0

    def cap(bandwidth: float, table: c.Caps, channels: int, row: str = comm.generation) -> float:
        return min(bandwidth, channels * table[row][comm.column]) if capped else bandwidth

    channels = graph.channels
    collnet = algorithm.startswith("CollNet")
    one = graph.bw_intra if comm.nodes <= 2 or collnet else graph.bw_inter
    if algorithm in {"NVLS", "NVLSTree"}:
        one = _nvls(comm, op, algorithm, graph)
        if algorithm == "NVLSTree":
            one = cap(one, c.NVLS_TREE_MAX_BW, 1)
    bus = channels * one
    by_cpu = "Ampere" if comm.cpu in {"amd", "mixed"} else "Volta"
    ll_row = comm.generation if comm.nodes == 1 else by_cpu
    if algorithm == "Ring" and protocol == "LL":
        bus = cap(bus * 0.5, c.LL_MAX_BW, 1, ll_row)
    if algorithm == "Ring" and protocol == "LL128":
        bus = cap(bus * 0.92, c.RING_LL128_MAX_BW, channels)
    if algorithm == "Tree":
        bus = cap(bus * 0.92, c.TREE_MAX_BW, channels)
        if protocol == "LL":
            bus = cap(bus / 3.8, c.LL_MAX_BW, 1, ll_row)
        if protocol == "LL128":
            bus = cap(bus * (7 / 9 if comm.nodes == 1 else 120 / 128), c.TREE_LL128_MAX_BW, channels)
        bus *= 0.85 if graph.chain_pattern else 1.0
    if algorithm == "PAT":
        bus *= 0.75
    if algorithm == "CollNetDirect":
        if op in _SCATTERS:
            bus = comm.per_node * min(graph.bw_intra, graph.bw_inter * 0.9)
        else:
            shared = comm.per_node / channels
            bus /= shared - (shared - 1) / 2
            bus *= 0.85 if comm.min_cc >= 90 else 1.0
    if algorithm != "Ring" and op in _SCATTERS:
        return bus
    return bus * (comm.ranks / _steps(comm, op) if algorithm in _RING_LIKE else 0.5)


def _nvls(comm: Communicator, op: str, algorithm: str, graph: Graph) -> float:
    """GB/s of one NVLS channel before NVLSTree's cap; UNVERIFIED."""
    intra = graph.bw_intra * c.NVLS_EFFICIENCY[comm.generation] * (graph.channels - 1) / graph.channels
    intra *= 2 if op == "all_reduce" else (comm.per_node - 1) / comm.per_node
    inter = graph.bw_inter * (2 if comm.nodes <= 2 and algorithm == "NVLSTree" else 1)
    return min(intra, inter)

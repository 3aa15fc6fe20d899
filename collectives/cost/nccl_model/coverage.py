"""What a real NCCL has confirmed of this model, and so what is marked `verified`.

One vector is at hand: the NCCL_TUNING table of 2.29.7 for 2 ranks on 2 nodes over sockets, with LL128, CollNet and NVLS
unavailable, and the choices that it logged for broadcasts of 1 KiB to 128 MiB. Everything else is UNVERIFIED: formula and
constants were read in the source, and nothing that an NCCL printed was compared with them.
"""

from __future__ import annotations

from collectives.cost.nccl_model import cells
from collectives.cost.nccl_model import constants as c
from collectives.cost.nccl_model.communicator import Communicator

VECTOR = "NCCL 2.29.7's printed table, 2 ranks on 2 nodes over sockets"
CHOICE_OP = "broadcast"
CHOICE_BYTES = (1 << 10, 128 << 20)
VECTOR_CC = 100
_CHOICE_RINGS = 2


def why_not(comm: Communicator, op: str, algorithm: str, protocol: str) -> str:
    """Why a cell is not verified; empty when it is."""
    graph = comm.graph(algorithm)
    off = cells.off(comm, op, algorithm, protocol)
    if (comm.ranks, comm.nodes) != (2, 2):
        return "no vector but for 2 ranks on 2 nodes"
    if comm.min_cc < VECTOR_CC:
        return f"no vector of GPUs below compute capability {VECTOR_CC // 10}"
    if comm.cpu in {"amd", "mixed"} or comm.net_overhead_us is not None:
        return "no vector with these CPUs, or NCCL_NET_OVERHEAD set"
    if algorithm.startswith("CollNet") and comm.collnet:
        return "no vector with CollNet"
    if algorithm in {"NVLS", "NVLSTree"} and graph.channels > 1:
        return "no vector with NVLS"
    if graph.latency_inter_us:
        return "no vector with a latency of the network"
    if protocol == "LL128" and not off:
        return "no vector with LL128"
    if not off and cells.capped(comm, op, algorithm, protocol):
        return "no vector in which a cap of bandwidth decides"
    if algorithm == "Ring" and not graph.same_channels:
        return "no vector with channels that differ"
    if algorithm == "Tree" and not graph.chain_pattern:
        return "no vector with a tree that is not a chain inside the node"
    if algorithm == "PAT" and comm.pat is not None:
        return "no vector with PAT set by hand"
    return ""


def why_not_chosen(comm: Communicator, op: str, size_bytes: int, *, fp8: bool) -> str:
    """Why a choice is not verified although its cells are; empty when it is.

    Channels and threads depend on more than the cells do.
    """
    ring = comm.graph("Ring")
    if op != CHOICE_OP or not CHOICE_BYTES[0] <= size_bytes <= CHOICE_BYTES[1]:
        return f"no vector of choices but for {CHOICE_OP}s of 1 KiB to 128 MiB"
    if fp8:
        return "no vector with 8-bit floats"
    if (
        comm.channels is not None
        or ring.channels != _CHOICE_RINGS
        or ring.bw_intra * ring.channels > c.PCI_BW
    ):
        return f"no vector of choices but for {_CHOICE_RINGS} rings of a socket's speed"
    return ""

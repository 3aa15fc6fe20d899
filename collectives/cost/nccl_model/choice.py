"""Which algorithm, protocol, channels and threads NCCL takes for a message, and the time that it expects.

ncclTopoGetAlgoTime and the choice of the least time (src/graph/tuning.cc, src/enqueue.cc, 2.30.7), for one operation a
launch. Channels and threads: the thresholds are read, the order of steps in the scheduler is from memory; the channels of
the vector's 18 broadcasts agree. NCCL's expected time is no forecast: it is what the choice is made by.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from collectives.cost.nccl_model import cells
from collectives.cost.nccl_model import constants as c
from collectives.cost.nccl_model.communicator import Communicator
from collectives.cost.nccl_model.coverage import VECTOR, why_not, why_not_chosen
from nettune.errors import InputError

CHOICE_SCHEMA = "nettune.nccl-choice/1"
_FP8_RANKS = 8
_FP8_PENALTY = 1024


@dataclass(frozen=True)
class Cell:
    """One operation by one algorithm and protocol.

    Attributes:
        latency_us: as NCCL_TUNING prints it.
        bandwidth_gbytes_per_s: message bytes a second; 0 where NCCL will not choose it.
        off: why it will not; empty where it may.
        verified: whether a printed table of a real NCCL covers this cell.
        why: what covers it, or why nothing does.
    """

    op: str
    algorithm: str
    protocol: str
    latency_us: float
    bandwidth_gbytes_per_s: float
    off: str
    verified: bool
    why: str


@dataclass(frozen=True)
class Price:
    """Time that NCCL expects of one cell for one size; `verified` and `why` are of the time, not of the cell alone."""

    algorithm: str
    protocol: str
    time_us: float
    verified: bool
    why: str


@dataclass(frozen=True)
class Choice:
    """What NCCL does with a message.

    Attributes:
        algorithm, protocol: of the least time, the first in the table's order where times are equal.
        time_us: what NCCL expects.
        channels: channels that carry something.
        threads: threads of each of their blocks.
        verified, why: whether logged choices of a real NCCL cover it.
        prices: all cells that could have been chosen, in the table's order.
    """

    op: str
    size_bytes: int
    algorithm: str
    protocol: str
    time_us: float
    channels: int
    threads: int
    verified: bool
    why: str
    prices: tuple[Price, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema` and the version of NCCL that is modelled."""
        return {"schema": CHOICE_SCHEMA, "nccl": c.NCCL_VERSION, **asdict(self)}


def table(comm: Communicator) -> list[Cell]:
    """All cells, in the order in which NCCL prints them: operation, algorithm, protocol."""
    return [
        _cell(comm, op, algorithm, protocol)
        for op in c.OPERATIONS
        for algorithm in c.ALGORITHMS
        for protocol in c.PROTOCOLS
    ]


def choose(comm: Communicator, op: str, size_bytes: int, *, fp8: bool = False) -> Choice:
    """What NCCL takes for one operation; the size is the largest buffer of a rank.

    Args:
        comm: the communicator.
        op: a name of `constants.OPERATIONS`.
        size_bytes: message size.
        fp8: whether the elements are 8-bit floats, which NCCL keeps off rings of more than 8 ranks.

    Raises:
        InputError: an unknown operation, or a size that is not positive.
    """
    if op not in c.OPERATIONS or not _is_size(size_bytes):
        raise InputError(f"NCCL model: {size_bytes} bytes of {op!r}; operations: {', '.join(c.OPERATIONS)}")
    rows = [_cell(comm, op, algorithm, protocol) for algorithm in c.ALGORITHMS for protocol in c.PROTOCOLS]
    usable = [cell for cell in rows if cell.bandwidth_gbytes_per_s > 0]
    if not usable:
        raise InputError(f"NCCL model: these graphs give no way to do {op}")
    prices = tuple(_price(comm, cell, size_bytes, fp8=fp8) for cell in usable)
    best = min(prices, key=lambda price: price.time_us)  # the first of equals
    channels, threads = _resources(comm, op, best.algorithm, best.protocol, size_bytes)
    missing = next((price.why for price in prices if not price.verified), "")
    missing = missing or why_not_chosen(comm, op, size_bytes, fp8=fp8)
    return Choice(
        op=op,
        size_bytes=size_bytes,
        algorithm=best.algorithm,
        protocol=best.protocol,
        time_us=best.time_us,
        channels=channels,
        threads=threads,
        verified=not missing,
        why=missing or f"choices logged beside {VECTOR}; the threads are not in it",
        prices=prices,
    )


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _cell(comm: Communicator, op: str, algorithm: str, protocol: str) -> Cell:
    missing = why_not(comm, op, algorithm, protocol)
    return Cell(
        op,
        algorithm,
        protocol,
        cells.latency_us(comm, op, algorithm, protocol),
        cells.bandwidth_gbytes_per_s(comm, op, algorithm, protocol),
        cells.off(comm, op, algorithm, protocol),
        not missing,
        missing or VECTOR,
    )


def _price(comm: Communicator, cell: Cell, size_bytes: int, *, fp8: bool) -> Price:
    latency, bandwidth, missing = (
        cell.latency_us,
        cell.bandwidth_gbytes_per_s,
        "" if cell.verified else cell.why,
    )
    correction = _tree_correction(comm, cell, size_bytes)
    if correction is not None:
        bandwidth *= correction
        missing = missing or "no vector of the factors on trees by size"
    plateau = (
        cell.algorithm == "Ring" and cell.protocol == "Simple" and cell.op == "all_reduce" and comm.nodes > 1
    )
    if plateau and size_bytes // (comm.used_channels * comm.ranks) >= 64:
        latency *= 1.9 if comm.min_cc < 80 else 1.4
        missing = missing or "no vector of the ring's plateau"
    time_us = latency + size_bytes / (1000 * bandwidth)
    if fp8 and cell.algorithm == "Ring" and comm.ranks > _FP8_RANKS:
        time_us *= _FP8_PENALTY
    return Price(cell.algorithm, cell.protocol, time_us, not missing, missing or cell.why)


def _tree_correction(comm: Communicator, cell: Cell, size_bytes: int) -> float | None:
    factors = c.TREE_CORRECTION[c.PROTOCOLS.index(cell.protocol)]
    row = (size_bytes >> 6).bit_length() - 1
    if cell.op != "all_reduce" or row < 0:
        return None
    if cell.algorithm == "Tree" and row < c.TREE_CORRECTION_END:
        return factors[row]
    if cell.algorithm == "NVLSTree" and row < len(factors) and comm.min_cc >= 100 and comm.x86:
        return factors[row]
    return None


def _resources(
    comm: Communicator, op: str, algorithm: str, protocol: str, size_bytes: int
) -> tuple[int, int]:
    """Channels with work, and threads a block."""
    ring = comm.graph("Ring")
    threads = c.MAX_THREADS[protocol]
    if algorithm == "Ring" and protocol == "Simple" and ring.bw_intra * ring.channels <= c.PCI_BW:
        threads = c.SLOW_RING_THREADS
    if algorithm in {"NVLS", "NVLSTree", "CollNetDirect", "CollNetChain", "PAT"}:
        threads = c.MAX_THREADS_ANY
    threshold = c.THREAD_THRESHOLD[protocol] * (comm.ranks if (algorithm, protocol) == ("Ring", "LL") else 1)
    channels = comm.used_channels
    if algorithm in {"NVLS", "NVLSTree"}:
        channels = comm.nvls_channels or comm.graph(algorithm).channels
    else:
        if algorithm.startswith("CollNet"):
            threshold = c.COLLNET_THREAD_THRESHOLD * (
                max(comm.collnet_heads, 1) if algorithm[-1] == "t" else 1
            )
        while channels > 1 and size_bytes < channels * threads * threshold:
            channels -= 1
        if algorithm != "CollNetDirect":
            while threads % 128 == 0 and size_bytes < channels * threads * threshold:
                threads //= 2
    if algorithm == "Ring" and protocol == "Simple":
        threads += c.WARP  # one warp more to synchronise
    if algorithm in {"Tree", "PAT"}:
        threads = c.MAX_THREADS_ANY
    return _with_work(comm, op, protocol, size_bytes, channels), max(threads, 3 * c.WARP)


def _with_work(comm: Communicator, op: str, protocol: str, size_bytes: int, channels: int) -> int:
    """Channels that the scheduler gives a cell of traffic to."""
    split = op in {"all_gather", "reduce_scatter"}
    per_byte = comm.ranks if split else 2 if op == "all_reduce" else 1
    per_byte *= c.LL_TRAFFIC if protocol == "LL" else 1
    own = _ceil(size_bytes, comm.ranks) if split else size_bytes
    cell = _ceil(_ceil(c.CELL_TRAFFIC, per_byte), 16) * 16
    cells_needed = _ceil(own, cell)
    share = max(c.CELL_TRAFFIC, own * per_byte // channels)
    each = min(cells_needed, _ceil(share, cell * per_byte))
    return min(channels, _ceil(cells_needed, each))


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)

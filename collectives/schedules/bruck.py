"""Bruck's all-gather and NCCL's parallel aggregated trees (PAT): log2 n messages a rank, for any number of ranks.

In both, the chunk of rank d reaches the rank that is s before it by way of the set bits of s. Bruck goes from the
lowest bit up, so that messages double in size; PAT goes from the highest bit down, so that the long messages go
to near ranks, and bounds how many chunks a message holds. reduce_scatter is the same backwards.
"""

from __future__ import annotations

import numpy as np

from collectives.schedules.compose import for_op
from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError


def bruck(op: Op, ranks: int) -> Schedule:
    """ceil(log2 n) rounds, (n-1)/n of the buffer sent by each rank, for any n; all_gather or reduce_scatter.

    In round j rank r sends its first 2^j chunks, counted from its own, to rank r - 2^j. Source: Bruck, Ho, Kipnis,
    Upfal, Weathersby, Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE
    TPDS 1997, section 4.
    """
    _refuse_bad("bruck", ranks)
    offset = np.arange(1, ranks)
    highest = 1 << (np.frexp(offset)[1].astype(np.int64) - 1)
    return for_op(
        _spread(
            ranks, [offset[highest == 1 << bit] for bit in range((ranks - 1).bit_length())], highest, "bruck"
        ),
        op,
    )


def pat(op: Op, ranks: int, *, aggregation: int | None = None) -> Schedule:
    """NCCL's PAT; all_gather or reduce_scatter, (n-1)/n of the buffer sent by each rank, for any n.

    `aggregation` is the number of chunks a message may hold, a power of two (NCCL: as many as fit its buffers, and
    steps that are ready). The top log2 a bits of a chunk's way are gone in one round each; what is below is gone depth
    first, one message of up to a chunks a round: at most log2 a + 2^k / a - 1 rounds, 2^k the power of two at or above
    n. The most, and the default, is the power of two at or above n // 2: log2 n rounds for powers of two. Source: `PatAGAlgorithm` and `PatRSAlgorithm` of src/include/collectives.h, NCCL
    2.23 to 2.30; NCCL's overlap of receiving with forwarding inside a step is not modelled, and no run of NCCL has been
    compared: unverified.

    Raises:
        InputError: no rank; an aggregation that is no power of two or more than NCCL would use.
    """
    _refuse_bad("pat", ranks)
    size = 1 << (ranks - 1).bit_length()
    most = 1 << max(0, (ranks // 2 - 1).bit_length())
    together = most if aggregation is None else aggregation
    if together not in {1 << bit for bit in range(most.bit_length())}:
        raise InputError(
            f"pat: aggregation {together} is no power of two of at most {most} for {ranks} ranks"
        )
    delta = size // together
    offset = np.arange(1, ranks)
    lowest = offset & -offset
    far = [offset[lowest == delta << bit] for bit in reversed(range(together.bit_length() - 1))]
    order = _depth_first(delta) if op is Op.ALL_GATHER else list(range(1, delta))
    near = [offset[offset % delta == step] for step in order]
    return for_op(_spread(ranks, far + near, lowest, "pat"), op)


def _depth_first(delta: int) -> list[int]:
    """1..delta-1 so that each comes after itself without its lowest bit, the far ones first."""
    found: list[int] = []

    def visit(at: int, step: int) -> None:
        while step:
            found.append(at + step)
            visit(at + step, step // 2)
            step //= 2

    visit(0, delta // 2)
    return found


def _spread(ranks: int, rounds: list[Ints], distance: Ints, name: str) -> Schedule:
    """All-gather in which, in each round, rank r receives the chunks of ranks r + s for the offsets s of the round.

    Args:
        ranks: number of ranks.
        rounds: offsets of each round, all of one distance.
        distance: (n-1,) how far each offset's last hop goes.
        name: of the schedule.
    """
    rounds = [offsets for offsets in rounds if len(offsets)]
    rank = np.arange(ranks)[:, None]

    def make(number: int) -> Round:
        offset = rounds[number]
        src = np.broadcast_to((rank + distance[offset - 1]) % ranks, (ranks, len(offset)))
        dst = np.broadcast_to(rank, src.shape)
        return Round.of(src.ravel(), dst.ravel(), ((rank + offset) % ranks).ravel())

    share = np.full(ranks, 1 / ranks)
    return Schedule.of(Op.ALL_GATHER, ranks, len(rounds), make, share=share, home=rank.ravel(), name=name)


def _refuse_bad(name: str, ranks: int) -> None:
    if ranks < 1:
        raise InputError(f"{name}: {ranks} ranks; use 1 or more")

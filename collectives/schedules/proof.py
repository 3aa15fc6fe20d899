"""The proof that a schedule does what its operation promises: every buffer followed symbolically, round by round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from collectives.schedules.schedule import (
    COLUMNS,
    REDUCING,
    TARGETED,
    Ints,
    Op,
    Round,
    Schedule,
    ScheduleError,
)
from nettune.errors import InputError

Words = NDArray[np.uint64]

_MOST_WORDS = 1 << 29  # 4 GB
_EVEN = 1e-9  # shares are sums of fractions; a part that is lost or doubled is larger by orders of magnitude


def prove(schedule: Schedule) -> None:
    """Follow which ranks' contributions each chunk holds at each rank, as one bit each.

    A contribution may never be added where it already is, so the bits at the end prove that each one was counted
    exactly once. Memory: ranks x chunks x ranks / 8 bytes where every rank contributes, ranks x chunks x 8 otherwise.

    Raises:
        ScheduleError: a contribution is missing at the end or added twice; a chunk is sent, or added to, by a rank
            that has none of it; two steps of a round write one chunk and one of them replaces it; a step leaves
            the table; the chunks are not the whole message, or not that of the operation.
        InputError: more than 4 GB of memory are needed.
    """
    words = schedule.ranks * schedule.chunks * ((schedule.ranks + 63) // 64 if schedule.op in REDUCING else 1)
    if words > _MOST_WORDS:
        raise InputError(
            f"{schedule.op}: the proof over {schedule.ranks} ranks and {schedule.chunks} chunks needs {words * 8e-9:.3g} GB; "
            "check a smaller one of the same algorithm"
        )
    _check_shares(schedule)
    held = _start(schedule)
    for number, step in enumerate(schedule.rounds()):
        _check_table(schedule, number, step)
        if len(step):
            _carry_out(schedule, number, step, held)
    _check_end(schedule, held)


def _start(schedule: Schedule) -> Words:
    """(ranks * chunks, words): bit w of the words of a cell is set where rank w's contribution is in it.

    Where a chunk has one origin only, its contribution is bit 0.
    """
    ranks, chunks = schedule.ranks, schedule.chunks
    if schedule.op in REDUCING:
        held = np.zeros((ranks, chunks, (ranks + 63) // 64), np.uint64)
        rank = np.arange(ranks)
        held[rank, :, rank // 64] = (np.uint64(1) << (rank % 64).astype(np.uint64))[:, None]
    else:
        held = np.zeros((ranks, chunks, 1), np.uint64)
        held[schedule.home, np.arange(chunks), 0] = 1
    return held.reshape(ranks * chunks, -1)


def _carry_out(schedule: Schedule, number: int, step: Round, held: Words) -> None:
    """One round: everything is read before anything is written."""
    chunks = schedule.chunks
    cell = step.dst * chunks + step.chunk
    arriving = held[step.src * chunks + step.chunk]
    _refuse_first(
        ~arriving.any(axis=1),
        lambda row: f"round {number}: rank {step.src[row]} sends chunk {step.chunk[row]}, which it has not",
    )
    _refuse_first(
        step.reduce & ~held[cell].any(axis=1),
        lambda row: (
            f"round {number}: rank {step.dst[row]} adds to chunk {step.chunk[row]}, of which it has nothing"
        ),
    )
    layer = _layers(cell)
    if layer.any():
        _refuse_first(
            np.isin(cell, cell[layer > 0]) & ~step.reduce,
            lambda row: f"round {number}: rank {step.dst[row]} gets chunk {step.chunk[row]} twice at once",
        )
    held[cell[~step.reduce]] = arriving[~step.reduce]
    for depth in range(int(layer.max()) + 1):
        rows = np.flatnonzero(step.reduce & (layer == depth))
        both = held[cell[rows]] & arriving[rows]

        def doubled(row: int, rows: Ints = rows, both: Words = both) -> str:
            what = f"rank {_lowest(both[row])}'s part of chunk" if schedule.op in REDUCING else "chunk"
            return (
                f"round {number}: rank {step.dst[rows[row]]} adds {what} {step.chunk[rows[row]]} "
                "a second time"
            )

        _refuse_first(both.any(axis=1), doubled)
        held[cell[rows]] |= arriving[rows]


def _layers(cell: Ints) -> Ints:
    """How many earlier rows of the round write the same cell."""
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    place = np.arange(len(cell)) - np.repeat(starts, np.diff(starts, append=len(cell)))
    layer = np.empty_like(place)
    layer[order] = place
    return layer


def _check_shares(schedule: Schedule) -> None:
    """The chunks are the whole message; ranks own equal parts where the operation splits it between them."""
    share, op = schedule.share, schedule.op
    if not np.all(share > 0):
        raise ScheduleError(f"{op}: a chunk's share of the message is not positive")
    if op is Op.P2P:
        return
    parts = schedule.ranks if op is Op.ALL_TO_ALL else 1
    if abs(share.sum() - parts) > _EVEN * parts:
        raise ScheduleError(f"{op}: the chunks are {share.sum():.9g} of the message instead of {parts}")
    if op in {Op.BROADCAST, Op.REDUCE} and np.any(schedule.home != schedule.home[0]):
        raise ScheduleError(f"{op}: the chunks have more than one root")
    if op is Op.ALL_TO_ALL:
        ranks = schedule.ranks
        sent = np.bincount(schedule.home * ranks + schedule.target, weights=share, minlength=ranks**2)
        _refuse_first(
            np.abs(sent - 1 / ranks) > _EVEN,
            lambda row: (
                f"{op}: rank {row // ranks} has {sent[row]:.9g} of a message for rank {row % ranks} instead of {1 / ranks:.9g}"
            ),
        )
    if op in {Op.REDUCE_SCATTER, Op.ALL_GATHER}:
        owned = np.bincount(schedule.home, weights=share, minlength=schedule.ranks)
        wanted = 1 / schedule.ranks
        _refuse_first(
            np.abs(owned - wanted) > _EVEN,
            lambda row: f"{op}: rank {row} owns {owned[row]:.9g} of the message instead of {wanted:.9g}",
        )


def _check_table(schedule: Schedule, number: int, step: Round) -> None:
    if not len({len(getattr(step, column)) for column in COLUMNS}) == 1:
        raise ScheduleError(f"round {number}: columns differ in length")
    if not len(step):
        return
    lowest = min(step.src.min(), step.dst.min())
    highest = max(step.src.max(), step.dst.max())
    if lowest < 0 or highest >= schedule.ranks or np.any(step.src == step.dst):
        raise ScheduleError(
            f"round {number}: a step joins a rank to itself or to one outside 0..{schedule.ranks - 1}"
        )
    if step.chunk.min() < 0 or step.chunk.max() >= schedule.chunks:
        raise ScheduleError(f"round {number}: there are {schedule.chunks} chunks")
    if step.channel.min() < 0 or step.channel.max() >= schedule.channels:
        raise ScheduleError(f"round {number}: there are {schedule.channels} channels")


def _check_end(schedule: Schedule, held: Words) -> None:
    """Every rank that the operation promises a chunk to holds all contributions to it."""
    ranks, chunks, op = schedule.ranks, schedule.chunks, schedule.op
    full = _full(ranks if op in REDUCING else 1)
    if op in {Op.ALL_REDUCE, Op.ALL_GATHER, Op.BROADCAST}:
        cell = np.arange(ranks * chunks)
    else:
        cell = (schedule.target if op in TARGETED else schedule.home) * chunks + np.arange(chunks)

    def missing(row: int) -> str:
        rank, chunk = divmod(int(cell[row]), chunks)
        if op not in REDUCING:
            return f"{op}: rank {rank} ends without chunk {chunk} of rank {schedule.home[chunk]}"
        source = _lowest(full & ~held[cell[row]])
        return f"{op}: rank {rank} ends without rank {source}'s part of chunk {chunk}"

    _refuse_first((held[cell] != full).any(axis=1), missing)


def _full(bits: int) -> Words:
    words = np.full((bits + 63) // 64, np.iinfo(np.uint64).max, np.uint64)
    if bits % 64:
        words[-1] = (1 << bits % 64) - 1
    return words


def _lowest(bits: Words) -> int:
    """Number of the lowest bit that is set."""
    word = int(np.argmax(bits != 0))
    value = int(bits[word])
    return 64 * word + (value & -value).bit_length() - 1


def _refuse_first(wrong: NDArray[np.bool_], line: Callable[[int], str]) -> None:
    if wrong.any():
        raise ScheduleError(line(int(np.argmax(wrong))))

"""`Schedule`: which rank sends which chunk to which rank, in rounds, and a proof that the result is right.

Rounds are columns of equal length and are made when asked for, so that a ring of hundreds of ranks costs no memory.
Inside a round everything is read before anything is written (a receiver has room for what arrives). Rounds are no
barriers: a step waits only for the earlier steps that wrote its chunk at its sender.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nettune.errors import InputError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

SCHEDULE_SCHEMA = "nettune.schedule/1"
_COLUMNS = ("src", "dst", "chunk", "reduce", "channel")


class Op(enum.StrEnum):
    """What a schedule achieves. The message size is the largest buffer of a rank, as in nccl-tests."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    BROADCAST = "broadcast"
    P2P = "p2p"


class ScheduleError(InputError):
    """A schedule whose result is wrong; the line names a rank and a chunk."""


@dataclass(frozen=True)
class Round:
    """Steps that run at once, E rows.

    Attributes:
        src, dst: (E,) ranks.
        chunk: (E,) chunk that is sent.
        reduce: (E,) whether the receiver adds the chunk to its own instead of replacing it.
        channel: (E,) which of several connections or rings carries it.
    """

    src: Ints
    dst: Ints
    chunk: Ints
    reduce: Bools
    channel: Ints

    @classmethod
    def of(cls, src: Any, dst: Any, chunk: Any, reduce: Any = False, channel: Any = 0) -> Round:
        """Columns from anything array-like; scalars are repeated."""
        columns = np.broadcast_arrays(
            *(np.atleast_1d(column) for column in (src, dst, chunk, reduce, channel))
        )
        ints = [column.astype(np.int64) for column in columns]
        return cls(ints[0], ints[1], ints[2], columns[3].astype(np.bool_), ints[4])

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class Edges:
    """Directed pairs of ranks, each once, sorted: (E,) src and dst, (E,) share of the message size carried."""

    src: Ints
    dst: Ints
    share: Floats


@dataclass(frozen=True)
class Schedule:
    """A collective as rounds of steps.

    Attributes:
        op: what it achieves.
        ranks: number of ranks.
        share: (C,) part of the message size that each chunk is.
        home: (C,) rank that holds the chunk before (all_gather, broadcast, p2p) or after (reduce_scatter); -1
            where every rank has a part before and the whole after (all_reduce).
        target: (C,) rank that a chunk is for (p2p); -1 otherwise.
        count: number of rounds.
        make: round of a number below `count`; the same each time it is asked.
        name: algorithm and options, for tables.

    Raises:
        InputError: columns of unequal length, or ranks outside.
    """

    op: Op
    ranks: int
    share: tuple[float, ...]
    home: tuple[int, ...]
    target: tuple[int, ...]
    count: int
    make: Callable[[int], Round]
    name: str = ""

    def __post_init__(self) -> None:
        if self.ranks < 1 or not len(self.share) == len(self.home) == len(self.target):
            raise InputError("schedule: it needs a rank, and one share, home and target for each chunk")
        homeless = -1 if self.op is Op.ALL_REDUCE else 0
        targetless = 0 if self.op is Op.P2P else -1
        if any(not homeless <= rank < self.ranks for rank in self.home) or any(
            not targetless <= rank < self.ranks for rank in self.target
        ):
            raise InputError("schedule: a chunk's home or target is no rank")

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.share)

    def rounds(self) -> Iterator[Round]:
        """Rounds in order, each made now."""
        return (self.make(index) for index in range(self.count))

    @cached_property
    def edges(self) -> Edges:
        """All rounds added up by pair of ranks."""
        share = np.array(self.share, dtype=np.float64)
        keys: list[Ints] = [np.empty(0, np.int64)]
        sums: list[Floats] = [np.empty(0)]
        for step in self.rounds():
            unique, index = np.unique(step.src * self.ranks + step.dst, return_inverse=True)
            keys.append(unique)
            sums.append(_sums(index, share[step.chunk], len(unique)))
        pairs, index = np.unique(np.concatenate(keys), return_inverse=True)
        return Edges(pairs // self.ranks, pairs % self.ranks, _sums(index, np.concatenate(sums), len(pairs)))

    def check(self) -> None:
        """Prove that every rank ends with what the operation promises.

        Each buffer is followed as the number of times that it holds each rank's contribution. That number must be
        exactly one for every contribution that belongs into the result. Memory: ranks^2 x chunks x 2 bytes.

        Raises:
            ScheduleError: a contribution is missing, foreign or reduced twice; a chunk is sent, or added to, by a
                rank that has none of it; two steps of a round write one chunk and one of them replaces it; a step leaves the table.
        """
        held = self._start()
        for number, step in enumerate(self.rounds()):
            self._check_round(number, step, held)
            arriving = held[step.src, step.chunk].copy()
            copies = ~step.reduce
            held[step.dst[copies], step.chunk[copies]] = 0
            np.add.at(held, (step.dst, step.chunk), arriving)
        self._check_end(held)

    def _start(self) -> NDArray[np.int16]:
        held = np.zeros((self.ranks, self.chunks, self.ranks), dtype=np.int16)
        if self.op in {Op.ALL_REDUCE, Op.REDUCE_SCATTER}:
            own = np.arange(self.ranks)
            held[own, :, own] = 1
        else:
            home = np.array(self.home, dtype=np.int64)
            held[home, np.arange(self.chunks), home] = 1
        return held

    def _check_round(self, number: int, step: Round, held: NDArray[np.int16]) -> None:
        if not len({len(getattr(step, column)) for column in _COLUMNS}) == 1:
            raise ScheduleError(f"round {number}: columns differ in length")
        if not len(step):
            return
        ends = np.concatenate([step.src, step.dst])
        if ends.min() < 0 or ends.max() >= self.ranks or np.any(step.src == step.dst):
            raise ScheduleError(
                f"round {number}: a step joins a rank to itself or to one outside 0..{self.ranks - 1}"
            )
        if step.chunk.min() < 0 or step.chunk.max() >= self.chunks:
            raise ScheduleError(f"round {number}: there are {self.chunks} chunks")
        empty = ~held[step.src, step.chunk].any(axis=1)
        if empty.any():
            row = int(np.argmax(empty))
            raise ScheduleError(
                f"round {number}: rank {step.src[row]} sends chunk {step.chunk[row]}, which it has not"
            )
        nothing = step.reduce & ~held[step.dst, step.chunk].any(axis=1)
        if nothing.any():
            row = int(np.argmax(nothing))
            raise ScheduleError(
                f"round {number}: rank {step.dst[row]} adds to chunk {step.chunk[row]}, of which it has nothing"
            )
        cells = step.dst * self.chunks + step.chunk
        _, index, times = np.unique(cells, return_inverse=True, return_counts=True)
        clash = (times[index] > 1) & ~step.reduce
        if clash.any():
            row = int(np.argmax(clash))
            raise ScheduleError(
                f"round {number}: rank {step.dst[row]} gets chunk {step.chunk[row]} twice at once"
            )

    def _check_end(self, held: NDArray[np.int16]) -> None:
        for chunk in range(self.chunks):
            home, target = self.home[chunk], self.target[chunk]
            wanted = np.zeros(self.ranks, dtype=np.int16)
            wanted[slice(None) if self.op in {Op.ALL_REDUCE, Op.REDUCE_SCATTER} else home] = 1
            receivers = {Op.REDUCE_SCATTER: [home], Op.P2P: [target]}.get(self.op, list(range(self.ranks)))
            wrong = held[receivers, chunk] != wanted
            if wrong.any():
                row, source = (int(value) for value in np.argwhere(wrong)[0])
                times = int(held[receivers[row], chunk, source])
                raise ScheduleError(
                    f"{self.op}: rank {receivers[row]} ends with rank {source}'s part of chunk {chunk} "
                    f"{times} times instead of {int(wanted[source])}"
                )

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`; every round is written out."""
        return {
            "schema": SCHEDULE_SCHEMA,
            "name": self.name,
            "op": str(self.op),
            "ranks": self.ranks,
            "share": list(self.share),
            "home": list(self.home),
            "target": list(self.target),
            "rounds": [
                {column: getattr(step, column).tolist() for column in _COLUMNS} for step in self.rounds()
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schedule:
        """The inverse of `to_json`; the result is not checked, call `check`.

        Raises:
            InputError: another schema, missing or unknown keys, values of a wrong type.
        """
        if data.get("schema") != SCHEDULE_SCHEMA:
            raise InputError(
                f"schema {data.get('schema')!r} is not {SCHEDULE_SCHEMA}; made by another version?"
            )
        try:
            rounds = [_round_from_json(entry) for entry in data["rounds"]]
            return cls.of_rounds(
                Op(data["op"]),
                int(data["ranks"]),
                rounds,
                share=tuple(map(float, data["share"])),
                home=tuple(map(int, data["home"])),
                target=tuple(map(int, data["target"])),
                name=str(data["name"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"not a schedule: {type(error).__name__}: {error}") from error

    @classmethod
    def of_rounds(
        cls,
        op: Op,
        ranks: int,
        rounds: Sequence[Round],
        *,
        share: tuple[float, ...],
        home: tuple[int, ...],
        target: tuple[int, ...],
        name: str = "",
    ) -> Schedule:
        """A schedule whose rounds are all at hand."""
        return cls(op, ranks, share, home, target, len(rounds), list(rounds).__getitem__, name)


def _round_from_json(entry: Mapping[str, Any]) -> Round:
    if set(entry) != set(_COLUMNS) or len({len(entry[column]) for column in _COLUMNS}) > 1:
        msg = f"a round has the columns {', '.join(_COLUMNS)}, equally long"
        raise ValueError(msg)
    src, dst, chunk, reduce, channel = (entry[column] for column in _COLUMNS)
    ints = [np.array(column, dtype=np.int64) for column in (src, dst, chunk, channel)]
    return Round(ints[0], ints[1], ints[2], np.array(reduce, dtype=np.bool_), ints[3])


def _sums(index: Ints, values: Floats, length: int) -> Floats:
    total = np.zeros(length)
    np.add.at(total, index, values)
    return total

"""`Schedule`: which rank sends which chunk to which rank, in rounds.

Rounds are columns of equal length and are made when asked for, so that a ring of hundreds of ranks costs no memory.
Inside a round everything is read before anything is written (a receiver has room for what arrives). Rounds are no
barriers: a step waits only for the earlier steps that wrote its chunk at its sender, and nothing overwrites a chunk
before the earlier steps that send it have read it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectives.schedules.edges import Edges, summed
from nettune.errors import InputError
from nettune.schemas import check_schema

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

SCHEDULE_SCHEMA = "nettune.schedule/1"
COLUMNS = ("src", "dst", "chunk", "reduce", "channel")
_KEYS = {"schema", "name", "op", "ranks", "channels", "share", "home", "target", "rounds"}


class Op(enum.StrEnum):
    """What a schedule achieves. The message size is the largest buffer of a rank, as in nccl-tests."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all_to_all"
    P2P = "p2p"


REDUCING = frozenset({Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE})
"""Operations in which every rank contributes to every chunk."""
TARGETED = frozenset({Op.P2P, Op.ALL_TO_ALL})
"""Operations in which a chunk is for one rank."""


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

    @classmethod
    def joined(cls, steps: Sequence[Round]) -> Round:
        """All rows of several rounds as one round."""
        if len(steps) == 1:
            return steps[0]
        if not steps:
            return cls.of([], [], [])
        return cls(*(np.concatenate([getattr(step, column) for step in steps]) for column in COLUMNS))

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, eq=False)
class Schedule:
    """A collective as rounds of steps.

    Attributes:
        op: what it achieves.
        ranks: number of ranks.
        share: (C,) part of the message size that each chunk is.
        home: (C,) rank that holds the chunk before (all_gather, broadcast, all_to_all, p2p) or after
            (reduce_scatter, reduce); -1 where every rank has a part before and the whole after (all_reduce).
        target: (C,) rank that a chunk is for (all_to_all, p2p); -1 otherwise.
        count: number of rounds.
        make: round of a number below `count`; the same each time it is asked.
        channels: number of channels; those in rounds are below it.
        name: algorithm and options, for tables.

    Raises:
        InputError: columns of unequal length, or ranks outside.
    """

    op: Op
    ranks: int
    share: Floats
    home: Ints
    target: Ints
    count: int
    make: Callable[[int], Round]
    channels: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.channels < 1 or not len(self.share) == len(self.home) == len(self.target):
            raise InputError(
                "schedule: it needs a rank, a channel, and one share, home and target for each chunk"
            )
        homeless = -1 if self.op is Op.ALL_REDUCE else 0
        targetless = 0 if self.op in TARGETED else -1
        for column, lowest in ((self.home, homeless), (self.target, targetless)):
            if len(column) and not lowest <= column.min() <= column.max() < self.ranks:
                raise InputError("schedule: a chunk's home or target is no rank")

    @classmethod
    def of(
        cls,
        op: Op,
        ranks: int,
        count: int,
        make: Callable[[int], Round],
        *,
        share: ArrayLike,
        home: ArrayLike = -1,
        target: ArrayLike = -1,
        channels: int = 1,
        name: str = "",
    ) -> Schedule:
        """A schedule from anything array-like; a scalar home or target is that of every chunk."""
        parts = np.atleast_1d(np.array(share, np.float64))
        home, target = (
            np.broadcast_to(np.array(column, np.int64), parts.shape)
            if np.ndim(column) == 0
            else np.array(column, np.int64)
            for column in (home, target)
        )
        return cls(op, ranks, parts, home, target, count, make, channels, name)

    @classmethod
    def of_rounds(
        cls,
        op: Op,
        ranks: int,
        rounds: Sequence[Round],
        *,
        share: ArrayLike,
        home: ArrayLike = -1,
        target: ArrayLike = -1,
        channels: int | None = None,
        name: str = "",
    ) -> Schedule:
        """A schedule whose rounds are all at hand; without `channels`, as many as the rounds name."""
        if channels is None:
            channels = 1 + max((int(step.channel.max()) for step in rounds if len(step)), default=0)
        make = list(rounds).__getitem__
        return cls.of(
            op, ranks, len(rounds), make, share=share, home=home, target=target, channels=channels, name=name
        )

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.share)

    def rounds(self) -> Iterator[Round]:
        """Rounds in order, each made now."""
        return (self.make(index) for index in range(self.count))

    @cached_property
    def edges(self) -> Edges:
        """All rounds added up by pair of ranks; `channel` is 0."""
        found = self.channel_edges
        return summed([(found.src, found.dst, np.zeros_like(found.channel), found.share)], self.ranks)

    @cached_property
    def channel_edges(self) -> Edges:
        """All rounds added up by channel and pair of ranks."""
        rows = ((step.src, step.dst, step.channel, self.share[step.chunk]) for step in self.rounds())
        return summed(rows, self.ranks)

    def check(self) -> None:
        """Prove that every rank ends with what the operation promises; see `proof.prove`.

        Raises:
            ScheduleError: it does not.
        """
        # Here, since the proof takes the classes of this module.
        from collectives.schedules.proof import prove

        prove(self)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`; every round is written out."""
        return {
            "schema": SCHEDULE_SCHEMA,
            "name": self.name,
            "op": str(self.op),
            "ranks": self.ranks,
            "channels": self.channels,
            "share": self.share.tolist(),
            "home": self.home.tolist(),
            "target": self.target.tolist(),
            "rounds": [
                {column: getattr(step, column).tolist() for column in COLUMNS} for step in self.rounds()
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schedule:
        """The inverse of `to_json`; the result is not checked, call `check`.

        Raises:
            InputError: another schema, missing or unknown keys, values of a wrong type.
        """
        check_schema(data, SCHEDULE_SCHEMA)
        unknown = set(data) - _KEYS
        if unknown:
            raise InputError(f"not a schedule: unknown key {min(unknown)!r}")
        try:
            return cls.of_rounds(
                Op(data["op"]),
                int(data["ranks"]),
                [_round_from_json(entry) for entry in data["rounds"]],
                share=[float(value) for value in data["share"]],
                home=[int(value) for value in data["home"]],
                target=[int(value) for value in data["target"]],
                channels=int(data["channels"]) if "channels" in data else None,
                name=str(data["name"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"not a schedule: {type(error).__name__}: {error}") from error


def _round_from_json(entry: Mapping[str, Any]) -> Round:
    if set(entry) != set(COLUMNS) or len({len(entry[column]) for column in COLUMNS}) > 1:
        msg = f"a round has the columns {', '.join(COLUMNS)}, equally long"
        raise ValueError(msg)
    src, dst, chunk, reduce, channel = (entry[column] for column in COLUMNS)
    ints = [np.array(column, dtype=np.int64) for column in (src, dst, chunk, channel)]
    return Round(ints[0], ints[1], ints[2], np.array(reduce, dtype=np.bool_), ints[3])

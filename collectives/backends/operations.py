"""Collectives that a rank prepares, carries out and checks: torch's own, or a schedule run by an executor.

Inputs are small whole numbers, of which sums are exact in any order as long as the type holds them; beyond that (half
types on many ranks) values may differ by the bound of `collectives.executors.engine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import distributed as dist

from collectives.executors.buffers import Buffers
from collectives.executors.engine import Executor, by_channel
from collectives.executors.program import BLOCKED, Layout, Message, program
from collectives.executors.torch_transport import TorchTransport
from collectives.schedules import Op, Schedule, build
from nettune.errors import InputError

DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
}
"""By their names in nccl-tests."""

CPU = torch.device("cpu")
_PERIOD = 251  # a prime, so that segments of a ring do not line up with the pattern
_NARROW = (torch.float16, torch.bfloat16, torch.uint8)


def elements_of(size_bytes: int, dtype: torch.dtype, parts: int = 1) -> int:
    """Elements of a message, which must divide into equal parts.

    Raises:
        InputError: they do not.
    """
    if size_bytes < dtype.itemsize * parts or size_bytes % (dtype.itemsize * parts):
        what = f"{parts} blocks of {dtype}" if parts > 1 else f"{dtype.itemsize} ({dtype})"
        raise InputError(f"a message of {size_bytes} bytes is no multiple of {what}")
    return size_bytes // dtype.itemsize


class Operation:
    """Something that is prepared, started and waited for; `wrong` counts bad values of the last result."""

    def prepare(self) -> None:
        """Fill the buffers."""

    def start(self) -> list[Any]:
        """Start it; the works to wait for."""
        return []

    def wrong(self) -> int:
        """How many values of the last result are wrong."""
        return 0


class Collective(Operation):
    """One operation of a group, with the data that every rank of it has.

    Args:
        op: which.
        place: this rank's number in the group.
        ranks: of the group.
        size_bytes: of the message, the largest buffer of a rank.
        dtype: name of `DTYPES`.
        device: of the data.

    Raises:
        InputError: an unknown type, or a size that does not divide.
    """

    def __init__(
        self, op: Op, place: int, ranks: int, size_bytes: int, dtype: str, device: torch.device = CPU
    ) -> None:
        if dtype not in DTYPES:
            raise InputError(f"type {dtype!r} is not known; known: {', '.join(DTYPES)}")
        self.op, self.place, self.ranks = op, place, ranks
        self.dtype = DTYPES[dtype]
        self.elements = elements_of(size_bytes, self.dtype, ranks if op in BLOCKED else 1)
        self._block = slice(place * self.elements // ranks, (place + 1) * self.elements // ranks)
        self._narrow = self.dtype in _NARROW
        self._base = torch.arange(self.elements, device=device) % (2 if self._narrow else _PERIOD)
        self.data = torch.empty(self.elements, dtype=self.dtype, device=device)
        self.result = self.data

    def input_of(self, rank: int) -> torch.Tensor:
        """What a rank of the group contributes."""
        return (self._base + (rank % 2 if self._narrow else rank)).to(self.dtype)

    def prepare(self) -> None:
        """Fill the data with this rank's input."""
        own = self.input_of(self.place)
        if self.op is Op.ALL_GATHER:
            self.data.zero_()
            self.data[self._block] = own[self._block]
        else:
            self.data.copy_(own)

    def expected(self) -> torch.Tensor | None:
        """The result at this rank; None where the operation promises none."""
        if self.op is Op.BROADCAST:
            return self.input_of(0)
        if self.op in {Op.ALL_REDUCE, Op.REDUCE, Op.REDUCE_SCATTER}:
            if self.op is Op.REDUCE and self.place:
                return None
            total = sum(rank % 2 if self._narrow else rank for rank in range(self.ranks))
            summed = (self._base * self.ranks + total).to(self.dtype)
            return summed[self._block] if self.op is Op.REDUCE_SCATTER else summed
        per_rank = self.elements // self.ranks
        blocks = [
            self.input_of(rank)[
                self._block if self.op is Op.ALL_TO_ALL else slice(rank * per_rank, (rank + 1) * per_rank)
            ]
            for rank in range(self.ranks)
        ]
        return torch.cat(blocks)

    def wrong(self) -> int:
        """How many values of the result differ from the expected ones by more than the order of sums explains."""
        expected = self.expected()
        if expected is None:
            return 0
        if not self.dtype.is_floating_point:
            return int((self.result != expected).sum())
        unit = torch.finfo(self.dtype).eps / 2
        exact = float(expected.max()) * unit < 0.5
        allowed = 0.0 if exact else 2 * (self.ranks - 1) * unit / max(1 - (self.ranks - 1) * unit, unit)
        return int(((self.result - expected).abs() > allowed * expected.abs()).sum())


class BuiltIn(Collective):
    """Torch's own."""

    def __init__(
        self, handle: Any, op: Op, place: int, ranks: int, size_bytes: int, dtype: str = "float",
        device: torch.device = CPU,
    ) -> None:  # fmt: skip
        super().__init__(op, place, ranks, size_bytes, dtype, device)
        self._handle = handle
        if op in {Op.REDUCE_SCATTER, Op.ALL_TO_ALL}:
            parts = ranks if op is Op.REDUCE_SCATTER else 1
            self.result = torch.empty(self.elements // parts, dtype=self.dtype, device=device)

    def start(self) -> list[Any]:
        """As `Operation.start`."""
        group: dict[str, Any] = {"group": self._handle, "async_op": True}
        if self.op is Op.ALL_REDUCE:
            return [dist.all_reduce(self.data, **group)]
        if self.op is Op.REDUCE:
            return [dist.reduce(self.data, group_dst=0, **group)]
        if self.op is Op.BROADCAST:
            return [dist.broadcast(self.data, group_src=0, **group)]
        if self.op is Op.ALL_GATHER:
            return [dist.all_gather_into_tensor(self.data, self.data[self._block].clone(), **group)]
        if self.op is Op.REDUCE_SCATTER:
            return [dist.reduce_scatter_tensor(self.result, self.data, **group)]
        return [dist.all_to_all_single(self.result, self.data, **group)]


class Scheduled(Collective):
    """A schedule over connections of the group.

    Args:
        transport: over the group's connections.
        connections: how many each pair has.
        schedule: what to carry out; its ranks are those of the group in order.
        place: this rank's number in the group.
        size_bytes: of the message.
        dtype: name of `DTYPES`.
        device: of the data.
        routes: connection by (source, destination, channel) where it is chosen; else channel c uses connection c.
        rounds: see `Executor`.
    """

    def __init__(
        self,
        transport: TorchTransport,
        connections: int,
        schedule: Schedule,
        place: int,
        size_bytes: int,
        dtype: str = "float",
        device: torch.device = CPU,
        *,
        routes: Mapping[tuple[int, int, int], int] | None = None,
        rounds: bool = False,
    ) -> None:
        super().__init__(schedule.op, place, schedule.ranks, size_bytes, dtype, device)
        layout = Layout.of(schedule, self.elements)
        default, chosen = by_channel(connections), routes or {}

        def route(message: Message) -> int:
            key = (message.src, message.dst, message.channel)
            return chosen[key] if key in chosen else default(message)

        item = (
            self.dtype
        )  # a function that holds this object would keep the group's sockets open until a collection

        def empty(elements: int) -> torch.Tensor:
            return torch.empty(elements, dtype=item, device=device)

        buffers = Buffers(schedule, layout, place, self.data, empty)
        self.result = buffers.result
        steps = program(schedule, layout, place)
        self._executor = Executor(steps, buffers, transport, route, rounds=rounds)

    def start(self) -> list[Any]:
        """Itself, to be run by waiting: an executor needs its thread."""
        return [self]

    def wait(self) -> None:
        """Carry it out."""
        self._executor.run()


class PointToPoint(Operation):
    """Messages between pairs of ranks, all at once; an edge that is named twice carries two."""

    def __init__(
        self, rank: int, edges: Sequence[Sequence[int]], size_bytes: int, dtype: str = "float",
        device: torch.device = CPU,
    ) -> None:  # fmt: skip
        item = DTYPES[dtype]
        base = (torch.arange(elements_of(size_bytes, item), device=device) % _PERIOD).to(item)
        self._sends = [(tag, dst, base + tag) for tag, (src, dst) in enumerate(edges) if src == rank]
        self._receives = [
            (tag, src, torch.empty_like(base), base + tag)
            for tag, (src, dst) in enumerate(edges)
            if dst == rank
        ]

    def prepare(self) -> None:
        """As `Operation.prepare`."""
        for _, _, buffer, _ in self._receives:
            buffer.zero_()

    def start(self) -> list[Any]:
        """As `Operation.start`; one batch, since NCCL's messages wait for one another unless they are grouped."""
        batch = [dist.P2POp(dist.irecv, buffer, src, tag=tag) for tag, src, buffer, _ in self._receives]
        batch += [dist.P2POp(dist.isend, data, dst, tag=tag) for tag, dst, data in self._sends]
        return dist.batch_isend_irecv(batch) if batch else []

    def wrong(self) -> int:
        """As `Operation.wrong`."""
        return sum(int((buffer != expected).sum()) for _, _, buffer, expected in self._receives)


class Together(Operation):
    """Operations of several groups at once."""

    def __init__(self, parts: Sequence[Operation]) -> None:
        self._parts = parts

    def prepare(self) -> None:
        """As `Operation.prepare`."""
        for part in self._parts:
            part.prepare()

    def start(self) -> list[Any]:
        """As `Operation.start`."""
        return [work for part in self._parts for work in part.start()]

    def wrong(self) -> int:
        """As `Operation.wrong`."""
        return sum(part.wrong() for part in self._parts)


def schedule_of(op: Op, ranks: int, wanted: Mapping[str, Any]) -> Schedule:
    """The schedule that `{"name": ..., "options": {...}}` asks for.

    Raises:
        InputError: as `collectives.schedules.build`.
    """
    return build(str(wanted["name"]), op, ranks, **wanted.get("options", {}))

"""The steps of a schedule as thread blocks of each GPU, with the waits between them, for `msccl`.

A thread block goes through its steps in order and has at most one peer to send to and one to receive from; a step of
another block is waited for by its number. Where a rank has one peer each way on a channel, as in a ring, one block does both
and forwards what it receives in one step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from collectives.schedules.schedule import Schedule


@dataclass(frozen=True)
class Place:
    """A buffer (i, o, s) and an offset in it."""

    buffer: str
    offset: int

    def at(self, more: int) -> Place:
        """Further on in the same buffer."""
        return Place(self.buffer, self.offset + more)


@dataclass(eq=False)
class Step:
    """One instruction.

    Attributes:
        kind: s, r, rrc, rcs, rrcs or cpy.
        source, goal: where it reads and writes; the peer's place for what is not local.
        length: units.
        block: its thread block.
        waits: steps of the same GPU that must be over before it.
        index: its number in the block, once known.
        awaited: whether another block waits for it.
        joined: the step that does its work too, after fusing.
    """

    kind: str
    source: Place
    goal: Place
    length: int
    block: Block
    waits: list[Step] = field(default_factory=list)
    index: int = -1
    awaited: bool = False
    joined: Step | None = None

    def local(self) -> list[Place]:
        """Places of this GPU that it touches."""
        return {"s": [self.source], "r": [self.goal], "rcs": [self.goal]}.get(
            self.kind, [self.source, self.goal]
        )


@dataclass(eq=False)
class Block:
    """A thread block: peers (-1: none), channel, steps in order, its number among the GPU's blocks."""

    send: int
    recv: int
    channel: int
    number: int
    steps: list[Step] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of lines, those that only wait among them."""
        return sum(max(1, len(step.waits)) for step in self.steps)

    def lines(self) -> Iterator[tuple[int, Step | None, Step | None]]:
        """(number, step or None for nop, what it waits for or None), in order; a line waits for one step only."""
        index = 0
        for step in self.steps:
            for wait in step.waits[1:]:
                yield index, None, wait
                index += 1
            yield index, step, step.waits[0] if step.waits else None
            index += 1


class Layout(Protocol):
    """Where chunks are; see `msccl`."""

    def pieces(self, chunk: int) -> list[tuple[int, int]]:
        """(offset inside the chunk, length) of the steps that a chunk takes."""
        ...

    def place(self, rank: int, chunk: int) -> Place:
        """Where a rank works on a chunk."""
        ...

    def copies(self, rank: int, *, last: bool) -> Iterator[tuple[int, Place, Place]]:
        """(chunk, from, to) of the local copies before the first step, or after the last."""
        ...


class _Gpu:
    """The blocks of one rank while they are filled; keeps who read and wrote each piece last."""

    def __init__(self, sends: set[tuple[int, int]], receives: set[tuple[int, int]]) -> None:
        self.blocks: dict[tuple[int, int, int], Block] = {}
        self.key: dict[tuple[bool, int, int], tuple[int, int, int]] = {}
        for channel in sorted({channel for channel, _ in sends | receives}):
            to = sorted(peer for at, peer in sends if at == channel)
            from_ = sorted(peer for at, peer in receives if at == channel)
            pairs = (
                [(to[0], from_[0])]
                if len(to) == len(from_) == 1
                else [
                    *((peer, -1) for peer in to),
                    *((-1, peer) for peer in from_),
                ]
            )
            for send, recv in pairs:
                self._block(send, recv, channel)
        self.wrote: dict[tuple[int, int], Step] = {}
        self.read: dict[tuple[int, int], list[Step]] = defaultdict(list)

    def _block(self, send: int, recv: int, channel: int) -> Block:
        block = Block(send, recv, channel, len(self.blocks))
        self.blocks[send, recv, channel] = block
        if send >= 0:
            self.key[True, channel, send] = send, recv, channel
        if recv >= 0:
            self.key[False, channel, recv] = send, recv, channel
        return block

    def sending(self, channel: int, peer: int) -> Block:
        return self.blocks[self.key[True, channel, peer]]

    def receiving(self, channel: int, peer: int) -> Block:
        return self.blocks[self.key[False, channel, peer]]

    def copying(self) -> Block:
        return self.blocks.get((-1, -1, 0)) or self._block(-1, -1, 0)

    def add(self, step: Step, piece: tuple[int, int], *, writes: bool) -> None:
        before = self.wrote.get(piece)
        readers = self.read[piece]
        step.waits = [*readers] if writes and readers else [before] if before else []
        if writes:
            self.wrote[piece], self.read[piece] = step, []
        else:
            readers.append(step)
        step.block.steps.append(step)


def thread_blocks(schedule: Schedule, layout: Layout) -> list[list[Block]]:
    """The blocks of every rank, numbered, with no wait that another makes needless."""
    edges = schedule.channel_edges
    peers: list[tuple[set[tuple[int, int]], set[tuple[int, int]]]] = [
        (set(), set()) for _ in range(schedule.ranks)
    ]
    for src, dst, channel in zip(edges.src.tolist(), edges.dst.tolist(), edges.channel.tolist(), strict=True):
        peers[src][0].add((channel, dst))
        peers[dst][1].add((channel, src))
    gpus = [_Gpu(*entry) for entry in peers]
    _copy(gpus, layout, last=False)
    for round_ in schedule.rounds():
        columns = (round_.src, round_.dst, round_.chunk, round_.reduce, round_.channel)
        _send_and_receive(gpus, layout, list(zip(*(column.tolist() for column in columns), strict=True)))
    _copy(gpus, layout, last=True)
    for gpu in gpus:
        _finish(list(gpu.blocks.values()))
    return [list(gpu.blocks.values()) for gpu in gpus]


def _finish(blocks: list[Block]) -> None:
    for block in blocks:
        _fuse(block)
        for place, step in enumerate(block.steps):
            step.index = place
    for block in blocks:
        _thin_out(block)
    for block in blocks:
        for index, line, wait in block.lines():
            if line:
                line.index = index
            if wait:
                wait.awaited = True


def _send_and_receive(gpus: list[_Gpu], layout: Layout, rows: list[tuple[int, int, int, bool, int]]) -> None:
    """One round. A block that sends and receives several pieces does so in turns, so that few are on their way."""
    turn: dict[tuple[Block, bool], int] = defaultdict(int)
    todo: list[tuple[int, bool, Step, _Gpu, tuple[int, int]]] = []
    sent = {(src, chunk) for src, _, chunk, _, _ in rows}
    # What is sent must be read before it is replaced in the same round.
    careful = any((dst, chunk) in sent for _, dst, chunk, _, _ in rows)
    for src, dst, chunk, reduce, channel in rows:
        here, there = layout.place(src, chunk), layout.place(dst, chunk)
        for number, (start, length) in enumerate(layout.pieces(chunk)):
            source, goal = here.at(start), there.at(start)
            for receives, gpu, block in (
                (False, gpus[src], gpus[src].sending(channel, dst)),
                (True, gpus[dst], gpus[dst].receiving(channel, src)),
            ):
                kind = ("rrc" if reduce else "r") if receives else "s"
                step = Step(kind, goal if kind == "rrc" else source, goal, length, block)
                todo.append((turn[block, receives], receives, step, gpu, (chunk, number)))
                turn[block, receives] += 1
    order = (lambda entry: (entry[1], entry[0])) if careful else (lambda entry: (entry[0], entry[1]))
    for _, receives, step, gpu, piece in sorted(todo, key=order):
        gpu.add(step, piece, writes=receives)


def _copy(gpus: list[_Gpu], layout: Layout, *, last: bool) -> None:
    for rank, gpu in enumerate(gpus):
        for chunk, source, goal in layout.copies(rank, last=last):
            for number, (start, length) in enumerate(layout.pieces(chunk)):
                step = Step("cpy", source.at(start), goal.at(start), length, gpu.copying())
                gpu.add(step, (chunk, number), writes=not last)


def _fuse(block: Block) -> None:
    """Join each receive with the send of the same piece right after it."""
    found: list[Step] = []
    for step in block.steps:
        before = found[-1] if found else None
        if before and step.kind == "s" and before.kind in {"r", "rrc"} and step.waits == [before]:
            before.kind = {"r": "rcs", "rrc": "rrcs"}[before.kind]
            step.joined = before
        else:
            found.append(step)
    block.steps = found


def _thin_out(block: Block) -> None:
    """Keep for each step the last step of each other block that no earlier step has waited for."""
    seen: dict[Block, int] = defaultdict(lambda: -1)
    for step in block.steps:
        latest: dict[Block, Step] = {}
        for waited in step.waits:
            wait = waited.joined or waited
            if wait.block is not block and wait.index > seen[wait.block]:
                seen[wait.block] = wait.index
                latest[wait.block] = wait
        step.waits = list(latest.values())

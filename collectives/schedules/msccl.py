"""Schedules as MSCCL algorithm files (XML), for the executors of microsoft/msccl, Azure/msccl-executor-nccl and RCCL.

Format: `msccl_parser.cc` of Azure/msccl-executor-nccl and `ir_to_xml` of microsoft/msccl-tools (language/ir.py). Of the
step types s, r, rcs, rrc, rrcs, cpy and nop are written. Checked by an interpreter of our own only, since executors need
GPUs: unverified there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from xml.etree import ElementTree as ET

from collectives.schedules.msccl_blocks import Block, Place, thread_blocks
from collectives.schedules.schedule import Op, Schedule
from nettune.errors import InputError

COLLECTIVES = {
    Op.ALL_REDUCE: "allreduce",
    Op.REDUCE_SCATTER: "reducescatter",
    Op.ALL_GATHER: "allgather",
    Op.ALL_TO_ALL: "alltoall",
}
PROTOCOLS = ("Simple", "LL", "LL128")
# msccl_struct.h: offsets are int16_t; counts below MSCCL_MAX_COUNT; peers and steps as named there.
MAX_UNITS = 32767
MAX_COUNT = 71
MAX_PEERS = 32


def msccl_xml(
    schedule: Schedule, *, name: str = "", proto: str = "Simple", inplace: bool = True, max_steps: int = 64
) -> str:
    """The algorithm file of a schedule.

    Args:
        schedule: all_reduce, reduce_scatter, all_gather or all_to_all; it is checked first.
        name: of the algorithm; the schedule's own if left out.
        proto: NCCL protocol.
        inplace: for calls in which output and input are one buffer; all_to_all always has two.
        max_steps: that the executor takes in a thread block: 64 in Azure/msccl-executor-nccl, 256 in microsoft/msccl;
            RCCL's was not looked up.

    Raises:
        ScheduleError: the schedule is wrong.
        InputError: what the format cannot express: a root, messages between chosen pairs, shares that are no multiple
            of a common unit, more channels, peers or steps than executors take.
    """
    if schedule.op not in COLLECTIVES:
        raise InputError(
            f"MSCCL: no file for {schedule.op}: it names no root and no pair; known: {', '.join(COLLECTIVES)}"
        )
    if proto not in PROTOCOLS:
        raise InputError(f"MSCCL: no protocol {proto!r}; known: {', '.join(PROTOCOLS)}")
    schedule.check()
    inplace = inplace and schedule.op is not Op.ALL_TO_ALL
    layout = _Layout(schedule, inplace=inplace)
    root = ET.Element(
        "algo",
        name=name or schedule.name,
        proto=proto,
        nchannels=str(schedule.channels),
        nchunksperloop=str(layout.units),
        ngpus=str(schedule.ranks),
        coll=COLLECTIVES[schedule.op],
        inplace=str(int(inplace)),
        outofplace=str(int(not inplace)),
        minBytes="0",
        maxBytes="0",
    )
    for rank, blocks in enumerate(thread_blocks(schedule, layout)):
        _refuse_big(rank, blocks, max_steps)
        root.append(_gpu(rank, blocks, layout))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


class _Layout:
    """Where each chunk is at each rank: buffer i, o or s, offset in units, and the pieces of a long chunk."""

    def __init__(self, schedule: Schedule, *, inplace: bool) -> None:
        self.schedule, self.inplace = schedule, inplace
        shares = [Fraction(share).limit_denominator(MAX_UNITS) for share in schedule.share.tolist()]
        self.units = math.lcm(*(share.denominator for share in shares))
        if self.units > MAX_UNITS or any(
            abs(float(exact) - share) > 1e-12 for exact, share in zip(shares, schedule.share, strict=True)
        ):
            raise InputError(
                f"MSCCL: the shares of the chunks are no multiples of 1/{MAX_UNITS} or more; round the share x to a fraction"
            )
        self.lengths = [int(share * self.units) for share in shares]
        self.home, self.target = schedule.home.tolist(), schedule.target.tolist()
        self.offsets = self._offsets()
        self.sizes: dict[tuple[int, str], int] = defaultdict(int)
        self._scratch: dict[tuple[int, int], int] = {}

    def _offsets(self) -> list[int]:
        """Offset of each chunk in the buffer that holds a part for every rank, or the whole message."""
        per_rank = self.units // self.schedule.ranks
        used: dict[tuple[int, int], int] = defaultdict(int)
        found = []
        for owner, target, length in zip(self.home, self.target, self.lengths, strict=True):
            found.append(max(owner, 0) * per_rank + used[owner, target])
            used[owner, target] += length
        return found

    def pieces(self, chunk: int) -> list[tuple[int, int]]:
        """(offset inside the chunk, length) of the steps that a chunk takes."""
        count = -(-self.lengths[chunk] // MAX_COUNT)
        cuts = [self.lengths[chunk] * piece // count for piece in range(count + 1)]
        return [(start, end - start) for start, end in pairwise(cuts)]

    def place(self, rank: int, chunk: int) -> Place:
        """Where a rank works on a chunk."""
        op, owner = self.schedule.op, self.home[chunk]
        if op is Op.ALL_TO_ALL:
            if rank == self.target[chunk]:
                return Place("o", self.offsets[chunk])
            if rank == owner:
                per_rank = self.units // self.schedule.ranks
                return Place("i", self.target[chunk] * per_rank + self.offsets[chunk] - owner * per_rank)
            return Place("s", self._scratch_at(rank, chunk))
        if op is Op.ALL_GATHER:
            return Place("o", self.offsets[chunk])
        if self.inplace:
            return Place("i", self.offsets[chunk])
        return Place("o" if op is Op.ALL_REDUCE else "s", self.offsets[chunk])

    def _scratch_at(self, rank: int, chunk: int) -> int:
        if (rank, chunk) not in self._scratch:
            self._scratch[rank, chunk] = self.sizes[rank, "s"]
            self.sizes[rank, "s"] += self.lengths[chunk]
        return self._scratch[rank, chunk]

    def copies(self, rank: int, *, last: bool) -> Iterator[tuple[int, Place, Place]]:
        """(chunk, from, to) of the local copies before the first step, or after the last."""
        op = self.schedule.op
        per_rank = self.units // self.schedule.ranks
        if self.inplace:
            return
        for chunk, owner in enumerate(self.home):
            whole, part = Place("i", self.offsets[chunk]), self.offsets[chunk] - rank * per_rank
            if op is Op.ALL_TO_ALL:
                if not last and rank == owner == self.target[chunk]:
                    yield chunk, whole, Place("o", self.offsets[chunk])
            elif last and op is Op.REDUCE_SCATTER and owner == rank:
                yield chunk, self.place(rank, chunk), Place("o", part)
            elif not last and op is Op.ALL_GATHER and owner == rank:
                yield chunk, Place("i", part), self.place(rank, chunk)
            elif not last and op in {Op.ALL_REDUCE, Op.REDUCE_SCATTER}:
                yield chunk, whole, self.place(rank, chunk)


def _refuse_big(rank: int, blocks: list[Block], max_steps: int) -> None:
    peers: dict[tuple[int, bool], int] = defaultdict(int)
    for block in blocks:
        if block.length > max_steps:
            raise InputError(
                f"MSCCL: rank {rank} needs {block.length} steps in a thread block, the executor takes {max_steps}: use more "
                "channels or fewer chunks, or max_steps=256 for microsoft/msccl"
            )
        for receives, peer in ((False, block.send), (True, block.recv)):
            peers[block.channel, receives] += peer >= 0
    channel, most = max(
        ((key[0], count) for key, count in peers.items()), key=lambda entry: entry[1], default=(0, 0)
    )
    if most > MAX_PEERS:
        raise InputError(
            f"MSCCL: rank {rank} has {most} peers on channel {channel}, executors take {MAX_PEERS}"
        )


def _gpu(rank: int, blocks: list[Block], layout: _Layout) -> ET.Element:
    sizes = {"i": 0, "o": 0, "s": layout.sizes[rank, "s"]}
    gpu = ET.Element("gpu", id=str(rank))
    for number, block in enumerate(blocks):
        found = ET.SubElement(
            gpu, "tb", id=str(number), send=str(block.send), recv=str(block.recv), chan=str(block.channel)
        )
        for index, step, wait in block.lines():
            kind = step.kind if step else "nop"
            source, goal = (step.source, step.goal) if step else (Place("i", -1), Place("o", -1))
            ET.SubElement(
                found,
                "step",
                s=str(index),
                type=kind,
                srcbuf=source.buffer,
                srcoff=str(source.offset),
                dstbuf=goal.buffer,
                dstoff=str(goal.offset),
                cnt=str(step.length if step else 0),
                depid=str(wait.block.number if wait else -1),
                deps=str(wait.index if wait else -1),
                hasdep=str(int(step.awaited)) if step else "0",
            )
            if step:
                for place in step.local():
                    sizes[place.buffer] = max(sizes[place.buffer], place.offset + step.length)
    for buffer, size in sizes.items():
        gpu.set(f"{buffer}_chunks", str(size))
    return gpu

"""An exported algorithm file, carried out by an interpreter that knows the format only, gives the operation's result."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from collections import defaultdict, deque
from dataclasses import dataclass, field

import pytest

from collectives.schedules import Op, build, p2p
from collectives.schedules.msccl import msccl_xml
from nettune.errors import InputError


def number(element: ET.Element, key: str) -> int:
    """An attribute that must be there, as a number."""
    return int(element.attrib[key])


class StuckError(Exception):
    """No thread block can go on."""


@dataclass
class Machine:
    """Carries a file out: numbers in buffers, bounded queues between GPUs, thread blocks in an order drawn at random.

    Rules, from the executor (msccl_kernel_impl.h): a block takes its steps in order; a step with depid waits until that
    block of the same GPU is past step deps, which must say hasdep; connections are (from, to, channel) queues.
    """

    text: str
    seed: int
    slots: int = 2
    data: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def __post_init__(self):
        self.algo = ET.fromstring(self.text)
        self.queues: dict[tuple[int, int, int], deque[list[int]]] = defaultdict(deque)
        self.blocks = [(number(gpu, "id"), tb) for gpu in self.algo for tb in gpu]
        self.done = {(gpu, number(tb, "id")): 0 for gpu, tb in self.blocks}
        used = [
            (gpu, side, tb.attrib[side], tb.attrib["chan"])
            for gpu, tb in self.blocks
            for side in ("send", "recv")
        ]
        used = [entry for entry in used if entry[2] != "-1"]
        assert len(used) == len(set(used)), "two thread blocks share one direction of a connection"
        self.sizes = {(number(gpu, "id"), b): number(gpu, f"{b}_chunks") for gpu in self.algo for b in "ios"}

    def run(self):
        draw = random.Random(self.seed)
        waiting = list(self.blocks)
        while waiting:
            draw.shuffle(waiting)
            moved = [entry for entry in waiting if self.advance(*entry)]
            if not moved:
                raise StuckError
            waiting = [(gpu, tb) for gpu, tb in waiting if self.done[gpu, number(tb, "id")] < len(tb)]
        assert not any(self.queues.values()), "data that nobody took"

    def advance(self, gpu, tb) -> bool:
        me = gpu, number(tb, "id")
        if self.done[me] >= len(tb):
            return False
        step = tb[self.done[me]]
        assert number(step, "s") == self.done[me]
        kind, count = step.attrib["type"], number(step, "cnt")
        if number(step, "depid") >= 0:
            other, last = number(step, "depid"), number(step, "deps")
            block = next(tb for owner, tb in self.blocks if (owner, number(tb, "id")) == (gpu, other))
            assert block[last].get("hasdep") == "1"
            if self.done[gpu, other] <= last:
                return False
        into = self.queues[number(tb, "recv"), gpu, number(tb, "chan")]
        out = self.queues[gpu, number(tb, "send"), number(tb, "chan")]
        sends, receives = kind in {"s", "rcs", "rrcs"}, kind in {"r", "rrc", "rcs", "rrcs"}
        if (receives and not into) or (sends and len(out) >= self.slots):
            return False
        source, goal = ((step.attrib[f"{end}buf"], number(step, f"{end}off")) for end in ("src", "dst"))
        if receives:
            values = into.popleft()
            assert len(values) == count
            if kind in {"rrc", "rrcs"}:
                values = [
                    value + mine for value, mine in zip(values, self.get(gpu, *source, count), strict=True)
                ]
            self.put(gpu, *goal, values)
        elif kind in {"s", "cpy"}:
            values = self.get(gpu, *source, count)
            if kind == "cpy":
                self.put(gpu, *goal, values)
        if sends:
            out.append(values)
        self.done[me] += 1
        return True

    def get(self, gpu, buffer, offset, count):
        assert 0 <= offset <= offset + count <= self.sizes[gpu, buffer]
        return [self.data[gpu, buffer, offset + place] for place in range(count)]

    def put(self, gpu, buffer, offset, values):
        assert 0 <= offset <= offset + len(values) <= self.sizes[gpu, buffer]
        for place, value in enumerate(values):
            self.data[gpu, buffer, offset + place] = value


def carry_out(text: str, seed: int, slots: int = 2) -> bool:
    """Whether every GPU has the collective's result: `coll` and buffers as nccl.h defines them."""
    machine = Machine(text, seed, slots)
    algo, draw = machine.algo, random.Random(5)
    n, units, coll = number(algo, "ngpus"), number(algo, "nchunksperloop"), algo.attrib["coll"]
    inplace, part = algo.attrib["inplace"] == "1", units // n
    assert algo.attrib["outofplace"] == str(int(not inplace))
    length = part if coll == "allgather" else units
    given = [[draw.getrandbits(50) for _ in range(length)] for _ in range(n)]
    total = [sum(column) for column in zip(*given, strict=True)]
    start = {rank: rank * part if inplace and coll == "allgather" else 0 for rank in range(n)}
    entry = "o" if inplace and coll == "allgather" else "i"
    for rank in range(n):
        machine.data |= {
            (rank, buffer, place): -1 << 60 for buffer in "os" for place in range(machine.sizes[rank, buffer])
        }
        machine.data |= {(rank, entry, start[rank] + place): value for place, value in enumerate(given[rank])}
    machine.run()
    for rank in range(n):
        wanted = {
            "allreduce": total,
            "reducescatter": total[rank * part : (rank + 1) * part],
            "allgather": [value for values in given for value in values],
            "alltoall": [value for values in given for value in values[rank * part : (rank + 1) * part]],
        }[coll]
        buffer = "i" if inplace and coll != "allgather" else "o"
        first = rank * part if inplace and coll == "reducescatter" else 0
        if [machine.data.get((rank, buffer, first + place)) for place in range(len(wanted))] != wanted:
            return False
    return True


CASES = [
    ("ring", "all_reduce", 5, {}),
    ("ring", "all_reduce", 2, {"channels": 2}),
    ("ring", "all_reduce", 4, {"channels": 2, "chunks": 3}),
    ("ring", "reduce_scatter", 4, {"orders": [[0, 1, 2, 3], [2, 0, 3, 1]]}),
    ("ring", "all_gather", 6, {"direction": -1}),
    ("double_tree", "all_reduce", 7, {"chunks": 3}),
    ("double_tree", "all_reduce", 8, {"nodes": [[0, 1], [2, 3], [4, 5], [6, 7]], "pattern": "balanced"}),
    ("binomial", "all_reduce", 5, {}),
    ("halving_doubling", "all_reduce", 8, {}),
    ("halving_doubling", "all_reduce", 6, {}),
    ("halving_doubling", "all_gather", 7, {}),
    ("hierarchical", "all_reduce", 8, {"groups": 4, "overlap": 2}),
    ("hierarchical", "reduce_scatter", 6, {"groups": 2}),
    ("hierarchical", "all_gather", 6, {"groups": 3}),
    ("bruck", "all_gather", 7, {}),
    ("bruck", "reduce_scatter", 5, {}),
    ("pat", "all_gather", 8, {"aggregation": 2}),
    ("pat", "reduce_scatter", 7, {}),
    ("hybrid", "all_reduce", 4, {"x": 0.7, "tree_chunks": 2}),
    ("pairwise", "all_to_all", 5, {"channels": 2}),
    ("two_step", "all_to_all", 6, {"groups": 2}),
    ("two_step", "all_to_all", 9, {"groups": 3}),
]


@pytest.mark.parametrize("inplace", [True, False])
@pytest.mark.parametrize(("algorithm", "op", "ranks", "options"), CASES)
def test_a_file_carried_out_gives_the_result(algorithm, op, ranks, options, inplace):
    """In place and out of place, with two slots a connection (MSCCL_CHUNKSTEPS is 4 of NCCL's 8 steps), whatever order the thread blocks run in."""
    text = msccl_xml(build(algorithm, op, ranks, **options), inplace=inplace)
    assert all(carry_out(text, seed) for seed in range(3))


def test_a_ring_is_one_block_that_forwards_what_it_receives():
    """The textbook program: send, receive-reduce-copy-send, receive-copy-send, receive; waits only inside the block."""
    gpu = ET.fromstring(msccl_xml(build("ring", "all_reduce", 4)))[1]
    assert [(tb.attrib["send"], tb.attrib["recv"]) for tb in gpu] == [("2", "0")]
    assert [step.attrib["type"] for step in gpu[0]] == ["s", "rrcs", "rrcs", "rrcs", "rcs", "rcs", "r"]
    assert {step.attrib["depid"] for step in gpu[0]} == {"-1"}


def test_the_interpreter_sees_a_wait_that_is_missing_and_a_step_that_is_wrong():
    """Without its waits a tree reads too early in some order; a copy for a reduction is wrong in every order."""
    text = msccl_xml(build("double_tree", "all_reduce", 7, chunks=3))
    root = ET.fromstring(text)
    for step in root.iter("step"):
        step.set("depid", "-1")
    results = [carry_out(ET.tostring(root, encoding="unicode"), seed) for seed in range(5)]
    assert not all(results)
    assert not carry_out(text.replace('"rrc"', '"r"', 1), 0)


def test_dropping_any_wait_is_seen_in_some_order():
    """Of the waits of one file, at least nine in ten are needed for the result, in 12 random orders."""
    text = msccl_xml(build("two_step", "all_to_all", 6, groups=2))
    waits = [
        place for place, step in enumerate(ET.fromstring(text).iter("step")) if step.attrib["depid"] != "-1"
    ]
    seen = 0
    for place in waits:
        root = ET.fromstring(text)
        list(root.iter("step"))[place].set("depid", "-1")
        seen += not all(carry_out(ET.tostring(root, encoding="unicode"), seed) for seed in range(12))
    assert seen >= 0.9 * len(waits) > 0


def test_long_chunks_are_cut_and_scratch_is_sized():
    """No step is longer than executors take; a share of 7/10 makes chunks of different lengths."""
    root = ET.fromstring(msccl_xml(build("hybrid", "all_reduce", 16, x=0.7), max_steps=256))
    assert max(number(step, "cnt") for step in root.iter("step")) <= 71
    # A ring's chunk is 7/160 of the message, a tree's 3/20.
    assert root.attrib["nchunksperloop"] == "160"
    scratch = ET.fromstring(msccl_xml(build("two_step", "all_to_all", 6, groups=2)))
    assert {gpu.attrib["s_chunks"] for gpu in scratch} == {"2"}


@pytest.mark.parametrize(
    ("schedule", "options", "message"),
    [
        (build("ring", "broadcast", 4), {}, "no file for broadcast"),
        (p2p(2, [(0, 1)]), {}, "no file for p2p"),
        (build("ring", "all_reduce", 4), {"proto": "LL256"}, "no protocol 'LL256'"),
        (build("ring", "all_reduce", 64), {}, "127 steps in a thread block"),
        (build("pairwise", "all_to_all", 40), {}, "39 peers on channel 0"),
        (build("hybrid", "all_reduce", 4, x=2**-0.5), {}, "no multiples"),
    ],
)
def test_what_the_format_cannot_express_is_refused_in_one_line(schedule, options, message):
    """Roots, chosen pairs, irrational shares, and more than executors take."""
    with pytest.raises(InputError, match=message) as caught:
        msccl_xml(schedule, **options)
    assert "\n" not in str(caught.value)


def test_the_head_is_what_parsers_ask_for():
    """Every attribute that msccl_parser.cc reads is there."""
    root = ET.fromstring(
        msccl_xml(build("ring", Op.ALL_GATHER, 3, channels=2), name="my ring", proto="LL128")
    )
    assert root.attrib == {
        "name": "my ring",
        "proto": "LL128",
        "nchannels": "2",
        "nchunksperloop": "6",
        "ngpus": "3",
        "coll": "allgather",
        "inplace": "1",
        "outofplace": "0",
        "minBytes": "0",
        "maxBytes": "0",
    }

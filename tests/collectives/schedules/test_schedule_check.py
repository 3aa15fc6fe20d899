"""`Schedule.check` proves every schedule right at every size, and says in one line what is wrong with others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.schedules import (
    BUILDERS,
    Op,
    Round,
    Schedule,
    ScheduleError,
    build,
    needs_options,
    over_channels,
    p2p,
    pipelined,
)
from nettune.errors import InputError

ALL = list(BUILDERS)
PLAIN = [key for key in ALL if key[0] not in {"hierarchical", "two_step", "hybrid"}]
INNER = ["ring", "halving_doubling", "bruck", "pat"]
OUTER = ["ring", "halving_doubling", "double_tree", "binomial"]


def divisors(ranks: int) -> list[int]:
    return [size for size in range(1, ranks + 1) if ranks % size == 0]


def some_options(algorithm: str, op: Op, ranks: int, turn: int) -> dict[str, Any]:
    """Options that the algorithm needs, different from turn to turn."""
    if algorithm == "hybrid":
        return {"x": [0.0, 0.25, 0.9, 1.0][turn % 4]}
    if algorithm in {"hierarchical", "two_step"}:
        sizes = divisors(ranks)
        return {"groups": sizes[turn % len(sizes)]}
    return {}


@pytest.mark.parametrize(("algorithm", "op"), ALL)
def test_every_schedule_is_right_at_every_size(algorithm, op):
    """1 to 64 ranks, odd and even."""
    for ranks in range(1, 65):
        build(algorithm, op, ranks, **some_options(algorithm, op, ranks, ranks // 2)).check()


@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_every_schedule_is_right_over_channels_and_chunks(data):
    """Any number of channels that NCCL has (1 to 32 for rings), pipelined chunks, any stagger, any root and option."""
    algorithm, op = data.draw(st.sampled_from(ALL))
    ranks = data.draw(st.integers(2, 64))
    channels = data.draw(st.integers(1, 32 if algorithm not in {"pairwise", "two_step"} else 4))
    chunks = data.draw(st.integers(1, 4)) if channels < 9 else 1
    options = some_options(algorithm, op, ranks, data.draw(st.integers(0, 11)))
    if algorithm in {"ring", "binomial", "double_tree"} and op in {Op.BROADCAST, Op.REDUCE}:
        options["root"] = data.draw(st.integers(0, ranks - 1))
    if algorithm == "ring":
        options["direction"] = data.draw(st.sampled_from([-1, 1]))
    if algorithm == "pat":
        options["aggregation"] = data.draw(st.sampled_from([1, None]))
    if algorithm == "double_tree":
        nodes = np.array(data.draw(st.permutations(range(ranks)))).reshape(
            -1, data.draw(st.sampled_from(divisors(ranks)))
        )
        options |= {
            "nodes": nodes.tolist(),
            "pattern": data.draw(st.sampled_from(["tree", "balanced", "split"])),
        }
    if algorithm == "hierarchical":
        options |= {"inner": data.draw(st.sampled_from(INNER)), "overlap": data.draw(st.integers(0, 3))}
        options["outer"] = data.draw(st.sampled_from(OUTER if op is Op.ALL_REDUCE else INNER))
    build(
        algorithm, op, ranks, channels=channels, chunks=chunks, every=data.draw(st.integers(1, 3)), **options
    ).check()


@given(
    ranks=st.integers(2, 24),
    data=st.data(),
    op=st.sampled_from([Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER]),
)
@settings(max_examples=25, deadline=None)
def test_rings_may_have_orders_of_their_own(ranks, data, op):
    """Each channel's ring goes through the ranks in the order given, in the direction given."""
    orders = data.draw(st.lists(st.permutations(range(ranks)), min_size=1, max_size=3))
    direction = data.draw(st.sampled_from([-1, 1]))
    schedule = build("ring", op, ranks, direction=direction, orders=orders)
    schedule.check()
    edges = schedule.channel_edges
    for channel, order in enumerate(orders):
        here = edges.channel == channel
        wanted = {(order[place], order[(place + direction) % ranks]) for place in range(ranks)}
        assert set(zip(edges.src[here].tolist(), edges.dst[here].tolist(), strict=True)) == wanted


def test_the_proof_is_exact_beyond_one_word():
    """Contributions of ranks 63, 64 and 65 are told apart: a lost one is named."""
    schedule = build("ring", "all_reduce", 67)
    rounds = list(schedule.rounds())
    for rank in (63, 64, 66):
        keep = rounds[0].src != rank
        first = Round(
            *(getattr(rounds[0], name)[keep] for name in ("src", "dst", "chunk", "reduce", "channel"))
        )
        with pytest.raises(ScheduleError, match=rf"ends without rank {rank}'s part of chunk"):
            Schedule.of_rounds(Op.ALL_REDUCE, 67, [first, *rounds[1:]], share=schedule.share).check()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Round.of(0, 0, 0), "itself"),
        (Round.of(0, 7, 0), "outside"),
        (Round.of(0, 1, 5), "1 chunks"),
        (Round.of(0, 1, 0, False, 1), "1 channels"),
        (Round.of(1, 2, 0), "rank 1 sends chunk 0, which it has not"),
        (Round.of(0, 1, 0, True), "rank 1 adds to chunk 0, of which it has nothing"),
        (Round.of([0, 0], [1, 1], [0, 0]), "rank 1 gets chunk 0 twice"),
        (replace(Round.of(0, 1, 0), reduce=np.zeros(2, bool)), "differ in length"),
    ],
)
def test_impossible_steps_are_refused(step, message):
    """Steps that no executor could carry out are named with their round."""
    schedule = Schedule.of_rounds(Op.BROADCAST, 3, [step], share=[1.0], home=[0], channels=1)
    with pytest.raises(ScheduleError, match=f"round 0: .*{message}"):
        schedule.check()


def test_a_contribution_that_is_added_twice_is_named():
    """The line says whose part of which chunk is doubled, where and when."""
    step = Round.of(0, 1, 0, True)
    with pytest.raises(ScheduleError, match="round 1: rank 1 adds rank 0's part of chunk 0 a second time"):
        Schedule.of_rounds(Op.REDUCE, 2, [step, step], share=[1.0], home=[1]).check()


@pytest.mark.parametrize(
    ("share", "home", "message"),
    [
        ([0.5, 0.4], [0, 1], "the chunks are 0.9 of the message instead of 1"),
        ([0.5, 0.0], [0, 1], "not positive"),
        ([0.5, 0.5], [1, 1], "rank 0 owns 0 of the message instead of 0.5"),
    ],
)
def test_chunks_are_the_whole_message(share, home, message):
    """A schedule that loses a part of the message, or splits it unevenly, is wrong however it moves the rest."""
    with pytest.raises(ScheduleError, match=message):
        Schedule.of_rounds(Op.ALL_GATHER, 2, [], share=share, home=home).check()


def test_an_all_to_all_has_a_part_for_every_pair():
    """A table in which rank 0 has two parts for rank 1 and none for itself is refused, though all of it is delivered."""
    home, target = (axis.ravel() for axis in np.indices((3, 3)))
    target = target.copy()
    target[0] = 1
    sent = home != target
    step = Round.of(home[sent], target[sent], np.flatnonzero(sent))
    schedule = Schedule.of_rounds(Op.ALL_TO_ALL, 3, [step], share=np.full(9, 1 / 3), home=home, target=target)
    with pytest.raises(ScheduleError, match=r"rank 0 has 0 of a message for rank 0 instead of 0\.333"):
        schedule.check()


@pytest.mark.parametrize("op", [Op.BROADCAST, Op.REDUCE])
def test_a_rooted_operation_has_one_root(op):
    """Halves that start, or end, at different ranks are no broadcast and no reduce."""
    step = Round.of([0, 1], [1, 0], [0, 1], op is Op.REDUCE)
    home = [0, 1] if op is Op.BROADCAST else [1, 0]
    with pytest.raises(ScheduleError, match="more than one root"):
        Schedule.of_rounds(op, 2, [step], share=[0.5, 0.5], home=home).check()


def test_a_proof_that_does_not_fit_into_memory_is_refused():
    """4,096 ranks need 8 GB: one line instead of a killed process."""
    with pytest.raises(InputError, match=r"needs 8\.59 GB"):
        build("ring", "all_reduce", 4096).check()


def test_huge_numbers_of_ranks_are_refused():
    """A schedule's columns are as long as its ranks."""
    with pytest.raises(InputError, match="ranks must be a whole number of at most 1048576"):
        build("ring", "all_reduce", 10**9)
    for cut in (over_channels, pipelined):
        with pytest.raises(InputError, match="ring up: 0 ch"):
            cut(build("ring", "all_reduce", 4), 0)


def test_p2p_delivers_each_pair_and_only_that():
    """Pairs get their message; one that is left out is caught."""
    schedule = p2p(4, [(0, 1), (1, 0), (2, 3)])
    schedule.check()
    assert schedule.edges.share.tolist() == [1.0, 1.0, 1.0]
    rounds = [Round.of([0, 1], [1, 0], [0, 1])]
    with pytest.raises(ScheduleError, match="rank 3 ends without chunk 2"):
        Schedule.of_rounds(
            Op.P2P, 4, rounds, share=schedule.share, home=schedule.home, target=schedule.target
        ).check()
    with pytest.raises(InputError, match="joins no two"):
        p2p(2, [(1, 1)])


@pytest.mark.parametrize(("algorithm", "op"), ALL)
def test_json_round_trip(algorithm, op):
    """A schedule written as JSON text reads back equal, step by step."""
    schedule = build(algorithm, op, 6, channels=2, **some_options(algorithm, op, 6, 1))
    data = json.loads(json.dumps(schedule.to_json()))
    again = Schedule.from_json(data)
    again.check()
    assert again.to_json() == schedule.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "nettune.schedule/9"},
        {"op": "gossip"},
        {"rounds": [{"src": [0]}]},
        {"rounds": [{"src": [0], "dst": [1, 2], "chunk": [0], "reduce": [True], "channel": [0]}]},
        {"home": [9] * 3},
        {"home": [0] * 2},
        {"ranks": "many"},
        {"channels": 0},
        {"colour": "red"},
        {"share": None},
    ],
)
def test_bad_json_is_one_line(change):
    """What is no schedule is an InputError, never another exception."""
    with pytest.raises(InputError) as caught:
        Schedule.from_json({**build("ring", "all_reduce", 3).to_json(), **change})
    assert "\n" not in str(caught.value)


def test_what_needs_options_is_known():
    """Groups and shares cannot be left out; everything else is built from its ranks alone."""
    needing = {name for name, op in ALL if needs_options(name, op)}
    assert needing == {"hierarchical", "two_step", "hybrid"}
    for name, op in ALL:
        if name not in needing:
            build(name, op, 4).check()


def test_unknown_names_list_the_known():
    """The registry says what it has, and what an algorithm takes."""
    with pytest.raises(InputError, match="ring all_reduce"):
        build("bush", "all_reduce", 4)
    with pytest.raises(InputError, match="gossip"):
        build("ring", "gossip", 4)
    with pytest.raises(InputError, match=r"ring all_reduce: .*'root'"):
        build("ring", "all_reduce", 4, root=1)
    with pytest.raises(InputError, match=r"two_step all_to_all: .*'groups'"):
        build("two_step", "all_to_all", 4)


@pytest.mark.parametrize(
    ("algorithm", "op", "options", "message"),
    [
        ("ring", "all_reduce", {"direction": 0}, "ring: 4 ranks, direction 0"),
        ("ring", "all_reduce", {"direction": 2}, "ring: 4 ranks, direction 2"),
        ("ring", "reduce", {"direction": 2}, "ring: 4 ranks, direction 2"),
        ("ring", "all_reduce", {"channels": 0}, "0 channels"),
        (
            "ring",
            "all_reduce",
            {"channels": "2"},
            "channels must be a whole number of at most 1048576, not '2'",
        ),
        ("ring", "all_reduce", {"chunks": 2.0}, "chunks must be a whole number"),
        ("ring", "broadcast", {"root": "a"}, "ring broadcast: an option is of a wrong type"),
        ("ring", "all_gather", {"orders": [[0, 1, 2, 2]]}, "names each of 0..3 once"),
        ("ring", "broadcast", {"root": 4}, "root 4 is no rank of 4"),
        ("double_tree", "all_reduce", {"root": 1}, "or all_reduce has none"),
        ("double_tree", "reduce", {"root": 4}, "root 4 is no rank"),
        ("double_tree", "all_reduce", {"nodes": [[0, 1], [2]]}, "name 3 ranks of 4"),
        ("double_tree", "all_reduce", {"nodes": [[0, 1], [2, 2]]}, "each of 0..3 once"),
        ("double_tree", "all_reduce", {"pattern": "bush"}, "known: tree, balanced, split"),
        ("binomial", "broadcast", {"root": -1}, "root -1"),
        ("hierarchical", "all_reduce", {"groups": 3}, "do not divide into groups of 3"),
        (
            "hierarchical",
            "all_reduce",
            {"groups": [[0, 1, 2], [3]]},
            "groups of 1, 3 ranks; .* leave ranks out",
        ),
        ("hierarchical", "all_reduce", {"groups": [[0, 1], [1, 2]]}, "each of 0..3 once"),
        (
            "hierarchical",
            "all_reduce",
            {"groups": 2, "outer": "bruck"},
            "no schedule 'bruck' for 'all_reduce'",
        ),
        ("two_step", "all_to_all", {"groups": [[0], [1, 2, 3]]}, "groups of 1, 3 ranks"),
        ("pat", "all_gather", {"aggregation": 3}, "no power of two of at most 2"),
        ("hybrid", "all_reduce", {"x": 1.1}, "x = 1.1 is not between 0 and 1"),
    ],
)
def test_nonsense_is_refused_in_one_line(algorithm, op, options, message):
    """Options outside what an algorithm can do are named."""
    with pytest.raises(InputError, match=message) as caught:
        build(algorithm, op, 4, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("algorithm", "op"), PLAIN)
def test_no_rank_is_refused(algorithm, op):
    """A collective needs a rank."""
    with pytest.raises(InputError):
        build(algorithm, op, 0)

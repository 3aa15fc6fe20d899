"""`Schedule.check` proves right schedules right and catches every corrupted one; volumes are the textbook's."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.schedules import BUILDERS, Op, Round, Schedule, ScheduleError, build, p2p
from collectives.schedules.ring import ring_broadcast
from nettune.errors import InputError

RINGS = [Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER]


def with_rounds(schedule: Schedule, rounds: list[Round]) -> Schedule:
    return Schedule.of_rounds(
        schedule.op, schedule.ranks, rounds, share=schedule.share, home=schedule.home, target=schedule.target
    )


def columns(step: Round) -> dict[str, np.ndarray]:
    return {name: getattr(step, name).copy() for name in ("src", "dst", "chunk", "reduce", "channel")}


def mutants(schedule: Schedule, draw: random.Random) -> list[tuple[str, Schedule]]:
    """One corrupted copy for each way of corrupting, at a random step."""
    rounds = list(schedule.rounds())
    number = draw.randrange(len(rounds))
    row = draw.randrange(len(rounds[number]))
    found = []

    def add(name: str, step: dict[str, np.ndarray]) -> None:
        found.append((name, with_rounds(schedule, [*rounds[:number], Round(**step), *rounds[number + 1 :]])))

    original = columns(rounds[number])
    add("dropped step", {name: np.delete(column, row) for name, column in original.items()})
    add("doubled step", {name: np.append(column, column[row]) for name, column in original.items()})
    changed = columns(rounds[number])
    changed["reduce"][row] ^= True
    add("copy for reduce or the reverse", changed)
    changed = columns(rounds[number])
    changed["chunk"][row] = (changed["chunk"][row] + draw.randrange(1, schedule.chunks)) % schedule.chunks
    add("wrong chunk", changed)
    if schedule.ranks > 2:
        changed = columns(rounds[number])
        taken = {int(changed["src"][row]), int(changed["dst"][row])}
        changed["dst"][row] = draw.choice([rank for rank in range(schedule.ranks) if rank not in taken])
        add("wrong receiver", changed)
    found.append(("dropped round", with_rounds(schedule, rounds[:number] + rounds[number + 1 :])))
    return found


@given(
    op=st.sampled_from(RINGS),
    ranks=st.integers(1, 24),
    direction=st.sampled_from([-1, 1]),
    channels=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_rings_are_right_at_every_size(op, ranks, direction, channels):
    """Every ring proves right and carries the textbook share of the message over every edge, to one neighbour only."""
    schedule = build("ring", op, ranks, direction=direction, channels=channels)
    schedule.check()
    edges = schedule.edges
    expected = (2 if op is Op.ALL_REDUCE else 1) * (ranks - 1) / ranks
    assert np.allclose(edges.share, expected)
    assert edges.src.tolist() == (list(range(ranks)) if ranks > 1 else [])
    assert np.array_equal(edges.dst, (edges.src + direction) % ranks)


@given(
    ranks=st.integers(1, 12),
    root=st.integers(0, 11),
    chunks=st.integers(1, 6),
    direction=st.sampled_from([-1, 1]),
)
@settings(max_examples=40, deadline=None)
def test_broadcast_reaches_everyone_once(ranks, root, chunks, direction):
    """A pipelined broadcast proves right; every rank but the root receives the whole message once."""
    schedule = ring_broadcast(ranks, root=root % ranks, direction=direction, chunks=chunks)
    schedule.check()
    received = np.bincount(schedule.edges.dst, weights=schedule.edges.share, minlength=ranks)
    assert np.allclose(received, [0.0 if rank == root % ranks else 1.0 for rank in range(ranks)])


def right_when_carried_out(schedule: Schedule) -> bool:
    """Carry the steps out on random numbers, with rubbish where a rank has nothing, and look at the result."""
    draw = random.Random(11)
    ranks, chunks = range(schedule.ranks), range(schedule.chunks)
    data = [[draw.getrandbits(60) for _ in chunks] for _ in ranks]
    summed = [sum(data[rank][chunk] for rank in ranks) for chunk in chunks]
    given = [[data[rank][chunk] for chunk in chunks] for rank in ranks]
    if schedule.op is Op.ALL_GATHER:
        for rank in ranks:
            for chunk in chunks:
                if schedule.home[chunk] != rank:
                    data[rank][chunk] = draw.getrandbits(60)
    for step in schedule.rounds():
        rows = list(zip(*(column.tolist() for column in columns(step).values()), strict=True))
        arriving = [data[src][chunk] for src, _, chunk, _, _ in rows]
        for (_, dst, chunk, reduce, _), value in zip(rows, arriving, strict=True):
            data[dst][chunk] = data[dst][chunk] + value if reduce else value
    if schedule.op is Op.ALL_REDUCE:
        return data == [summed for _ in ranks]
    if schedule.op is Op.REDUCE_SCATTER:
        return all(data[schedule.home[chunk]][chunk] == summed[chunk] for chunk in chunks)
    return data == [[given[schedule.home[chunk]][chunk] for chunk in chunks] for _ in ranks]


@pytest.mark.parametrize("op", RINGS)
def test_every_corruption_is_caught(op):
    """Dropped, doubled, misdirected and mistaken steps pass the proof only where carrying them out is right too."""
    draw = random.Random(7)
    wrong: Counter[str] = Counter()
    for _ in range(100):
        ranks = draw.randrange(2, 8)
        schedule = build("ring", op, ranks, direction=draw.choice([-1, 1]), channels=draw.randrange(1, 3))
        assert right_when_carried_out(schedule)
        for name, mutant in mutants(schedule, draw):
            if right_when_carried_out(mutant):
                # Receiving the same copy twice does no harm, but no schedule should say so.
                if name != "doubled step":
                    mutant.check()
                continue
            wrong[name] += 1
            with pytest.raises(ScheduleError):
                mutant.check()
    assert sum(wrong.values()) > 400
    assert len(wrong) == (5 if op is Op.ALL_GATHER else 6)


def test_error_names_rank_and_chunk():
    """The line says whose part of which chunk is missing or doubled, and where."""
    schedule = build("ring", Op.ALL_REDUCE, 3)
    rounds = list(schedule.rounds())
    doubled = Round.of(*(np.append(column, column[:1]) for column in columns(rounds[0]).values()))
    with pytest.raises(
        ScheduleError, match=r"all_reduce: rank \d ends with rank 0's part of chunk 0 2 times instead of 1"
    ):
        with_rounds(schedule, [doubled, *rounds[1:]]).check()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Round.of(0, 0, 0), "itself"),
        (Round.of(0, 7, 0), "outside"),
        (Round.of(0, 1, 5), "1 chunks"),
        (Round.of(1, 2, 0), "rank 1 sends chunk 0, which it has not"),
        (Round.of([0, 0], [1, 1], [0, 0]), "rank 1 gets chunk 0 twice"),
    ],
)
def test_impossible_steps_are_refused(step, message):
    """Steps that no executor could carry out are named with their round."""
    schedule = Schedule.of_rounds(Op.BROADCAST, 3, [step], share=(1.0,), home=(0,), target=(-1,))
    with pytest.raises(ScheduleError, match=message):
        schedule.check()


def test_p2p_delivers_each_pair_and_only_that():
    """Pairs get their message; one that is left out is caught."""
    schedule = p2p(4, [(0, 1), (1, 0), (2, 3)])
    schedule.check()
    assert schedule.edges.share.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ScheduleError, match="chunk 2"):
        with_rounds(schedule, [Round.of([0, 1], [1, 0], [0, 1])]).check()
    with pytest.raises(InputError, match="joins no two"):
        p2p(2, [(1, 1)])


@pytest.mark.parametrize(("algorithm", "op"), list(BUILDERS))
def test_json_round_trip(algorithm, op):
    """A schedule written as JSON text reads back equal, step by step."""
    schedule = build(algorithm, op, 5)
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
        {"ranks": "many"},
        {"share": None},
    ],
)
def test_bad_json_is_one_line(change):
    """What is no schedule is an InputError, never another exception."""
    with pytest.raises(InputError) as caught:
        Schedule.from_json({**build("ring", "all_reduce", 3).to_json(), **change})
    assert "\n" not in str(caught.value)


def test_unknown_algorithm_lists_the_known():
    """The registry says what it has."""
    with pytest.raises(InputError, match="ring all_reduce"):
        build("tree", "all_reduce", 4)
    with pytest.raises(InputError, match="gossip"):
        build("ring", "gossip", 4)


@pytest.mark.parametrize("options", [{"direction": 0}, {"channels": 0}])
def test_ring_refuses_nonsense(options):
    """Directions other than 1 and -1, and no channel, are refused."""
    with pytest.raises(InputError, match="ring"):
        build("ring", "all_reduce", 4, **options)

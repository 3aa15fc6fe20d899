"""`check` tells right from wrong as carrying the steps out does: over 2,000 corrupted schedules of every algorithm."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from collectives.schedules import BUILDERS, Op, Round, Schedule, ScheduleError, build

REDUCING = {Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE}
COLUMNS = ("src", "dst", "chunk", "reduce", "channel")


def with_rounds(schedule: Schedule, rounds: list[Round]) -> Schedule:
    return Schedule.of_rounds(
        schedule.op,
        schedule.ranks,
        rounds,
        share=schedule.share,
        home=schedule.home,
        target=schedule.target,
        channels=schedule.channels,
    )


def columns(step: Round) -> dict[str, np.ndarray]:
    return {name: getattr(step, name).copy() for name in COLUMNS}


def mutants(schedule: Schedule, draw: random.Random) -> list[tuple[str, Schedule]]:
    """One corrupted copy for each way of corrupting, at a random step."""
    rounds = list(schedule.rounds())
    number = draw.choice([place for place, step in enumerate(rounds) if len(step)])
    row = draw.randrange(len(rounds[number]))
    found = []

    def add(name: str, step: dict[str, np.ndarray]) -> None:
        found.append((name, with_rounds(schedule, [*rounds[:number], Round(**step), *rounds[number + 1 :]])))

    def changed(column: str, value: int) -> dict[str, np.ndarray]:
        copy = columns(rounds[number])
        copy[column][row] = value
        return copy

    original = columns(rounds[number])
    taken = {int(original["src"][row]), int(original["dst"][row])}
    others = [rank for rank in range(schedule.ranks) if rank not in taken]
    add("dropped step", {name: np.delete(column, row) for name, column in original.items()})
    add("doubled step", {name: np.append(column, column[row]) for name, column in original.items()})
    add("copy for reduce or the reverse", changed("reduce", not original["reduce"][row]))
    if schedule.chunks > 1:
        shift = draw.randrange(1, schedule.chunks)
        add("wrong chunk", changed("chunk", (original["chunk"][row] + shift) % schedule.chunks))
    if others:
        add("wrong receiver", changed("dst", draw.choice(others)))
        add("wrong sender", changed("src", draw.choice(others)))
    turned = columns(rounds[number])
    turned["src"][row], turned["dst"][row] = original["dst"][row], original["src"][row]
    add("turned round", turned)
    found.append(("dropped round", with_rounds(schedule, rounds[:number] + rounds[number + 1 :])))
    if number + 1 < len(rounds):
        swapped = [*rounds[:number], rounds[number + 1], rounds[number], *rounds[number + 2 :]]
        found.append(("swapped rounds", with_rounds(schedule, swapped)))
    return found


def right_when_carried_out(schedule: Schedule) -> bool:
    """Carry the steps out on random numbers, with rubbish where a rank has nothing, and look at the result."""
    draw = random.Random(11)
    ranks, chunks, op = range(schedule.ranks), range(schedule.chunks), schedule.op
    home, target = schedule.home.tolist(), schedule.target.tolist()
    data = [[draw.getrandbits(60) for _ in chunks] for _ in ranks]
    if op in REDUCING:
        wanted = [sum(data[rank][chunk] for rank in ranks) for chunk in chunks]
    else:
        wanted = [data[home[chunk]][chunk] for chunk in chunks]
    for step in schedule.rounds():
        rows = list(zip(*(column.tolist() for column in columns(step).values()), strict=True))
        arriving = [data[src][chunk] for src, _, chunk, _, _ in rows]
        for (_, dst, chunk, reduce, _), value in zip(rows, arriving, strict=True):
            data[dst][chunk] = data[dst][chunk] + value if reduce else value
    owners = {Op.REDUCE_SCATTER: home, Op.REDUCE: home, Op.ALL_TO_ALL: target}.get(op)
    if owners:
        return all(data[rank][chunk] == wanted[chunk] for chunk, rank in enumerate(owners))
    return data == [wanted for _ in ranks]


def drawn(algorithm: str, op: Op, draw: random.Random) -> Schedule:
    """A small schedule with random options."""
    ranks = draw.choice([4, 6, 8]) if algorithm in {"hierarchical", "two_step"} else draw.randrange(2, 10)
    options: dict[str, Any] = {"channels": draw.randrange(1, 3), "chunks": draw.randrange(1, 3)}
    if algorithm in {"hierarchical", "two_step"}:
        options["groups"] = 2
    if algorithm == "hierarchical":
        options["overlap"] = draw.randrange(3)
    if algorithm == "hybrid":
        options["x"] = 0.5
    return build(algorithm, op, ranks, **options)


@pytest.mark.parametrize(("algorithm", "op"), list(BUILDERS))
def test_every_corruption_of_the_table_is_caught(algorithm, op):
    """A chunk that grows, or that is said to begin, end or be meant elsewhere, whatever the steps do."""
    draw = random.Random(f"table {algorithm} {op}")
    for _ in range(8):
        schedule = drawn(algorithm, op, draw)
        chunk = draw.randrange(schedule.chunks)
        share = schedule.share.copy()
        share[chunk] *= 1.5
        tables: list[dict[str, Any]] = [{"share": share}]
        for name in ("home", "target"):
            column = getattr(schedule, name).copy()
            if column[chunk] >= 0:
                column[chunk] = (column[chunk] + draw.randrange(1, schedule.ranks)) % schedule.ranks
                tables.append({name: column})
        for table in tables:
            with pytest.raises(ScheduleError):
                replace(schedule, **table).check()


# The result is right after it, but no schedule should contain it: a copy received twice at once.
HARMLESS = "doubled step"


@pytest.mark.parametrize(("algorithm", "op"), list(BUILDERS))
def test_every_corruption_is_caught(algorithm, op):
    """A changed schedule passes exactly where carrying it out still gives the operation's result."""
    draw = random.Random(f"{algorithm} {op}")
    wrong: Counter[str] = Counter()
    for _ in range(16):
        schedule = drawn(algorithm, op, draw)
        assert right_when_carried_out(schedule)
        for name, mutant in mutants(schedule, draw):
            if right_when_carried_out(mutant):
                if name != HARMLESS:
                    mutant.check()
                continue
            wrong[name] += 1
            with pytest.raises(ScheduleError):
                mutant.check()
    # 24 entries of at least 60: over 1,400 wrong mutants in all.
    assert sum(wrong.values()) >= 60
    assert {"dropped step", "dropped round", "turned round", "copy for reduce or the reverse"} <= set(wrong)

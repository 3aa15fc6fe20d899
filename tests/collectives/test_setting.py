"""Settings as they are written, and what the fabric adds to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.schedules import BUILDERS, Op
from collectives.setting import RINGS, Setting, Shape, leaf_rings, scheduled, spelled_out
from nettune.errors import InputError

FOUR_LEAVES = Shape(((0, 1), (2, 3), (4, 5), (6, 7)), 2)


def test_a_setting_says_algorithm_options_flags_and_order():
    """Numbers and lists are values, other words are text; a comma inside a list separates nothing."""
    setting = Setting.parse("double_tree:nodes=[[0,1],[2,3]],chunks=4,pattern=split+steer+rounds@random")
    assert setting.algorithm == "double_tree"
    assert setting.options == {"nodes": [[0, 1], [2, 3]], "chunks": 4, "pattern": "split"}
    assert (setting.steer, setting.rounds, setting.order) == (True, True, "random")
    assert setting.unsteered.name == "double_tree:nodes=[[0,1],[2,3]],chunks=4,pattern=split+rounds@random"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bush", "no algorithm 'bush'; known: builtin, rings, ring"),
        ("", "no algorithm ''"),
        ("ring+fast", r"no \+fast"),
        ("ring:chunks", "'chunks' is not option=value"),
        ("ring:=3", "is not option=value"),
        ("builtin+steer", "cannot be steered"),
        ("builtin:chunks=2", "takes no options"),
    ],
)
def test_a_bad_setting_is_one_line(text, message):
    """Said before anything starts, with what would be right."""
    with pytest.raises(InputError, match=message) as caught:
        Setting.parse(text)
    assert "\n" not in str(caught.value)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_leaf_rings_enter_and_leave_at_other_ranks(sizes, data):
    """Each ring visits all ranks leaf by leaf; up to the smallest leaf's ranks, no two meet a leaf at the same one."""
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    groups = tuple(tuple(range(end - size, end)) for size, end in zip(sizes, ends, strict=True))
    rings = leaf_rings(Shape(groups, 2), data.draw(st.integers(1, min(sizes))))
    for ring in rings:
        assert sorted(ring) == list(range(sum(sizes)))
    for group in groups:
        entries = [next(rank for rank in ring if rank in group) for ring in rings]
        assert len(set(entries)) == len(rings)


def test_rings_are_as_many_as_uplinks_and_ranks_allow():
    """Two uplinks and two ranks a leaf: two rings; one rank a leaf, or no fabric: one."""

    def count(shape):
        found = spelled_out(Setting.parse(RINGS), Op.ALL_REDUCE, shape)
        assert found is not None
        return len(found["options"]["orders"])

    assert count(FOUR_LEAVES) == 2
    assert count(Shape(((0,), (1,)), 2)) == 1
    assert count(Shape.by_host(["a", "b", "c"])) == 1
    with pytest.raises(InputError, match="9 rings; use 1 to the number of ranks"):
        spelled_out(Setting.parse("rings:count=9"), Op.ALL_REDUCE, FOUR_LEAVES)


@pytest.mark.parametrize("key", list(BUILDERS), ids=str)
def test_every_algorithm_can_be_named_and_is_proved(key):
    """Without options, on leaves and without a fabric, each is a right schedule of its operation."""
    name, op = key
    text = f"{name}:x=0.5" if name == "hybrid" else name
    for shape in (FOUR_LEAVES, Shape.by_host([f"h{rank}" for rank in range(6)])):
        schedule = scheduled(Setting.parse(text), op, shape)
        assert schedule is not None
        assert schedule.op is op


def test_the_library_has_no_schedule():
    """`builtin` is the library's business."""
    assert scheduled(Setting.parse("builtin"), Op.ALL_REDUCE, FOUR_LEAVES) is None

"""The report's data types and how their values become strings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.stats import Interval
from reports.document import Cell, Column, Table
from reports.formatting import GAP, format_cell, format_interval, format_number, format_table

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**12), 10**12)
CELLS = st.none() | st.text(max_size=30) | NUMBERS | st.builds(Interval, *[st.floats(-1e9, 1e9)] * 3)


@st.composite
def tables(draw):
    """Tables of any cells, with and without an own row."""
    width = draw(st.integers(1, 6))
    columns = [
        Column(
            draw(st.text(max_size=20)),
            draw(st.sampled_from(["", "s", "Mbit/s"])),
            draw(st.sampled_from(["", "max", "min"])),
        )
        for _ in range(width)
    ]
    rows = draw(st.lists(st.tuples(*[CELLS] * width), max_size=6))
    own = draw(st.none() | st.integers(0, len(rows) - 1)) if rows else None
    return Table(draw(st.text(max_size=30)), columns, rows, own)


@pytest.mark.parametrize(
    ("value", "text"),
    [(92.84, "92.8"), (0.04612, "0.0461"), (1234567.8, "1,234,568"), (4194304, "4,194,304"), (0.0, "0"), (-0.0, "0"),
     (math.nan, GAP), (math.inf, GAP), (-3.14159, "-3.14"), (1e-12, "0.000000")],
)  # fmt: skip
def test_numbers_show_three_significant_digits(value, text):
    """A number is written with three significant digits, and what is no number as a gap."""
    assert format_number(value) == text


def test_the_limits_of_an_interval_have_the_decimals_of_its_median():
    """Limits carry no more digits than the median; an interval without limits is its median alone."""
    assert format_interval(Interval(0.0928, 0.09104, 0.09337)) == "0.0928 (0.0910 to 0.0934)"
    assert format_interval(Interval(92.8, math.nan, math.nan)) == "92.8"
    assert format_interval(Interval(math.nan, 1.0, 2.0)) == GAP


def test_the_best_cells_are_marked_and_gaps_never_are():
    """Rows that cannot be told from the best are marked with it; where that is every row, or one number, none is."""
    columns = [Column("a", "s", "min"), Column("b", best="max"), Column("c", best="max"), Column("d")]
    rows: list[tuple[Cell, ...]] = [
        (1.0, Interval(3.0, 2.5, 4.0), 7, 1),
        (1.0, Interval(2.6, 2.4, 2.8), "x", 2),
        (math.nan, None, None, 3),
        (2.0, Interval(1.0, 0.5, 2.0), None, 3),
    ]
    shown = format_table(Table("t", columns, rows))
    assert shown.best == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert not format_table(Table("t", [Column("a", best="max")], [(1.0,), (1.0,)])).best
    assert shown.heads == ["a [s]", "b", "c", "d"]
    assert shown.rows[2] == [GAP, GAP, GAP, "3"]


def test_a_table_refuses_ragged_rows_and_a_foreign_own_row():
    """A mistake in composing a table is found where the table is made."""
    with pytest.raises(ValueError, match="row 1 has 1 cells"):
        Table("t", [Column("a"), Column("b")], [(1, 2), (1,)])
    with pytest.raises(ValueError, match="own row 1"):
        Table("t", [Column("a")], [(1,)], own=1)


@given(tables())
def test_every_table_formats_to_its_own_shape(table):
    """Any table gives as many strings as it has cells, and never the words nan or inf for a number."""
    shown = format_table(table)
    assert [len(row) for row in shown.rows] == [len(table.columns)] * len(table.rows)
    for row, cells in zip(shown.rows, table.rows, strict=True):
        for text, cell in zip(row, cells, strict=True):
            assert isinstance(cell, str) or not {"nan", "inf"} & set(text.split())
    assert all(row < len(table.rows) and column < len(table.columns) for row, column in shown.best)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_three_digits_are_within_half_a_percent(value):
    """What is shown differs from what was measured by at most the rounding of three digits."""
    shown = float(format_cell(value).replace(",", ""))
    assert math.isclose(shown, value, rel_tol=0.006, abs_tol=1e-6)

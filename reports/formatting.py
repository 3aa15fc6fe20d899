"""Numbers and tables as strings, the same for every format: digits, gaps, the best cell of a column."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nettune.stats import Interval
from reports.document import Cell, Column, Table

GAP = "n/a"


@dataclass(frozen=True)
class FormattedTable:
    """A table whose cells are strings.

    Attributes:
        heads: column heads with their units.
        rows: cells.
        numeric: which columns are numbers and stand to the right.
        best: (row, column) of the cells to mark: the best and what cannot be told from it.
    """

    heads: list[str]
    rows: list[list[str]]
    numeric: list[bool]
    best: set[tuple[int, int]]


def format_number(value: float, decimals: int | None = None) -> str:
    """Three significant digits, or so many decimals; `n/a` for NaN and infinity; thousands apart by commas."""
    if not math.isfinite(value):
        return GAP
    if isinstance(value, int) and decimals is None:
        return f"{value:,}"
    text = f"{value:,.{_decimals(value) if decimals is None else decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def format_interval(interval: Interval, decimals: int | None = None) -> str:
    """`92.8 (91.0 to 93.4)`: the limits with as many decimals as the median; only the median where there are none."""
    if not math.isfinite(interval.median):
        return GAP
    if decimals is None:
        decimals = _decimals(interval.median)
    median = format_number(float(interval.median), decimals)
    if not (math.isfinite(interval.lo) and math.isfinite(interval.hi)):
        return median
    return f"{median} ({format_number(float(interval.lo), decimals)} to {format_number(float(interval.hi), decimals)})"


def format_cell(cell: Cell, decimals: int | None = None) -> str:
    """Any cell of a table."""
    if cell is None:
        return GAP
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Interval):
        return format_interval(cell, decimals)
    return format_number(cell, decimals)


def format_table(table: Table) -> FormattedTable:
    """All cells of a table, which columns are numeric, and its best cells."""
    cells = [
        [format_cell(cell, column.decimals) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    columns = [[row[index] for row in table.rows] for index in range(len(table.columns))]
    return FormattedTable(
        heads=[f"{column.head} [{column.unit}]" if column.unit else column.head for column in table.columns],
        rows=cells,
        numeric=[any(_value(cell) is not None for cell in column) for column in columns],
        best={
            (row, index)
            for index, (column, values) in enumerate(zip(table.columns, columns, strict=True))
            for row in _best_rows(column, values)
        },
    )


def _decimals(value: float) -> int:
    """Decimals that show three significant digits, none above 100 and at most six."""
    if value == 0:
        return 0
    return min(6, max(0, 2 - math.floor(math.log10(abs(value)))))


def _value(cell: Cell) -> float | None:
    """The number that a cell stands for; None for text and gaps."""
    if cell is None or isinstance(cell, str | bool):
        return None
    number = float(cell.median if isinstance(cell, Interval) else cell)
    return number if math.isfinite(number) else None


def _best_rows(column: Column, cells: list[Cell]) -> list[int]:
    """Rows of the best value and of all that cannot be told from it; none when that is every row."""
    values = {row: value for row, cell in enumerate(cells) if (value := _value(cell)) is not None}
    if not column.best or len(values) < 2:
        return []
    best = (max if column.best == "max" else min)(values, key=values.__getitem__)
    rows = [row for row in values if _ties(cells[row], cells[best], column)]
    return rows if len(rows) < len(values) else []


def _ties(cell: Cell, best: Cell, column: Column) -> bool:
    """Whether two cells show the same number, or have intervals that overlap."""
    if isinstance(cell, Interval) and isinstance(best, Interval):
        limits = (cell.lo, cell.hi, best.lo, best.hi)
        if all(math.isfinite(limit) for limit in limits):
            return cell.lo <= best.hi and best.lo <= cell.hi
    return format_cell(cell, column.decimals) == format_cell(best, column.decimals)

"""`Report`: what a report says, free of any format; HTML, Markdown and text render the same object.

Nothing here knows a verb or a workflow: whoever has results composes a `Report` of key figures and sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from nettune.checks import Finding, Status
from nettune.stats import Interval

Cell: TypeAlias = str | int | float | Interval | None


@dataclass(frozen=True)
class Verdict:
    """The answer in one sentence, with the status that the exit code follows."""

    status: Status
    sentence: str


@dataclass(frozen=True)
class KeyFigure:
    """One number of the first screen.

    Attributes:
        label: what it is, `All-reduce busbw at 4 MiB`.
        value: the number with its unit, `92.8 Mbit/s`.
        detail: interval, comparison and sample size, `95% interval 91.0 to 93.4; random order 46.1`.
        verdict: whether the number is good; None where nothing judges it.
    """

    label: str
    value: str
    detail: str = ""
    verdict: Status | None = None


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        svg: an `<svg>` element without outside references, as made by `reports.charts`; it is trusted.
        caption: what to see in it.
        alt: the same for those who cannot see it, with the figures.
        wide: takes the whole width; two narrow figures stand side by side.
    """

    svg: str
    caption: str
    alt: str
    wide: bool = True


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        head: what it holds.
        unit: its unit; written in the head.
        best: whether the largest or the smallest number of the column is marked.
        decimals: digits after the point; three significant digits when not given.
    """

    head: str
    unit: str = ""
    best: Literal["", "max", "min"] = ""
    decimals: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows of text, numbers, `Interval`s and gaps (None, NaN).

    Attributes:
        caption: what the table shows.
        columns: heads with units.
        rows: cells, as many in each row as there are columns.
        own: the row to mark as ours; None for no mark.
        brief: whether the summary on the terminal shows it too.

    Raises:
        ValueError: a row of another length, or `own` outside the rows.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    own: int | None = None
    brief: bool = False

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.caption!r}: row {number} has {len(row)} cells, not {len(self.columns)}"
                )
        if self.own is not None and not 0 <= self.own < len(self.rows):
            raise ValueError(
                f"table {self.caption!r}: own row {self.own} is outside its {len(self.rows)} rows"
            )


@dataclass(frozen=True)
class Text:
    """A paragraph, then a list, then lines to be copied verbatim; each may be empty."""

    text: str = ""
    items: Sequence[str] = ()
    code: str = ""


@dataclass(frozen=True)
class Findings:
    """Statements of checks, shown with the worst first."""

    findings: Sequence[Finding]
    caption: str = "Findings"


Part: TypeAlias = Figure | Table | Text | Findings


@dataclass(frozen=True)
class Section:
    """A heading, the one sentence that its parts prove, and the parts."""

    heading: str
    lead: str = ""
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: what was done.
        subtitle: to what: fabric, ranks, sizes.
        summary: the first screen: what it bought.
        sections: the evidence.
        meta: the command that reproduces it, versions, machine; shown last.
        verdict: the answer; None where nothing is judged.
    """

    title: str
    subtitle: str = ""
    summary: Sequence[KeyFigure] = ()
    sections: Sequence[Section] = ()
    meta: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict | None = None

    @property
    def findings(self) -> list[Finding]:
        """All findings of all sections, in their order."""
        parts = [part for section in self.sections for part in section.parts]
        return [finding for part in parts if isinstance(part, Findings) for finding in part.findings]

    @property
    def figures(self) -> list[Figure]:
        """All figures of all sections, in their order."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Figure)]

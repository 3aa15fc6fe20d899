"""Lines that belong to no format: a tool's errors among its output, and rates that its release did not know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nettune.errors import InputError
    from topology.readers.ib_subnet import Subnet
    from topology.readers.source import Source

MAX_LINE = 1000
"""Characters; a description has 64, so that no line of these tools is longer."""


def numbered(source: Source) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, without blanks at both ends, counted from 1.

    Raises:
        InputError: a line of more than `MAX_LINE` characters.
    """
    for number, line in enumerate(source.text.split("\n"), 1):
        text = line.strip()
        if text:
            if len(text) > MAX_LINE:
                raise source.error(f"a line of {len(text)} characters; no InfiniBand tool prints one", number)
            yield number, text


def cut(source: Source, text: str, number: int, tool: str) -> InputError:
    """The error about a line that begins as the tool's lines do and goes on otherwise, to raise."""
    return source.error(f"is not a whole line of {tool}'s: {text[:60]!r}; is the file cut or edited?", number)


@dataclass
class Oddities:
    """What was read over, to be told at the end: nothing is left out in silence."""

    noise: list[tuple[int, str]] = field(default_factory=list)
    rates: Counter[str] = field(default_factory=Counter)
    without_block: int = 0

    def tell(self, subnet: Subnet) -> None:
        """Add the findings."""
        if self.noise:
            number, text = self.noise[0]
            subnet.warn(
                f"lines that are no part of the format: {len(self.noise)}; the first is line {number}: {text[:120]!r}",
                "where a scan timed out, parts of the subnet are missing: scan again",
                lines=[number for number, _ in self.noise[:64]],
            )
        if self.rates:
            words = ", ".join(f"{word!r} ({count})" for word, count in self.rates.most_common(4))
            subnet.warn(
                f"ports with a rate that is not known: {self.rates.total()}, {words}",
                "an older tool prints ??? for rates that came after it: use that of the fabric's own release",
                rates=dict(self.rates.most_common(16)),
            )
        if self.without_block:
            subnet.warn(
                f"nodes that cables name and no line describes: {self.without_block}; the dump is cut or partial",
                "scan the whole subnet, and give the whole file",
                nodes=self.without_block,
            )

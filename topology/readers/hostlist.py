"""Hostlists in files of schedulers: Slurm's grammar only, in Slurm's order, with a limit for the whole file.

ClusterShell, which expands them, knows more: operators, wildcards, and `@groups` for which it runs commands. A file
from elsewhere may not reach these, so the text is checked against Slurm's grammar first.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from nettune.errors import InputError
from nettune.hosts import expand_hosts

if TYPE_CHECKING:
    from topology.readers.source import Source

MAX_MENTIONS = 100_000
"""Names in all lists of a file (a host may hang under several switches): bounds time and memory of a hostile one."""

_PLAIN = re.compile(r"[A-Za-z0-9_.\-,]++")
_RANGE = r"[0-9]++(?:-[0-9]++)?+"
_GRAMMAR = re.compile(rf"(?:[A-Za-z0-9_.\-,]++|\[{_RANGE}(?:,{_RANGE})*+\])++")
_PARTS = re.compile(r"(?:[^,\[]++|\[[^\]]*+\])++")
_BRACKETS = re.compile(r"\[([^\]]*+)\]")


class Hostlists:
    """Expands the hostlists of one input."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left = MAX_MENTIONS

    def expand(self, text: str, line: int | None = None, *, in_order: bool = False) -> list[str]:
        """Names of a hostlist such as `node[001-004,7],login`, without repeats.

        Args:
            text: the hostlist.
            line: where it stands, for errors.
            in_order: whether `n[3,1]` must stay in that order (positions on a ring), else it may be sorted.

        Raises:
            InputError: not Slurm's grammar, a hostlist function, too many names.
        """
        source = self._source
        if "{" in text:
            function = re.split(r"\W", text.partition("{")[0][-40:])[-1]
            raise source.error(
                f"hostlist function {function}{{}} needs a running Slurm; write the names out "
                f"(`scontrol show hostlist` on that cluster)",
                line,
            )
        if _GRAMMAR.fullmatch(text) is None:
            cut = text.count("[") > text.count("]")
            what = "is cut: a bracket is not closed" if cut else "is no hostlist; write it like node[001-004]"
            raise source.error(f"{text[:40]!r} {what}", line)
        if _PLAIN.fullmatch(text):
            names = list(dict.fromkeys(name for name in text.split(",") if name))
        else:
            try:
                names = self._in_order(text) if in_order else expand_hosts(text)
            except InputError as error:
                raise source.error(str(error), line) from None
        self._left -= len(names)
        if self._left < 0:
            raise source.error(f"the lists of this file name more than {MAX_MENTIONS:,} hosts", line)
        return names

    def _in_order(self, text: str) -> list[str]:
        """One range at a time, because ClusterShell sorts inside brackets."""
        names: dict[str, None] = {}
        for part in _PARTS.findall(text):
            outside = _BRACKETS.split(part)[::2]
            ranges = [inside.split(",") for inside in _BRACKETS.findall(part)]
            if prod(map(len, ranges)) > self._left:
                raise InputError(f"the lists of this file name more than {MAX_MENTIONS:,} hosts")
            for choice in product(*ranges):
                folded = "".join(
                    f"{prefix}[{chosen}]" if "-" in chosen else f"{prefix}{chosen}"
                    for prefix, chosen in zip(outside, choice, strict=False)
                )
                folded += outside[-1]
                names.update(dict.fromkeys(expand_hosts(folded) if "[" in folded else [folded]))
                if len(names) > self._left:
                    raise InputError(f"the lists of this file name more than {MAX_MENTIONS:,} hosts")
        return list(names)

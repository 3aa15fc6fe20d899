"""NCCL's environment variables: type, default by version, accepted values, since when, what replaced them.

The tables are those of the folder `tables`. Sources: NVIDIA/nccl 2.30.7 (NCCL_PARAM and ncclGetEnv calls) and its
docs/userguide/source/env.rst for since and accepted values; names of no documentation are those of libnccl 2.30.7
(`strings`). PyTorch 2.14.1 ProcessGroupNCCL for TORCH_NCCL_*. What is only from memory says so in `unverified`.
"""

from __future__ import annotations

import difflib
import enum
import functools
import re
from dataclasses import dataclass

from nettune.errors import InputError

Version = tuple[int, ...]

NEWEST = (2, 30, 7)
"""The version that the tables describe; assumed where none is told."""

NAMES_KNOWN_UP_TO = (2, 32, 3)
"""Names of variables are known up to here, their meaning up to `NEWEST`."""


class Kind(enum.StrEnum):
    """How a value is read."""

    INTEGER = "integer"  # strtoll, base 0
    FLOAT = "float"
    WORD = "word"  # one of `words`, in any case
    LEVEL = "level"  # a kind of path by name, or its old number
    BOOL = "bool"  # PyTorch's: 0, 1, y, n, ...
    TEXT = "text"  # anything: names, paths, lists with rules of their own


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable.

    Attributes:
        default: in the newest version; empty where NCCL chooses or nothing is set.
        low, high: smallest and largest accepted number; None where nothing bounds it.
        words: what a WORD may be.
        since, deprecated: first version (of NCCL, unless it says PyTorch) that has it, that advises against it.
        instead: what to use in place of a deprecated one.
        removed: first version that ignores it.
        history: (first version, default) of each default it has had, oldest first; empty where it never changed.
        unit: of a number: `bytes`, `ms`, `s`.
        unverified: a statement here that is from memory only.
    """

    name: str
    kind: Kind = Kind.TEXT
    default: str = ""
    low: int | None = None
    high: int | None = None
    words: tuple[str, ...] = ()
    since: str = ""
    deprecated: str = ""
    instead: str = ""
    removed: str = ""
    history: tuple[tuple[str, str], ...] = ()
    unit: str = ""
    unverified: str = ""

    def default_in(self, version: Version) -> str:
        """The default of a version."""
        found = self.history[0][1] if self.history else self.default
        for first, value in self.history:
            if version >= parse_version(first):
                found = value
        return found


def parse_version(text: str) -> Version:
    """(2, 27, 5) of `2.27.5`, `v2.27`, `2.27.5-1` or `2.27.5+cuda12.9`.

    Raises:
        InputError: anything else.
    """
    match = re.fullmatch(r"v?(\d{1,3}(?:\.\d{1,3}){1,3})(?:[-+]\S{1,40})?", text.strip(), re.ASCII)
    if match is None:
        raise InputError(f"{text[:40]!r} is no version of NCCL; write it like 2.27 or 2.27.5")
    return tuple(int(part) for part in match[1].split("."))


def version_name(version: Version) -> str:
    """`2.27.5`."""
    return ".".join(map(str, version))


@functools.cache
def variables() -> dict[str, Variable]:
    """All variables by name."""
    from collectives.nccl.tables import TABLES

    return {variable.name: variable for table in TABLES for variable in table}


def value_in_force(name: str, version: Version = NEWEST) -> str:
    """Default of a variable; empty for one that is not known or has none."""
    variable = variables().get(name)
    return "" if variable is None else variable.default_in(version)


# Variables of plugins, tests, wrappers and builds, which NCCL itself never reads: not in the tables, and no mistake.
_FOREIGN = re.compile(
    r"NCCL_(?:TESTS?_|FASTRAK_|GPUDIRECTTCPX_|DYNAMIC_|SHIMNET_|TELEMETRY_|UCX_|SHARP_|PLUGIN_|IBEXT_|CTRAN_|MSCCL|"
    r"COLLTRACE|INSPECTOR_|PROFILE_|TUNER_CONFIG|VERSION$|HOME$|ROOT|PATH$|DIR$|LIB|INCLUDE|INSTALL|SRC|CUDA_|LOCAL_)"
)


def is_foreign(name: str) -> bool:
    """Whether a name belongs to a plugin, a test or a build rather than to NCCL."""
    return _FOREIGN.match(name) is not None


_FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "OFI_NCCL_")
_LONGEST = 256
"""Characters of a name; longer ones are no names."""
_FULL_ENOUGH = 0.85
"""Similarity (difflib's ratio) from which a name is taken for a misspelt one; 0.85 is two letters of thirteen."""


def is_meant_for_nccl(name: str) -> bool:
    """Whether a variable is NCCL's, or was meant to be: `nccl_debug`, `NCLL_IB_HCA`, `export NCCL_DEBUG`."""
    if len(name) > _LONGEST:
        return False
    if name.startswith(_FAMILIES):
        return True
    shouted = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_").removeprefix("EXPORT_")
    if shouted.startswith(_FAMILIES):
        return True
    first, _, rest = shouted.partition("_")
    looks_alike = first.startswith("N") and difflib.SequenceMatcher(None, first, "NCCL").ratio() >= 0.75
    return bool(rest) and looks_alike and f"NCCL_{rest}" in variables()


def nearest(name: str) -> str:
    """The known variable that a name is nearest to; empty where none is near."""
    shouted = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_").removeprefix("EXPORT_")
    known = variables()
    if shouted in known:
        return shouted
    first, _, rest = shouted.partition("_")
    if first.startswith("N") and f"NCCL_{rest}" in known:
        return f"NCCL_{rest}"
    for family in _FAMILIES:  # the family forgotten or added: NCCL_ASYNC_..., TORCH_IB_...
        if f"{family}{shouted}" in known:
            return f"{family}{shouted}"
    found = difflib.get_close_matches(shouted, known, n=1, cutoff=_FULL_ENOUGH)
    return found[0] if found else ""

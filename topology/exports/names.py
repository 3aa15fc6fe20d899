"""Names in formats with fewer characters than ours: cleaned, unique, and the change told; text for comments."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from nettune.hosts import fold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.fabric import Fabric

_FOLDS = re.compile(r"(?!.*[0-9]{19})[A-Za-z0-9_.-]+")  # more digits are no number of a hostlist
_SHORTENED = 8  # hexadecimal digits that keep two shortened names apart


def cleaned(names: Iterable[str], longest: int, others: Iterable[str] = ()) -> dict[str, str]:
    """Name -> what stands for it: letters, digits, `_`, `.` and `-`, a letter or digit at both ends, unique.

    Names that need no change keep themselves; changed ones are none of `others`. For what we may name freely: switches, blocks, label values.
    """
    wanted = list(dict.fromkeys(names))
    found = {name: name for name in wanted if _clean(name, longest) == name}
    taken = {*found, *others}
    for name in wanted:
        if name not in found:
            short = _clean(name, longest)
            if short in taken:
                mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_SHORTENED]
                short = f"{short[: longest - _SHORTENED - 1]}-{mark}"
            taken.add(short)
            found[name] = short
    return found


def _clean(name: str, longest: int) -> str:
    text = re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", re.sub(r"[^A-Za-z0-9_.-]+", "_", name))
    if not text or len(text) > longest:
        mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_SHORTENED]
        text = f"{text[: longest - _SHORTENED - 1].rstrip('_.-')}-{mark}".lstrip("-")
    return text


def shown(text: str) -> str:
    """Free text for a comment or a drawing: what cannot be printed, or would end the line, becomes `?`."""
    return "".join(char if char.isprintable() else "?" for char in text)


def renamed_notes(names: dict[str, str]) -> list[str]:
    """One note for each name that had to change."""
    return [f"{short} stands for {shown(name)}" for name, short in names.items() if short != name]


def counts(fabric: Fabric) -> str:
    """`8 hosts, 6 switches, 24 cables`."""
    parts = [
        (len(fabric.hosts), "host", ""),
        (len(fabric.switches), "switch", "es"),
        (len(fabric.links.port_a), "cable", ""),
    ]
    return ", ".join(
        f"{count:,} {word}{'' if count == 1 else plural or 's'}" for count, word, plural in parts
    )


def folded(names: Iterable[str], longest: int = 0) -> str:
    """A hostlist of names where their characters allow one, else the names; cut to so many characters, 0 for all."""
    listed = list(names)
    text = fold_hosts(listed) if all(map(_FOLDS.fullmatch, listed)) else ", ".join(map(shown, listed))
    if longest and len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return text

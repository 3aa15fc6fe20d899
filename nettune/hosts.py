"""Hostlists: `g[001-004],login1` to names and back (ClusterShell's NodeSet; padding and order rules are its own)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable


MAX_HOSTS = 200_000


def expand_hosts(text: str) -> list[str]:
    """Names of a folded hostlist, in the order written, without repeats.

    Raises:
        InputError: not a hostlist, or one of more than MAX_HOSTS names.
    """
    if re.search(r"\[[^\]]*[0-9]-[0-9]+-", text):
        raise InputError(f"{text[:60]!r} is no hostlist: a range has two ends, like g[001-004]")
    if _most_names(text) > MAX_HOSTS:
        raise InputError(f"{text[:60]!r} names more than {MAX_HOSTS:,} hosts; is a range too long?")
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError

    names: dict[str, None] = {}
    for part in _split_outside_brackets(text):
        try:
            names.update(dict.fromkeys(NodeSet(part)))
        except (NodeSetException, GroupResolverError, ValueError) as error:
            raise InputError(f"{text!r} is no hostlist; write it like g[001-004],login1") from error
    return list(names)


def named_hosts(text: str) -> list[str]:
    """`expand_hosts`, also of the hostlist in a file: `@FILE`.

    Raises:
        InputError: no such hostlist, or a file that cannot be read.
    """
    path = Path(text[1:])
    if not text.startswith("@"):
        return expand_hosts(text)
    if not path.exists():
        try:
            found = expand_hosts(text)
        except InputError:  # no groups are configured here
            found = []
        if not found:
            raise InputError(f"{text!r} is neither a file nor a group of ClusterShell")
        return found
    try:
        return expand_hosts(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        raise InputError("is no text in UTF-8", path) from error
    except InputError as error:
        raise InputError(str(error), path) from error


def fold_hosts(names: Iterable[str]) -> str:
    """The shortest hostlist of a set of names; order is ClusterShell's."""
    from ClusterShell.NodeSet import NodeSet

    return str(NodeSet.fromlist(list(names)))


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character in ", \n\t" and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def _most_names(text: str) -> int:
    """Upper bound of the names in a hostlist, without making them: a range of a billion must not be expanded."""
    total = 0
    for part in _split_outside_brackets(text):
        names = 1
        for ranges in re.findall(r"\[([^\]]*)\]", part):
            bounds = re.findall(r"([0-9]{1,18})-([0-9]{1,18})", ranges)
            names *= ranges.count(",") + 1 + sum(max(int(last) - int(first), 0) for first, last in bounds)
        total += names
    return total

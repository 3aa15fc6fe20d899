"""Hostlists: `g[001-004],login1` to names and back (ClusterShell's NodeSet; padding and order rules are its own)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable


def expand_hosts(text: str) -> list[str]:
    """Names of a folded hostlist, in the order written, without repeats.

    Raises:
        InputError: not a hostlist.
    """
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    names: dict[str, None] = {}
    for part in _split_outside_brackets(text):
        try:
            names.update(dict.fromkeys(NodeSet(part)))
        except NodeSetException as error:
            raise InputError(f"{text!r} is no hostlist; write it like g[001-004],login1") from error
    return list(names)


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

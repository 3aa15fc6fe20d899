"""What Slurm's topology plugins can be told of a fabric: a tree of switches, and blocks.

Both are logical: who is near whom, without ports, speeds, counts of cables and rails. Rules that are met here (Slurm's
src/plugins/topology/{tree,block}): each host under one leaf, one root that reaches all, no switch with both hosts
and switches; block sizes are the smallest block times powers of two, at most 16 of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.exports.names import cleaned, counts, folded, renamed_notes, shown
from topology.leafgroups import leaf_groups
from topology.naming import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.fabric import Fabric
    from topology.leafgroups import LeafGroups

LONGEST_NAME = 63
"""Characters of a switch's or block's name; Slurm refuses more than HOST_NAME_MAX, 64 on Linux."""

_HOST = re.compile(r"(?!(?:DEFAULT|ALL)$)(?!.*[0-9]{19})[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_MOST_LEVELS = 20  # deeper trees are fatal to topology/tree
_MOST_SIZES = 16  # MAX_BLOCK_LEVELS of topology/block
_NOTE = 160  # characters of a list of names in a comment


@dataclass(frozen=True)
class Switch:
    """A logical switch of the tree: `nodes` are hosts' names, else `switches` are names of switches below."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tree:
    """Switches, leaves first and siblings together, and notes for the head of the file."""

    switches: tuple[Switch, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Blocks:
    """(name, hosts) of each block, the planning sizes in hosts, notes for the head of the file."""

    blocks: tuple[tuple[str, tuple[str, ...]], ...]
    sizes: tuple[int, ...]
    notes: tuple[str, ...]


def hostlist(names: Iterable[str]) -> str:
    """A hostlist that every Slurm reads: one pair of brackets, at the end of a name, around its last number.

    Slurm 22.05 refuses anything behind the brackets (`n[1-4]-ib`), which other tools fold to.
    """
    numbers: dict[str, list[str]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        numbers.setdefault(stem, []).append(name[len(stem) :])
    parts = []
    for stem in sorted(numbers, key=natural_key):
        runs = _runs([text for text in numbers[stem] if text])
        if "" in numbers[stem]:
            parts.append(stem)
        if len(runs) == 1 and "-" not in runs[0]:
            parts.append(stem + runs[0])
        elif runs:
            parts.append(f"{stem}[{','.join(runs)}]")
    return ",".join(parts)


def _runs(texts: list[str]) -> list[str]:
    """`1-3`, `7` out of numbers as texts; padded ones are never joined with others of another length."""
    same_length = len({len(text) for text in texts}) == 1

    def family(text: str) -> int:
        return len(text) if same_length or (text.startswith("0") and text != "0") else 0

    runs: list[list[str]] = []
    for text in sorted(set(texts), key=lambda text: (family(text), int(text))):
        if runs and family(runs[-1][-1]) == family(text) and int(runs[-1][-1]) + 1 == int(text):
            runs[-1] = [runs[-1][0], text]
        else:
            runs.append([text])
    return ["-".join(run) for run in runs]


def slurm_tree(fabric: Fabric) -> Tree:
    """The leaf groups and what joins them, as switches.

    Raises:
        InputError: a host's name that Slurm cannot hold, no host on a switch, a tree that is too deep.
    """
    groups = _checked(fabric)
    names = cleaned(
        (cluster.name for level in groups.levels for cluster in level), LONGEST_NAME, fabric.hosts
    )
    hosts = fabric.nodes.name
    switches: list[Switch] = []
    notes = [
        f"{names[group.name]} is {folded((hosts[row] for row in group.switches), _NOTE)}"
        for group in groups.groups
        if len(group.switches) > 1
    ]
    # a cluster with one cluster below adds nothing: the one below stands for it
    standing: list[str] = []
    for height, level in enumerate(groups.levels):
        above = []
        for cluster in level:
            below = [standing[index] for index in cluster.below]
            name = below[0] if len(below) == 1 else names[cluster.name]
            above.append(name)
            if height == 0:
                switches.append(Switch(name, nodes=tuple(hosts[row] for row in cluster.hosts)))
            elif len(below) > 1:
                switches.append(Switch(name, switches=tuple(below)))
        standing = above
    taken = {*fabric.hosts, *names.values()}
    for row in groups.unattached:
        name = _free(f"alone-{hosts[row]}"[-LONGEST_NAME:].lstrip("-."), taken)
        taken.add(name)
        switches.append(Switch(name, nodes=(hosts[row],)))
        standing.append(name)
    if groups.unattached:
        lonely = folded((hosts[row] for row in groups.unattached), _NOTE)
        notes.append(f"no cable to a switch, so each under a switch of its own: {lonely}")
    if len(standing) > 1:
        root = _free("root", taken)
        switches.append(Switch(root, switches=tuple(standing)))
        notes.append(
            f"{root} is there because Slurm wants one: no cable joins the {len(standing)} parts below it"
        )
    if len(groups.levels) + 1 > _MOST_LEVELS:
        raise InputError(
            f"the fabric has {len(groups.levels)} levels of switches; Slurm takes {_MOST_LEVELS}"
        )
    return Tree(tuple(switches), _safe([_head(fabric), *notes, *renamed_notes(names)]))


def slurm_blocks(fabric: Fabric) -> Blocks:
    """Accelerator domains as blocks; hosts in none by leaf group.

    Raises:
        InputError: a host's name that Slurm cannot hold, no host on a switch or in a domain.
    """
    groups = _checked(fabric, domains=True)
    hosts, domain = fabric.nodes.name, fabric.nodes.nvl_domain.tolist()
    order = [row for cluster in groups.groups for row in cluster.hosts] + list(groups.unattached)
    group_of = {row: cluster.name for cluster in groups.groups for row in cluster.hosts}
    members: dict[tuple[int, str], list[str]] = {}
    for row in order:
        if domain[row] >= 0 or row in group_of:
            key = (domain[row], "" if domain[row] >= 0 else group_of[row])
            members.setdefault(key, []).append(hosts[row])
    taken = set(hosts)
    wanted = {key: key[1] or _free(f"nvl{key[0]}", taken) for key in members}
    names = cleaned(wanted.values(), LONGEST_NAME, fabric.hosts)
    blocks = tuple((names[wanted[key]], tuple(found)) for key, found in members.items())
    least, most = min(len(found) for _, found in blocks), max(len(found) for _, found in blocks)
    levels = min(len(blocks).bit_length(), _MOST_SIZES)
    with_domain = sum(number >= 0 for number, _ in members)
    notes = [_head(fabric)]
    if with_domain:
        notes.append(f"{with_domain} blocks are accelerator domains")
    if len(blocks) > with_domain:
        notes.append(f"{len(blocks) - with_domain} blocks are leaf groups: hosts in no accelerator domain")
    if least != most:
        notes.append(f"blocks have {least} to {most} hosts; the base size is that of the smallest")
    if left_out := [row for row in groups.unattached if domain[row] < 0]:
        lonely = folded((hosts[row] for row in left_out), _NOTE)
        notes.append(f"left out, neither in a domain nor on a switch: {lonely}")
    sizes = tuple(least << level for level in range(levels))
    return Blocks(blocks, sizes, _safe([*notes, *renamed_notes(names)]))


def _checked(fabric: Fabric, *, domains: bool = False) -> LeafGroups:
    for host in fabric.hosts:
        if not _HOST.fullmatch(host):
            raise InputError(
                f"Slurm cannot name host {host!r}: letters, digits, '_', '-' and '.' only, at most 64"
            )
    groups = leaf_groups(fabric)
    if not groups.levels and not (domains and any(fabric.nodes.nvl_domain >= 0)):
        raise InputError("no host of the fabric is cabled to a switch: there is no topology to tell Slurm")
    return groups


def _head(fabric: Fabric) -> str:
    return f"{counts(fabric)}; written by nettune. Logical: no ports, speeds, rails or numbers of cables."


def _safe(notes: list[str]) -> tuple[str, ...]:
    """Notes that stay one comment line each; a backslash at the end of a line would join the next one to it."""
    return tuple(shown(note).replace("\\", "?") for note in notes)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "x"
    return name

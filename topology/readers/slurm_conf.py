"""Slurm's topology.conf: tree, block or ring (grammar: topology.conf(5) and `src/common/parse_config.c`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers.registry import Reader
from topology.readers.slurm_topology import Group, Slurm, Switch
from topology.readers.yamltext import refuse_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.readers.said import Said
    from topology.readers.source import Source

# Keys that only `scontrol show topology` prints after the name tell its lines from those of the file.
_RECOGNISED = re.compile(
    r"^[ \t]*(?:Switch|Block|Ring)Name[ \t]*=(?!\S+ +(?:Level|BlockIndex)=|\S+ +Nodes=\S* +(?:Block|Ring)Size=)",
    re.IGNORECASE | re.MULTILINE,
)
_COMMENT = re.compile(r"(?<!\\)#.*")
_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*=\s*(?:\"([^\"]*)\"|(\S+))(?=\s|$)\s*")
_INCLUDE = re.compile(r"\s*include\s", re.IGNORECASE)

_KEYS = {
    "switchname": {"switches", "nodes", "linkspeed"},
    "blockname": {"nodes"},
    "ringname": {"nodes"},
    "blocksizes": set(),
}
_PLUGIN = {"switchname": "tree", "blockname": "block", "blocksizes": "block", "ringname": "ring"}
_MAX_UINT32 = 2**32 - 1


def _recognises(source: Source) -> bool:
    return _RECOGNISED.search(source.head) is not None


def _read(source: Source) -> Said:
    refuse_template(source)
    switches: list[Switch] = []
    groups: list[Group] = []
    sizes: tuple[list[int], int | None] = ([], None)
    first: tuple[str, int] | None = None
    for number, pairs in records(source):
        key, name = next(iter(pairs.items()))
        if key not in _KEYS:
            raise source.error(f"{key[:40]!r} is no key of topology.conf that can begin a line", number)
        unknown = set(pairs) - {key} - _KEYS[key]
        if unknown:
            raise source.error(f"{min(unknown)[:40]!r} is no key of a line that begins with {key}", number)
        first = first or (key, number)
        if _PLUGIN[key] != _PLUGIN[first[0]]:
            raise source.error(
                f"{key} beside {first[0]} on line {first[1]}: a topology.conf is for one plugin, tree, block or ring",
                number,
            )
        if key == "switchname":
            _check_link_speed(source, pairs.get("linkspeed", "1"), number)
            switches.append(Switch(name, pairs.get("switches", ""), pairs.get("nodes", ""), number))
        elif key == "blocksizes":
            if sizes[1] is not None:
                raise source.error(f"BlockSizes is given twice, first on line {sizes[1]}", number)
            sizes = (_sizes(source, name, number), number)
        else:
            groups.append(Group(name, pairs.get("nodes", ""), number))
    if not switches and not groups:
        raise source.error("has no SwitchName, BlockName or RingName line", 1)
    slurm = Slurm(source, READER.name)
    if switches:
        slurm.add_tree(switches)
    elif first is not None and _PLUGIN[first[0]] == "ring":
        slurm.add_rings(groups)
    else:
        slurm.check_sizes(*sizes)
        slurm.add_blocks(groups, sizes[0])
    return slurm.tree.finish()


def records(source: Source) -> Iterator[tuple[int, dict[str, str]]]:
    """Lines of `Key=Value` pairs, keys in lower case, with the number of the first line of each.

    `#` begins a comment, a backslash at the end of a line continues it.

    Raises:
        InputError: something that is no pair, a key twice on a line, an include.
    """
    begun = 1
    parts: list[str] = []
    for number, raw in enumerate([*source.text.split("\n"), ""], 1):
        line = _COMMENT.sub("", raw)
        if not parts:
            begun = number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            whole = "".join(parts)
            parts = []
            if whole.strip():
                yield begun, _pairs(source, whole, begun)


def _pairs(source: Source, line: str, number: int) -> dict[str, str]:
    if _INCLUDE.match(line):
        raise source.error("an include is not followed; give one file that has all lines", number)
    pairs: dict[str, str] = {}
    position = 0
    while position < len(line):
        match = _PAIR.match(line, position)
        if match is None:
            raise source.error(f"{line[position : position + 40].strip()!r} is no Key=Value", number)
        key = match[1].lower()
        if key in pairs:
            raise source.error(f"{key[:40]!r} is given twice", number)
        pairs[key] = match[3] if match[2] is None else match[2]
        position = match.end()
    return pairs


def _check_link_speed(source: Source, text: str, line: int) -> None:
    """Slurm wants a number and uses it for nothing; its unit is arbitrary, so it is no speed of a port."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > _MAX_UINT32:
        raise source.error(f"LinkSpeed={text[:40]} is no 32-bit number", line)


def _sizes(source: Source, text: str, line: int) -> list[int]:
    sizes = text.split(",")
    if not all(re.fullmatch(r"[0-9]{1,9}", size) for size in sizes):
        raise source.error(f"BlockSizes={text[:40]} is no list of numbers", line)
    return [int(size) for size in sizes]


READER = Reader(
    name="slurm-conf",
    what="Slurm's topology.conf: tree, block or ring",
    recognises=_recognises,
    read=_read,
)

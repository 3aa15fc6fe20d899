"""Slurm's topology.yaml: several topologies, of which the cluster's default is read (grammar: topology.yaml(5))."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.readers.registry import Reader
from topology.readers.slurm_topology import Group, Point, Region, Slurm, Switch, Torus
from topology.readers.yamltext import Mapping, is_null, load_all

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_RECOGNISED = re.compile(r"^[ \t]*-[ \t]*topology[ \t]*:", re.MULTILINE)
_TYPES = ("tree", "block", "ring", "torus3d", "flat")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _recognises(source: Source) -> bool:
    return _RECOGNISED.search(source.head) is not None


def _read(source: Source) -> Said:
    documents = load_all(source)
    if len(documents) != 1 or not isinstance(documents[0], list):
        raise source.error("should be one list of topologies", 1)
    file = _Yaml(source)
    topologies = [file.topology(entry) for entry in documents[0]]
    if not topologies:
        raise source.error("has no topology", 1)
    names: set[str] = set()
    for entry, _, _ in topologies:
        if entry["topology"] in names:
            raise source.error(f"topology {entry['topology'][:60]!r} is defined twice", entry.line)
        names.add(entry["topology"])
    defaults = [index for index, (_, _, default) in enumerate(topologies) if default]
    chosen = defaults[0] if defaults else 0
    entry, kind, _ = topologies[chosen]
    slurm = Slurm(source, READER.name)
    file.fill(slurm, kind, entry)
    others = [f"{other['topology']} ({its})" for i, (other, its, _) in enumerate(topologies) if i != chosen]
    if others:
        why = "the first with cluster_default" if defaults else "the first; none has cluster_default"
        slurm.tree.finding(
            f"topology {entry['topology']} ({kind}) is read, {why}; not read: {', '.join(others[:20])}",
            others,
            fix="to read another one, set its cluster_default",
        )
    return slurm.tree.finish()


class _Yaml:
    """Values out of the file, each checked for its type."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def topology(self, entry: Any) -> tuple[Mapping, str, bool]:
        """An entry of the list with its type and whether it is the default."""
        if not isinstance(entry, Mapping):
            raise self._source.error("an entry of the list is no mapping with `topology: NAME` first", 1)
        if next(iter(entry), None) != "topology" or not isinstance(entry["topology"], str):
            raise self._source.error("a topology must begin with `topology: NAME`", entry.line)
        types = [kind for kind in _TYPES if kind in entry]
        unknown = sorted(set(entry) - {"topology", "cluster_default", *_TYPES})
        if len(types) != 1 or unknown:
            raise self._source.error(
                f"topology {entry['topology'][:60]!r} must have one of {', '.join(_TYPES)}, "
                f"but has {', '.join(types + unknown)[:80] or 'none'}",
                entry.line,
            )
        default = self._text(entry, "cluster_default").lower() or "false"
        if default not in _BOOLEANS:
            raise self._source.error(
                f"cluster_default {default[:20]!r} is neither true nor false", entry.line
            )
        return entry, types[0], _BOOLEANS[default]

    def fill(self, slurm: Slurm, kind: str, entry: Mapping) -> None:
        """Add what a topology says."""
        if kind == "flat":
            slurm.tree.finding(
                f"topology {entry['topology']} is flat: it names no hosts and no switches",
                fix="give the network itself, with one of the other readers",
            )
            return
        body = self._mapping(entry[kind], entry.line, kind)
        if kind == "tree":
            switches = self._entries(body, "switches")
            slurm.add_tree(
                [
                    Switch(
                        self._text(item, "switch"),
                        self._text(item, "children"),
                        self._text(item, "nodes"),
                        item.line,
                    )
                    for item in switches
                ]
            )
        elif kind == "block":
            sizes = [self._integer(size, body.line) for size in self._list(body, "block_sizes")]
            slurm.check_sizes(sizes, body.line)
            slurm.add_blocks(self._groups(body, "blocks", "block"), sizes)
        elif kind == "ring":
            slurm.add_rings(self._groups(body, "rings", "ring"))
        else:
            slurm.add_tori([self._torus(item) for item in self._entries(body, "toruses")])

    def _torus(self, item: Mapping) -> Torus:
        name, dims = self._text(item, "name"), self._point(item, "dims")
        if "regions" in item and "nodes" in item:
            raise self._source.error(f"torus {name[:60]!r} has both nodes and regions", item.line)
        regions = [
            Region(
                self._point(part, "anchor", (0, 0, 0)),
                self._point(part, "dims"),
                self._text(part, "nodes"),
                part.line,
            )
            for part in self._entries(item, "regions")
        ]
        if "nodes" in item:
            regions = [Region((0, 0, 0), dims, self._text(item, "nodes"), item.line)]
        return Torus(name, dims, tuple(regions), item.line)

    def _point(self, item: Mapping, key: str, default: Point | None = None) -> Point:
        if key not in item and default is not None:
            return default
        axes = self._mapping(item.get(key), item.line, key)
        x, y, z = (self._integer(axes.get(axis, "0"), axes.line) for axis in "xyz")
        return x, y, z

    def _groups(self, body: Mapping, key: str, name: str) -> list[Group]:
        return [
            Group(self._text(item, name), self._text(item, "nodes"), item.line)
            for item in self._entries(body, key)
        ]

    def _entries(self, body: Mapping, key: str) -> list[Mapping]:
        return [self._mapping(item, body.line, f"an entry of {key}") for item in self._list(body, key)]

    def _list(self, body: Mapping, key: str) -> list[Any]:
        value = body.get(key)
        if is_null(value):
            return []
        if not isinstance(value, list):
            raise self._source.error(f"{key} must be a list", body.line)
        return value

    def _mapping(self, value: Any, line: int, what: str) -> Mapping:
        if not isinstance(value, Mapping):
            raise self._source.error(f"{what} must be a mapping", line)
        return value

    def _text(self, item: Mapping, key: str) -> str:
        value = item.get(key)
        if is_null(value):
            return ""
        if not isinstance(value, str):
            raise self._source.error(f"{key} must be one text, a name or a hostlist", item.line)
        return value

    def _integer(self, value: Any, line: int) -> int:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,9}", value):
            shown = repr(value[:20]) if isinstance(value, str) else "a list or mapping"
            raise self._source.error(f"{shown} is no number from 0", line)
        return int(value)


READER = Reader(
    name="slurm-yaml",
    what="Slurm's topology.yaml; the cluster's default topology of it",
    recognises=_recognises,
    read=_read,
)

"""topograph's model of a cluster: `switches`, with `blocks`, or with `nodes` and `capacity_blocks` (docs/modeling.md)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.readers import labels
from topology.readers.fields import Fields, Path
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.hostlist import Hostlists
from topology.readers.registry import Reader
from topology.readers.yamltext import Mapping, load_all

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_SECTIONS = ("switches", "blocks", "nodes", "capacity_blocks")
_RECOGNISED = re.compile(r"^(?:switches|capacity_blocks)[ \t]*:", re.MULTILINE)
_OTHER = re.compile(r"^(?:topology|apiVersion)[ \t]*:", re.MULTILINE)


def _recognises(source: Source) -> bool:
    return _RECOGNISED.search(source.head) is not None and _OTHER.search(source.head) is None


def _read(source: Source) -> Said:
    documents = load_all(source)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise source.error(f"should be one mapping with {', '.join(_SECTIONS)}", 1)
    model = documents[0]
    unknown = sorted(set(model) - set(_SECTIONS))
    if unknown:
        raise source.error(f"{unknown[0][:40]!r} is no section of a topograph model", model.line)
    reader = _Model(source, documents)
    reader.switches(model.get("switches"))
    reader.blocks(model.get("blocks"))
    reader.capacity_blocks(model.get("capacity_blocks"))
    reader.nodes(model.get("nodes"))
    return reader.tree.finish()


class _Model:
    """Adds one section after the other. A switch has one parent and a node one switch, or the model is refused."""

    def __init__(self, source: Source, documents: list[Any]) -> None:
        self._fields = Fields(source, documents)
        self._lists = Hostlists(source)
        self._parent: dict[str, str] = {}
        self._switch_of_block: dict[str, str] = {}
        self.tree = Hierarchy(source, READER.name)

    def switches(self, section: Any) -> None:
        """`name: {switches: [..], nodes: [..]}`; the oldest models have a list with `name`, and capacity blocks."""
        for path, name, item in self._named(section, "switches"):
            here = self.tree.switch(name, _line(item))
            for child in self._fields.texts(item, "switches", path):
                self._hang(self.tree.switch(child, _line(item)), here, path, item)
            for host in self._names(item, path):
                self._hang(self.tree.host(host, _line(item)), here, path, item)
            for block in self._fields.texts(item, "capacity_blocks", path):
                self._switch_of_block[block] = here

    def blocks(self, section: Any) -> None:
        """`{switch, nodes, annotations or labels}`: the nodes of one switch, with their accelerator domain."""
        for path, item in self._fields.entries(section, (0, "blocks")):
            switch = known(self._fields.text(item, "switch", path))
            domain = self._domain(item, path)
            for name in self._names(item, path):
                host = self.tree.host(name, _line(item), nvl_domain=domain)
                if switch:
                    self._hang(host, self.tree.switch(switch, _line(item)), path, item)

    def capacity_blocks(self, section: Any) -> None:
        """`name: {nodes, attributes: {nvlink}}`, the oldest a list with `name` and `nvlink`."""
        for path, name, item in self._named(section, "capacity_blocks"):
            domain = self._domain(item, path)
            for node in self._names(item, path):
                host = self.tree.host(node, _line(item), nvl_domain=domain)
                if name in self._switch_of_block:
                    self._hang(host, self._switch_of_block[name], path, item)

    def nodes(self, section: Any) -> None:
        """`name: {attributes: {nvlink}}`."""
        for path, name, item in self._named(section, "nodes"):
            self.tree.host(name, _line(item), nvl_domain=self._domain(item, path))

    def _named(self, section: Any, what: str) -> list[tuple[Path, str, dict[str, Any]]]:
        path: Path = (0, what)
        if isinstance(section, list):
            found = [
                (at, self._fields.text(item, "name", at), item)
                for at, item in self._fields.entries(section, path)
            ]
        else:
            entries = self._fields.mapping(section, path).items()
            found = [
                ((*path, name), name, self._fields.mapping(item, (*path, name))) for name, item in entries
            ]
        for at, name, item in found:
            if not name:
                raise self._fields.error(f"an entry of {what} has no name", at, item)
        return found

    def _names(self, item: dict[str, Any], path: Path) -> list[str]:
        ranges = self._fields.texts(item, "nodes", path)
        return [name for text in ranges for name in self._lists.expand(text, _line(item))]

    def _domain(self, item: dict[str, Any], path: Path) -> str:
        for key in ("annotations", "labels"):
            domain = labels.domain(_texts(self._fields.mapping(item.get(key), (*path, key))))
            if domain:
                return domain
        attributes = self._fields.mapping(item.get("attributes"), (*path, "attributes"))
        return known(attributes.get("nvlink")) or known(item.get("nvlink"))

    def _hang(self, child: str, parent: str, path: Path, item: Any) -> None:
        before = self._parent.setdefault(child, parent)
        if before != parent:
            raise self._fields.error(
                f"{child[:60]!r} is under {before[:60]!r} and under {parent[:60]!r}", path, item
            )
        self.tree.under(child, parent)


def _texts(found: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _line(item: Any) -> int | None:
    return item.line if isinstance(item, Mapping) else None


READER = Reader(
    name="topograph-model",
    what="a model of NVIDIA topograph (YAML)",
    recognises=_recognises,
    read=_read,
)

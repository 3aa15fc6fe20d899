"""`Hierarchy`: fills a `Said` from sources that tell only who is near whom: schedulers and clouds.

Such a tree is logical: a switch of it may stand for a rack, a block or a whole plane. Its cables are one a child, their
ports are named after the node at the other end, and nothing is said of speeds.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.wording import some
from topology.columns import NodeKind
from topology.naming import element_name
from topology.readers.said import Said

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from topology.readers.source import Source

_MISSING = frozenset({"", "-", "null", "none", "unknown", "n/a", "(null)", "no-imds-data", "not-available"})
MAX_NODES = 100_000
"""Of one source: keeps a hostile file below 10 s and 1 GB; the largest clusters have 40,000 hosts."""

MAX_GPUS = 32
"""Of one host; 16 is the most that is sold."""

_SHOWN, _LISTED = 5, 100
_ROOTS_TRIED = 16


def known(value: object) -> str:
    """An identifier as text; empty for the many spellings of not known (null, "null", "None", "unknown")."""
    text = value.strip() if isinstance(value, str) else ""
    return "" if text.lower() in _MISSING else text


class Hierarchy:
    """Collects parents and children, then works out tiers.

    Attributes:
        said: what is filled; `finish` returns it.
    """

    def __init__(self, source: Source, format_name: str) -> None:
        self._source = source
        self.said = Said(source.name, format_name, logical=True)
        self._names: dict[str, str] = {}
        self._parents: dict[str, dict[str, None]] = {}
        self._children: dict[str, dict[str, None]] = {}

    def host(self, name: str, line: int | None = None, **known_facts: Any) -> str:
        """Add a host, with what else is known (attributes of `NodeSaid`); returns its name as an element."""
        return self._node(name, NodeKind.HOST, line, known_facts)

    def switch(self, name: str, line: int | None = None) -> str:
        """Add a switch; returns its name as an element."""
        return self._node(name, NodeKind.SWITCH, line, {})

    def under(self, child: str, parent: str) -> None:
        """Hang a node under a switch; both are names that `host` or `switch` returned."""
        self._parents.setdefault(child, {})[parent] = None
        self._children.setdefault(parent, {})[child] = None
        self.said.link((child, parent), (parent, child))

    def chain(self, host: str, layers: Sequence[str], line: int | None = None, **known_facts: Any) -> None:
        """Add a host and the switches above it, the closest first; a layer that is not known is left out."""
        node = self.host(host, line, **known_facts)
        for layer in dict.fromkeys(filter(None, map(known, layers))):
            above = self.switch(layer, line)
            if above not in self._parents.get(node, ()):
                self.under(node, above)
            node = above

    def gpus(self, host: str, count: int, line: int | None = None) -> None:
        """Add the accelerators 0 to count - 1 of a host.

        Raises:
            InputError: more than a host can have.
        """
        if count > MAX_GPUS:
            raise self._source.error(
                f"host {host[:60]!r} has {count} GPUs, at most {MAX_GPUS} are believed", line
            )
        for index in range(count):
            self.said.gpu(host, index)

    def leave_out(self, host: str, why: str) -> None:
        """Note a host that is not added."""
        self.said.dropped[str(ElementId.host(self._element_name(host, None)))] = why

    def finish(self, *, places: bool = False) -> Said:
        """Set tiers (1 above hosts, else one more than the highest child) and say what is odd about the tree.

        Args:
            places: whether the source tells places of hosts at all; where it is a tree it does.

        Raises:
            InputError: a switch that is above itself.
        """
        self._set_tiers()
        for kind, noun in ((NodeKind.HOST, "hosts"), (NodeKind.SWITCH, "switches")):
            many = [
                name
                for name, parents in self._parents.items()
                if len(parents) > 1 and self.said.nodes[name].kind is kind
            ]
            if many:
                self.finding(
                    f"{len(many)} {noun} hang under several switches: {shorten(many)}",
                    many,
                    fix="expected where each rail has leaves of its own; else give each one place in the tree",
                )
        if self._children or places:
            hosts = (name for name, node in self.said.nodes.items() if node.kind is NodeKind.HOST)
            self._without_place([name for name in hosts if name not in self._parents])
        return self.said

    def roots(self) -> list[str]:
        """Switches that are under no other."""
        return [
            name
            for name, node in self.said.nodes.items()
            if node.kind is NodeKind.SWITCH and name not in self._parents
        ]

    def has_common_root(self) -> bool:
        """Whether some switch reaches every host through its children."""
        hosts = {name for name, node in self.said.nodes.items() if node.kind is NodeKind.HOST}
        for root in self.roots()[:_ROOTS_TRIED]:
            seen, queue = {root}, deque([root])
            while queue:
                for child in self._children.get(queue.popleft(), ()):
                    if child not in seen:
                        seen.add(child)
                        queue.append(child)
            if hosts <= seen:
                return True
        return False

    def finding(self, what: str, names: Iterable[str] = (), *, fix: str) -> None:
        """Add a warning about the tree."""
        self.said.findings.append(
            Finding(
                check="scheduler-tree",
                status=Status.WARN,
                where=ElementId.fabric(),
                what=what,
                evidence={"names": list(names)[:_LISTED]},
                fix=fix,
            )
        )

    def _without_place(self, names: list[str]) -> None:
        if names:
            self.said.findings.append(
                Finding(
                    check="scheduler-tree",
                    status=Status.UNKNOWN,
                    where=ElementId.fabric(),
                    what=f"of {len(names)} hosts it is not told where in the network they are: {shorten(names)}",
                    evidence={"names": names[:_LISTED]},
                    required=False,
                    fix="they may be stopped, or of a type that has no topology",
                )
            )

    def _node(self, name: str, kind: NodeKind, line: int | None, known_facts: dict[str, Any]) -> str:
        element = self._names.get(name)
        if element is None:
            element = self._names[name] = self._element_name(name, line)
        before = self.said.nodes.get(element)
        if before is not None and before.kind is not None and before.kind is not kind:
            raise self._source.error(f"{element[:60]!r} is the name of a host and of a switch", line)
        if before is None and len(self.said.nodes) >= MAX_NODES:
            raise self._source.error(f"describes more than {MAX_NODES:,} hosts and switches", line)
        if before is None or known_facts:
            self.said.node(element, kind, **known_facts)
        return element

    def _element_name(self, name: str, line: int | None) -> str:
        try:
            return element_name(name)
        except InputError as error:
            raise self._source.error(str(error), line) from None

    def _set_tiers(self) -> None:
        nodes = self.said.nodes
        waiting = {name: len(self._children.get(name, ())) for name in nodes}
        height = dict.fromkeys(nodes, 0)
        queue = deque(name for name, count in waiting.items() if not count)
        done = 0
        while queue:
            name = queue.popleft()
            done += 1
            node = nodes[name]
            if node.kind is NodeKind.SWITCH:
                height[name] = max(height[name], 1)
            node.tier = height[name]
            for parent in self._parents.get(name, ()):
                height[parent] = max(height[parent], height[name] + 1)
                waiting[parent] -= 1
                if not waiting[parent]:
                    queue.append(parent)
        if done < len(nodes):
            left = [name for name, count in waiting.items() if count]
            raise self._source.error(f"the switches are no tree: some are above themselves ({shorten(left)})")


def shorten(names: Sequence[str]) -> str:
    """The first names of many."""
    return some((name[:60] for name in names), _SHOWN)

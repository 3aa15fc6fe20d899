"""NVIDIA NetQ: the topology graph of Spectrum-X (`/api/netq/telemetry/v1/object/topologygraph`), with real ports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import NodeKind
from topology.readers.fields import Fields, Path
from topology.readers.jsontext import load, looks_like
from topology.readers.registry import Reader
from topology.readers.said import End, Said

if TYPE_CHECKING:
    from topology.readers.source import Source

_KEYS = re.compile(r'"compounded_(?:links|nodes)"\s*:')
MAX_CABLES = 200_000


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS)


def _read(source: Source) -> Said:
    """Devices of `compounded_nodes`, cables of `compounded_links`.

    Devices have ids in the links and names beside. Tier -1 is what NetQ found by LLDP only: hosts; tier 1 are leaves. A
    link between two devices bundles their parallel cables; the id of each is `NODE:PORT-*-NODE:PORT`.
    """
    graph = _Graph(source)
    value = load(source)
    views = value if isinstance(value, list) else [value]
    for path, view in graph.fields.entries(views, (0,)):
        at = path if isinstance(value, list) else (0,)
        for where, group in graph.fields.entries(view.get("nodes"), (*at, "nodes")):
            for place, device in graph.fields.entries(
                group.get("compounded_nodes"), (*where, "compounded_nodes")
            ):
                graph.device(device, place)
    for path, view in graph.fields.entries(views, (0,)):
        at = path if isinstance(value, list) else (0,)
        for where, bundle in graph.fields.entries(view.get("links"), (*at, "links")):
            graph.bundle(bundle, where)
    return graph.said


class _Graph:
    """Fills a `Said` from devices, then cables."""

    def __init__(self, source: Source) -> None:
        self.fields = Fields(source)
        self.said = Said(source.name, READER.name)
        self._names: dict[str, str] = {}

    def device(self, device: dict[str, Any], path: Path) -> None:
        """Add a device."""
        identifier = self.fields.text(device, "id", path)
        if not identifier:
            raise self.fields.error("a device has no id", path)
        tier = device.get("tier")
        if isinstance(tier, bool) or not isinstance(tier, int) or not -1 <= tier <= 100:
            raise self.fields.error(f"device {identifier[:60]!r} has no tier from -1 to 100", path)
        name = self.fields.element(self.fields.text(device, "name", path) or identifier, path)
        self._names[identifier] = name
        switch = tier > 0 or self.fields.text(device, "device_type", path) == "switch"
        self.said.node(name, NodeKind.SWITCH if switch else NodeKind.HOST, tier=tier if switch else 0)

    def bundle(self, bundle: dict[str, Any], path: Path) -> None:
        """Add the parallel cables between two devices."""
        cables = self.fields.entries(bundle.get("compounded_links"), (*path, "compounded_links"))
        if not cables:
            name = self.fields.text(bundle, "id", path)
            self.said.findings.append(
                Finding(
                    check="netq-link",
                    status=Status.WARN,
                    where=ElementId.fabric(),
                    what=f"link {name[:80]!r} has no cables with ports and is left out",
                    fix="ask NetQ for the graph with its compounded links",
                )
            )
        for at, cable in cables:
            ends = [
                self._end(
                    self.fields.text(end, "node", where), self.fields.text(end, "interface", where), where
                )
                for where, end in self.fields.entries(cable.get("interfaces"), (*at, "interfaces"))
            ]
            if not ends:
                texts = self.fields.text(cable, "id", at).split("-*-")
                ends = [self._end(*text.partition(":")[::2], at) for text in texts]
            if len(ends) != 2:
                raise self.fields.error("a cable does not have two ends", at)
            if len(self.said.links) >= MAX_CABLES:
                raise self.fields.error(f"has more than {MAX_CABLES:,} cables", at)
            self.said.link(ends[0], ends[1])

    def _end(self, identifier: str, port: str, path: Path) -> End:
        if identifier not in self._names:
            raise self.fields.error(
                f"a cable goes to {identifier[:60]!r}, which is no device of this graph", path
            )
        return self._names[identifier], self.fields.port(port, path)


READER = Reader(
    name="netq",
    what="NVIDIA NetQ's topology graph (JSON)",
    recognises=_recognises,
    read=_read,
)

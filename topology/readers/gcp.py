"""Google Cloud: instances with their physical host (`gcloud compute instances list --format=json`, or the API)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.readers.fields import Fields, Path
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.jsontext import load_all, looks_like
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_KEYS = re.compile(
    r'"physicalHost(?:Topology)?"|"physical_host"|"compute#(?:instance|instanceList|instanceAggregatedList)"'
)
_NVL72 = re.compile(r"a4x")
"""Machine types whose sub-block is one NVLink domain; on others it is a group of racks."""


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS)


def _read(source: Source) -> Said:
    """Instances by name, under sub-block, block and cluster.

    `resourceStatus.physicalHostTopology` has these by name; the older `physicalHost` is `/cluster/rack/host`. What runs
    nowhere, or on a type without topology, has neither.
    """
    fields, tree = Fields(source), Hierarchy(source, READER.name)
    more = False
    for number, page in enumerate(load_all(source)):
        if isinstance(page, dict):
            more = known(page.get("nextPageToken")) != ""
        for path, instance in _instances(fields, page, (number,)):
            name = known(fields.text(instance, "name", path))
            if not name:
                raise fields.error("an instance has no name", path)
            layers = _layers(fields, instance, path)
            machine = fields.text(instance, "machineType", path).rsplit("/", 1)[-1]
            domain = layers[0] if layers and _NVL72.match(machine) else ""
            tree.chain(name, layers, nvl_domain=known(domain))
    if more:
        tree.finding(
            "the last page has a nextPageToken: instances are missing",
            fix="ask for the next pages too and append them to the file",
        )
    return tree.finish(places=True)


def _instances(fields: Fields, page: Any, path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """A list of instances, the `items` of a page, or `items.<zone>.instances` of an aggregated one."""
    if isinstance(page, list):
        return fields.entries(page, path)
    answer = fields.mapping(page, path)
    if "items" not in answer and "name" in answer:
        return [(path, answer)]
    items = answer.get("items")
    if not isinstance(items, dict):
        return fields.entries(items, (*path, "items"))
    found = []
    for zone, scope in items.items():
        at = (*path, "items", zone)
        found += fields.entries(fields.mapping(scope, at).get("instances"), (*at, "instances"))
    return found


def _layers(fields: Fields, instance: dict[str, Any], path: Path) -> list[str]:
    """The closest first; the physical host itself is the instance's own and left out."""
    at = (*path, "resourceStatus")
    status = fields.mapping(instance.get("resourceStatus"), at)
    place = fields.mapping(status.get("physicalHostTopology"), (*at, "physicalHostTopology"))
    if place:
        return [
            fields.text(place, level, (*at, "physicalHostTopology"))
            for level in ("subblock", "block", "cluster")
        ]
    host = fields.text(status, "physicalHost", at) or fields.text(instance, "physical_host", path)
    if not known(host):
        return []
    steps = [step for step in host.split("/") if step]
    if len(steps) < 2:
        raise fields.error(f"physical host {host[:60]!r} is not /CLUSTER/RACK/HOST", path)
    return steps[-2::-1]


READER = Reader(
    name="gcp",
    what="gcloud compute instances list --format=json, with resourceStatus.physicalHostTopology",
    recognises=_recognises,
    read=_read,
)

"""The fabric of a scenario: generated from its sizes, or read from a file, with routes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from collectives.scenarios.spec import FabricTable
from nettune.errors import InputError
from topology.fabric import Fabric
from topology.filters import apply_filters
from topology.generators import fat_tree, leaf_spine
from topology.merge import merge
from topology.readers.registry import read
from topology.readers.source import Source
from topology.routing import Routing

if TYPE_CHECKING:
    from pathlib import Path


def routing_of(table: FabricTable, beside: Path) -> Routing:
    """Fabric and forwarding state of `[fabric]`.

    Args:
        table: the table.
        beside: folder that a relative file stands in.

    Raises:
        InputError: sizes that make no fabric, a file that cannot be read or understood.
    """
    if table.kind == "file":
        return _read(table, beside)
    if table.kind == "fat-tree":
        fabric = fat_tree(table.k, link_gbps=table.host_gbps, delay_us=table.delay_us)
    else:
        fabric = leaf_spine(
            table.leaves,
            table.spines,
            table.hosts_per_leaf,
            host_gbps=table.host_gbps,
            uplink_gbps=table.uplink_gbps,
            parallel=table.parallel_uplinks,
            delay_us=table.delay_us,
        )
    return Routing.shortest_paths(fabric)


def _read(table: FabricTable, beside: Path) -> Routing:
    if not table.file:
        raise InputError('[fabric] file: is missing; kind = "file" needs one that `nettune discover` reads')
    said = read(Source.open(str(beside / table.file)))
    if said.logical:
        raise InputError(
            f"{said.format} tells who is near whom, but no cables to simulate", beside / table.file
        )
    told = [event for event in said.events if isinstance(event, Routing)]
    fabric = _with_defaults(merge([said], apply_filters).to_fabric(), table)
    if not fabric.hosts or not fabric.switches or not len(fabric.links.port_a):
        raise InputError("has no hosts cabled to switches to simulate", beside / table.file)
    if told and len(told[0].group) == len(fabric.ports.name):
        return replace(told[0], fabric=fabric)
    return Routing.shortest_paths(fabric)


def _with_defaults(fabric: Fabric, table: FabricTable) -> Fabric:
    """Speeds and delays of the scenario where the file tells none."""
    speed, delay = fabric.ports.speed_gbps, fabric.links.delay_ns
    return replace(
        fabric,
        ports=replace(fabric.ports, speed_gbps=np.where(speed > 0, speed, table.host_gbps)),
        links=replace(fabric.links, delay_ns=np.where(delay > 0, delay, table.delay_us * 1e3)),
    )

"""`Fabric`: the one model of a cluster's network: hosts, NICs, switches, ports, parallel links, accelerators.

Frozen columns (numpy arrays and tuples of equal length), not objects: 32,768 GPUs fit easily. A cable is one row of
`links`, parallel cables are several rows. Each cable carries two **directed links**, one per direction:
directed link 2*l goes from port_a to port_b of row l, 2*l+1 the other way. Loads, paths and counters are indexed by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.schemas import check_schema
from topology.columns import (
    Gpus,
    Links,
    LinkState,
    NodeKind,
    Nodes,
    Ports,
    columns_from_json,
    columns_to_json,
)

__all__ = ["FABRIC_SCHEMA", "Fabric", "Gpus", "LinkState", "Links", "NodeKind", "Nodes", "Ports"]

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

FABRIC_SCHEMA = "nettune.fabric/1"


@dataclass(frozen=True)
class Fabric:
    """A whole fabric; build one with `topology.builder.FabricBuilder`.

    Attributes:
        provenance: where parts were learned from; each `source` column points at a line of it.

    Raises:
        InputError: columns of unequal length, rows that point outside, names twice, a cable from a port to itself,
            a port with two cables.
    """

    nodes: Nodes
    ports: Ports
    links: Links
    gpus: Gpus
    provenance: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _equal_lengths("nodes", self.nodes.name, self.nodes.kind, self.nodes.tier, self.nodes.nvl_domain)
        ports = self.ports
        _equal_lengths(
            "ports",
            ports.node,
            ports.name,
            ports.rail,
            ports.plane,
            ports.speed_gbps,
            ports.lag,
            ports.address,
            ports.mtu,
        )
        _equal_lengths("nodes", self.nodes.name, self.nodes.guid, self.nodes.source)
        _equal_lengths("ports", ports.name, ports.guid, ports.source)
        links = self.links
        _equal_lengths("links", links.port_a, links.port_b, links.state, links.delay_ns, links.source)
        _equal_lengths(
            "gpus", self.gpus.host, self.gpus.index, self.gpus.numa, self.gpus.nic, self.gpus.source
        )
        _inside("ports.node", ports.node, len(self.nodes.name))
        _inside("links", np.concatenate([links.port_a, links.port_b]), len(ports.name))
        _inside("gpus.host", self.gpus.host, len(self.nodes.name))
        _inside("gpus.nic", self.gpus.nic, len(ports.name), lowest=-1)
        for table in (self.nodes, ports, links, self.gpus):
            _inside("source", table.source, len(self.provenance), lowest=-1)
        if len(self._node_rows) != len(self.nodes.name):
            raise InputError("fabric: a node's name appears twice")
        if len(self._port_rows) != len(ports.name):
            raise InputError("fabric: a port's name appears twice on a node")
        ends = np.concatenate([links.port_a, links.port_b])
        if len(np.unique(ends)) != len(ends):
            row = int(ends[np.bincount(ends, minlength=1)[ends] > 1][0])
            raise InputError(f"fabric: {self.port_element(row)} has more than one cable")
        if not np.all(ports.speed_gbps >= 0) or np.any(links.delay_ns < 0):
            raise InputError("fabric: a speed or a delay is negative or no number")

    @cached_property
    def _node_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.nodes.name)}

    @cached_property
    def _port_rows(self) -> dict[tuple[int, str], int]:
        return {
            (int(node), name): row
            for row, (node, name) in enumerate(zip(self.ports.node, self.ports.name, strict=True))
        }

    @cached_property
    def _address_rows(self) -> dict[str, int]:
        return {address: row for row, address in enumerate(self.ports.address) if address}

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts in row order."""
        return tuple(self.nodes.name[row] for row in np.flatnonzero(self.nodes.kind == NodeKind.HOST))

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches in row order."""
        return tuple(self.nodes.name[row] for row in np.flatnonzero(self.nodes.kind == NodeKind.SWITCH))

    @property
    def directed_count(self) -> int:
        """Number of directed links: twice the cables."""
        return 2 * len(self.links.port_a)

    def node_row(self, name: str) -> int:
        """Row of a node.

        Raises:
            InputError: no node of that name.
        """
        try:
            return self._node_rows[name]
        except KeyError:
            raise InputError(f"the fabric has no node {name!r}") from None

    def port_row(self, node: str, port: str) -> int:
        """Row of a port.

        Raises:
            InputError: no such port.
        """
        try:
            return self._port_rows[self.node_row(node), port]
        except KeyError:
            raise InputError(f"the fabric has no port {port!r} on {node!r}") from None

    def port_of_address(self, address: str) -> int | None:
        """Row of the port that holds an IP address."""
        return self._address_rows.get(address)

    def nics(self, host: str) -> list[int]:
        """Port rows of a host in order of rail, then of row."""
        rows = np.flatnonzero(self.ports.node == self.node_row(host))
        return [int(row) for row in rows[np.argsort(self.ports.rail[rows], kind="stable")]]

    @cached_property
    def link_of_port(self) -> Ints:
        """(P,) row of the cable in each port; -1 when it is empty."""
        column = np.full(len(self.ports.name), -1, dtype=np.int64)
        column[self.links.port_a] = column[self.links.port_b] = 0
        rows = np.arange(len(self.links.port_a))
        column[self.links.port_a] = rows
        column[self.links.port_b] = rows
        return column

    @cached_property
    def out_of_port(self) -> Ints:
        """(P,) directed link that leaves through each port; -1 when it is empty."""
        column = np.full(len(self.ports.name), -1, dtype=np.int64)
        rows = np.arange(len(self.links.port_a))
        column[self.links.port_a] = 2 * rows
        column[self.links.port_b] = 2 * rows + 1
        return column

    @cached_property
    def directed_ports(self) -> Ints:
        """(2L, 2) sending and receiving port of each directed link."""
        a, b = self.links.port_a, self.links.port_b
        pairs = np.empty((self.directed_count, 2), dtype=np.int64)
        pairs[0::2, 0], pairs[0::2, 1] = a, b
        pairs[1::2, 0], pairs[1::2, 1] = b, a
        return pairs

    @cached_property
    def directed_gbps(self) -> Floats:
        """(2L,) speed of each directed link: the slower port's nominal speed; 0 when down or unknown."""
        speeds = self.ports.speed_gbps
        both = np.minimum(speeds[self.links.port_a], speeds[self.links.port_b]) * (
            self.links.state == LinkState.UP
        )
        return np.repeat(both, 2)

    @cached_property
    def adjacency(self) -> csr_array:
        """(N, N) number of cables that are up between two nodes, for scipy.sparse.csgraph."""
        from scipy.sparse import coo_array

        up = self.links.state == LinkState.UP
        a, b = self.ports.node[self.links.port_a[up]], self.ports.node[self.links.port_b[up]]
        shape = (len(self.nodes.name),) * 2
        ones = np.ones(2 * len(a))
        return coo_array((ones, (np.concatenate([a, b]), np.concatenate([b, a]))), shape=shape).tocsr()

    def leaf_of(self, port: int) -> int | None:
        """Node row of the switch that a host's port is cabled to; None when empty."""
        link = int(self.link_of_port[port])
        if link < 0:
            return None
        far = self.links.port_b[link] if self.links.port_a[link] == port else self.links.port_a[link]
        return int(self.ports.node[far])

    def node_element(self, row: int) -> ElementId:
        """Name of a node for findings."""
        name = self.nodes.name[row]
        return ElementId.host(name) if self.nodes.kind[row] == NodeKind.HOST else ElementId.switch(name)

    def port_element(self, row: int) -> ElementId:
        """Name of a port for findings."""
        node, port = int(self.ports.node[row]), self.ports.name[row]
        name = self.nodes.name[node]
        return (
            ElementId.nic(name, port)
            if self.nodes.kind[node] == NodeKind.HOST
            else ElementId.port(name, port)
        )

    def link_element(self, link: int) -> ElementId:
        """Name of a cable for findings."""
        (node_a, port_a), (node_b, port_b) = (
            (self.nodes.name[int(self.ports.node[row])], self.ports.name[row])
            for row in (int(self.links.port_a[link]), int(self.links.port_b[link]))
        )
        return ElementId.link(node_a, port_a, node_b, port_b)

    def directed_name(self, directed: int) -> str:
        """`leaf0:u1 > spine1:d0` of a directed link, for tables."""
        ends = [
            f"{self.nodes.name[int(self.ports.node[row])]}:{self.ports.name[row]}"
            for row in self.directed_ports[directed]
        ]
        return " > ".join(ends)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`; columns as lists."""
        return {
            "schema": FABRIC_SCHEMA,
            **{table: columns_to_json(getattr(self, table)) for table in _TABLES},
            "provenance": list(self.provenance),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fabric:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, missing or unknown columns, values of a wrong type.
        """
        check_schema(data, FABRIC_SCHEMA)
        try:
            tables = {table: columns_from_json(kind, data[table]) for table, kind in _TABLES.items()}
            return cls(**tables, provenance=tuple(map(str, data["provenance"])))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"not a fabric: {type(error).__name__}: {error}") from error


_TABLES: dict[str, type] = {"nodes": Nodes, "ports": Ports, "links": Links, "gpus": Gpus}


def _equal_lengths(table: str, *columns: Any) -> None:
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"fabric: the columns of {table} differ in length")


def _inside(what: str, rows: Ints, count: int, lowest: int = 0) -> None:
    if len(rows) and (rows.min() < lowest or rows.max() >= count):
        raise InputError(f"fabric: {what} points outside the table of {count} rows")

"""The tables of a `Fabric`: nodes, ports, cables and accelerators as columns of equal length."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


def _not_told() -> Ints:
    """Stands for a column that was not given: the table fills it with the value for unknown."""
    return np.empty(0, dtype=np.int64)


class NodeKind(enum.IntEnum):
    """What a node is."""

    HOST = 0
    SWITCH = 1


class LinkState(enum.IntEnum):
    """Whether a cable carries traffic."""

    DOWN = 0
    UP = 1


@dataclass(frozen=True)
class Nodes:
    """Columns of the nodes, N rows.

    Attributes:
        name: unique names.
        kind: `NodeKind` of each.
        tier: 0 hosts, 1 leaves, 2 spines, ...; -1 unknown.
        nvl_domain: accelerator domain (an NVL72 rack) of a host; -1 none.
        guid: hardware identity (InfiniBand GUID, chassis MAC), empty when not known.
        source: row of `Fabric.provenance` that says where it was learned; -1 not told. So in every table.
    """

    name: tuple[str, ...]
    kind: Ints
    tier: Ints
    nvl_domain: Ints
    guid: tuple[str, ...] = ()
    source: Ints = field(default_factory=_not_told)

    def __post_init__(self) -> None:
        _fill(self, len(self.name), guid=("",), source=-1)


@dataclass(frozen=True)
class Ports:
    """Columns of the ports (a host's NICs too), P rows.

    Attributes:
        node: row of the node that it belongs to.
        name: name within the node.
        rail: rail of a host's NIC; -1 none.
        plane: plane of a multi-plane fabric; -1 none.
        speed_gbps: nominal speed; 0 unknown.
        lag: link aggregation group within the node; -1 none.
        address: IP address, empty when none.
        mtu: bytes; 0 unknown.
        guid: hardware identity (InfiniBand port GUID, MAC), empty when not known.
    """

    node: Ints
    name: tuple[str, ...]
    rail: Ints
    plane: Ints
    speed_gbps: Floats
    lag: Ints
    address: tuple[str, ...]
    mtu: Ints
    guid: tuple[str, ...] = ()
    source: Ints = field(default_factory=_not_told)

    def __post_init__(self) -> None:
        _fill(self, len(self.name), guid=("",), source=-1)


@dataclass(frozen=True)
class Links:
    """Columns of the cables, L rows: the two ports, `LinkState`, propagation delay in ns (0 unknown)."""

    port_a: Ints
    port_b: Ints
    state: Ints
    delay_ns: Floats
    source: Ints = field(default_factory=_not_told)

    def __post_init__(self) -> None:
        _fill(self, len(self.port_a), source=-1)


@dataclass(frozen=True)
class Gpus:
    """Columns of the accelerators, G rows: host (node row), index on the host, NUMA node (-1), nearest NIC (port row, -1)."""

    host: Ints
    index: Ints
    numa: Ints
    nic: Ints
    source: Ints = field(default_factory=_not_told)

    def __post_init__(self) -> None:
        _fill(self, len(self.host), source=-1)


_TEXT_COLUMNS = {"name", "address", "guid"}
_FLOAT_COLUMNS = {"speed_gbps", "delay_ns"}


def columns_to_json(table: Any) -> dict[str, list[Any]]:
    """Columns of a table as lists."""
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else list(value)
        for key, value in vars(table).items()
    }


def columns_from_json(kind: type, columns: Mapping[str, Any]) -> Any:
    """The inverse of `columns_to_json` for a table of this kind."""
    converted: dict[str, Any] = {}
    for key, values in columns.items():
        if key in _TEXT_COLUMNS:
            converted[key] = tuple(map(str, values))
        else:
            converted[key] = np.array(values, dtype=np.float64 if key in _FLOAT_COLUMNS else np.int64)
    return kind(**converted)


def _fill(table: Any, rows: int, **unknown: Any) -> None:
    """Give columns that were left out their value for unknown; an empty table has nothing to fill."""
    for column, value in unknown.items():
        if not len(getattr(table, column)):
            filled = value * rows if isinstance(value, tuple) else np.full(rows, value, dtype=np.int64)
            object.__setattr__(table, column, filled)

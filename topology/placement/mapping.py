"""`Placement`: the rank-to-host map, with what was pinned, what was left out and the map that it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from nettune.schemas import check_schema
from topology.columns import NodeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from topology.fabric import Fabric

    Ints = NDArray[np.int64]

PLACEMENT_SCHEMA = "nettune.placement/1"


@dataclass(frozen=True)
class Placement:
    """Rows of the fabric for each of R ranks.

    Attributes:
        host: (R,) node row of each rank.
        gpu: (R,) index of the accelerator on its host; ranks of one host use different ones.
        nic: (R,) port row that the rank's traffic uses.
        method: how the map was made.
        pinned: ranks that had to stay where they are.
        excluded: names of hosts that were not to be used.
        parent: the (R,) host column that this map was changed from, negative where the fabric has the host no more; None
            for a first map.
    """

    host: Ints
    gpu: Ints
    nic: Ints
    method: str = ""
    pinned: tuple[int, ...] = ()
    excluded: tuple[str, ...] = ()
    parent: Ints | None = None

    def __post_init__(self) -> None:
        if not len(self.host) == len(self.gpu) == len(self.nic):
            raise InputError("placement: host, gpu and nic differ in length")
        if len(np.unique(np.stack([self.host, self.gpu]), axis=1).T) != len(self.host):
            raise InputError("placement: two ranks share one accelerator")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.host)

    @property
    def moves(self) -> int:
        """Ranks that changed host against the parent map; 0 for a first map."""
        return 0 if self.parent is None else int(np.count_nonzero(self.parent != self.host))

    def hosts(self, fabric: Fabric) -> list[str]:
        """Host name of each rank."""
        return [fabric.nodes.name[int(row)] for row in self.host]

    @classmethod
    def of_hosts(cls, fabric: Fabric, hosts: Sequence[str], method: str = "") -> Placement:
        """A map from the host name of each rank; ranks on one host take its accelerators in turn, NICs as `nic_table`.

        Raises:
            InputError: an unknown host, or a host without a NIC.
        """
        rows = np.array([fabric.node_row(host) for host in hosts], dtype=np.int64)
        order = np.argsort(rows, kind="stable")
        gpu = np.empty(len(rows), dtype=np.int64)
        gpu[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
        used, index = np.unique(rows, return_inverse=True)
        nic = nic_table(fabric, used, int(gpu.max(initial=0)) + 1)[index, gpu]
        return cls(rows, gpu, nic, method)

    def to_json(self, fabric: Fabric) -> dict[str, Any]:
        """The JSON form, with `schema`; names, so that it outlives the fabric's row numbers."""
        return {
            "schema": PLACEMENT_SCHEMA,
            "method": self.method,
            "ranks": [
                {
                    "rank": rank,
                    "host": fabric.nodes.name[int(h)],
                    "gpu": int(g),
                    "nic": fabric.ports.name[int(n)],
                }
                for rank, (h, g, n) in enumerate(zip(self.host, self.gpu, self.nic, strict=True))
            ],
            "pinned": list(self.pinned),
            "excluded": list(self.excluded),
            "parent": None
            if self.parent is None
            else [fabric.nodes.name[row] if row >= 0 else None for row in self.parent.tolist()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], fabric: Fabric) -> Placement:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, ranks out of order, names that the fabric does not have.
        """
        check_schema(data, PLACEMENT_SCHEMA)
        try:
            rows = list(data["ranks"])
            if [entry["rank"] for entry in rows] != list(range(len(rows))):
                raise InputError("placement: ranks must be 0, 1, 2, ... in order")
            parent = data["parent"]
            return cls(
                host=np.array([fabric.node_row(entry["host"]) for entry in rows], dtype=np.int64),
                gpu=np.array([int(entry["gpu"]) for entry in rows], dtype=np.int64),
                nic=np.array(
                    [fabric.port_row(entry["host"], entry["nic"]) for entry in rows], dtype=np.int64
                ),
                method=str(data["method"]),
                pinned=tuple(map(int, data["pinned"])),
                excluded=tuple(map(str, data["excluded"])),
                parent=None
                if parent is None
                else np.array(
                    [-1 if name is None else fabric.node_row(name) for name in parent], dtype=np.int64
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a placement: {type(error).__name__}: {error}") from error


def nic_table(fabric: Fabric, hosts: Ints, accelerators: int) -> Ints:
    """(H, accelerators) port row of the NIC that each accelerator of each host uses.

    That is the NIC which the fabric's table of accelerators names as the nearest; where it names none, NICs in order of
    rail take turns, as NCCL does among NICs of equal distance (src/graph/topo.cc, `ncclTopoGetLocalNet`: the accelerator's
    number modulo the NICs).

    Args:
        fabric: the fabric.
        hosts: (H,) node rows, each once.
        accelerators: on each host.

    Raises:
        InputError: a host without a NIC.
    """
    ports = np.flatnonzero(fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST)
    ports = ports[np.lexsort((ports, fabric.ports.rail[ports], fabric.ports.node[ports]))]
    node = fabric.ports.node[ports]
    first = np.searchsorted(node, hosts)
    count = np.searchsorted(node, hosts, side="right") - first
    if len(count) and not count.min():
        name = fabric.nodes.name[int(hosts[np.argmin(count)])]
        raise InputError(f"placement: host {name!r} has no NIC on the fabric")
    table: Ints = ports[first[:, None] + np.arange(accelerators) % np.maximum(count, 1)[:, None]]
    place = np.full(len(fabric.nodes.name), -1, dtype=np.int64)
    place[hosts] = np.arange(len(hosts))
    gpus = fabric.gpus
    known = np.flatnonzero(
        (gpus.nic >= 0) & (place[gpus.host] >= 0) & (gpus.index < accelerators) & (gpus.index >= 0)
    )
    table[place[gpus.host[known]], gpus.index[known]] = gpus.nic[known]
    return table

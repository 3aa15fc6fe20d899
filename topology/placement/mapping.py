"""`Placement`: the rank-to-host map, with what was pinned, what was left out and the map that it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from nettune.schemas import check_schema

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
        parent: the (R,) host column that this map was changed from; None for a first map.
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
        if len({(int(h), int(g)) for h, g in zip(self.host, self.gpu, strict=True)}) != len(self.host):
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
        """A map from the host name of each rank; ranks on one host take its accelerators and rails in turn.

        Raises:
            InputError: an unknown host, or a host without a NIC.
        """
        rows, gpus, nics = [], [], []
        seen: dict[str, int] = {}
        for host in hosts:
            index = seen.get(host, 0)
            seen[host] = index + 1
            ports = fabric.nics(host)
            if not ports:
                raise InputError(f"placement: host {host!r} has no NIC on the fabric")
            rows.append(fabric.node_row(host))
            gpus.append(index)
            nics.append(ports[index % len(ports)])
        return cls(np.array(rows, np.int64), np.array(gpus, np.int64), np.array(nics, np.int64), method)

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
            "parent": None if self.parent is None else [fabric.nodes.name[int(row)] for row in self.parent],
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
                else np.array([fabric.node_row(name) for name in parent], dtype=np.int64),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a placement: {type(error).__name__}: {error}") from error

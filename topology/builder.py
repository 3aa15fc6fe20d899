"""`FabricBuilder`: collects nodes, ports, cables and accelerators by name, then freezes them into a `Fabric`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.fabric import Fabric, Gpus, Links, LinkState, NodeKind, Nodes, Ports

if TYPE_CHECKING:
    from collections.abc import Sequence


class FabricBuilder:
    """Adds by name in any order; `build` sorts nothing: rows keep the order of the calls."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[NodeKind, int, str, int]] = {}
        self._tiers: dict[str, int] = {}
        self._ports: dict[tuple[str, str], tuple[int, int, float, int, str, int, str, int]] = {}
        self._links: list[tuple[tuple[str, str], tuple[str, str], LinkState, float, int]] = []
        self._gpus: list[tuple[str, int, int, str | None, int]] = []

    def node(
        self,
        name: str,
        kind: NodeKind,
        *,
        tier: int = -1,
        nvl_domain: int = -1,
        guid: str = "",
        source: int = -1,
    ) -> None:
        """Add a node; its tier is worked out by `build` when not given. `source`: a row of the provenance."""
        if name in self._nodes:
            raise InputError(f"fabric: node {name!r} appears twice")
        self._nodes[name] = (kind, nvl_domain, guid, source)
        if tier >= 0:
            self._tiers[name] = tier

    def port(
        self,
        node: str,
        name: str,
        *,
        speed_gbps: float = 0.0,
        rail: int = -1,
        plane: int = -1,
        lag: int = -1,
        address: str = "",
        mtu: int = 0,
        guid: str = "",
        source: int = -1,
    ) -> None:
        """Add a port to a node that is there."""
        if node not in self._nodes or (node, name) in self._ports:
            raise InputError(f"fabric: port {name!r} of {node!r}: no such node, or the port appears twice")
        self._ports[node, name] = (rail, plane, speed_gbps, lag, address, mtu, guid, source)

    def link(
        self,
        a: tuple[str, str],
        b: tuple[str, str],
        *,
        state: LinkState = LinkState.UP,
        delay_ns: float = 0.0,
        source: int = -1,
    ) -> None:
        """Add a cable between two (node, port)."""
        if a == b or a not in self._ports or b not in self._ports:
            raise InputError(
                f"fabric: cable {a[0]}:{a[1]}--{b[0]}:{b[1]} needs two different ports that are there"
            )
        self._links.append((a, b, state, delay_ns, source))

    def gpu(self, host: str, index: int, *, numa: int = -1, nic: str | None = None, source: int = -1) -> None:
        """Add an accelerator; `nic` is the nearest NIC by name."""
        self._gpus.append((host, index, numa, nic, source))

    def build(self, provenance: Sequence[str] = ()) -> Fabric:
        """Freeze.

        Raises:
            InputError: what `Fabric` refuses.
        """
        names = tuple(self._nodes)
        rows = {name: row for row, name in enumerate(names)}
        port_rows = {key: row for row, key in enumerate(self._ports)}
        columns = list(zip(*self._ports.values(), strict=True)) or [()] * 8
        tiers = self._worked_out_tiers()

        def ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array(values, dtype=np.int64)

        return Fabric(
            nodes=Nodes(
                name=names,
                kind=ints([int(kind) for kind, *_ in self._nodes.values()]),
                tier=ints([tiers[name] for name in names]),
                nvl_domain=ints([domain for _, domain, _, _ in self._nodes.values()]),
                guid=tuple(guid for _, _, guid, _ in self._nodes.values()),
                source=ints([source for *_, source in self._nodes.values()]),
            ),
            ports=Ports(
                node=ints([rows[node] for node, _ in self._ports]),
                name=tuple(name for _, name in self._ports),
                rail=ints(columns[0]),
                plane=ints(columns[1]),
                speed_gbps=np.array(columns[2], dtype=np.float64),
                lag=ints(columns[3]),
                address=tuple(columns[4]),
                mtu=ints(columns[5]),
                guid=tuple(columns[6]),
                source=ints(columns[7]),
            ),
            links=Links(
                port_a=ints([port_rows[a] for a, *_ in self._links]),
                port_b=ints([port_rows[b] for _, b, *_ in self._links]),
                state=ints([int(state) for _, _, state, *_ in self._links]),
                delay_ns=np.array([delay for _, _, _, delay, _ in self._links], dtype=np.float64),
                source=ints([source for *_, source in self._links]),
            ),
            gpus=Gpus(
                host=ints([rows[host] for host, *_ in self._gpus]),
                index=ints([index for _, index, *_ in self._gpus]),
                numa=ints([numa for _, _, numa, *_ in self._gpus]),
                nic=ints([port_rows[host, nic] if nic else -1 for host, _, _, nic, _ in self._gpus]),
                source=ints([source for *_, source in self._gpus]),
            ),
            provenance=tuple(provenance),
        )

    def _worked_out_tiers(self) -> dict[str, int]:
        """Hop distance to the nearest host: leaves 1, spines 2. Links that are down count: they are cabled."""
        near: dict[str, set[str]] = {name: set() for name in self._nodes}
        for (node_a, _), (node_b, _), *_ in self._links:
            near[node_a].add(node_b)
            near[node_b].add(node_a)
        tiers = {name: 0 for name, (kind, *_) in self._nodes.items() if kind is NodeKind.HOST}
        queue = deque(tiers)
        while queue:
            name = queue.popleft()
            for other in sorted(near[name]):
                if other not in tiers:
                    tiers[other] = tiers[name] + 1
                    queue.append(other)
        return {name: self._tiers.get(name, tiers.get(name, -1)) for name in self._nodes}

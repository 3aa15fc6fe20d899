"""Bytes on every directed link: what the kernel counted beside what the step's transfers should have put there.

The prediction is exact: the 5-tuples of the real connections give the real paths. Payload becomes wire bytes by the
header of full segments, and the acknowledgements that run back are added on their own path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nettune.errors import NettuneError
from topology.loads import exact_loads

if TYPE_CHECKING:
    from collectives.connections import Connection
    from topology.fabric import Fabric
    from topology.routing import Routing
    from topology.traffic import StepTraffic

Floats = NDArray[np.float64]
PortBytes = Mapping[tuple[str, str], Sequence[int]]
"""(node, interface) to received bytes, sent bytes, and whatever else the reader counts."""
Counters = Callable[[], PortBytes]

WIRE_FACTOR = 1514 / 1448
"""Bytes on the wire per byte of payload in one direction: segments of 1448 bytes (MTU 1500, TCP timestamps) carry 66
bytes of Ethernet, IPv4 and TCP header, as interface counters and tbf count them."""

ACK_FACTOR = 0.011
"""Bytes of acknowledgements (66 each) per byte of payload, in the other direction. Measured in the lab on links that
carry nothing else, 4 MiB at 100 Mbit/s: 0.0088 to 0.011 where queues are short (an acknowledgement for about five
segments), 0.022 on a congested path (one for every two)."""


@dataclass(frozen=True)
class LinkBytes:
    """Bytes on one directed link during the timed repeats of one initialisation.

    Attributes:
        directed: row of the directed link.
        name: `leaf0:u1 > spine1:d0`.
        measured_bytes: what its sending port counted (the receiving one, where the sender's is not readable).
        predicted_bytes: what it should be; None without a known routing.
        background_bytes: what others sent meanwhile at the rate of the moment before; taken off already.
    """

    directed: int
    name: str
    measured_bytes: float
    predicted_bytes: float | None
    background_bytes: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON object."""
        return dict(vars(self))


def payload_flows(
    traffic: StepTraffic, work: Sequence[Mapping[str, Any]], connections: Sequence[Connection]
) -> list[tuple[Connection, float]]:
    """The connection that carries each edge of a step, and its payload bytes per step.

    Raises:
        NettuneError: two ranks exchange bytes, but have no connection.
    """
    everybody = tuple(range(traffic.ranks))
    by_key = {(one.group, one.src, one.dst): one for one in connections}
    flows = []
    for phase, step in zip(traffic.phases, work, strict=True):
        # Point-to-point messages use the connections of the group of all ranks.
        group_of = {rank: tuple(group) for group in step.get("groups", ()) for rank in group}
        columns = (phase.src.tolist(), phase.dst.tolist(), phase.edge_bytes.tolist())
        for src, dst, carried in zip(*columns, strict=True):
            key = (group_of.get(src, everybody), src, dst)
            if key not in by_key:
                raise NettuneError(f"phase {phase.name!r}: rank {src} has no connection to rank {dst}")
            flows.append((by_key[key], float(carried)))
    return flows


def predicted_bytes(routing: Routing, flows: Sequence[tuple[Connection, float]]) -> Floats:
    """(2L,) bytes on the wire per step: payload with headers, and acknowledgements on the way back.

    Raises:
        UnknownPathError: a path cannot be known exactly.
        NettuneError: an address that the fabric does not have.
    """
    forward = [one.flow(routing.fabric) for one, _ in flows]
    back = [one.reversed().flow(routing.fabric) for one, _ in flows]
    payload = [carried for _, carried in flows]
    wire: Floats = WIRE_FACTOR * exact_loads(routing, forward, payload)
    return wire + ACK_FACTOR * exact_loads(routing, back, payload)


def measured_bytes(fabric: Fabric, before: PortBytes, after: PortBytes) -> Floats:
    """(2L,) bytes between two readings of the counters; NaN where neither end of a link was read."""
    found = np.full(fabric.directed_count, np.nan)
    for directed, (sender, receiver) in enumerate(fabric.directed_ports.tolist()):
        for port, column in ((sender, 1), (receiver, 0)):
            key = (fabric.nodes.name[int(fabric.ports.node[port])], fabric.ports.name[port])
            if key in before and key in after:
                found[directed] = after[key][column] - before[key][column]
                break
    return found


def table(
    fabric: Fabric, measured: Floats, predicted: Floats | None, background: Floats | None = None
) -> list[LinkBytes]:
    """One row for each directed link that was read."""
    return [
        LinkBytes(
            directed=int(row),
            name=fabric.directed_name(int(row)),
            measured_bytes=float(measured[row]),
            predicted_bytes=None if predicted is None else float(predicted[row]),
            background_bytes=0.0 if background is None else float(background[row]),
        )
        for row in np.flatnonzero(~np.isnan(measured))
    ]

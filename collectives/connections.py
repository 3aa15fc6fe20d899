"""Which connection joins which ranks: what each rank says of its own sockets, put together.

A connection is known by its 5-tuple at one end, mirrored at the other; so it is attributed exactly, also where several
ranks share one address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nettune.errors import NettuneError

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.routing import FlowKey


@dataclass(frozen=True)
class Connection:
    """One direction of a TCP connection between two ranks.

    Attributes:
        src, dst: ranks.
        group: members of the process group that it was made for.
        src_address, sport, dst_address, dport: its 5-tuple in this direction (TCP).
        copy: number among the connections of this pair in this group.
        sent_bytes: payload that `src` has sent on it, without retransmissions.
        retransmitted_bytes: payload that it had to send again.
    """

    src: int
    dst: int
    group: tuple[int, ...]
    src_address: str
    sport: int
    dst_address: str
    dport: int
    sent_bytes: int
    retransmitted_bytes: int
    copy: int = 0

    def reversed(self) -> Connection:
        """The 5-tuple of the other direction, with the same byte counts."""
        return replace(
            self,
            src=self.dst,
            dst=self.src,
            src_address=self.dst_address,
            sport=self.dport,
            dst_address=self.src_address,
            dport=self.sport,
        )

    def flow(self, fabric: Fabric) -> FlowKey:
        """The flow between the two ports that hold the addresses.

        Raises:
            NettuneError: an address that no port of the fabric holds.
        """
        from topology.routing import FlowKey

        rows = [fabric.port_of_address(address) for address in (self.src_address, self.dst_address)]
        if rows[0] is None or rows[1] is None:
            unknown = self.src_address if rows[0] is None else self.dst_address
            raise NettuneError(f"rank {self.src} to {self.dst}: no port of the fabric has address {unknown}")
        return FlowKey(rows[0], rows[1], sport=self.sport, dport=self.dport)


def pair(of_rank: Sequence[Sequence[Mapping[str, Any]]]) -> list[Connection]:
    """Connections in both directions, by src, dst and port.

    Args:
        of_rank: `collectives.backends.torch_backend.connections` of each rank, in rank order.

    Raises:
        NettuneError: a connection whose other end no rank has.
    """
    owner: dict[tuple[str, int, str, int], int] = {}
    for rank, sockets in enumerate(of_rank):
        for one in sockets:
            owner[_ends(one)] = rank
    found = []
    for rank, sockets in enumerate(of_rank):
        for one in sockets:
            address, port, far_address, far_port = _ends(one)
            peer = owner.get((far_address, far_port, address, port))
            if peer is None:
                raise NettuneError(
                    f"rank {rank}: no rank has the other end of its connection to {far_address}:{far_port}"
                )
            again = int(one["retransmitted_bytes"])
            found.append(
                Connection(
                    src=rank,
                    dst=peer,
                    group=tuple(map(int, one["group"])),
                    src_address=address,
                    sport=port,
                    dst_address=far_address,
                    dport=far_port,
                    sent_bytes=int(one["sent_bytes"]) - again,
                    retransmitted_bytes=again,
                    copy=int(one.get("copy", 0)),
                )
            )
    return sorted(found, key=lambda one: (one.src, one.dst, one.sport))


def _ends(one: Mapping[str, Any]) -> tuple[str, int, str, int]:
    return (
        str(one["local_address"]),
        int(one["local_port"]),
        str(one["remote_address"]),
        int(one["remote_port"]),
    )

"""What all groups of a kind put on the network: edges between ranks of different accelerator domains.

A domain (consecutive ranks: a host, an NVL72 rack) is one node to the network. A group with several members in each
domain works as NCCL does: the algorithm runs over the domains, in as many channels as there are members, each channel
between members of the same place, so that it stays on one rail (src/graph/connect.cc, crossNic 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from collectives.job.layout import by_domain
from collectives.schedules import Edges, Op, build
from nettune.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_PAIRS = 1 << 21
"""Pairs of ranks that are made at once before they are added up by rail."""
_MOST_PAIRS = 1 << 24
"""Pairs of ranks inside a group that are ever made: 4,096 ranks, about a gigabyte and some seconds."""
_MOST_EDGES = 1 << 25
"""Edges that a phase may have: about a gigabyte."""


@dataclass(frozen=True)
class RankEdges:
    """(E,) source and destination ranks, and bytes."""

    src: Ints
    dst: Ints
    bytes_: Floats

    @classmethod
    def joined(cls, parts: list[RankEdges]) -> RankEdges:
        """All of them."""
        if not parts:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        columns = (np.concatenate([getattr(part, key) for part in parts]) for key in ("src", "dst", "bytes_"))
        return cls(*columns)

    def between(self, domain: int) -> RankEdges:
        """Those whose ends are in different domains, and that carry anything."""
        kept = (self.src // domain != self.dst // domain) & (self.bytes_ > 0)
        return RankEdges(self.src[kept], self.dst[kept], self.bytes_[kept])


@cache
def ring_edges(op: Op, ranks: int, direction: int) -> Edges:
    """Edges of a ring with ranks numbered inside the group; kept, since all groups of a kind are alike.

    The same as `build("ring", ...).edges`, without its 2(n-1) rounds: (n-1)/n of the message over each edge, twice that for an
    all-reduce (Thakur, Rabenseifner, Gropp 2005, section 4).
    """
    rank = np.arange(ranks if ranks > 1 else 0)
    share = (2 if op is Op.ALL_REDUCE else 1) * (ranks - 1) / ranks
    return Edges(rank, (rank + direction) % ranks, np.full(len(rank), share), np.zeros_like(rank))


@cache
def algorithm_edges(algorithm: str, op: Op, ranks: int, direction: int) -> Edges:
    """Edges of any algorithm.

    Raises:
        InputError: no schedule of that name for that operation, or one of too many steps.
    """
    if algorithm == "ring":
        return ring_edges(op, ranks, direction)
    schedule = build(algorithm, op, ranks)
    if schedule.chunks * ranks > _MOST_PAIRS:
        raise InputError(
            f"{algorithm} {op} over {ranks} ranks moves {schedule.chunks} chunks to each; that is too much to add up, use "
            "ring or double_tree"
        )
    return schedule.edges


def collective(
    groups: Ints,
    op: Op,
    bytes_: Floats,
    *,
    algorithm: str = "ring",
    direction: int = 1,
    channels: int = 0,
    domain: int = 1,
) -> RankEdges:
    """Edges of one all-reduce, reduce-scatter or all-gather in each of (G, n) groups that moves (G,) bytes.

    `channels` 0 means one for each member in a domain. Groups that are spread unevenly over domains run in rank order.

    Raises:
        InputError: no schedule of that name for that operation.
    """
    nodes, members = by_domain(groups, domain) or (groups.shape[1], 1)
    if nodes == 1:
        return RankEdges.joined([])
    edges = algorithm_edges(algorithm, op, nodes, direction)
    share = edges.share
    if algorithm == "ring":
        # The ring runs through all ranks; the message is cut into as many parts as there are ranks, not domains.
        ranks = groups.shape[1]
        share = share * ((ranks - 1) / ranks) / ((nodes - 1) / nodes)
    channels = channels or members
    table = groups.reshape(len(groups), nodes, members)
    parts = []
    for channel in range(channels):
        place = (edges.channel * channels + channel) % members
        parts.append(
            RankEdges(
                table[:, edges.src, place].ravel(),
                table[:, edges.dst, place].ravel(),
                (bytes_[:, None] * (share / channels)).ravel(),
            )
        )
    return RankEdges.joined(parts).between(domain)


def all_to_all(
    groups: Ints, bytes_: Floats, share: Floats, *, pxn: bool = False, domain: int = 1, back: bool = False
) -> RankEdges:
    """Edges when each member of (G, n) groups sends (G,) bytes, of which member j gets (n,) share j.

    With `pxn` bytes go inside the domain to the rank of the receiver's place and leave through its NIC, so that
    every edge stays on a rail and all that a domain has for one receiver is one edge (NCCL 2.12, P2P_PXN_LEVEL).
    `back` turns all transfers around: what experts return.

    Raises:
        InputError: more pairs of ranks than fit into memory.
    """
    size = groups.shape[1]
    if size**2 > _MOST_PAIRS or (len(groups) * size**2 > _MOST_EDGES and not pxn):
        raise InputError(
            f"all-to-all in {len(groups)} groups of {size} ranks has {len(groups) * size**2:.2g} pairs of ranks, too many "
            f"to list; use groups of at most {int(_MOST_PAIRS**0.5)}, and pxn = true with domains"
        )
    sender, receiver = (axis.ravel() for axis in np.nonzero(~np.eye(size, dtype=np.bool_)))
    parts = []
    for some, carried in _blocks(groups, bytes_):
        src, dst = some[:, sender].ravel(), some[:, receiver].ravel()
        moved = (carried[:, None] * share[receiver]).ravel()
        if back:
            src, dst = dst, src
        found = RankEdges(src, dst, moved).between(domain)
        parts.append(_by_rail(found, domain) if pxn else found)
    return RankEdges.joined(parts)


def chain(groups: Ints, bytes_: Floats, closing_bytes: Floats, *, domain: int = 1) -> RankEdges:
    """Each member of (G, n) groups sends (G,) bytes to the next, the last (G,) closing bytes to the first; no way back."""
    count = groups.shape[1]
    steps = [(groups[:, place], groups[:, place + 1], bytes_) for place in range(count - 1)]
    steps.append((groups[:, -1], groups[:, 0], closing_bytes))
    return RankEdges.joined([RankEdges(*step) for step in steps]).between(domain)


def _by_rail(edges: RankEdges, domain: int) -> RankEdges:
    proxy = edges.src // domain * domain + edges.dst % domain
    ranks = int(max(proxy.max(initial=0), edges.dst.max(initial=0))) + 1
    keys, index = np.unique(proxy * ranks + edges.dst, return_inverse=True)
    return RankEdges(keys // ranks, keys % ranks, np.bincount(index, edges.bytes_).astype(np.float64))


def _blocks(groups: Ints, bytes_: Floats) -> Iterator[tuple[Ints, Floats]]:
    step = max(1, _PAIRS // groups.shape[1] ** 2)
    for begin in range(0, len(groups), step):
        yield groups[begin : begin + step], bytes_[begin : begin + step]

"""Messages and the paths that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nettune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectives.fabric_sim.network import Network

Path = Sequence[int]
"""Directed links from a host to a host."""

MAX_PACKETS = 2**31 - 2


class Flow(NamedTuple):
    """One message, on a queue pair of its own or on one that several share.

    Attributes:
        src, dst: host nodes.
        size_bytes: of the message; one of 0 bytes sends nothing: it has arrived when it starts, and needs no paths.
        paths: one path, or several of equal length among which packets or flowlets choose.
        ack_path: what acknowledgements and CNPs take back.
        start_us: not before.
        after: rows of flows that must have arrived completely at their destination before.
        gap_us: from the last of those to the start (computation).
        cls: priority class of the data, 0 to 7.
        control: row in the list of congestion controls.
        connection: messages with an equal one share a queue pair: they go in the order of their starts, and the rate and
            window to which the ones before have led hold on. They have the same ends, class and control. None: its own.
    """

    src: int
    dst: int
    size_bytes: int
    paths: Sequence[Path]
    ack_path: Path
    start_us: float = 0.0
    after: Sequence[int] = ()
    gap_us: float = 0.0
    cls: int = 0
    control: int = 0
    connection: int | None = None


class PathCheck:
    """Makes sure that paths are paths."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._ends = [network.link_ends(link) for link in range(network.link_count)]

    def __call__(self, path: Path, src: int, dst: int) -> None:
        """Check one.

        Raises:
            InputError: it does not lead from `src` to `dst`, or meets a node twice, or passes a host.
        """
        names, hosts = self._network.names, self._network.hosts
        where = f"path {names[src]} > {names[dst]}"
        node, seen = src, {src}
        for link in path:
            if not 0 <= link < len(self._ends):
                raise InputError(f"{where}: there is no link {link}; there are {len(self._ends)}")
            start, end = self._ends[link]
            if start != node:
                raise InputError(f"{where}: {self._network.link_name(link)} does not start at {names[node]}")
            if end in seen:
                raise InputError(f"{where} loops: it meets {names[end]} twice")
            if end < hosts and end != dst:
                raise InputError(f"{where} passes host {names[end]}")
            node = end
            seen.add(end)
        if node != dst:
            raise InputError(f"{where} ends at {names[node]}: a flow to nowhere")


class ShortestPaths:
    """All shortest paths of a network, one of them drawn for each flow: ECMP by a hash of our own."""

    def __init__(self, network: Network, *, avoid: Sequence[int] = ()) -> None:
        """`avoid`: cables that are not used."""
        self._network = network
        self._next: dict[int, dict[int, list[int]]] = {}
        unused = set(avoid)
        self._into: list[list[tuple[int, int]]] = [[] for _ in network.names]
        for link in range(network.link_count):
            if link // 2 not in unused:
                start, end = network.link_ends(link)
                self._into[end].append((start, link))

    def next_links(self, dst: int) -> dict[int, list[int]]:
        """Node -> links that lead one hop nearer to a host."""
        if dst not in self._next:
            distance = {dst: 0}
            found: dict[int, list[int]] = {}
            edge = [dst]
            while edge:
                behind = []
                for node in edge:
                    for start, link in self._into[node]:
                        if start not in distance:
                            distance[start] = distance[node] + 1
                            if start >= self._network.hosts:
                                behind.append(start)
                        if distance[start] == distance[node] + 1:
                            found.setdefault(start, []).append(link)
                edge = behind
            self._next[dst] = found
        return self._next[dst]

    def drawn(self, src: int, dst: int, key: int) -> Path:
        """The path that a hash of `key` and each switch chooses.

        Raises:
            InputError: no path.
        """
        table = self.next_links(dst)
        node, path = src, []
        while node != dst:
            if node not in table:
                names = self._network.names
                raise InputError(f"no path leads from {names[src]} to {names[dst]}")
            links = table[node]
            link = links[_mixed(key, node) % len(links)] if len(links) > 1 else links[0]
            path.append(link)
            node = self._network.link_ends(link)[1]
        return path

    def all(self, src: int, dst: int, limit: int = 64) -> Sequence[Path]:
        """Up to `limit` shortest paths.

        Raises:
            InputError: no path.
        """
        self.drawn(src, dst, 0)

        def walk(node: int) -> Iterator[list[int]]:
            if node == dst:
                yield []
                return
            for link in self.next_links(dst)[node]:
                for rest in walk(self._network.link_ends(link)[1]):
                    yield [link, *rest]

        found: list[Path] = []
        for path in walk(src):
            found.append(path)
            if len(found) == limit:
                break
        return found


def _mixed(key: int, node: int) -> int:
    """Finalizer of MurmurHash3 over both: each switch chooses independently of the others."""
    h = (key * 0x9E3779B1 + node * 0x85EBCA6B) & 0xFFFFFFFF
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16

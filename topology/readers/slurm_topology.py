"""Slurm's topologies as data, and the rules by which slurmctld takes or refuses them.

topology.conf, topology.yaml and `scontrol show topology` write the same four things. The rules are those of
`src/plugins/topology/{tree,block,ring,torus3d}/*_record.c` (Slurm 26.05): what is fatal there is an error here, what is a
warning there is a finding here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from topology.readers.hierarchy import Hierarchy, shorten
from topology.readers.hostlist import Hostlists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.readers.source import Source

MAX_NAME = 64
MAX_PASSES = 21
MAX_RING = 16
MAX_BLOCK_LEVEL = 15

Point = tuple[int, int, int]
"""x, y, z."""


@dataclass(frozen=True)
class Switch:
    """A switch of a tree: hostlists of its child switches or of its hosts."""

    name: str
    children: str = ""
    nodes: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Group:
    """A block or a ring and the hostlist of its hosts; a block may have none (Cluster Toolkit writes such)."""

    name: str
    nodes: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Region:
    """Hosts of a part of a torus: from `anchor`, x fastest; a region does not wrap around."""

    anchor: Point
    dims: Point
    nodes: str
    line: int | None = None


@dataclass(frozen=True)
class Torus:
    """A 3D torus."""

    name: str
    dims: Point
    regions: tuple[Region, ...]
    line: int | None = None


@dataclass(frozen=True)
class BlockSizes:
    """An event of a block topology: the sizes in hosts that jobs may ask for, and blocks that have no hosts yet."""

    sizes: tuple[int, ...]
    empty: tuple[str, ...] = field(default=())


class Slurm:
    """Fills a `Hierarchy` from one Slurm topology."""

    def __init__(self, source: Source, format_name: str) -> None:
        self._source = source
        self._lists = Hostlists(source)
        self.tree = Hierarchy(source, format_name)

    def expand(self, nodes: str, line: int | None, *, in_order: bool = False) -> list[str]:
        """Names of a hostlist; none of an empty one."""
        return self._lists.expand(nodes, line, in_order=in_order) if nodes else []

    def add_tree(self, switches: Sequence[Switch], *, whole: bool = True) -> None:
        """Add the switches of a tree.

        Args:
            switches: in the order of the file.
            whole: whether every child must be there (`scontrol show topology NODE` prints one branch only).

        Raises:
            InputError: a switch twice, an unknown child, no tree, a name that is too long.
        """
        source, tree = self._source, self.tree
        lines: dict[str, int | None] = {}
        for switch in switches:
            self._check_name("switch", switch.name, switch.line, lines)
            if switch.nodes and switch.children:
                raise source.error(
                    f"switch {switch.name!r} has both child switches and nodes; give it one of them",
                    switch.line,
                )
            tree.switch(switch.name, switch.line)
        below: dict[str, list[str]] = {}
        for switch in switches:
            here = tree.switch(switch.name)
            for host in self.expand(switch.nodes, switch.line):
                tree.under(tree.host(host, switch.line), here)
            for child in self.expand(switch.children, switch.line):
                if child == switch.name or (whole and child not in lines):
                    raise source.error(f"switch {switch.name!r} has an invalid child {child!r}", switch.line)
                tree.under(tree.switch(child, switch.line), here)
                below.setdefault(switch.name, []).append(child)
        self._check_depth(below, lines)
        roots = tree.roots()
        bare = [] if whole else sorted({child for found in below.values() for child in found} - set(lines))
        if bare:
            tree.finding(
                f"{len(bare)} child switches have no line of their own: {shorten(bare)}",
                bare,
                fix="give all of `scontrol show topology`, not that of one node",
            )
        elif len(roots) > 1 and not tree.has_common_root():
            tree.finding(
                f"no switch reaches all hosts: {len(roots)} have none above them: {shorten(roots)}",
                roots,
                fix="if the parts are connected, add a switch above them; Slurm runs no job across parts",
            )

    def check_sizes(self, sizes: Sequence[int], line: int | None = None) -> None:
        """Refuse block sizes that slurmctld does not take.

        Raises:
            InputError: they are no multiples of the first by powers of two.
        """
        for size in sizes:
            ratio = size // sizes[0] if sizes[0] > 0 else 0
            power = ratio > 0 and size == ratio * sizes[0] and not ratio & (ratio - 1)
            if not power or ratio.bit_length() - 1 > MAX_BLOCK_LEVEL:
                raise self._source.error(
                    f"block sizes {', '.join(str(size)[:20] for size in sizes[:8])}: each must be the first times "
                    f"1, 2, 4, ... up to 2^{MAX_BLOCK_LEVEL}",
                    line,
                )

    def add_blocks(self, blocks: Sequence[Group], sizes: Sequence[int]) -> None:
        """Add blocks: the hosts of each are one accelerator domain.

        Raises:
            InputError: a block twice.
        """
        lines: dict[str, int | None] = {}
        empty = []
        for block in blocks:
            self._check_name("block", block.name, block.line, lines)
            hosts = self.expand(block.nodes, block.line)
            for host in hosts:
                self.tree.host(host, block.line, nvl_domain=block.name)
            if not hosts:
                empty.append(block.name)
        self.tree.said.events.append(BlockSizes(tuple(sizes), tuple(empty)))

    def add_rings(self, rings: Sequence[Group]) -> None:
        """Add rings: each host is cabled to the next one.

        Raises:
            InputError: a ring twice, one of more than 16 hosts.
        """
        lines: dict[str, int | None] = {}
        for ring in rings:
            self._check_name("ring", ring.name, ring.line, lines)
            names = self.expand(ring.nodes, ring.line, in_order=True)
            if len(names) > MAX_RING:
                raise self._source.error(
                    f"ring {ring.name!r} has {len(names)} hosts, at most {MAX_RING} are allowed", ring.line
                )
            hosts = [self.tree.host(name, ring.line) for name in names]
            self._beside([*pairwise(hosts), (hosts[-1], hosts[0])] if len(hosts) > 1 else [])

    def add_tori(self, tori: Sequence[Torus]) -> None:
        """Add 3D tori: each host is cabled to its neighbours, around the edges too.

        Raises:
            InputError: a torus twice, dimensions that do not fit the hosts, regions outside or on one another.
        """
        lines: dict[str, int | None] = {}
        for torus in tori:
            self._check_name("torus", torus.name, torus.line, lines)
            hosts: dict[Point, str] = {}
            for region in torus.regions:
                self._place(torus, region, hosts)
            for (x, y, z), host in hosts.items():
                size = torus.dims
                around = [((x + 1) % size[0], y, z), (x, (y + 1) % size[1], z), (x, y, (z + 1) % size[2])]
                self._beside([(host, hosts[point]) for point in around if point in hosts])

    def _place(self, torus: Torus, region: Region, hosts: dict[Point, str]) -> None:
        names = self.expand(region.nodes, region.line, in_order=True)
        (x, y, z), dims = region.anchor, region.dims
        if min(*dims, *torus.dims) < 1:
            raise self._source.error(f"torus {torus.name!r} needs dims x, y, z of 1 or more", region.line)
        if len(names) != dims[0] * dims[1] * dims[2]:
            raise self._source.error(
                f"torus {torus.name!r}: dims {dims[0]}x{dims[1]}x{dims[2]} do not match {len(names)} nodes",
                region.line,
            )
        if any(
            start < 0 or start + size > end
            for start, size, end in zip((x, y, z), dims, torus.dims, strict=True)
        ):
            raise self._source.error(f"torus {torus.name!r}: a region goes beyond its dims", region.line)
        for index, name in enumerate(names):
            point = (x + index % dims[0], y + index // dims[0] % dims[1], z + index // (dims[0] * dims[1]))
            if point in hosts:
                raise self._source.error(f"torus {torus.name!r}: regions overlap at {point}", region.line)
            hosts[point] = self.tree.host(name, region.line)

    def _beside(self, pairs: Sequence[tuple[str, str]]) -> None:
        for one, other in pairs:
            if one != other:
                self.tree.said.link((one, other), (other, one))

    def _check_name(self, what: str, name: str, line: int | None, lines: dict[str, int | None]) -> None:
        if not name or len(name) > MAX_NAME:
            raise self._source.error(
                f"a {what} needs a name of 1 to {MAX_NAME} characters, not {name[:70]!r}", line
            )
        if name in lines:
            raise self._source.error(f"{what} {name!r} is defined twice, first on line {lines[name]}", line)
        lines[name] = line

    def _check_depth(self, below: dict[str, list[str]], lines: dict[str, int | None]) -> None:
        """Find levels as slurmctld does: in passes in the file's order, so a deep tree passes if leaves come first."""
        unresolved = dict.fromkeys(name for name in lines if name in below)
        for _ in range(MAX_PASSES):
            for name in list(unresolved):
                if not any(child in unresolved for child in below[name]):
                    del unresolved[name]
            if not unresolved:
                return
        left = list(unresolved)
        raise self._source.error(
            f"the switches are no tree: after {MAX_PASSES} passes the levels of some are not found, so they are too "
            f"deep or above themselves ({shorten(left)})",
            lines[left[0]],
        )

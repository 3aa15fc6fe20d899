"""Next-hop sets of a routing as a hash sees them: next hops that share a LAG are one, and its members a second choice.

A routing lists every member of a LAG as a next hop of its own, so that shares are right without a hash. For the hash, the
LAG has the sum of its members' weights, and `HashSpec.member` picks among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from topology.ecmp.spec import FAMILIES, choose
from topology.ecmp.tuples import ROCE_PORT, UDP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.ecmp.spec import HashSpec
    from topology.ecmp.tuples import Tuples
    from topology.routing import Routing

    Ints = NDArray[np.int64]


class UnknownChoiceError(Exception):
    """A choice that cannot be computed; the text completes `NODE: ...`."""


@dataclass(frozen=True)
class Choice:
    """The shape of a next-hop set: weight of each bundle, and its members by position in the set."""

    weights: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]

    def pick(self, spec: HashSpec | None, tuples: Tuples) -> Ints:
        """(F,) position in the set.

        Raises:
            UnknownChoiceError: hash or LAG hash is not known, it sprays, or hashes what is not known of a flow.
        """
        bundle = np.zeros(len(tuples), dtype=np.int64)
        if len(self.weights) > 1:
            _refuse(spec, "hash")
            assert spec is not None
            bundle = choose(spec, tuples, self.weights)
        position: Ints = np.array([members[0] for members in self.members])[bundle]
        for number, members in enumerate(self.members):
            inside = np.flatnonzero(bundle == number)
            if len(members) > 1 and len(inside):
                member = spec.member if spec else None
                _refuse(member, "LAG hash")
                assert member is not None
                chosen = choose(member, tuples.take(inside), (1,) * len(members))
                position[inside] = np.array(members)[chosen]
        return position

    def used_fields(self, spec: HashSpec | None) -> set[str]:
        """Fields of a flow that the choice depends on."""
        if spec is None:
            return set()
        lag = any(len(members) > 1 for members in self.members)
        used = set(spec.fields) if len(self.weights) > 1 else set()
        return used | (set(spec.member.fields) if lag and spec.member else set())


def _refuse(spec: HashSpec | None, what: str) -> None:
    if spec is None:
        raise UnknownChoiceError(f"the {what} of {{}} is not known; probe it, or use spread")
    if not FAMILIES[spec.family].module:
        raise UnknownChoiceError(f"the {what} of {{}} sprays packets over all next hops; use spread")


@dataclass(frozen=True)
class ChoiceTable:
    """All sets of a routing, H of them, as `Routing.hops` numbers them, and the N nodes' hashes.

    Attributes:
        link: directed links, set by set, in order.
        first, size: (H,) where each set begins, and its next hops.
        kind: (H,) row in `choices`.
        choices: the different shapes.
        spec_of: (N,) row in `specs`, -1 not known.
        specs: the different hashes.
        address: (P,) IPv4 address of each port as a number, -1 none.
    """

    link: Ints
    first: Ints
    size: Ints
    kind: Ints
    choices: tuple[Choice, ...]
    spec_of: Ints
    specs: tuple[HashSpec, ...]
    address: Ints

    @classmethod
    def of(cls, routing: Routing) -> ChoiceTable:
        """The table of a routing; `Routing.choices` keeps it."""
        hops, fabric = routing.hops, routing.fabric
        # A set's slots repeat a next hop by its weight; the first slot of each stands for it.
        in_set = np.arange(len(hops.link)) - np.repeat(hops.offset, hops.total)
        is_first = hops.first == in_set
        link, weight = hops.link[is_first].astype(np.int64), hops.width[is_first].astype(np.int64)
        set_of = np.repeat(np.arange(len(hops.total)), hops.total)[is_first]
        size = np.bincount(set_of, minlength=len(hops.total)).astype(np.int64)
        first = np.cumsum(size) - size
        lag = fabric.ports.lag[fabric.directed_ports[link, 0]]
        kinds: dict[Choice, int] = {}
        kind = np.zeros(len(size), dtype=np.int64)
        for row, (begin, count) in enumerate(zip(first.tolist(), size.tolist(), strict=True)):
            part = slice(begin, begin + count)
            shape = _shape(weight[part].tolist(), lag[part].tolist())
            kind[row] = kinds.setdefault(shape, len(kinds))
        specs: dict[HashSpec, int] = {}
        spec_of = np.full(len(fabric.nodes.name), -1, dtype=np.int64)
        for node, spec in routing.hashes.items():
            spec_of[node] = specs.setdefault(spec, len(specs))
        return cls(
            link=link,
            first=first,
            size=size,
            kind=kind,
            choices=tuple(kinds),
            spec_of=spec_of,
            specs=tuple(specs),
            address=np.array([ipv4_number(text) for text in fabric.ports.address], dtype=np.int64),
        )

    def spec(self, row: int) -> HashSpec | None:
        """The hash of a row of `spec_of`."""
        return self.specs[row] if row >= 0 else None


def is_roce(proto: Ints, dport: Ints) -> NDArray[np.bool_]:
    """(F,) which flows are RoCEv2."""
    found: NDArray[np.bool_] = (proto == UDP) & (dport == ROCE_PORT)
    return found


def _shape(weights: list[int], lags: list[int]) -> Choice:
    bundles: dict[tuple[str, int], list[int]] = {}
    for position, lag in enumerate(lags):
        bundles.setdefault(("lag", lag) if lag >= 0 else ("single", position), []).append(position)
    total = [sum(weights[position] for position in members) for members in bundles.values()]
    shared = gcd(*total)
    return Choice(tuple(weight // shared for weight in total), tuple(map(tuple, bundles.values())))


def ipv4_number(text: str) -> int:
    """An IPv4 address as a number, -1 where the text is none."""
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdecimal() and int(part) < 256 for part in parts):
        return -1
    return int.from_bytes(bytes(map(int, parts)), "big")

"""`Setting`: one way to carry out a collective that is measured: an algorithm with options, steered or not, an order.

Written `ALGORITHM[:option=value,...][+steer][+rounds][@ORDER]`: `builtin`, `ring:direction=-1`, `rings+steer`,
`hierarchical:overlap=8+steer@depth-first`. What the fabric knows need not be typed: `rings` is as many rings as every
leaf has uplinks, each entering and leaving the leaves at other hosts; groups of hierarchies, and nodes of trees, are leaves.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from collectives.schedules import BUILDERS, Op, Schedule, build
from nettune.errors import InputError

if TYPE_CHECKING:
    from topology.routing import Routing

BUILTIN = "builtin"
"""The library's own algorithm."""
RINGS = "rings"
HYBRID = "hybrid"
_FLAGS = ("steer", "rounds")
_OVERLAP = 4
_RING_CHUNKS = 2  # one on its way while the other is added
_TREE_CHUNKS = 8  # more fill a pipeline better, and cost the hosts more messages


@dataclass(frozen=True)
class Setting:
    """What is measured.

    Attributes:
        name: as it was written.
        algorithm: `builtin`, `rings`, or a name of `collectives.schedules.BUILDERS`.
        options: of the algorithm.
        steer: whether connections are chosen by their paths.
        rounds: whether rounds are barriers; to see what their overlap brings.
        order: placement method that orders the hosts; empty is the run's own.
    """

    name: str
    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    steer: bool = False
    rounds: bool = False
    order: str = ""

    @classmethod
    def parse(cls, text: str) -> Setting:
        """From the command line.

        Raises:
            InputError: another form, or an algorithm that does not exist.
        """
        rest, _, order = text.partition("@")
        words, *flags = rest.split("+")
        algorithm, _, options = words.partition(":")
        known = (BUILTIN, RINGS, *dict.fromkeys(name for name, _ in BUILDERS))
        if algorithm not in known:
            raise InputError(f"setting {text!r}: no algorithm {algorithm!r}; known: {', '.join(known)}")
        for flag in flags:
            if flag not in _FLAGS:
                raise InputError(f"setting {text!r}: no +{flag}; known: +{', +'.join(_FLAGS)}")
        if algorithm == BUILTIN and (flags or options):
            raise InputError(
                f"setting {text!r}: the library's own algorithm takes no options, and cannot be steered"
            )
        return cls(text, algorithm, _options(text, options), "steer" in flags, "rounds" in flags, order)

    @property
    def unsteered(self) -> Setting:
        """The same without steering."""
        return replace(self, name=self.name.replace("+steer", ""), steer=False)


def _options(text: str, words: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    # A comma separates options only where another one follows: values may be lists.
    for word in re.split(r",(?=[A-Za-z_]+=)", words) if words else ():
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise InputError(f"setting {text!r}: {word!r} is not option=value")
        try:
            found[key] = json.loads(value)
        except (ValueError, RecursionError):
            found[key] = value
    return found


@dataclass(frozen=True)
class Shape:
    """What algorithms take from where the ranks are.

    Attributes:
        groups: ranks of each leaf, in order of first rank.
        uplinks: least number of ways out of a leaf; 0 where there is one leaf only.
    """

    groups: tuple[tuple[int, ...], ...]
    uplinks: int

    @classmethod
    def by_host(cls, hosts: Sequence[str]) -> Shape:
        """No fabric is known: ranks of one host together, where several are; else all."""
        groups: dict[str, list[int]] = {}
        for rank, host in enumerate(hosts):
            groups.setdefault(host, []).append(rank)
        if len(groups) in {1, len(hosts)}:
            return cls((tuple(range(len(hosts))),), 0)
        return cls(tuple(map(tuple, groups.values())), 0)

    @classmethod
    def of(cls, routing: Routing, nics: Sequence[int]) -> Shape:
        """From the NIC port row of each rank."""
        groups: dict[int, list[int]] = {}
        for rank, nic in enumerate(nics):
            leaf = routing.fabric.leaf_of(nic)
            groups.setdefault(-1 if leaf is None else leaf, []).append(rank)
        ways = [
            max((len(hops.links) for (switch, _), hops in routing.table.items() if switch == leaf), default=0)
            for leaf in groups
        ]
        return cls(tuple(map(tuple, groups.values())), min(ways) if len(groups) > 1 else 0)

    @property
    def even(self) -> bool:
        """Whether every leaf has equally many ranks."""
        return len({len(group) for group in self.groups}) == 1


def leaf_rings(shape: Shape, count: int) -> list[list[int]]:
    """Orders of `count` rings through all ranks, leaf by leaf, that enter and leave each leaf at different ranks."""
    return [
        [
            rank
            for group in shape.groups
            for rank in (*group[ring % len(group) :], *group[: ring % len(group)])
        ]
        for ring in range(count)
    ]


def spelled_out(setting: Setting, op: Op, shape: Shape) -> dict[str, Any] | None:
    """`{"name", "options"}` for `collectives.schedules.build`; None for the library's own algorithm.

    Raises:
        InputError: an option that the algorithm does not have.
    """
    if setting.algorithm == BUILTIN:
        return None
    options = dict(setting.options)
    if setting.algorithm == RINGS:
        most = max(1, min(shape.uplinks or 1, *(len(group) for group in shape.groups)))
        count = options.pop("count", most)
        if type(count) is not int or not 1 <= count <= sum(map(len, shape.groups)):
            raise InputError(f"setting {setting.name!r}: {count!r} rings; use 1 to the number of ranks")
        options.setdefault("chunks", _RING_CHUNKS)
        return {"name": "ring", "options": {"orders": leaf_rings(shape, count), **options}}
    builder = BUILDERS.get((setting.algorithm, op))
    takes = inspect.signature(builder).parameters if builder else {}
    leaves = [list(group) for group in shape.groups]
    if len(leaves) > 1 and shape.even and "groups" in takes:
        options.setdefault("groups", leaves)
        if "overlap" in takes:
            options.setdefault("overlap", _OVERLAP)
    elif "groups" in takes:
        options.setdefault("groups", 1)
    if "nodes" in takes:
        options.setdefault("nodes", leaves if len(leaves) > 1 else [[rank] for rank in leaves[0]])
        # What goes up and what goes down a leaf's uplinks meets at different hosts.
        options.setdefault("pattern", "split")
    if setting.algorithm == "double_tree":
        options.setdefault("chunks", _TREE_CHUNKS)
    if setting.algorithm == HYBRID:
        options.setdefault("tree_chunks", _TREE_CHUNKS)
        options.setdefault("ring_channels", _RING_CHUNKS)
    return {"name": setting.algorithm, "options": options}


def scheduled(setting: Setting, op: Op, shape: Shape) -> Schedule | None:
    """The schedule of a setting, proved right; None for the library's own algorithm.

    Raises:
        InputError: as `collectives.schedules.build`; ScheduleError where the options make it wrong.
    """
    wanted = spelled_out(setting, op, shape)
    if wanted is None:
        return None
    ranks = sum(map(len, shape.groups))
    schedule = build(wanted["name"], op, ranks, **wanted["options"])
    schedule.check()
    return schedule

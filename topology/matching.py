"""Which nodes and ports of several sources are the same: by name, by domain name, by GUID or MAC."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import NodeKind

if TYPE_CHECKING:
    from topology.readers.said import End, Said

Thing = TypeVar("Thing")

_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")
_PORT = re.compile(r"([a-z-]+)([0-9][0-9/.:]*)")
_LONG_NAMES = ("ethernet", "gigabitethernet", "tengigabitethernet", "hundredgige", "management")


@dataclass(frozen=True)
class Matching:
    """Common names, for each source in order.

    Attributes:
        nodes: own name -> common name: that of the first source that has one.
        ports: own (node, port) -> common (node, port).
        findings: names and identities that could be one thing or another.
    """

    nodes: Sequence[dict[str, str]]
    ports: Sequence[dict[End, End]]
    findings: list[Finding] = field(default_factory=list)


def match(sources: Sequence[Said]) -> Matching:
    """Match nodes first, then the ports of each node that several sources know."""
    findings: list[Finding] = []
    nodes = _match_nodes(sources, findings)
    return Matching(nodes, _match_ports(sources, nodes), findings)


def hardware_key(text: str) -> str:
    """A GUID or MAC in one spelling, 12 or 16 hexadecimal digits; empty when it is none, or all zeros or ones.

    A GUID that was made out of a MAC becomes that MAC: EUI-64 puts `fffe` in its middle (RFC 4291, appendix A),
    Mellanox adapters `0300`.
    """
    digits = re.sub(r"[:.\-_\s]", "", text.lower().removeprefix("0x"))
    if re.fullmatch(r"[0-9a-f]{12}|[0-9a-f]{16}", digits) is None or len(set(digits)) == 1:
        return ""
    return digits[:6] + digits[10:] if digits[6:10] in {"fffe", "0300"} else digits


def is_anonymous(name: str) -> bool:
    """Whether a node is named by its hardware identity alone: a NIC's firmware speaks LLDP, `S-<GUID>` in a dump."""
    return bool(hardware_key(re.sub(r"^[SHR]-(?=[0-9a-f]{16}$)", "", name)))


class _Classes:
    """Union-find over numbers, with a rule that may refuse a union."""

    def __init__(self, count: int, may_join: Callable[[list[int], list[int]], bool]) -> None:
        self._root = list(range(count))
        self._members = [[number] for number in range(count)]
        self._may_join = may_join

    def find(self, one: int) -> int:
        """The number that stands for a class: its smallest."""
        while self._root[one] != one:
            self._root[one] = self._root[self._root[one]]
            one = self._root[one]
        return one

    def members(self, one: int) -> list[int]:
        """The class of a number."""
        return self._members[self.find(one)]

    def join(self, one: int, other: int) -> bool:
        """Make two classes one; False where the rule refuses."""
        first, second = sorted((self.find(one), self.find(other)))
        if first == second:
            return True
        if not self._may_join(self._members[first], self._members[second]):
            return False
        self._root[second] = first
        self._members[first] += self._members[second]
        self._members[second] = []
        return True


def _match_nodes(sources: Sequence[Said], findings: list[Finding]) -> list[dict[str, str]]:
    entries = [(number, name) for number, said in enumerate(sources) for name in said.nodes]
    named = [not is_anonymous(name) for _, name in entries]

    def may_join(first: list[int], second: list[int]) -> bool:
        """One source does not give one node two names, but a nameless one may be any of its nodes."""
        own = {entries[at] for at in first if named[at]}
        return not any(
            named[at] and any(number == entries[at][0] and name != entries[at][1] for number, name in own)
            for at in second
        )

    classes = _Classes(len(entries), may_join)
    _join_alike(classes, entries, lambda entry: (entry[1],), lambda entry: entry[1].casefold())
    for key, group in _by_identity(sources, entries).items():
        if not all(classes.join(group[0], other) for other in group[1:]):
            names = sorted({entries[one][1] for one in group})
            findings.append(
                _doubtful(names[0], f"{key} belongs to {' and to '.join(names)}; they stay apart")
            )
    shorts: dict[str, list[int]] = {}
    for at, (_, name) in enumerate(entries):
        if named[at] and not _ADDRESS.fullmatch(name):
            shorts.setdefault(name.split(".", 1)[0].casefold(), []).append(at)
    for of_short in shorts.values():
        _join_domains(classes, entries, of_short, findings)
    result: list[dict[str, str]] = [{} for _ in sources]
    for at, (number, name) in enumerate(entries):
        members = classes.members(at)
        result[number][name] = entries[next((one for one in sorted(members) if named[one]), min(members))][1]
    return result


def _join_alike(
    classes: _Classes,
    entries: Sequence[tuple[int, Thing]],
    exact: Callable[[tuple[int, Thing]], Hashable],
    loose: Callable[[tuple[int, Thing]], Hashable],
) -> None:
    """Join what has one exact key, then one loose key where no source has two things of that key."""
    for key_of in (exact, loose):
        groups: dict[Hashable, list[int]] = {}
        for at, entry in enumerate(entries):
            groups.setdefault(key_of(entry), []).append(at)
        for group in groups.values():
            if len({entries[at] for at in group}) == len({entries[at][0] for at in group}):
                for other in group[1:]:
                    classes.join(group[0], other)


def _by_identity(sources: Sequence[Said], entries: Sequence[tuple[int, str]]) -> dict[str, list[int]]:
    """Identity of a node, its name or its ports -> entries, where each source has at most one node with it."""
    position = {entry: at for at, entry in enumerate(entries)}
    found: dict[str, dict[int, set[int]]] = {}

    def claim(identity: str, number: int, node: str) -> None:
        key = hardware_key(identity) if identity else ""
        if key:
            found.setdefault(key, {}).setdefault(number, set()).add(position[number, node])

    for number, said in enumerate(sources):
        for name, node in said.nodes.items():
            claim(node.guid, number, name)
            claim(name, number, name)
        for (name, _), port in said.ports.items():
            claim(port.guid, number, name)
    return {
        key: [next(iter(nodes)) for nodes in of_source.values()]
        for key, of_source in found.items()
        if len(of_source) > 1 and all(len(nodes) == 1 for nodes in of_source.values())
    }


def _join_domains(
    classes: _Classes, entries: Sequence[tuple[int, str]], group: list[int], findings: list[Finding]
) -> None:
    """`h1` is `h1.example.com` where only one domain has an `h1`."""
    short = [at for at in group if "." not in entries[at][1]]
    full = [at for at in group if "." in entries[at][1]]
    if not short or not full:
        return
    domains = sorted({entries[at][1].casefold() for at in full})
    if len(domains) == 1 and classes.join(short[0], full[0]):
        return
    if len(domains) > 1 and classes.find(short[0]) not in {classes.find(at) for at in full}:
        name = entries[short[0]][1]
        findings.append(_doubtful(name, f"{name} may be any of {', '.join(domains)}; it stays apart"))


def _doubtful(name: str, what: str) -> Finding:
    return Finding(
        check="source-names",
        status=Status.WARN,
        where=ElementId.host(name),
        what=what,
        fix="give the node one name in all sources",
    )


def _match_ports(sources: Sequence[Said], nodes: Sequence[dict[str, str]]) -> list[dict[End, End]]:
    owners: dict[str, set[int]] = {}
    for number, names in enumerate(nodes):
        for common in names.values():
            owners.setdefault(common, set()).add(number)
    result: list[dict[End, End]] = [{} for _ in sources]
    shared: dict[str, list[tuple[int, End]]] = {}
    for number, said in enumerate(sources):
        for end in said.ports:
            common = nodes[number][end[0]]
            if len(owners[common]) == 1:
                result[number][end] = end
            else:
                shared.setdefault(common, []).append((number, end))
    kinds = {
        nodes[number][name]: node.kind
        for number, said in enumerate(sources)
        for name, node in said.nodes.items()
    }
    for common, entries in shared.items():
        _match_ports_of(sources, common, entries, kinds[common] is NodeKind.SWITCH, result)
    return result


def _match_ports_of(
    sources: Sequence[Said],
    node: str,
    entries: list[tuple[int, End]],
    switch: bool,
    result: list[dict[End, End]],
) -> None:
    names: dict[tuple[int, str], set[str]] = {}
    for number, end in entries:
        names.setdefault((number, end[0]), set()).add(end[1])
    alone = len({number for number, _ in names}) == len(names)
    if alone and all(one == names[entries[0][0], entries[0][1][0]] for one in names.values()):
        for number, end in entries:
            result[number][end] = (node, end[1])
        return
    said = [sources[number].ports[end] for number, end in entries]
    guid = [hardware_key(port.guid) if port.guid else "" for port in said]
    cabled = [sources[number].far(end) is not None for number, end in entries]

    def may_join(first: list[int], second: list[int]) -> bool:
        """Two ports of one source are one only where their names are: an RDMA device and its netdev, not two NICs."""
        return not any(
            entries[a][0] == entries[b][0]
            and ((guid[a] and guid[b] and guid[a] != guid[b]) or (cabled[a] and cabled[b]))
            for a in first
            for b in second
        )

    classes = _Classes(len(entries), may_join)
    spelling = _long_name if switch else str.casefold
    _join_alike(classes, entries, lambda entry: entry[1][1], lambda entry: spelling(entry[1][1]))
    by_guid: dict[str, list[int]] = {}
    for at, key in enumerate(guid):
        if key:
            by_guid.setdefault(key, []).append(at)
    for group in by_guid.values():
        if len({entries[at][0] for at in group}) == len(group):
            for other in group[1:]:
                classes.join(group[0], other)
    owner: dict[str, int] = {}
    for at, (number, end) in enumerate(entries):
        first = min(classes.members(at))
        own_node, name = entries[first][1]
        # Ports of nameless nodes that turned out to be one host may have one name: then the node's tells them apart.
        if owner.setdefault(name, first) != first:
            name = own_node
        result[number][end] = (node, name)


def other_style(name: str, other: str) -> bool:
    """Whether two names may be of one port in two ways of naming: rail0 and mlx5_0, not mlx5_0 and mlx5_1."""
    return re.sub(r"[0-9]+", "#", name) != re.sub(r"[0-9]+", "#", other)


def _long_name(port: str) -> str:
    """`ethernet5/1` of Et5/1 and Eth5/1: switches abbreviate. Not of eth0, which is Linux's management port."""
    name = port.casefold()
    parts = _PORT.fullmatch(name)
    if parts is None or name == "eth0" or len(parts[1]) < 2:
        return name
    return next((long for long in _LONG_NAMES if long.startswith(parts[1])), parts[1]) + parts[2]

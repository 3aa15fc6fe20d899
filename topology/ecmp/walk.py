"""Flows with known 5-tuples, walked through a fabric together: the fast side of `Routing.path`.

At every hop flows are sorted by (hash, shape of the next-hop set), so that one call hashes all flows of a tier. With
`sprayed`, a switch that sprays packets sends an equal part of a flow to each next hop; else such a flow has no path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nettune.errors import InputError
from topology.ecmp.choices import UnknownChoiceError, is_roce
from topology.ecmp.tuples import TCP, Tuples
from topology.fabric import LinkState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from topology.ecmp.choices import Choice
    from topology.ecmp.spec import HashSpec
    from topology.routing import FlowKey, Routing

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_MAX_HOPS = 32
_BLOCK = 1 << 19
"""Flows at a time: some hundred bytes each."""
_LIMITS = {"proto": 2**8, "sport": 2**16, "dport": 2**16, "dst_qp": 2**24}


@dataclass(frozen=True)
class FlowColumns:
    """F flows between ports of a fabric, as `FlowKey` has them, in columns.

    Attributes:
        src_port, dst_port: (F,) port rows of the two NICs.
        proto, dport: (F,) protocol and destination port.
        sport, dst_qp: (F,) source port and RoCE destination QP; -1 not known.

    Raises:
        InputError: columns of unequal length, or a number that does not fit its header field.
    """

    src_port: Ints
    dst_port: Ints
    proto: Ints
    sport: Ints
    dport: Ints
    dst_qp: Ints

    def __post_init__(self) -> None:
        if len({len(column) for column in vars(self).values()}) > 1:
            raise InputError("flows: the columns differ in length")
        for name, limit in _LIMITS.items():
            column = getattr(self, name)
            lowest = -1 if name in {"sport", "dst_qp"} else 0
            if len(column) and (column.min() < lowest or column.max() >= limit):
                raise InputError(f"flows: {name} is outside 0 to {limit - 1}")

    def __len__(self) -> int:
        return len(self.src_port)

    def take(self, which: slice | NDArray[np.generic]) -> FlowColumns:
        """The chosen rows."""
        return FlowColumns(**{name: column[which] for name, column in vars(self).items()})

    @classmethod
    def of(cls, flows: Sequence[FlowKey]) -> FlowColumns:
        """Columns of single flows."""
        rows = [
            (
                flow.src_port,
                flow.dst_port,
                flow.proto,
                -1 if flow.sport is None else flow.sport,
                flow.dport,
                -1 if flow.dst_qp is None else flow.dst_qp,
            )
            for flow in flows
        ]
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 6).T)

    @classmethod
    def tcp(cls, src_port: Ints, dst_port: Ints, sport: Ints, dport: Ints) -> FlowColumns:
        """TCP connections."""
        return cls(src_port, dst_port, np.full_like(sport, TCP), sport, dport, np.full_like(sport, -1))


@dataclass(frozen=True)
class _Walkers:
    """Flows that are under way: row, directed link into the target, node they stand at, its switch, part of the flow."""

    row: Ints
    into: Ints
    node: Ints
    end: Ints
    column: Ints
    part: Floats

    def take(self, which: NDArray[np.generic]) -> _Walkers:
        return _Walkers(*(column[which] for column in vars(self).values()))


def walk(
    routing: Routing, flows: FlowColumns, *, sprayed: bool = False
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Hop by hop: (rows of flows, directed link that each crosses, part of the flow); memory as for all F flows at once.

    Raises:
        UnknownPathError: no route or cable, a hash, source port or destination QP is not known, or the hops circle.
    """
    from topology.routing import UnknownPathError

    fabric, hops, choices = routing.fabric, routing.hops, routing.choices
    there = fabric.ports.node[flows.src_port] == fabric.ports.node[flows.dst_port]
    row = np.flatnonzero(~there)  # inside one host nothing crosses the network
    if not len(row):
        return
    out, into = (_cable(routing, ports[row]) for ports in (flows.src_port, flows.dst_port))
    into ^= 1
    yield row, out, np.ones(len(row))
    behind = np.flatnonzero(out != into)
    at = _Walkers(
        row=row[behind],
        into=into[behind],
        node=fabric.ports.node[fabric.directed_ports[out[behind], 1]],
        end=fabric.ports.node[fabric.directed_ports[into[behind], 0]],
        column=hops.column[flows.dst_port[row[behind]]].astype(np.int64),
        part=np.ones(len(behind)),
    )
    for _ in range(_MAX_HOPS):
        arrived = at.node == at.end
        if arrived.any():
            last = at.take(arrived)
            yield last.row, last.into, last.part
            at = at.take(~arrived)
        if not len(at.row):
            return
        chosen = hops.sets(at.node, at.column).astype(np.int64)
        if chosen.min() < 0:
            lost = int(np.argmin(chosen))
            target = fabric.port_element(int(flows.dst_port[at.row[lost]]))
            raise UnknownPathError(f"{fabric.nodes.name[int(at.node[lost])]} has no route to {target}")
        if sprayed:
            at, chosen, position = _spray(routing, at, chosen)
        else:
            position = np.full(len(at.row), -1, dtype=np.int64)
        _hash(routing, flows, at, chosen, position)
        link = choices.link[choices.first[chosen] + position]
        yield at.row, link, at.part
        at = replace(at, node=hops.node_after[link].astype(np.int64))
    raise UnknownPathError("routing: a flow circles; the next hops form a loop")


def paths(routing: Routing, flows: FlowColumns) -> Ints:
    """(F, H) directed links of each flow in order, -1 behind its last.

    Raises:
        UnknownPathError: as `walk`.
    """
    steps: list[Ints] = []
    count = np.zeros(len(flows), dtype=np.int64)
    for begin in range(0, len(flows), _BLOCK):
        for row, link, _ in walk(routing, flows.take(slice(begin, begin + _BLOCK))):
            place = count[begin + row]
            for number in np.unique(place).tolist():
                if number == len(steps):
                    steps.append(np.full(len(flows), -1, dtype=np.int64))
                steps[number][begin + row[place == number]] = link[place == number]
            count[begin + row] += 1
    return np.stack(steps, axis=1) if steps else np.empty((len(flows), 0), dtype=np.int64)


def walked_loads(
    routing: Routing, flows: FlowColumns, flow_bytes: Floats, *, draw: Ints | None = None, draws: int = 1
) -> Floats:
    """(D, 2L) bytes when every flow's 5-tuple is known; flow f counts in draw `draw[f]`. Sprayed switches share evenly.

    Raises:
        UnknownPathError: as `walk`.
    """
    width = routing.fabric.directed_count
    loads = np.zeros(draws * width)
    for begin in range(0, len(flows), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        carried = flow_bytes[block]
        place = np.zeros(len(carried), dtype=np.int64) if draw is None else draw[block] * width
        for row, link, part in walk(routing, flows.take(block), sprayed=True):
            loads += np.bincount(place[row] + link, carried[row] * part, minlength=len(loads))
    return loads.reshape(draws, width)


def _cable(routing: Routing, ports: Ints) -> Ints:
    """(F,) directed link out of each port."""
    from topology.routing import UnknownPathError

    fabric = routing.fabric
    out = fabric.out_of_port[ports]
    loose = out < 0
    if len(fabric.links.state):
        loose |= fabric.links.state[out // 2] != LinkState.UP
    if loose.any():
        raise UnknownPathError(f"{fabric.port_element(int(ports[np.argmax(loose)]))} has no cable that is up")
    return out


def _spray(routing: Routing, at: _Walkers, chosen: Ints) -> tuple[_Walkers, Ints, Ints]:
    """Flows at switches that spray, one row for each next hop; position -1 where a hash decides."""
    choices = routing.choices
    sprays = np.array([*(spec.family == "spray" for spec in choices.specs), False])[choices.spec_of[at.node]]
    copies = np.where(sprays, choices.size[chosen], 1)
    index = np.repeat(np.arange(len(copies)), copies)
    position = np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
    slots = routing.hops.total[chosen[index]]
    width = routing.hops.width[_slot(routing, chosen[index], position)]
    part = at.part[index] * np.where(sprays[index], width / slots, 1.0)
    return replace(at.take(index), part=part), chosen[index], np.where(sprays[index], position, -1)


def _slot(routing: Routing, chosen: Ints, position: Ints) -> Ints:
    """First slot in `Routing.hops` of a next hop of each set."""
    hops, choices = routing.hops, routing.choices
    first_slots = np.flatnonzero(hops.first == np.arange(len(hops.link)) - np.repeat(hops.offset, hops.total))
    found: Ints = first_slots[choices.first[chosen] + position]
    return found


def _hash(routing: Routing, flows: FlowColumns, at: _Walkers, chosen: Ints, position: Ints) -> None:
    """Fill in the positions that are still -1."""
    from topology.routing import UnknownPathError

    choices = routing.choices
    position[choices.size[chosen] == 1] = 0
    open_ = np.flatnonzero(position < 0)
    if not len(open_):
        return
    spec_of = choices.spec_of[at.node[open_]]
    key = (spec_of + 1) * len(choices.choices) + choices.kind[chosen[open_]]
    for value in np.unique(key).tolist():
        members = open_[key == value]
        spec = choices.spec(value // len(choices.choices) - 1)
        choice = choices.choices[value % len(choices.choices)]
        node = int(at.node[members[0]])
        try:
            tuples = _tuples(routing, flows, at.row[members], choice, spec)
            position[members] = choice.pick(spec, tuples)
        except UnknownChoiceError as error:
            raise UnknownPathError(str(error).format(routing.fabric.nodes.name[node])) from None


def _tuples(
    routing: Routing, flows: FlowColumns, rows: Ints, choice: Choice, spec: HashSpec | None
) -> Tuples:
    """What the switch sees of these flows.

    Raises:
        UnknownChoiceError: a field that it hashes is not known.
    """
    used = choice.used_fields(spec)
    proto, sport, dport, dst_qp = (
        column[rows] for column in (flows.proto, flows.sport, flows.dport, flows.dst_qp)
    )
    source, target = (routing.choices.address[ports[rows]] for ports in (flows.src_port, flows.dst_port))
    if "sport" in used and sport.min() < 0:
        raise UnknownChoiceError(
            "{} hashes the source port, which is not known before a flow connects; use spread"
        )
    if "dst_qp" in used and np.any(is_roce(proto, dport) & (dst_qp < 0)):
        raise UnknownChoiceError(
            "{} hashes the destination QP, which a flow lacks; take it from the NCCL log"
        )
    if used & {"src_ip", "dst_ip"} and min(source.min(), target.min()) < 0:
        raise UnknownChoiceError("{} hashes IPv4 addresses, and a NIC of a flow has none")
    columns = (
        np.maximum(column, 0).astype(np.uint32) for column in (source, target, sport, dport, proto, dst_qp)
    )
    return Tuples(*columns)

"""Clos fabrics as `Fabric` and `Routing`, and transfers over them with an injected fault, for tests without a lab."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nettune.qualify.flows import FlowResult, FlowState, ProbeFlow
from topology.builder import FabricBuilder
from topology.ecmp import HashSpec
from topology.fabric import Fabric, LinkState, NodeKind
from topology.routing import Routing

if TYPE_CHECKING:
    from collections.abc import Sequence

PACE = 0.92


def clos(
    leaves: int, spines: int, per_leaf: int | tuple[int, ...], *, rails: int = 1, parallel: int = 1,
    known: bool = True, down: tuple[str, ...] = (), host_gbps: float = 0.1,
    uplink_gbps: tuple[float, ...] = (0.1,),
) -> tuple[Fabric, Routing]:  # fmt: skip
    """A two-tier Clos; rail r of a host goes to leaf `pod * rails + r`; cables whose name is in `down` are down.

    `per_leaf` may differ from pod to pod; `uplink_gbps` has the rate of the cables to each spine, in turn.
    """
    builder = FabricBuilder()
    pods = leaves // rails
    counts = (per_leaf,) * pods if isinstance(per_leaf, int) else per_leaf
    places = [(pod, place) for pod, count in enumerate(counts) for place in range(count)]
    hosts = [f"h{n}" for n in range(len(places))]
    for host in hosts:
        builder.node(host, NodeKind.HOST)
    for name in [*(f"leaf{i}" for i in range(leaves)), *(f"spine{i}" for i in range(spines))]:
        builder.node(name, NodeKind.SWITCH)

    def cable(a: tuple[str, str], b: tuple[str, str]) -> None:
        name = "--".join(sorted((f"{a[0]}:{a[1]}", f"{b[0]}:{b[1]}")))
        builder.link(a, b, state=LinkState.DOWN if name in down else LinkState.UP)

    for host, (pod, place) in zip(hosts, places, strict=True):
        for rail in range(rails):
            leaf = pod * rails + rail
            address = f"10.0.{leaf}.{2 * place + 1}"
            builder.port(host, f"eth{rail}", speed_gbps=host_gbps, rail=rail, address=address, mtu=1500)
            builder.port(f"leaf{leaf}", f"d{place}", speed_gbps=host_gbps, mtu=1500)
            cable((host, f"eth{rail}"), (f"leaf{leaf}", f"d{place}"))
    for leaf in range(leaves):
        for spine in range(spines):
            for lane in range(parallel):
                up, under = f"u{spine * parallel + lane}", f"d{leaf * parallel + lane}"
                speed = uplink_gbps[spine % len(uplink_gbps)]
                builder.port(f"leaf{leaf}", up, speed_gbps=speed, mtu=1500)
                builder.port(f"spine{spine}", under, speed_gbps=speed, mtu=1500)
                cable((f"leaf{leaf}", up), (f"spine{spine}", under))
    fabric = builder.build()
    plain = Routing.shortest_paths(fabric)
    hashes = {}
    if known:
        # Two tiers with one seed would never use some of the parallel links.
        hashes = {
            fabric.node_row(name): HashSpec("linux-multipath", 2 if name.startswith("spine") else 1)
            for name in fabric.switches
        }
    return fabric, Routing(fabric, plain.group, plain.table, hashes, "test")


@dataclass(frozen=True)
class Fault:
    """A fault of directed links: `kind` rate, loss, mtu, flap or dead, with its size."""

    kind: str
    links: frozenset[int]
    size: float = 0.0


def measured(
    flow: ProbeFlow, faults: tuple[Fault, ...], rng: np.random.Generator, *, number: int = 0, stage: int = 1,
    alone: bool = False, busy: float = 0.03, duration_s: float = 0.25, pace: float = PACE,
    room: float | None = None,
) -> FlowResult:  # fmt: skip
    """What a transfer would show; made by rules of its own, not by the model that is under test.

    A path is drawn where it is not known. `room` is what a slow link leaves of the offered rate, by default for a flow
    alone on a path of one speed. `busy` is the chance that a sound flow looks bad because the machine is busy.
    """
    draw = rng.choice(len(flow.alternatives), p=[p for p, _ in flow.alternatives])
    path = set(flow.alternatives[draw][1])
    offered = flow.nominal_gbps * pace * 1448 / 1514
    segments = int(offered * 1e9 / 8 * duration_s / 1448)
    ratio: float = rng.normal(1.0, 0.003)
    lost, gap, rtt = 0.0, 0.001, float(rng.lognormal(4.5, 0.5))
    state, full, small = FlowState.OK, 5, 5
    for fault in faults:
        if path.isdisjoint(fault.links):
            continue
        if fault.kind == "rate":
            most = fault.size / pace if room is None else room
            if most < 1:
                ratio = min(ratio, most * rng.uniform(0.93, 1.0))
                rtt, lost = rng.uniform(2000, 6000), lost + rng.choice([0, 8, 10, 18])
        elif fault.kind == "loss":
            lost += rng.binomial(segments, fault.size)
            ratio *= max(0.2, 1 - fault.size * rng.uniform(2, 12))
            if rng.random() < 2 * fault.size:
                state, gap, ratio = FlowState.GAP, 0.2, ratio * 0.3
        elif fault.kind == "mtu":
            full = 0
            if rng.random() < 0.6:
                state, ratio, segments, lost = FlowState.STALLED, 0.0, 13, 1
        elif fault.kind == "flap":
            if rng.random() < fault.size:
                state = (FlowState.GAP, FlowState.STALLED, FlowState.DEAD)[rng.choice(3, p=[0.4, 0.45, 0.15])]
                ratio, gap, lost = rng.uniform(0, 0.7), 0.15, float(rng.integers(0, 50))
            if rng.random() < 0.15:
                full = small = 0
        else:
            state, full, small, ratio, segments = FlowState.DEAD, 0, 0, 0.0, 0
    if rng.random() < busy:
        ratio, gap, lost, rtt = ratio * rng.uniform(0.5, 1), 0.03, lost + rng.choice([0, 8, 14]), rtt + 2000
    if state in {FlowState.DEAD, FlowState.STALLED}:
        ratio = min(ratio, 0.04)
    delivered = offered * max(ratio, 0.0)
    return FlowResult(
        flow=flow, state=state, stage=stage, round=number, alone=alone, pace=pace, offered_gbps=offered,
        delivered_gbps=delivered, share=delivered * 1514 / 1448 / flow.nominal_gbps, segments=segments,
        lost=min(int(lost), segments), rtt_us=rtt, min_rtt_us=10.0, gap_s=gap, mss_bytes=1448,
        small_datagrams=small, full_datagrams=full, datagrams=5,
    )  # fmt: skip


class Network:
    """A fabric with faults that runs rounds as `Session` does; flows share a slow link unevenly, as TCP has it."""

    def __init__(self, fabric: Fabric, faults: tuple[Fault, ...], seed: int, busy: float = 0.03) -> None:
        self.fabric = fabric
        self.results: list[FlowResult] = []
        self._faults = faults
        self._rng = np.random.default_rng(seed)
        self._busy = busy
        self._rounds = 0

    def run(
        self, flows: Sequence[ProbeFlow], duration_s: float, *, stage: int = 1, pace: float
    ) -> list[FlowResult]:
        """One round."""
        self._rounds += 1
        loads = np.zeros(self.fabric.directed_count)
        for flow in flows:
            loads[list(flow.links)] += flow.nominal_gbps * pace
        assert (loads <= self.fabric.directed_gbps * pace * 1.001).all() or not flows[0].known
        rooms = np.full(len(flows), np.inf)
        for fault in self._faults:
            for link in fault.links if fault.kind == "rate" else ():
                members = [row for row, flow in enumerate(flows) if link in flow.links]
                if members:
                    lean = self._rng.uniform(0.7, 1.3, len(members))
                    left = fault.size * self.fabric.directed_gbps[link] / loads[link]
                    rooms[members] = np.minimum(
                        rooms[members], left * lean / lean.mean() if left < 1 else np.inf
                    )
        alone = stage > 1 or (len({flow.fills for flow in flows}) == 1 and flows[0].fills >= 0)
        results = [
            measured(
                flow, self._faults, self._rng, number=self._rounds, stage=stage, alone=alone or len(flows) == 1,
                busy=self._busy, duration_s=duration_s, pace=pace, room=float(room),
            )
            for flow, room in zip(flows, rooms, strict=True)
        ]  # fmt: skip
        self.results += results
        return results


@pytest.fixture(scope="session")
def made() -> SimpleNamespace:
    """`clos`, `measured`, `Fault` and `Network` for tests of this folder."""
    return SimpleNamespace(clos=clos, measured=measured, Fault=Fault, Network=Network)

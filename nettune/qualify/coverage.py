"""What was shown to be sound, with its figures, and what no transfer has shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.flows import FlowState
from nettune.qualify.kinds import Kind
from nettune.qualify.observe import observations, oddities, shown_gbps
from nettune.qualify.thresholds import limit
from nettune.units import format_rate
from topology.fabric import LinkState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from nettune.qualify.flows import FlowResult
    from nettune.qualify.observe import Odd
    from nettune.qualify.plan import ProbePlan
    from topology.fabric import Fabric

_SHOWN_LOSSES = 7.75
"""Expected losses with which four or more are seen with 95% probability; four make a suspect."""
_MISSED = 0.1
_NEARLY = 0.99
_NAMED = 3


@dataclass(frozen=True)
class Rates:
    """How far the directed links were tested.

    Attributes:
        tested: (2L,) links that are up and not accused.
        shown_gbps: (2L,) highest rate that each carried.
        most_gbps: (2L,) its nominal rate, or the most that the hosts can bring to it where that is less.
        speeds: (2L,) nominal rates; 0 unknown.
    """

    tested: NDArray[np.bool_]
    shown_gbps: NDArray[np.float64]
    most_gbps: NDArray[np.float64]
    speeds: NDArray[np.float64]

    @property
    def short(self) -> list[int]:
        """Links that did not carry what they could have been asked for, or whose rate is not known."""
        enough = self.shown_gbps >= limit("link-rate-fail") * self.most_gbps
        return [int(link) for link in np.flatnonzero(self.tested & ~(enough & (self.speeds > 0)))]

    @property
    def limited(self) -> list[int]:
        """Links that the hosts cannot fill, whatever they send."""
        below = self.most_gbps < _NEARLY * self.speeds
        return [int(link) for link in np.flatnonzero(self.tested & below)]


def rates(
    fabric: Fabric, results: Sequence[FlowResult], plan: ProbePlan, accused: Collection[ElementId]
) -> Rates:
    """How far each directed link that is up and not accused was tested."""
    speeds = fabric.directed_gbps
    tested = np.repeat(fabric.links.state == LinkState.UP, 2)
    tested &= np.array(
        [_names(fabric, link).isdisjoint(accused) for link in range(fabric.directed_count)], dtype=np.bool_
    )
    return Rates(tested, shown_gbps(results, speeds), np.minimum(speeds, plan.most_gbps), speeds)


def passed(
    fabric: Fabric,
    results: Sequence[FlowResult],
    plan: ProbePlan,
    accused: Collection[ElementId],
    withheld: Collection[str],
) -> list[Finding]:
    """PASS findings: one on pairs, one for each kind of link fault that was looked for everywhere and not found.

    Args:
        fabric: the fabric.
        results: all transfers.
        plan: what was planned.
        accused: elements with a FAIL or WARN; what crosses them says nothing about the rest.
        withheld: checks that get no PASS.
    """
    sound = [r for r in results if r.state is FlowState.OK and not _accused(fabric, r, accused)]
    if not sound:
        return []
    known = rates(fabric, results, plan, accused)
    elsewhere = " elsewhere" if accused else ""
    texts: dict[str, tuple[str, dict[str, object]]] = {}
    if not known.short and known.tested.any():
        texts[Kind.RATE] = _rate_text(fabric, known, elsewhere, _once(results, accused, fabric, Kind.RATE))
    packets = np.zeros(fabric.directed_count)
    for result in sound:
        for probability, links in result.flow.alternatives:
            packets[list(links)] += probability * result.segments
    crossed = known.tested & (packets > 0)
    if crossed.any():
        fewest = float(packets[crossed].min())
        once = _once(results, accused, fabric, Kind.LOSS)
        texts[Kind.LOSS] = (
            f"{'no lasting loss' if once else 'no loss'}{elsewhere}: {int(fewest)} or more packets crossed each of "
            f"{int(crossed.sum())} directed links, so a loss above {_SHOWN_LOSSES / fewest:.3%} would have shown"
            + _cleared(once, "lost packets"),
            {"detectable_loss": _SHOWN_LOSSES / fewest},
        )
    if not _mtu_short(fabric, results, known.tested):
        told = [r for r in sound if r.mtu_ok is not None]
        texts[Kind.MTU] = (
            f"full-sized packets pass{elsewhere} on each directed link: on {sum(r.mtu_ok is True for r in told)} of "
            f"{len(told)} transfers"
            + _cleared(_once(results, accused, fabric, Kind.MTU), "lost the full-sized ones"),
            {},
        )
    texts[Kind.FLAP] = (
        f"no transfer{elsewhere} of {len(sound)} broke off for good"
        + _cleared(_once(results, accused, fabric, Kind.FLAP), "paused or broke off"),
        {},
    )
    pairs = {(r.flow.src_port, r.flow.dst_port) for r in sound}
    hosts = {int(fabric.ports.node[port]) for pair in pairs for port in pair}
    what = f"{len(pairs)} ordered pairs of NICs of {len(hosts)} hosts, {len(sound)} transfers"
    evidence = {"pairs": len(pairs), "transfers": len(sound)}
    return [
        Finding(check="pairs", status=Status.PASS, where=ElementId.fabric(), what=what, evidence=evidence),
        *(
            Finding(check=str(kind), status=Status.PASS, where=ElementId.fabric(), what=text, evidence=about)
            for kind, (text, about) in texts.items()
            if kind not in withheld
        ),
    ]


def _rate_text(fabric: Fabric, known: Rates, elsewhere: str, once: int) -> tuple[str, dict[str, object]]:
    shares = known.shown_gbps[known.tested] / np.maximum(known.most_gbps[known.tested], 1e-12)
    limited = known.limited
    count = int(known.tested.sum()) - len(limited)
    parts = []
    if count:
        parts.append(
            f"{count} directed links{elsewhere} were filled to {shares.min():.2f} of nominal or more"
        )
    if limited:
        parts.append(
            f"{_list(fabric, limited)} could be tested up to "
            f"{_range(known.most_gbps[limited])} of {_range(known.speeds[limited])} only: the hosts cannot bring more "
            f"to {'it' if len(limited) == 1 else 'them'}"
        )
    about: dict[str, object] = {
        "share_low": float(shares.min()),
        "share_high": float(shares.max()),
        "limited": {
            fabric.directed_name(link): float(known.most_gbps[link] / known.speeds[link]) for link in limited
        },
    }
    return "; ".join(parts) + _cleared(once, "were slower"), about


def _list(fabric: Fabric, links: Sequence[int]) -> str:
    names = [fabric.directed_name(link) for link in links[:_NAMED]]
    more = f" and {len(links) - _NAMED} directed links more" if len(links) > _NAMED else ""
    return ", ".join(names) + more


def _range(values: NDArray[np.float64]) -> str:
    low, high = format_rate(float(values.min())), format_rate(float(values.max()))
    return low if low == high else f"{low} to {high}"


def _once(results: Sequence[FlowResult], accused: Collection[ElementId], fabric: Fabric, kind: Kind) -> int:
    """Transfers of the first pass that were odd in this way and not over an accused element."""
    return sum(
        row.stage == 1 and kind in oddities(row) and not _accused(fabric, row, accused)
        for row in observations(results)
    )


def _cleared(count: int, what: str) -> str:
    return f"; {count} at first {what} and not when tested again" if count else ""


def _names(fabric: Fabric, link: int) -> set[ElementId]:
    ports = fabric.directed_ports[link]
    return {
        fabric.link_element(link // 2),
        *(fabric.node_element(int(fabric.ports.node[port])) for port in ports),
    }


def _accused(fabric: Fabric, result: FlowResult, accused: Collection[ElementId]) -> bool:
    return any(not _names(fabric, link).isdisjoint(accused) for link in result.flow.links)


def _mtu_short(fabric: Fabric, results: Sequence[FlowResult], tested: NDArray[np.bool_]) -> list[int]:
    """Tested links over which no full-sized datagram is known to have passed."""
    missed = np.ones(fabric.directed_count)
    for result in results:
        if result.mtu_ok:
            for probability, links in result.flow.alternatives:
                missed[list(links)] *= 1 - probability
    return [int(link) for link in np.flatnonzero(tested & (missed > _MISSED))]


def not_shown(
    fabric: Fabric,
    results: Sequence[FlowResult],
    plan: ProbePlan,
    accused: Collection[ElementId],
    silent_hosts: Sequence[str],
    untested: Sequence[Odd] = (),
) -> list[Finding]:
    """UNKNOWN findings, all of them required: what the transfers have not shown, with the reason.

    Links that none crossed, that were not filled, or over which no full-sized datagram came; odd transfers that were
    not tested again; pairs without a route; hosts without an agent; local errors.
    """
    crossed = np.zeros(fabric.directed_count)
    errors: dict[str, list[str]] = {}
    for result in results:
        if result.state is FlowState.ERROR:
            host = fabric.nodes.name[int(fabric.ports.node[result.flow.src_port])]
            errors.setdefault(host, []).append(result.note)
            continue
        for probability, links in result.flow.alternatives:
            crossed[list(links)] += probability
    findings = [
        _unknown("host-agent", ElementId.host(host), "has no agent, so it was not tested", [])
        for host in silent_hosts
    ]
    up = np.repeat(fabric.links.state == LinkState.UP, 2)
    idle = [int(link) for link in np.flatnonzero(up & (crossed == 0))]
    for cable in sorted({link // 2 for link in idle}):
        both = [fabric.directed_name(link) for link in idle if link // 2 == cable]
        findings.append(_unknown("link-cover", fabric.link_element(cable), "no transfer crossed it", both))
    known = rates(fabric, results, plan, accused)
    short = [link for link in known.short if crossed[link]]
    if short:
        findings.append(_not_filled(fabric, plan, known, short))
    mtu = [link for link in _mtu_short(fabric, results, known.tested) if crossed[link]]
    if mtu:
        sent = any(result.datagrams for result in results)
        why = "no full-sized datagram is known to have crossed" if sent else "no datagram could be sent over"
        what = f"{why} {_list(fabric, mtu)}"
        findings.append(_unknown(Kind.MTU, _where(fabric, mtu), what, [fabric.directed_name(m) for m in mtu]))
    if untested:
        kinds = sorted({str(kind) for one in untested for kind in one.kinds})
        what = f"{len(untested)} odd transfers ({', '.join(kinds)}) were not tested again for lack of time"
        ways = sorted({link for one in untested for link in one.flow.links})
        findings.append(
            _unknown("retest", ElementId.fabric(), what, [fabric.directed_name(link) for link in ways])
        )
    if plan.unroutable:
        reasons = sorted({reason for _, _, reason in plan.unroutable})
        what = f"{len(plan.unroutable)} pairs of NICs have no path: {reasons[0]}"
        findings.append(_unknown("pairs", ElementId.fabric(), what, reasons))
    for host, notes in errors.items():
        what = f"{len(notes)} transfers could not be started: {notes[0]}"
        findings.append(_unknown("host-agent", ElementId.host(host), what, sorted(set(notes))))
    return findings


def _not_filled(fabric: Fabric, plan: ProbePlan, known: Rates, short: Sequence[int]) -> Finding:
    shares = known.shown_gbps / np.maximum(known.most_gbps, 1e-12)
    worst = min(short, key=lambda link: float(shares[link]))
    if not known.speeds[worst]:
        what = f"{_list(fabric, short)}: the nominal rate is not known"
        return _unknown(Kind.RATE, _where(fabric, short), what, [])
    planned = np.zeros(fabric.directed_count)
    for flows in plan.rounds:
        loads = np.zeros(fabric.directed_count)
        for flow in flows:
            loads[list(flow.links)] += flow.nominal_gbps
        planned = np.maximum(planned, loads)
    reason = (
        "time ran out, or the machine was busy"
        if planned[worst] >= _NEARLY * known.most_gbps[worst]
        else "no flows whose paths are known fill it"
    )
    more = f", and {len(short) - 1} directed links more were not filled" if len(short) > 1 else ""
    what = (
        f"{fabric.directed_name(worst)} was tested up to {format_rate(float(known.shown_gbps[worst]))} of "
        f"{format_rate(float(known.speeds[worst]))}{more}: {reason}"
    )
    details = [
        f"{fabric.directed_name(link)}: {format_rate(float(known.shown_gbps[link]))} of "
        f"{format_rate(float(known.speeds[link]))}"
        for link in short
    ]
    return _unknown(Kind.RATE, _where(fabric, short), what, details)


def _where(fabric: Fabric, links: Sequence[int]) -> ElementId:
    cables = {link // 2 for link in links}
    return fabric.link_element(cables.pop()) if len(cables) == 1 else ElementId.fabric()


def _unknown(check: str, where: ElementId, what: str, details: Sequence[str]) -> Finding:
    return Finding(
        check=str(check),
        status=Status.UNKNOWN,
        where=where,
        what=what,
        evidence={"details": list(details)},
        fix="remove the cause and qualify again; what was not tested is not known to be sound",
    )

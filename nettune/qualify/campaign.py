"""`qualify`: the whole ladder within a time budget: state, processors, all pairs, suspects once more, verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Status, exit_code, worst_first
from nettune.errors import InputError
from nettune.qualify.candidates import find_candidates
from nettune.qualify.coverage import not_shown, passed
from nettune.qualify.infer import Suspect, confirmation, infer
from nettune.qualify.likelihood import Kind, busy_rounds
from nettune.qualify.plan import make_plan
from nettune.qualify.retest import plan_retest
from nettune.qualify.session import Session
from nettune.qualify.stragglers import CpuResult, cpu_findings, measure_cpus
from nettune.qualify.thresholds import limit
from nettune.qualify.verdict import Weighed, link_findings, state_findings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nettune.checks import Finding
    from nettune.elements import ElementId
    from nettune.qualify.candidates import Candidate
    from nettune.qualify.flows import FlowResult
    from nettune.qualify.plan import ProbePlan
    from nettune.qualify.session import Caller
    from topology.fabric import Fabric
    from topology.routing import Routing

    Carrier = Callable[[], Mapping[tuple[str, str], int]]

QUALIFY_SCHEMA = "nettune.qualify/1"
_FLOW_S, _LEAST_FLOW_S = 0.25, 0.1
_SECOND_PACE = 0.97
_ROUND_OVERHEAD_S = 0.03
_CPU_SHARE, _FIRST_PASS_SHARE, _FIRST_PASS_END = 0.2, 0.4, 0.7
_RETESTS = 2
_BUSY_ROUNDS = 4
_CARRIER_LOG_ODDS = 12.0


@dataclass(frozen=True)
class QualifyResult:
    """What `qualify` found.

    Attributes:
        hosts: names, rows and columns of the matrix.
        findings: worst first; the first one is the element to act on.
        matrix_gbps: (H, H) payload rate from row to column, the slowest of the pair's transfers of the first pass; NaN
            where none ran.
        flows: every transfer in the order in which it ran.
        cpus: processor test of each host.
        rounds: rounds of the first pass.
        wall_s: time that it all took.
    """

    hosts: tuple[str, ...]
    findings: tuple[Finding, ...]
    matrix_gbps: NDArray[np.float64]
    flows: tuple[FlowResult, ...]
    cpus: tuple[CpuResult, ...]
    rounds: int
    wall_s: float

    @property
    def exit_code(self) -> int:
        """0 pass, 1 FAIL, 2 a required UNKNOWN."""
        return exit_code(self.findings)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`; missing rates are null."""
        return {
            "schema": QUALIFY_SCHEMA,
            "hosts": list(self.hosts),
            "findings": [finding.to_json() for finding in self.findings],
            "matrix_gbps": [[None if np.isnan(v) else float(v) for v in row] for row in self.matrix_gbps],
            "flows": [flow.to_json() for flow in self.flows],
            "cpus": [dict(vars(cpu)) for cpu in self.cpus],
            "rounds": self.rounds,
            "wall_s": self.wall_s,
        }


def qualify(
    fabric: Fabric,
    routing: Routing,
    agents: Caller,
    *,
    known: Sequence[Finding] = (),
    carrier: Carrier | None = None,
    progress: Callable[[str], None] | None = None,
    budget_s: float = 15.0,
    at_once: int = 4,
    cpus_at_once: int = 1,
    seed: int = 0,
) -> QualifyResult:
    """Test every host and every link of a fabric by real transfers.

    Args:
        fabric: the fabric.
        routing: its forwarding state; with known hashes every transfer's path is chosen, else inferred.
        agents: one rank or more on each host (the first of a host is used); `placement` names the host of each.
        known: findings of the structure (discovery); they are merged, and win over equal ones of this function.
        carrier: reads how often the carrier of each (node, port) has changed; taken before and after.
        progress: told what is going on, a line each.
        budget_s: time for everything; what does not fit is UNKNOWN.
        at_once: transfers at the same time. Few on a machine that emulates the fabric, half the hosts on a real one.
        cpus_at_once: hosts whose processor is tested at the same time; 1 where they share one machine.
        seed: seeds the choice of pairs on a large fabric.

    Raises:
        InputError: fewer than two hosts have an agent.
        AgentError: an agent died or hung; it is named.
    """
    begun = time.monotonic()
    say = progress or (lambda _line: None)
    rank_of_host: dict[str, int] = {}
    for rank, host in enumerate(agents.placement):
        if host in fabric.hosts:
            rank_of_host.setdefault(host, rank)
    if len(rank_of_host) < 2:
        raise InputError("qualify needs agents on two hosts of the fabric or more")
    hosts = [host for host in fabric.hosts if host in rank_of_host]
    before = carrier() if carrier else {}
    say(f"qualify: processors of {len(hosts)} hosts")
    cpus = measure_cpus(
        agents,
        {host: rank_of_host[host] for host in hosts},
        begun + _CPU_SHARE * budget_s,
        at_once=cpus_at_once,
    )
    plan = make_plan(fabric, routing, hosts, at_once=at_once, seed=seed)
    candidates = find_candidates(fabric)
    with Session(fabric, agents, rank_of_host) as session:
        _first_pass(session, plan, budget_s, begun, say)
        hints = _flapping(fabric, before, carrier() if carrier else {})
        weighed = _second_pass(session, plan, candidates, hints, begun + budget_s, say)
        results = tuple(session.results)
    if carrier:
        hints = _flapping(fabric, before, carrier())
    slow = [cpu.host for cpu in cpus if cpu.retested and cpu.slowness >= limit("cpu-fail")]
    links = link_findings(fabric, weighed, slow)
    accused = {finding.where for finding in links}
    silent = [host for host in fabric.hosts if host not in rank_of_host]
    own = [
        *state_findings(fabric),
        *cpu_findings(cpus, hosts),
        *links,
        *passed(
            fabric,
            results,
            accused,
            {str(finding.check) for finding in links if finding.status is Status.FAIL},
        ),
        *not_shown(fabric, results, plan, silent),
    ]
    return QualifyResult(
        hosts=fabric.hosts,
        findings=tuple(worst_first(_merged(known, own))),
        matrix_gbps=_matrix(fabric, results),
        flows=results,
        cpus=tuple(cpus),
        rounds=len(plan.rounds),
        wall_s=time.monotonic() - begun,
    )


def _first_pass(
    session: Session, plan: ProbePlan, budget_s: float, begun: float, say: Callable[[str], None]
) -> None:
    """All rounds; then those once more in which even the best flow was slow, because the machine was busy."""
    left = budget_s * _FIRST_PASS_SHARE
    flow_s = max(_LEAST_FLOW_S, min(_FLOW_S, left / max(len(plan.rounds), 1) - _ROUND_OVERHEAD_S))
    say(f"qualify: {plan.flows} transfers in {len(plan.rounds)} rounds of {flow_s:.2f} s")
    deadline = begun + budget_s * _FIRST_PASS_END
    busy = []
    for flows in plan.rounds:
        if time.monotonic() > deadline:
            return
        results = session.run(flows, flow_s, pace=limit("paced-share"))
        if busy_rounds(results) or (len(flows) > 1 and max(r.ratio for r in results) < limit("contended")):
            busy.append(flows)
    for flows in busy[:_BUSY_ROUNDS]:
        if time.monotonic() < deadline:
            session.run(flows, flow_s, pace=limit("paced-share"))


def _second_pass(
    session: Session,
    plan: ProbePlan,
    candidates: Sequence[Candidate],
    hints: Mapping[ElementId, float],
    deadline: float,
    say: Callable[[str], None],
) -> list[Weighed]:
    """Infer, test the suspects again, infer again; until they are told apart or the time is up."""
    fabric = session.fabric
    speeds = fabric.directed_gbps

    def suspects(at_least: float) -> list[Suspect]:
        return infer(session.results, candidates, speeds, at_least=at_least, hints=hints)

    found = suspects(limit("suspect"))
    for _ in range(_RETESTS):
        retest = plan_retest(found, candidates, plan.pairs, fabric.directed_count)
        if not retest.rounds or time.monotonic() > deadline:
            break
        say(f"qualify: {', '.join(str(s.candidate.element) for s in found[:3])} once more")
        for flows in retest.rounds:
            if time.monotonic() < deadline:
                session.run(flows, retest.duration_s, stage=2, pace=_SECOND_PACE)
        found = suspects(limit("suspect"))
        if all(s.log_odds >= limit("certain") and s.probability > 0.9 for s in found):
            break
    second = [result for result in session.results if result.stage == 2]
    weighed = []
    for suspect in found:
        crossing = [result for result in second if result.flow.crosses(suspect.candidate.links) >= 0.5]
        hint = hints.get(suspect.candidate.element, 0.0) if suspect.kind is Kind.FLAP else 0.0
        agrees = confirmation(suspect, crossing, speeds) + hint if crossing else hint or None
        # What neither the odds nor a second look bears out was a busy machine.
        if suspect.log_odds >= limit("certain") or agrees is None or agrees > 0:
            weighed.append(Weighed(suspect, agrees))
    return weighed


def _flapping(
    fabric: Fabric, before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int]
) -> dict[ElementId, float]:
    """Log odds for a flapping cable where the carrier of an end changed while we looked."""
    hints = {}
    for (node, port), count in after.items():
        if count > before.get((node, port), count):
            link = int(fabric.link_of_port[fabric.port_row(node, port)])
            if link >= 0:
                hints[fabric.link_element(link)] = _CARRIER_LOG_ODDS
    return hints


def _matrix(fabric: Fabric, results: Sequence[FlowResult]) -> NDArray[np.float64]:
    row_of = {name: row for row, name in enumerate(fabric.hosts)}
    matrix = np.full((len(row_of), len(row_of)), np.nan)
    for result in results:
        if result.stage == 1:
            src, dst = (
                row_of[fabric.nodes.name[int(fabric.ports.node[port])]]
                for port in (result.flow.src_port, result.flow.dst_port)
            )
            matrix[src, dst] = np.fmin(matrix[src, dst], result.delivered_gbps)
    return matrix


def _merged(known: Sequence[Finding], own: Sequence[Finding]) -> list[Finding]:
    """Known findings first; an own one about the same check and element (or a PASS beside a worse one) is left out."""
    named = {(finding.check, finding.where) for finding in known}
    checks = {finding.check for finding in known}
    return [
        *known,
        *(
            finding
            for finding in own
            if (finding.check, finding.where) not in named
            and not (finding.status is Status.PASS and finding.check in checks)
        ),
    ]

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
from nettune.qualify.linkstate import state_findings
from nettune.qualify.passes import first_pass, second_pass
from nettune.qualify.plan import make_plan
from nettune.qualify.session import Session
from nettune.qualify.stragglers import CpuResult, cpu_findings, measure_cpus
from nettune.qualify.thresholds import limit
from nettune.qualify.verdict import link_findings, named_elements, sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nettune.checks import Finding
    from nettune.elements import ElementId
    from nettune.launch.caller import Caller
    from nettune.qualify.flows import FlowResult
    from nettune.qualify.passes import Looked
    from nettune.qualify.plan import ProbePlan
    from topology.fabric import Fabric
    from topology.routing import Routing

    Carrier = Callable[[], Mapping[tuple[str, str], int]]

QUALIFY_SCHEMA = "nettune.qualify/1"
_CPU_SHARE = 0.2
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
    slow = [cpu.host for cpu in cpus if cpu.retested and cpu.slowness >= limit("cpu-fail")]
    with Session(fabric, agents, rank_of_host) as session:
        first_pass(session, plan, budget_s, begun, say)
        hints = _flapping(fabric, before, carrier() if carrier else {})
        looked = second_pass(session, plan, candidates, hints, slow, begun + budget_s, say)
        results = tuple(session.results)
    silent = [host for host in fabric.hosts if host not in rank_of_host]
    own = [
        *state_findings(fabric),
        *cpu_findings(cpus, hosts),
        *judged(fabric, plan, results, looked, slow_hosts=slow, silent_hosts=silent),
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


def judged(
    fabric: Fabric,
    plan: ProbePlan,
    results: Sequence[FlowResult],
    looked: Looked,
    *,
    slow_hosts: Sequence[str] = (),
    silent_hosts: Sequence[str] = (),
) -> list[Finding]:
    """What the transfers say: bad elements, what was shown to be sound, and what was not shown.

    Args:
        fabric: the fabric.
        plan: what was planned.
        results: all transfers.
        looked: what the second pass left.
        slow_hosts: hosts whose processor is slow; it explains slow transfers.
        silent_hosts: hosts without an agent.
    """
    links = link_findings(fabric, looked.weighed, slow_hosts)
    accused = named_elements(links)
    withheld = {finding.check for finding in links}
    shown = passed(fabric, results, plan, accused, withheld)
    accused |= {
        fabric.link_element(int(fabric.link_of_port[nic])) for host in slow_hosts for nic in fabric.nics(host)
    }
    missing = not_shown(fabric, results, plan, accused, silent_hosts, looked.untested)
    return sealed(fabric, [*links, *shown, *missing], looked.repeats)


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
        if result.stage == 1 and result.flow.fills < 0:
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

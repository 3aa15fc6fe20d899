"""Send the probes of a plan from the hosts' agents."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status
from topology.probing.paths import ProbedPath, ProbePlan, read_answers, tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.launch import Agents
    from topology.fabric import Fabric


def probe(
    agents: Agents, hosts: Sequence[str], probe_plan: ProbePlan, fabric: Fabric
) -> tuple[list[ProbedPath], list[Finding]]:
    """Paths of all flows of a plan, and findings about routers that did not answer and ports that could not be had.

    Args:
        agents: one for each host.
        hosts: their hosts, in the agents' order.
        probe_plan: what to send.
        fabric: whose addresses the routers answer with.

    Raises:
        AgentError: a host's agent died, or did not end in time.
    """
    work = tasks(probe_plan, fabric)
    senders = [rank for rank, host in enumerate(hosts) if host in work]
    most = max(
        sum(len(task["flows"]) * task["hops"] * task["tries"] for task in of_host)
        for of_host in work.values()
    )
    # Each batch of a round waits for its last answers.
    rounds = sum(probe_plan.hops) * probe_plan.tries * (1 + len(probe_plan.sports) // 256)
    limit_s = 30 + 2 * most / probe_plan.packets_per_s + rounds * probe_plan.wait_s
    answers = agents.call(
        "topology.probing.prober:trace_all",
        lambda rank: {"tasks": work[hosts[rank]]},
        ranks=senders,
        timeout_s=limit_s,
    )
    results = {hosts[rank]: iter(result) for rank, result in zip(senders, answers, strict=True)}
    paths: list[ProbedPath] = []
    findings: list[Finding] = []
    for pair, hops in zip(probe_plan.pairs, probe_plan.hops, strict=True):
        result = next(results[fabric.nodes.name[int(fabric.ports.node[pair[0]])]])
        found = read_answers(probe_plan, pair, hops, result, fabric)
        paths += found
        findings += _told(found, pair, len(result["refused"]), fabric)
    return paths, findings


def _told(paths: Sequence[ProbedPath], pair: tuple[int, int], refused: int, fabric: Fabric) -> list[Finding]:
    silent: dict[int, int] = defaultdict(int)
    foreign: dict[str, int] = defaultdict(int)
    for path in paths:
        for ttl, link in enumerate(path.links[1:-1], start=2):
            if link < 0 and ttl not in path.unknown:
                silent[ttl] += 1
        for address in path.unknown.values():
            foreign[address] += 1
    where, target = (fabric.port_element(row) for row in pair)
    whats = [
        f"{count} of {len(paths)} source ports got no answer from router {ttl} on the way to {target}"
        for ttl, count in silent.items()
    ]
    whats += [
        f"{address} answered {count} probes to {target}, and belongs to no port of the fabric"
        for address, count in foreign.items()
    ]
    if refused:
        whats.append(f"{refused} source ports are in use here or may not be bound; their paths are not known")
    return [
        Finding(
            check="path-probe",
            status=Status.UNKNOWN,
            where=where,
            what=what,
            required=False,
            fix="let routers answer with ICMP time exceeded, from the interface the packet came in by, faster than the pace",
        )
        for what in whats
    ]

"""Send the probes of a plan from its hosts: the prober's source and its tasks go over standard input."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.errors import NettuneError
from nettune.launch.base import Command
from topology.probing.paths import ProbedPath, ProbePlan, read_answers, tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nettune.launch.base import Outcome
    from topology.discovery.collect import Run
    from topology.fabric import Fabric

# The source stands in front of its input; the system's own Python is preferred, as for the collector.
_PYTHON = (
    'p=/usr/bin/python3; [ -x "$p" ] || p=python3; exec "$p" -I -S -c '
    '\'import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv[1])), "prober", "exec"))\' "$1"'
)


def probe(run: Run, probe_plan: ProbePlan, fabric: Fabric) -> tuple[list[ProbedPath], list[Finding]]:
    """Paths of all flows of a plan, and findings about routers that did not answer and ports that could not be had.

    Args:
        run: how commands are run on hosts.
        probe_plan: what to send.
        fabric: whose addresses the routers answer with.

    Raises:
        NettuneError: a host could not be reached, has no Python 3, or did not end in time.
    """
    work = tasks(probe_plan, fabric)
    source = _source()
    commands = [
        Command(host, ["sh", "-c", _PYTHON, "sh", str(len(source))], stdin=source + json.dumps(todo).encode())
        for host, todo in work.items()
    ]
    outcomes = run(commands, _limit_s(probe_plan, work))
    results = {outcome.host: iter(_printed(outcome)) for outcome in outcomes}
    paths: list[ProbedPath] = []
    findings: list[Finding] = []
    for pair, hops in zip(probe_plan.pairs, probe_plan.hops, strict=True):
        result = next(results[fabric.nodes.name[int(fabric.ports.node[pair[0]])]])
        found = read_answers(probe_plan, pair, hops, result, fabric)
        paths += found
        findings += _told(found, pair, len(result["refused"]), fabric)
    return paths, findings


@cache
def _source() -> bytes:
    return files("topology.probing").joinpath("prober.py").read_bytes()


def _limit_s(probe_plan: ProbePlan, work: dict[str, list[dict[str, Any]]]) -> float:
    """Time in which the slowest host must be done, if every probe is sent as often as it may be."""
    most = max(
        sum(len(task["flows"]) * task["hops"] * task["tries"] for task in todo) for todo in work.values()
    )
    # Each batch of a round waits for its last answers.
    rounds = sum(probe_plan.hops) * probe_plan.tries * (1 + len(probe_plan.sports) // 256)
    limit_s: float = 30 + 2 * most / probe_plan.packets_per_s + rounds * probe_plan.wait_s
    return limit_s


def _printed(outcome: Outcome) -> list[dict[str, Any]]:
    last = outcome.stderr.strip().splitlines()[-1:] or ["it said nothing"]
    if outcome.timed_out:
        raise NettuneError(f"{outcome.host}: probing did not end in its time; send fewer probes, or faster")
    if outcome.rc != 0:
        raise NettuneError(f"{outcome.host}: probing failed: {last[0][:300]}", outcome.stderr)
    try:
        found: list[dict[str, Any]] = json.loads(outcome.stdout.rstrip().rpartition("\n")[2])
    except ValueError as error:
        raise NettuneError(f"{outcome.host}: printed no paths ({error}); was its output cut?") from error
    return found


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

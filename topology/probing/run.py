"""Send the probes of a plan from its hosts: the prober's source and its tasks go over standard input."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import NettuneError
from nettune.launch.base import Command
from topology.probing.paths import ProbedPath, ProbePlan, read_answers, tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nettune.launch.base import Outcome
    from topology.discovery.collect import Run
    from topology.fabric import Fabric

# The source stands in front of its input; the system's own Python is preferred, as for the collector.
_PYTHON = (
    'p=/usr/bin/python3; [ -x "$p" ] || p=python3; exec "$p" -I -S -c '
    '\'import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv[1])), "prober", "exec"))\' "$1"'
)


def probe(run: Run, probe_plan: ProbePlan, fabric: Fabric) -> tuple[list[ProbedPath], list[Finding]]:
    """Paths of all flows of a plan, and findings: hosts that failed, routers without answer, ports that could not be had.

    Args:
        run: how commands are run on hosts.
        probe_plan: what to send.
        fabric: whose addresses the routers answer with.

    Raises:
        NettuneError: no host could be reached, has Python 3, and ended in time; it says why of the first.
    """
    commands = [prober_command(host, todo) for host, todo in tasks(probe_plan, fabric).items()]
    # Twice the time that pace and waiting can take, and as long as a slow start does.
    outcomes = run(commands, 30 + 2 * probe_plan.seconds(fabric))
    results: dict[str, Iterator[dict[str, Any]]] = {}
    failed: dict[str, NettuneError] = {}
    for outcome in outcomes:
        try:
            results[outcome.host] = iter(printed(outcome))
        except NettuneError as error:
            failed[outcome.host] = error
    if not results:
        raise next(iter(failed.values()))
    paths: list[ProbedPath] = []
    findings = [
        Finding(
            check="path-probe",
            status=Status.UNKNOWN,
            where=ElementId.host(host),
            what=str(error).removeprefix(f"{host}: "),
            fix="see that the host is reached and has Python 3, or name other pairs (--pair)",
        )
        for host, error in failed.items()
    ]
    for pair in probe_plan.pairs:
        host = fabric.nodes.name[int(fabric.ports.node[pair[0]])]
        if host in results:
            result = next(results[host])
            found = read_answers(probe_plan, pair, result, fabric)
            paths += found
            findings += _told(found, pair, result["refused"], fabric)
    return paths, findings


@cache
def _source() -> bytes:
    return files("topology.probing").joinpath("prober.py").read_bytes()


def prober_command(host: str, todo: Sequence[Mapping[str, Any]]) -> Command:
    """The prober with its tasks, for one host."""
    source = _source()
    return Command(
        host, ["sh", "-c", _PYTHON, "sh", str(len(source))], stdin=source + json.dumps(todo).encode()
    )


def printed(outcome: Outcome) -> list[dict[str, Any]]:
    """What the prober returned for each of its tasks.

    Raises:
        NettuneError: it failed, was stopped, or its output was cut.
    """
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


def _told(
    paths: Sequence[ProbedPath], pair: tuple[int, int], refused: dict[str, str], fabric: Fabric
) -> list[Finding]:
    silent: Counter[int] = Counter()
    foreign: Counter[str] = Counter()
    for path in paths:
        silent.update(
            ttl for ttl, link in enumerate(path.links[1:-1], start=2) if link < 0 and ttl not in path.unknown
        )
        foreign.update(path.unknown.values())
    where, target = (fabric.port_element(row) for row in pair)
    unanswered = (
        "let routers send ICMP time exceeded, or send less in a second (--rate): Linux routers answer a host once a second, "
        "icmp_ratelimit"
    )
    unknown = (
        "let routers answer from the interface the packet came in by (Linux: icmp_errors_use_inbound_ifaddr=1), or discover "
        "the fabric again"
    )
    told = [
        (
            f"{count} of {len(paths)} source ports got no answer from router {ttl} on the way to {target}",
            unanswered,
        )
        for ttl, count in silent.items()
    ]
    told += [
        (f"{address} answered {count} probes to {target}, and belongs to no port of the fabric", unknown)
        for address, count in foreign.items()
    ]
    return open_paths(where, [*told, *refusals(refused.values())])


def refusals(reasons: Iterable[str]) -> list[tuple[str, str]]:
    """What is said of source ports that their host refused, and what to do."""
    taken = "choose other ports (--first-port) if they are in use; else see that the NIC is up and has its address"
    return [
        (f"{count} source ports have no path, since the host refused them: {why}", taken)
        for why, count in Counter(reasons).items()
    ]


def open_paths(where: ElementId, told: Iterable[tuple[str, str]]) -> list[Finding]:
    """Findings about a pair's open paths, of what is wrong and what to do."""
    return [
        Finding(check="path-probe", status=Status.UNKNOWN, where=where, what=what, required=False, fix=fix)
        for what, fix in told
    ]

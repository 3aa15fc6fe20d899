"""`nettune discover paths` and `nettune lint ecmp`: which link a flow takes, and what is wrong with how it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.hosts import expand_hosts
from nettune.launch import Launcher, create
from nettune.launch import run as run_commands
from nettune.records import json_text, write_atomic
from nettune.workflows.given import on_lab, read_fabric
from nettune.workflows.run import Progress, Run, RunResult, open_run
from topology.ecmp.connections import QpSettings
from topology.ecmp.fit import SEEDS
from topology.ecmp.flowfile import read_flows
from topology.ecmp.lint import lint_ecmp
from topology.ecmp.lint_flows import paths_of
from topology.ecmp.lint_scope import with_speeds
from topology.fabric import Fabric, LinkState, NodeKind
from topology.probing.capturefile import read_captures
from topology.probing.counters import BURST, CounterPlan, probe_by_counters, unclear
from topology.probing.learned import learn
from topology.probing.paths import PROTOCOLS, Agreement, ProbedPath, agreement, plan, to_json
from topology.probing.run import probe
from topology.probing.sportplan import choose_sports
from topology.routing import Routing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.probing.paths import ProbePlan

_MOST_SEEDS = 1 << 20
METHODS = ("ttl", "counters")


@dataclass(frozen=True, kw_only=True)
class Probing:
    """What is to be probed.

    Attributes:
        lab: name of a lab that is up; its hosts send.
        fabric: a file of `nettune discover -o` in its place; its hosts are reached over ssh.
        pairs: `h0>h5` for each; empty for the first host of every leaf to that of the next.
        ports: source ports of each pair.
        first_port: the first of them.
        protocol: `tcp` or `udp`.
        dport, dscp: as the flows in question have them.
        packets_per_s: pace of each host.
        by: `ttl`, answers of routers at which packets die, or `counters`, of packets that switches sent.
        burst: packets of the first of the source ports between two readings of counters.
        captures: a file of readings, in place of sending anything.
        steer: flows of each pair for which ports are chosen that spread them; 0 for none.
        seeds: first and last seed that a fit tries where a seed cannot be solved for.
        out: file for the table source port -> path.
    """

    lab: str | None = None
    fabric: Path | None = None
    pairs: Sequence[str] = ()
    ports: int = 64
    first_port: int = 49152
    protocol: str = "udp"
    dport: int = 4791
    dscp: int = 26
    packets_per_s: float = 1000.0
    by: str = "ttl"
    burst: int = BURST
    captures: Path | None = None
    steer: int = 0
    seeds: str = ""
    out: Path | None = None


def probe_paths(
    wanted: Probing, runs: Path, progress: Progress, announce: Callable[[str], None]
) -> RunResult:
    """The verb `discover paths`; `announce` is told what will be sent before it is.

    Raises:
        InputError: no such lab, file, host or protocol; more packets than the bound.
        NettuneError: a host that sends could not be reached.
        UnknownPathError: no route between a pair.
    """
    if wanted.protocol not in PROTOCOLS:
        raise InputError(
            f"protocol {wanted.protocol!r} cannot be probed; choose one of {', '.join(PROTOCOLS)}"
        )
    last = wanted.first_port + wanted.ports - 1
    if last > 65535:
        raise InputError(
            f"{wanted.ports} source ports from {wanted.first_port} on go past 65535; ask for fewer, or start lower"
        )
    if wanted.by not in METHODS:
        raise InputError(f"--by {wanted.by!r} is not known; choose one of {', '.join(METHODS)}")
    if wanted.captures is not None and wanted.pairs:
        raise InputError("give --captures or --pair, not both: the file names the pairs")
    if wanted.out is not None and wanted.out.is_dir():
        raise InputError("is a folder; --out names a file", wanted.out)
    if wanted.steer > wanted.ports and wanted.captures is None:
        raise InputError(f"--steer {wanted.steer} needs as many --ports, not {wanted.ports}")
    seeds = _seeds(wanted.seeds)
    with _known(wanted.lab, wanted.fabric, "discover-paths", runs, progress) as (run, routing, reached):
        fabric = routing.fabric
        if wanted.captures is not None:
            probe_plan, paths = _captured(wanted, wanted.captures, routing)
            findings = unclear(paths, ElementId.fabric(), "flows")
            about, by = str(wanted.captures), "captures"
        else:
            probe_plan = _plan(wanted, routing, range(wanted.first_port, last + 1))
            by_counters = CounterPlan(probe_plan, wanted.burst) if wanted.by == "counters" else None
            about = by_counters.describe(routing) if by_counters else probe_plan.describe(fabric)
            by = wanted.by
            announce(f"will send {about}")
            with run.step("probe"):
                if by_counters:
                    switches = by_counters.switches(routing)
                    paths, findings = probe_by_counters(
                        partial(run_commands, reached(switches)), by_counters, routing
                    )
                else:
                    paths, findings = probe(partial(run_commands, reached([])), probe_plan, fabric)
        with run.step("fit"):
            learned = learn(paths, routing, seeds=seeds)
        seen = agreement(paths, routing)
        findings += [*_none_known(paths), *seen.findings(), *learned.findings()]
        table = to_json(probe_plan, paths, fabric)
        printed = {"paths": table["pairs"]}
        if wanted.steer:
            known_speeds, told = with_speeds(routing)
            chosen = choose_sports(paths, known_speeds, wanted.steer)
            findings += [*told, *chosen.findings(wanted.steer, fabric)]
            table["steering"] = printed["steering"] = chosen.to_json(probe_plan, fabric)
            run.data["steering"] = table["steering"]
        run.data |= {
            "probed": {"by": by, "plan": about, **_probed(paths, seen, fabric)},
            "learned": learned.to_json(),
            "routing": learned.routing.to_json(),
            "findings": [finding.to_json() for finding in worst_first(findings)],
        }
        printed["table"] = str(run.dir.write_json("paths.json", table))
        if wanted.out is not None:
            write_atomic(wanted.out, json_text(table))
            printed["table"] = str(wanted.out)
        return run.finish(exit_code(findings), printed)


def lint_hashes(
    lab: str | None,
    fabric: Path | None,
    qps: int,
    split: bool,
    flows: Path | None,
    runs: Path,
    progress: Progress,
) -> RunResult:
    """The verb `lint ecmp`, over the hashes that discovery or probing found.

    Raises:
        InputError: no such lab or file, a bad line in the file of flows.
        UnknownPathError: NICs that no route connects.
    """
    with _known(lab, fabric, "lint", runs, progress) as (run, routing, _):
        columns, bytes_ = read_flows(flows, routing.fabric) if flows is not None else (None, None)
        with run.step("lint"):
            findings = lint_ecmp(routing, settings=QpSettings(qps, split), flows=columns, flow_bytes=bytes_)
            if columns is not None:
                run.data["flows"] = paths_of(routing, columns)
        run.data["findings"] = [finding.to_json() for finding in worst_first(findings)]
        return run.finish(exit_code(findings))


@contextmanager
def _known(
    lab: str | None, fabric: Path | None, verb: str, runs: Path, progress: Progress
) -> Iterator[tuple[Run, Routing, Callable[[Sequence[str]], Launcher]]]:
    """A run with the fabric and the routing of a lab or of a file in it, and how its hosts, and more nodes, are reached.

    Raises:
        InputError: both are given, no such lab, or no such file.
    """
    if fabric is None:
        with on_lab(verb, lab or "lab", runs, progress, 0) as (run, cluster):
            yield run, cluster.discovery.routing, lambda _: cluster.launcher
        return
    if lab is not None:
        raise InputError("give --lab or --fabric, not both")
    with open_run(verb, runs, progress) as run:
        routing, data = read_fabric(fabric)
        run.data |= data
        yield run, routing, lambda more: create("ssh", hosts=[*routing.fabric.hosts, *more])


def _plan(wanted: Probing, routing: Routing, sports: Sequence[int]) -> ProbePlan:
    """The pairs that are asked for, or every leaf with the next."""
    fabric = routing.fabric
    return plan(
        routing,
        [_pair(words, fabric) for words in wanted.pairs] or _leaf_to_leaf(fabric),
        sports,
        proto=PROTOCOLS[wanted.protocol],
        dport=wanted.dport,
        dscp=wanted.dscp,
        packets_per_s=wanted.packets_per_s,
    )


def _captured(wanted: Probing, file: Path, routing: Routing) -> tuple[ProbePlan, list[ProbedPath]]:
    """The plan that would ask for as much as a file of counter readings tells, and what it tells."""
    proto = PROTOCOLS[wanted.protocol]
    paths = read_captures(file, routing, proto, wanted.dport)
    pairs = [(path.flow.src_port, path.flow.dst_port) for path in paths]
    sports = sorted({path.flow.sport or 0 for path in paths})
    made = plan(routing, pairs, sports, proto=proto, dport=wanted.dport, dscp=wanted.dscp)
    return made, paths


def _none_known(paths: Sequence[ProbedPath]) -> list[Finding]:
    """UNKNOWN, required, where probing found nothing at all."""
    if any(path.complete for path in paths):
        return []
    what = f"of {len(paths)} source ports none has a path that is known to its end"
    fix = (
        "see below why; where routers do not answer, ask the switches' counters: --by counters, or --captures"
    )
    return [Finding(check="path-probe", status=Status.UNKNOWN, where=ElementId.fabric(), what=what, fix=fix)]


def _seeds(words: str) -> range:
    """`70000` or `65536-131071`."""
    first, _, last = words.partition("-")
    numbers = [first, last or first]
    if not words:
        return SEEDS
    if not all(number.isascii() and number.isdecimal() for number in numbers) or not (
        int(numbers[0]) <= int(numbers[1]) < 2**32
    ):
        raise InputError(f"--seeds {words!r}: write it like 70000 or 65536-131071, numbers below 2^32")
    seeds = range(int(numbers[0]), int(numbers[1]) + 1)
    if len(seeds) > _MOST_SEEDS:
        raise InputError(
            f"--seeds {words!r}: {len(seeds):,} seeds; at most {_MOST_SEEDS:,} are tried at a time"
        )
    return seeds


def _pair(words: str, fabric: Fabric) -> tuple[int, int]:
    source, arrow, target = words.partition(">")
    if not arrow or not source or not target or ">" in target:
        raise InputError(
            f"--pair {words!r}: write it like 'h0>h5', or 'h0:eth1>h5:eth1' for another rail than the first"
        )
    return _nic(source, fabric), _nic(target, fabric)


def _nic(words: str, fabric: Fabric) -> int:
    host, _, port = words.partition(":")
    names = expand_hosts(host)
    if len(names) != 1:
        raise InputError(f"--pair: {words!r} is not one host")
    if fabric.nodes.kind[fabric.node_row(names[0])] != NodeKind.HOST:
        raise InputError(f"--pair: {names[0]} is no host")
    nics = fabric.nics(names[0])
    if not nics:
        raise InputError(f"{names[0]} has no NIC on the fabric")
    return fabric.port_row(names[0], port) if port else nics[0]


def _leaf_to_leaf(fabric: Fabric) -> list[tuple[int, int]]:
    """The first cabled NIC of each leaf to that of the next leaf with the same rail: every leaf chooses once."""
    first: dict[tuple[int, int], int] = {}
    for host in fabric.hosts:
        for nic in fabric.nics(host):
            leaf = fabric.leaf_of(nic)
            up = fabric.links.state[int(fabric.link_of_port[nic])] == LinkState.UP
            if leaf is not None and up and fabric.ports.address[nic]:
                first.setdefault((int(fabric.ports.rail[nic]), leaf), nic)
    pairs = []
    for rail in sorted({rail for rail, _ in first}):
        nics = [nic for (own, _), nic in first.items() if own == rail]
        pairs += [(a, b) for a, b in zip(nics, [*nics[1:], nics[0]], strict=True) if a != b]
    if not pairs:
        raise InputError(
            "no two leaves have hosts of one rail with addresses and cables that are up, so nothing is chosen between "
            "them; name other pairs with --pair 'h0>h5'"
        )
    return pairs


def _probed(paths: Sequence[ProbedPath], seen: Agreement, fabric: Fabric) -> dict[str, Any]:
    """Figures: flows, complete ones, agreement with the known hashes, and the evenness of each choice."""
    counts: dict[int, dict[int, int]] = {}
    for path in paths:
        for link in path.links[1:-1]:
            if link >= 0:
                switch = int(fabric.ports.node[fabric.directed_ports[link, 0]])
                of_switch = counts.setdefault(switch, {})
                of_switch[link] = of_switch.get(link, 0) + 1
    return {
        "flows": len(paths),
        "complete": sum(path.complete for path in paths),
        "compared": seen.compared,
        "as_predicted": seen.equal,
        "switches": [
            {
                "switch": fabric.nodes.name[switch],
                "links": {fabric.directed_name(link): count for link, count in sorted(of_switch.items())},
                "most_over_mean": float(max(of_switch.values()) / np.mean(list(of_switch.values()))),
            }
            for switch, of_switch in sorted(counts.items())
        ],
    }

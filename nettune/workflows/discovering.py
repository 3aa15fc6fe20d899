"""`nettune discover`: from files, a lab, this machine or hosts over ssh to one fabric, what is wrong with it, and files."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nettune.checks import Finding, Status, exit_code, unknown, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.hosts import expand_hosts
from nettune.lab import Lab
from nettune.launch import Launcher, create
from nettune.launch import run as run_commands
from nettune.wording import some
from nettune.workflows import exporting
from nettune.workflows.cluster import discover_lab
from nettune.workflows.run import Progress, Run, RunResult, open_run
from topology.discovery import Discovery
from topology.discovery import discover as discover_nodes
from topology.discovery.analysis import analyse
from topology.discovery.analysis_summary import summarise
from topology.discovery.collect import CollectError
from topology.discovery.l3 import build
from topology.discovery.lft import lft_routing
from topology.expect import expect
from topology.fabric import Fabric, NodeKind
from topology.filters import apply_filters
from topology.merge import merge
from topology.naming import element_name
from topology.railing import assign_rails
from topology.readers.nccl_log.events import Event
from topology.readers.registry import read
from topology.readers.said import Said
from topology.readers.source import Source
from topology.routing import Routing

_LIVE = "live"
_STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be discovered, and how.

    Attributes:
        files: tools' outputs; `-` is standard input.
        format_name: of all files; None to recognise it by their content.
        lab: name of a lab that is up.
        live: this machine.
        hosts: hostlist of machines that ssh reaches.
        expect: a plan, in any format that is read.
        keep: filters that are not applied.
        writes: `FORMAT=FILE` for each export.
        out: file for the fabric and its routing.
    """

    files: Sequence[str] = ()
    format_name: str | None = None
    lab: str | None = None
    live: bool = False
    hosts: str = ""
    expect: str | None = None
    keep: Sequence[str] = ()
    writes: Sequence[str] = ()
    out: Path | None = None


@dataclass
class _Found:
    """What all sources amount to, before the plan is looked at."""

    said: Said
    fabric: Fabric
    routing: Routing | None
    findings: list[Finding]
    dropped: Mapping[str, str]
    rails_told: str
    sources: list[dict[str, Any]] = field(default_factory=list)


def discover(wanted: Wanted, runs: Path, progress: Progress) -> RunResult:
    """The verb.

    Raises:
        InputError: a file that cannot be read or understood, a plan, lab, filter or export that is not there.
        CollectError: a node did not answer.
    """
    targets = exporting.targets(wanted.writes, wanted.out)
    apply_filters(Said("", ""), wanted.keep)
    if [*wanted.files, wanted.expect].count(_STDIN) > 1:
        raise InputError("standard input (-) is given twice; it can be read once")
    with _live(wanted) as live, open_run("discover", runs, progress) as run:
        with run.step("discover"):
            found = _gathered(wanted, live())
        if wanted.expect is not None:
            with run.step("compare with the plan"):
                plan = _read(wanted.expect, None)
                found.findings = expect(found.said, plan, found.findings)
        _keep_results(run, found)
        beside = {key: run.data[key] for key in ("fabric", "routing", "link_rate_gbps")}
        run.data["files"] = exporting.write(found.fabric, beside, targets)
        printed = {key: run.data[key] for key in ("fabric", "routing")}
        return run.finish(exit_code(found.findings), printed)


def discover_hosts(hosts: Sequence[str], launcher: Launcher) -> Discovery:
    """Layer-3 discovery of machines that a launcher reaches; all are hosts. Those that do not answer are findings.

    Raises:
        CollectError: none answered.
    """
    try:
        return discover_nodes(partial(run_commands, launcher), hosts, roles=dict.fromkeys(hosts, "host"))
    except CollectError as error:
        if not error.captures:
            raise
        found = build(error.captures)
        silent = [
            Finding(
                check="capture",
                status=Status.UNKNOWN,
                where=ElementId.host(host),
                what=f"gave no capture: {why}",
                fix="see why it does not answer, or leave it out of --hosts",
            )
            for host, why in error.failed.items()
        ]
        judged = analyse(found.fabric, found.routing, found.reasons)
        return replace(found, findings=(*silent, *found.findings, *judged))


@contextmanager
def _live(wanted: Wanted) -> Iterator[Any]:
    """A function that asks the nodes which are to be asked: [(name of the source, discovery)]."""
    lab = Lab.load(wanted.lab) if wanted.lab is not None else None

    def ask() -> list[tuple[str, Discovery]]:
        found = []
        if lab is not None:
            found.append((f"lab {lab.name}", discover_lab(lab).discovery))
        if wanted.live:
            host = element_name(socket.gethostname())
            found.append((f"{_LIVE} {host}", discover_hosts([host], create("local", hosts=[host]))))
        if wanted.hosts:
            hosts = expand_hosts(wanted.hosts)
            found.append((f"{_LIVE} {wanted.hosts}", discover_hosts(hosts, create("ssh", hosts=hosts))))
        return found

    try:
        yield ask
    finally:
        if lab is not None:
            lab.close()


def _gathered(wanted: Wanted, live: Sequence[tuple[str, Discovery]]) -> _Found:
    if len(live) == 1 and not wanted.files:
        name, known = live[0]
        said = Said.from_fabric(known.fabric, name, _LIVE)
        told = "by the NICs' names" if (known.fabric.ports.rail >= 0).any() else ""
        findings = list(known.findings)
        return _Found(said, known.fabric, known.routing, findings, known.dropped, told, [_about(said)])
    sources = [_said_live(name, known) for name, known in live]
    sources += [_read(name, wanted.format_name) for name in wanted.files]
    about = [_about(said) for said in sources]
    said = merge(sources, partial(apply_filters, keep=wanted.keep))
    told = "" if said.logical else assign_rails(said)
    fabric = said.to_fabric()
    # Cables tell no routes: without forwarding state they stay unknown.
    routing, of_tables = lft_routing(said, fabric) if said.forwarding else (_routing_told(said, fabric), [])
    judged = _not_judged(said) if said.logical else [*_kinds_not_told(said), *analyse(fabric, routing)]
    findings = [*said.findings, *of_tables, *judged]
    return _Found(said, fabric, routing, findings, said.dropped, told, about)


def _routing_told(said: Said, fabric: Fabric) -> Routing | None:
    """The routing that a source told, where its rows are still those of the fabric."""
    for event in said.events:
        if isinstance(event, Routing) and _same_rows(event.fabric, fabric):
            return replace(event, fabric=fabric)
    return None


def _same_rows(one: Fabric, other: Fabric) -> bool:
    columns = (
        (one.ports.node, other.ports.node),
        (one.links.port_a, other.links.port_a),
        (one.links.port_b, other.links.port_b),
        (one.links.state, other.links.state),
    )
    names = (one.nodes.name, one.ports.name) == (other.nodes.name, other.ports.name)
    return names and all(np.array_equal(a, b) for a, b in columns)


def _kinds_not_told(said: Said) -> list[Finding]:
    names = [name for name, node in said.nodes.items() if node.kind is None]
    if not names:
        return []
    whether = "is a host or a switch: it is" if len(names) == 1 else "are hosts or switches: they are"
    return [
        Finding(
            check="node-kinds",
            status=Status.UNKNOWN,
            where=ElementId.fabric(),
            what=f"no source tells whether {some(names)} {whether} taken for "
            f"{'a host' if len(names) == 1 else 'hosts'}",
            evidence={"nodes": names},
            required=False,
            fix="give a source that tells: the neighbours' captures, or a cabling plan with kind_a and kind_b",
        )
    ]


def _said_live(name: str, known: Discovery) -> Said:
    said = Said.from_fabric(known.fabric, name, _LIVE)
    for node in said.nodes.values():
        node.tier = -1  # worked out again over all sources
    said.dropped |= known.dropped
    said.events.append(known.routing)
    # Findings about structure are made again over all sources; those about reading stay.
    said.findings += [finding for finding in known.findings if finding.check in _READING]
    return said


_READING = {"capture", "cable-sources", "port-speed", "routing-followed"}


def _read(name: str, format_name: str | None) -> Said:
    source = Source.of_stream("<stdin>", sys.stdin.buffer) if name == _STDIN else Source.open(name)
    return read(source, format_name)


def _about(said: Said) -> dict[str, Any]:
    return {
        "name": said.source,
        "format": said.format,
        "nodes": len(said.nodes),
        "links": len(said.links),
        "gpus": len(said.gpus),
        "logical": said.logical,
    }


def _not_judged(said: Said) -> list[Finding]:
    what = f"{said.format} tells who is near whom, but no ports, counts or speeds of cables: none is judged"
    return [unknown("structure", ElementId.fabric(), what)]


def _keep_results(run: Run, found: _Found) -> None:
    summary = summarise(found.fabric).to_json()
    tiers = summary["tiers"]
    if found.said.logical:  # one line to the switch above stands for any number of cables
        for tier in tiers:
            tier["oversubscription"] = None
    run.data |= summary | {
        "format": found.said.format,
        "sources": found.sources,
        "logical": found.said.logical,
        "rails_told": found.rails_told,
        "oversubscription": {
            str(tier["tier"]): tier["oversubscription"] for tier in tiers if tier["oversubscription"]
        },
        "fabric": found.fabric.to_json(),
        "routing": None if found.routing is None else found.routing.to_json(),
        "link_rate_gbps": _link_rate_gbps(found.fabric),
        "dropped": dict(found.dropped),
        "events": dict(
            Counter(type(event).__name__ for event in found.said.events if isinstance(event, Event))
        ),
        "findings": [finding.to_json() for finding in worst_first(found.findings)],
    }


def _link_rate_gbps(fabric: Fabric) -> float:
    """Nominal speed of the slowest cabled NIC of the first rail (of any, where rails are not told); 0 not known."""
    ports = fabric.ports
    nics = (
        (fabric.nodes.kind[ports.node] == NodeKind.HOST) & (fabric.link_of_port >= 0) & (ports.speed_gbps > 0)
    )
    first = nics & (ports.rail == ports.rail[nics].min(initial=np.iinfo(np.int64).max))
    return float(ports.speed_gbps[first].min(initial=np.inf)) if first.any() else 0.0

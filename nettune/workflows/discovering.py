"""`nettune discover`: from files, a lab, this machine or hosts over ssh to one fabric, what is wrong with it, and files."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.hosts import expand_hosts
from nettune.lab import Lab
from nettune.launch import Launcher, create
from nettune.launch import run as run_commands
from nettune.records import write_atomic
from nettune.workflows.cluster import discover_lab
from nettune.workflows.run import Progress, Run, RunResult, open_run
from topology.discovery import Discovery
from topology.discovery import discover as discover_nodes
from topology.discovery.analysis import analyse
from topology.discovery.analysis_summary import summarise
from topology.discovery.lft import lft_routing
from topology.expect import expect
from topology.exports import EXPORTS, export
from topology.fabric import Fabric, NodeKind
from topology.filters import apply_filters
from topology.merge import merge
from topology.naming import element_name
from topology.railing import assign_rails
from topology.readers.registry import read
from topology.readers.said import Said
from topology.readers.source import Source
from topology.routing import Routing

_LIVE = "live"


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
    exports = [_export_of(words) for words in wanted.writes]
    apply_filters(Said("", ""), wanted.keep)
    with _live(wanted) as live, open_run("discover", runs, progress) as run:
        with run.step("discover"):
            found = _gathered(wanted, live())
        if wanted.expect is not None:
            with run.step("compare with the plan"):
                plan = _read(wanted.expect, None)
                found.findings += expect(found.said, plan)
        _keep_results(run, found)
        run.data["files"] = _write_files(run, found, wanted.out, exports)
        printed = {key: run.data[key] for key in ("fabric", "routing")}
        return run.finish(exit_code(found.findings), printed)


def discover_hosts(hosts: Sequence[str], launcher: Launcher) -> Discovery:
    """Layer-3 discovery of machines that a launcher reaches; all are hosts.

    Raises:
        CollectError: one did not answer.
    """
    run = partial(run_commands, launcher)
    return discover_nodes(
        lambda commands, timeout_s: run(commands, timeout_s=timeout_s),
        hosts,
        roles=dict.fromkeys(hosts, "host"),
    )


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
    said = apply_filters(merge(sources), wanted.keep)
    told = "" if said.logical else assign_rails(said)
    fabric = said.to_fabric()
    # Cables tell no routes: without forwarding tables they stay unknown.
    routing, of_tables = lft_routing(said, fabric) if said.forwarding else (None, [])
    judged = _not_judged(said) if said.logical else analyse(fabric, routing)
    findings = [*said.findings, *of_tables, *judged]
    return _Found(said, fabric, routing, findings, said.dropped, told, about)


def _said_live(name: str, known: Discovery) -> Said:
    said = Said.from_fabric(known.fabric, name, _LIVE)
    for node in said.nodes.values():
        node.tier = -1  # worked out again over all sources
    said.dropped |= known.dropped
    # Findings about structure are made again over all sources; those about reading stay.
    said.findings += [finding for finding in known.findings if finding.check in _READING]
    return said


_READING = {"cable-sources", "port-speed", "routing-followed"}


def _read(name: str, format_name: str | None) -> Said:
    source = Source.of_bytes("<stdin>", sys.stdin.buffer.read()) if name == "-" else Source.open(name)
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
    return [
        Finding(check="structure", status=Status.UNKNOWN, where=ElementId.fabric(), what=what, required=False)
    ]


def _keep_results(run: Run, found: _Found) -> None:
    summary = summarise(found.fabric).to_json()
    tiers = summary["tiers"]
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


def _export_of(words: str) -> tuple[str, Path]:
    name, equals, path = words.partition("=")
    if not equals or not path:
        raise InputError(f"--write {words!r}: write it like svg=fabric.svg")
    if name not in EXPORTS:
        raise InputError(f"--write {words!r}: format {name!r} is not known; known: {', '.join(EXPORTS)}")
    return name, Path(path)


def _write_files(
    run: Run, found: _Found, out: Path | None, exports: Sequence[tuple[str, Path]]
) -> dict[str, list[str]]:
    """Write what was asked for; format -> paths. A format of several files makes a folder."""
    written: dict[str, list[str]] = {}
    if out is not None:
        fabric = {key: run.data[key] for key in ("fabric", "routing", "link_rate_gbps")}
        write_atomic(out, json.dumps(fabric, indent=1) + "\n")
        written["fabric"] = [str(out)]
    for name, path in exports:
        files = export(found.fabric, name)
        if len(files) == 1:
            write_atomic(path, next(iter(files.values())))
            written.setdefault(name, []).append(str(path))
            continue
        path.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            write_atomic(path / file, content)
            written.setdefault(name, []).append(str(path / file))
    return written

"""Findings as what schedulers and monitors take: Slurm, Kubernetes, Prometheus, and the exclusions of `nettune place`.

Names and words of captures may be anybody's; each line is made of a grammar that its reader cannot mistake. A host whose
name the reader could not have is left out of that file and named in a comment.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from nettune.checks import Finding, Status
from nettune.hosts import fold_hosts
from nettune.qualify.drains import Drain, Drains, hosts_of

DRAIN, EXCLUDE, TAINT, METRICS, EXCLUSIONS = (
    "drain.sh", "exclude.txt", "taint.sh", "nettune.prom", "exclusions.txt",
)  # fmt: skip

TAINT_KEY = "nettune/unfit"
_LONGEST_REASON = 200
_SLURM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
# RFC 1123, as the Kubernetes documentation of object names gives it.
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_PLAIN = re.compile(r"[^A-Za-z0-9 .,:;/_%()<>+-]")
_NOT_IN_TAINT = re.compile(r"[^A-Za-z0-9._-]")
_VALUE = {Status.PASS: 0, Status.WARN: 1, Status.UNKNOWN: 2, Status.FAIL: 3}
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}


def files(drains: Drains, findings: Sequence[Finding], hosts: Sequence[str], at_s: float) -> dict[str, str]:
    """File name -> content.

    Args:
        drains: what is to be done.
        findings: of all checks.
        hosts: every host that was judged.
        at_s: when, seconds since 1970.
    """
    slurm = [drain for drain in drains.hosts if _SLURM_NAME.fullmatch(drain.host)]
    node = [drain for drain in drains.hosts if _is_node_name(drain.host)]
    folded = fold_hosts(drain.host for drain in slurm) if slurm and not drains.withheld else ""
    head = ["#!/bin/sh", "# Made by nettune qualify; look at it before it is run.", "failed=0"]
    slurm_head = ["# scontrol: needs a Slurm operator; it replaces a reason that is there (sinfo -R)",
                  "# undo: scontrol update NodeName=NAME State=RESUME"]  # fmt: skip
    return {
        DRAIN: _script([*head, *slurm_head], drains, slurm, _scontrol),
        TAINT: _script([*head, f"# undo: kubectl taint nodes NAME {TAINT_KEY}-"], drains, node, _kubectl),
        EXCLUDE: f"--exclude={folded}\n" if folded else "",
        EXCLUSIONS: f"{folded}\n" if folded else "",
        METRICS: _metrics(drains, findings, hosts, at_s),
    }


def statuses(findings: Iterable[Finding], hosts: Iterable[str]) -> dict[str, Status]:
    """Worst status of each host. An UNKNOWN that is not required does not count; a host of which nothing is known is UNKNOWN."""
    worst: dict[str, Finding] = {}
    for one in findings:
        if one.status is not Status.UNKNOWN or one.required:
            for host in hosts_of(one.where):
                if host not in worst or one.urgency > worst[host].urgency:
                    worst[host] = one
    return {host: worst[host].status if host in worst else Status.UNKNOWN for host in hosts}


def _is_node_name(host: str) -> bool:
    return len(host) <= 253 and _NODE_NAME.fullmatch(host) is not None


def _script(head: Sequence[str], drains: Drains, fit: Sequence[Drain], line: Callable[[Drain], str]) -> str:
    lines = list(head)
    lines += [f"# withheld: {_plain(drains.withheld)}"] if drains.withheld else []
    lines += ["# nothing to do"] if not drains.hosts else []
    mark = "# " if drains.withheld else ""
    # One name that the scheduler does not know must not keep the others in service.
    lines += [f"{mark}{line(drain)} || failed=1" for drain in fit]
    kept = set(fit)
    lines += [
        f"# no line for {_plain(drain.host)}: no such name is possible here"
        for drain in drains.hosts
        if drain not in kept
    ]
    lines.append("exit $failed")
    return "\n".join(lines) + "\n"


def _scontrol(drain: Drain) -> str:
    part = drain.element.removeprefix(f"host/{drain.host}").strip("/")
    reason = _plain(f"nettune {drain.check} {part}".rstrip() + f": {drain.what}")
    return shlex.join(["scontrol", "update", f"NodeName={drain.host}", "State=DRAIN", f"Reason={reason}"])


def _kubectl(drain: Drain) -> str:
    value = _NOT_IN_TAINT.sub("-", drain.check)[:63].strip("._-") or "fault"
    taint = f"{TAINT_KEY}={value}:NoSchedule"
    return shlex.join(["kubectl", "taint", "nodes", drain.host, taint, "--overwrite"])


def _plain(text: str) -> str:
    """One line of harmless characters: no quotes, no dollar, no newline, nothing that a terminal obeys."""
    return _PLAIN.sub("?", " ".join(text.split()))[:_LONGEST_REASON].strip()


def _metrics(drains: Drains, findings: Sequence[Finding], hosts: Sequence[str], at_s: float) -> str:
    """The text format of Prometheus, for the textfile collector of node_exporter."""
    worst: dict[tuple[str, str], int] = defaultdict(int)
    of_host = statuses(findings, hosts)
    for finding in findings:
        if finding.status is not Status.PASS:
            for host in hosts_of(finding.where) & of_host.keys():
                worst[host, finding.check] = max(worst[host, finding.check], _VALUE[finding.status])
    drained = set(drains.names)
    scale = "0 pass, 1 warning, 2 unknown, 3 fail"
    lines = _metric(
        "nettune_host_status",
        f"Worst finding on a host, without unknowns of optional checks: {scale}.",
        (({"host": host}, _VALUE[status]) for host, status in of_host.items()),
    )
    lines += _metric(
        "nettune_check_status",
        f"Worst finding of a check on a host where it is no pass: {scale}.",
        (({"host": host, "check": check}, severity) for (host, check), severity in sorted(worst.items())),
    )
    lines += _metric(
        "nettune_host_drain", "Hosts to be drained.", (({"host": host}, 1) for host in sorted(drained))
    )
    lines += _metric(
        "nettune_drains_withheld",
        "1 where more hosts fail than may be drained.",
        [({}, int(bool(drains.withheld)))],
    )
    lines += _metric("nettune_qualify_timestamp_seconds", "When this was judged.", [({}, round(at_s, 3))])
    return "\n".join(lines) + "\n"


def _metric(name: str, text: str, values: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    for labels, value in values:
        inside = ",".join(f'{key}="{_label(word)}"' for key, word in labels.items())
        lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return lines


def _label(text: str) -> str:
    return "".join(_ESCAPES.get(char, char if char.isprintable() else "?") for char in text)

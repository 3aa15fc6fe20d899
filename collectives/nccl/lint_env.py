"""`lint_environment`: every rule over one job's settings, a finding for each mistake and a PASS for each rule that held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectives.nccl import rules_lists, rules_names, rules_values
from collectives.nccl.job import Job
from collectives.nccl.rules_conflicts import CONFLICT, conflicts
from collectives.nccl.rules_fabric import FABRIC, fit
from collectives.nccl.rules_timeouts import TIMEOUTS, timeouts
from collectives.nccl.rules_workarounds import WORKAROUND, workarounds
from collectives.nccl.variables import variables
from nettune.checks import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = "nccl-env-source"

_RULES: tuple[tuple[str, Callable[[Job], Iterator[Finding]], str], ...] = (
    (rules_names.NAME, rules_names.names, "every variable is known"),
    (rules_names.REACH, rules_names.reach, "every setting reaches NCCL"),
    (rules_names.AGE, rules_names.age, "none is deprecated or of another version"),
    (rules_values.VALUE, rules_values.values, "every value is what it looks like, and in range"),
    (rules_lists.LIST, rules_lists.lists, "lists follow their grammar"),
    (rules_lists.TRAFFIC_CLASS, rules_lists.traffic_class, "the traffic class is no mistaken DSCP"),
    (CONFLICT, conflicts, "none contradicts another"),
    (TIMEOUTS, timeouts, "a network error is told before any watchdog ends the job"),
    (WORKAROUND, workarounds, "no stale workaround"),
    (FABRIC, fit, "they fit the fabric"),
)


def lint_environment(job: Job) -> list[Finding]:
    """All rules, in the order of the table above."""
    settings = job.environment.in_force
    if job.environment.empty:
        return [
            Finding(
                check=SOURCE,
                status=Status.UNKNOWN,
                where=job.where,
                what="there is nothing in it: an empty file tells nothing of a job's settings",
                fix="Give the environment of a rank, nccl.conf, or the job script.",
            )
        ]
    if job.environment.unread:
        return [
            Finding(
                check=SOURCE,
                status=Status.UNKNOWN,
                where=job.where,
                what=f"it {job.environment.unread}: what the job sets is not known",
                fix="Say what it is with --as, or give the environment of a running rank with --pid.",
            )
        ]
    known = sum(name in variables() for name in settings)
    what = f"{known} settings of NCCL" if known != 1 else "1 setting of NCCL"
    found = [
        Finding(
            check=SOURCE,
            status=Status.PASS,
            where=job.where,
            what=what if settings else "sets nothing of NCCL: its own choices apply",
            evidence={"settings": {name: one.value[:1024] for name, one in sorted(settings.items())}},
        )
    ]
    for check, rule, held in _RULES:
        if check == FABRIC and job.fabric is None:
            continue
        of_rule = list(rule(job))
        found += of_rule or [Finding(check=check, status=Status.PASS, where=job.where, what=held)]
    found += _of_the_shell(job)
    return found


def _of_the_shell(job: Job) -> list[Finding]:
    """Settings whose value only a shell can tell."""
    return [
        Finding(
            check=rules_values.VALUE,
            status=Status.UNKNOWN,
            where=job.where,
            what=f"{name} is given by an expansion of the shell: its value is not known here",
            evidence={"file": one.file, "line": one.line, "variable": name},
            required=False,
            fix="Lint the environment of a running rank with --pid.",
        )
        for name, one in sorted(job.environment.in_force.items())
        if one.expands
    ]

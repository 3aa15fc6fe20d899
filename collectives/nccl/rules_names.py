"""Rules of names: misspelt, not seen by NCCL, deprecated, of another version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectives.nccl.job import Job, shown
from collectives.nccl.settings import Origin, Setting
from collectives.nccl.variables import (
    NAMES_KNOWN_UP_TO,
    Variable,
    is_foreign,
    nearest,
    parse_version,
    variables,
    version_name,
)
from nettune.checks import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME, REACH, AGE = "nccl-env-name", "nccl-env-reach", "nccl-env-age"

_MOST_UNKNOWN = 64
"""Unknown names that are held against all known ones."""


def names(job: Job) -> Iterator[Finding]:
    """Names that nobody reads: a misspelt variable is never reported by NCCL."""
    unknown = [
        one
        for one in job.environment.in_force.values()
        if one.name not in variables() and not is_foreign(one.name)
    ]
    if len(unknown) > _MOST_UNKNOWN:
        what = f"and {len(unknown) - _MOST_UNKNOWN:,} more names that no version of NCCL has"
        yield job.finding(
            NAME, Status.WARN, what, "Look whether this is a file of settings.", unknown[_MOST_UNKNOWN]
        )
    for setting in unknown[:_MOST_UNKNOWN]:
        name = setting.name
        near = nearest(name)
        if name != name.strip() or " " in name:
            what = (
                f"this sets a variable called {name!r}, with a blank: NCCL reads {near or name.split()[-1]}"
            )
            if setting.origin is Origin.CONF:
                what += "; nccl.conf is read without trimming"
            yield job.finding(
                NAME, Status.FAIL, what, "Write NAME=VALUE without any blank or `export`.", setting
            )
        elif near:
            what = f"{name} is no variable of NCCL and has no effect; nearest is {near}"
            fix = f"Write {near} if that is meant, else remove it."
            yield job.finding(NAME, Status.FAIL, what, fix, setting, nearest=near)
        else:
            what = f"{name} is in no version of NCCL up to {version_name(NAMES_KNOWN_UP_TO)}; a plugin or a fork may read it"
            yield job.finding(NAME, Status.WARN, what, "Remove it unless you know who reads it.", setting)


def reach(job: Job) -> Iterator[Finding]:
    """Settings that never reach NCCL, or lose against another source."""
    seen = job.environment.in_force
    for setting in job.environment.settings:
        if setting.origin is Origin.LOST:
            yield _lost(job, setting)
        elif setting.origin is Origin.LOCAL and setting.name not in seen and setting.name in variables():
            yield job.finding(
                REACH,
                Status.FAIL,
                f"{shown(setting)} is a variable of the shell only: it is never exported, NCCL does not see it",
                f"Write `export {shown(setting)}`.",
                setting,
            )
    for without, counts in job.environment.shadowed():
        what = (
            f"{shown(without)} has no effect: {shown(counts)} in {counts.file} line {counts.line} comes first"
        )
        yield job.finding(REACH, Status.WARN, what, "Keep one of the two.", without, counts)
    for setting in seen.values():
        if setting.cut:
            yield job.finding(
                REACH,
                Status.FAIL,
                f"the value of {setting.name} is cut: nccl.conf keeps 1,023 bytes of a value",
                "Shorten it, or set it in the environment.",
                setting,
            )
    for note in job.environment.notes:
        yield Finding(
            check=REACH,
            status=Status.UNKNOWN,
            where=job.where,
            what=f"a source of settings could not be read: {note}",
            required=False,
            fix="Read it with the rights of the job's user.",
        )


def _lost(job: Job, setting: Setting) -> Finding:
    if setting.why:
        what = f"{setting.value[:40]!r} is lost from {setting.name}: {setting.why}"
        fix = f"Export {setting.name} before the command, and pass --export=ALL."
    else:
        what = f"there is no `=`: NCCL skips it, {setting.name} is not set"
        fix = f"Write {setting.name}=VALUE."
    return job.finding(REACH, Status.FAIL, what, fix, setting)


def age(job: Job) -> Iterator[Finding]:
    """Deprecated, removed, and not there yet in the job's version."""
    for setting in job.environment.in_force.values():
        variable = variables().get(setting.name)
        if variable is None:
            continue
        version = version_name(job.version)
        if variable.removed and job.at_least(variable.removed):
            what = f"{variable.name} was removed in NCCL {variable.removed} and has no effect in {version}"
            yield job.finding(AGE, Status.WARN, what, _instead(variable), setting)
        elif variable.since and not job.at_least(variable.since):
            unsure = f" ({variable.unverified} is unverified)" if variable.unverified else ""
            what = f"{variable.name} came with NCCL {variable.since}: {version} ignores it{unsure}"
            fix = f"Remove it, or run NCCL {variable.since} or later."
            yield job.finding(AGE, Status.WARN, what, fix, setting)
        elif _advised_against(job, variable):
            what = f"{variable.name} is deprecated since {variable.deprecated}"
            yield job.finding(AGE, Status.WARN, what, _instead(variable), setting)
        elif (
            variable.name == "NCCL_IB_GID_INDEX"
            and job.at_least("2.21")
            and (job.number(variable.name) or 0) >= 0
        ):
            what = (
                f"{shown(setting)} is fixed by hand: since NCCL 2.21 the index is found, and after a flap or on another"
                " host a fixed one may name another GID"
            )
            fix = "Unset it; choose by NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM."
            yield job.finding(AGE, Status.WARN, what, fix, setting)


def _advised_against(job: Job, variable: Variable) -> bool:
    told = variable.deprecated
    return bool(told) and (told.startswith("PyTorch") or job.version >= parse_version(told))


def _instead(variable: Variable) -> str:
    return f"Use {variable.instead} in its place." if variable.instead else "Remove it."

"""Rules of values with a grammar: algorithms, protocols, lists of NICs, log subsystems, traffic class."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from collectives.nccl.devices import MOST_HCAS, device_filter
from collectives.nccl.job import Job, shown
from collectives.nccl.parsing import Selection, read_selection
from collectives.nccl.tables.algorithms import ALGORITHM_SINCE, ALGORITHMS, PROTOCOLS
from collectives.nccl.tables.others import SUBSYSTEMS
from nettune.checks import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectives.nccl.settings import Setting

LIST, TRAFFIC_CLASS = "nccl-env-list", "nccl-env-traffic-class"

STRICT_SINCE = "2.24"
"""NCCL_ALGO and NCCL_PROTO: unknown tokens are errors, and Ring is no longer implied."""


def lists(job: Job) -> Iterator[Finding]:
    """Grammar of lists."""
    for name, known in (("NCCL_ALGO", ALGORITHMS), ("NCCL_PROTO", PROTOCOLS)):
        setting = job.get(name)
        if setting is not None and setting.value:
            yield from _selection(job, setting, read_selection(setting.value, known))
    for name in ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"):
        setting = job.get(name)
        if setting is not None and setting.value:
            yield from _devices(job, setting)
    yield from _subsystems(job)
    yield from _policies(job)


def _selection(job: Job, setting: Setting, selection: Selection) -> Iterator[Finding]:
    strict = job.at_least(STRICT_SINCE)
    if selection.unknown:
        tokens = ", ".join(repr(token[:40]) for token in selection.unknown[:4])
        if strict:
            what = f"{shown(setting)}: {tokens} is not known there; NCCL refuses to start (ncclInvalidUsage)"
        else:
            what = f"{shown(setting)}: {tokens} is not known there; before 2.24 NCCL ignores it and falls back to Ring and LL"
        fix = f"Write `[list][;function:list]...` of {', '.join(ALGORITHMS if setting.name == 'NCCL_ALGO' else PROTOCOLS)}."
        yield job.finding(LIST, Status.FAIL if strict else Status.WARN, what, fix, setting)
    elif not strict and re.search(r"[;:]", setting.value):
        what = f"{shown(setting)}: lists by function came with NCCL {STRICT_SINCE}; older ones ignore what they do not know"
        yield job.finding(LIST, Status.WARN, what, "Give one list for all functions.", setting)
    for function, chosen, excluded in selection.chosen:
        if excluded or not chosen:
            continue
        late = [name for name in chosen if not job.at_least(ALGORITHM_SINCE.get(name, "2.0"))]
        if late:
            what = f"{shown(setting)}: {', '.join(late)} came with NCCL {ALGORITHM_SINCE[late[0]]}"
            yield job.finding(LIST, Status.WARN, what, f"Leave {', '.join(late)} out.", setting)
        if setting.name == "NCCL_ALGO" and not function and "Ring" not in chosen and strict:
            what = (
                f"{shown(setting)} leaves Ring out for every function: the first Broadcast or Reduce fails with `No"
                " algorithm/protocol available`, since 2.24 Ring is not implied"
            )
            fix = f"Write NCCL_ALGO=allreduce:{','.join(chosen).lower()} or add ring."
            yield job.finding(LIST, Status.FAIL, what, fix, setting)
        if setting.name == "NCCL_PROTO" and "LL128" in chosen:
            what = f"{shown(setting)} forces LL128: where the platform does not support it, it corrupts data silently"
            yield job.finding(
                LIST, Status.FAIL, what, "Unset it: NCCL enables LL128 where it is safe.", setting
            )


def _devices(job: Job, setting: Setting) -> Iterator[Finding]:
    wanted = device_filter(setting.value.removesuffix("\r"), with_ports=setting.name == "NCCL_IB_HCA")
    odd = [name for name in wanted.names if name != name.strip() or not name]
    if odd:
        what = f"{shown(setting)}: {odd[0]!r} has a blank or is empty, blanks belong to the name"
        yield job.finding(LIST, Status.FAIL, what, "Separate names by commas only.", setting)
    marked = [name for name in wanted.names if name[:1] in {"^", "="}]
    if marked:
        what = f"{shown(setting)}: `^` and `=` hold for the whole list and stand before it, here in {marked[0]!r} they are part of a name"
        yield job.finding(LIST, Status.FAIL, what, "Write ^ and = once, before the first name.", setting)
    if setting.name == "NCCL_IB_HCA" and len(wanted.names) > MOST_HCAS:
        what = f"{setting.name} lists {len(wanted.names)} NICs, NCCL takes {MOST_HCAS}"
        yield job.finding(LIST, Status.FAIL, what, f"List {MOST_HCAS} NICs at most.", setting)
    if setting.name == "NCCL_SOCKET_IFNAME" and not wanted.excluded:
        local = [name for name in wanted.names if name == "lo" or name.startswith("docker")]
        if local:
            what = f"{shown(setting)}: {local[0]} reaches no other host"
            fix = "Name the interface of the management or front-end network."
            yield job.finding(LIST, Status.FAIL, what, fix, setting)
    if setting.name == "NCCL_IB_HCA" and not wanted.exact and job.fabric is None:
        short = [name for name in wanted.names if re.search(r"_[1-9]$", name)]
        if short and not wanted.excluded:
            what = (
                f"{shown(setting)} are beginnings of names: {short[0]} also takes {short[0]}0 to {short[0]}9"
            )
            yield job.finding(
                LIST, Status.WARN, what, f"Write {setting.name}=={setting.value[:60]}.", setting
            )


def _subsystems(job: Job) -> Iterator[Finding]:
    setting = job.get("NCCL_DEBUG_SUBSYS")
    if setting is None:
        return
    tokens = setting.value.removeprefix("^").split(",")
    unknown = [token for token in tokens if token and token.strip("^").upper() not in SUBSYSTEMS]
    if unknown:
        what = f"{shown(setting)}: {unknown[0][:40]!r} is no subsystem, it is ignored"
        yield job.finding(LIST, Status.WARN, what, f"Choose among {', '.join(SUBSYSTEMS)}.", setting)


def _policies(job: Job) -> Iterator[Finding]:
    policy = job.get("NCCL_NETDEVS_POLICY")
    if policy is not None and not re.fullmatch(
        r"AUTO|ALL|MAX:[1-9]\d{0,3}", policy.value.strip(), re.IGNORECASE
    ):
        what = f"{shown(policy)} is none of AUTO, ALL, MAX:N"
        yield job.finding(LIST, Status.WARN, what, "Write MAX:N with a number, ALL, or unset it.", policy)
    span = job.get("NCCL_IB_ADDR_RANGE")
    if span is not None and span.value and not _is_network(span.value):
        what = f"{shown(span)} is no network in CIDR notation: no GID lies in it"
        yield job.finding(LIST, Status.FAIL, what, "Write it like 10.1.0.0/16 or fd00::/64.", span)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return False
    return True


def traffic_class(job: Job) -> Iterator[Finding]:
    """NCCL_IB_TC is the whole octet: DSCP in the upper six bits, ECN in the lower two (RFC 3168)."""
    setting = job.get("NCCL_IB_TC")
    value = job.number("NCCL_IB_TC")
    if job.dscp is None:
        if setting is not None and value is not None and 0 < value < 64 and value % 8:
            what = (
                f"{shown(setting)} is DSCP {value >> 2}: NCCL_IB_TC is the whole octet, DSCP in its upper six bits;"
                f" DSCP {value} would be {value << 2}"
            )
            fix = f"Write NCCL_IB_TC={value << 2} if DSCP {value} is meant."
            yield job.finding(TRAFFIC_CLASS, Status.WARN, what, fix, setting)
        return
    if value is None or not 0 <= value <= 255:
        value = 0
    if value >> 2 != job.dscp:
        given = shown(setting) if setting is not None else "NCCL_IB_TC is not set, which is 0"
        what = f"{given}: data goes out with DSCP {value >> 2}, the lossless class of the fabric has DSCP {job.dscp}"
        fix = f"Write NCCL_IB_TC={job.dscp << 2 | 2} (DSCP {job.dscp}, ECN capable)."
        yield job.finding(
            TRAFFIC_CLASS, Status.FAIL, what, fix, setting, dscp=value >> 2, expected_dscp=job.dscp
        )

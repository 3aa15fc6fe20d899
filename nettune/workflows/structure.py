"""A discovered fabric in a report: key figures, tiers, what was left out and why, sources, findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nettune.checks import Finding, Status
from nettune.units import format_rate
from nettune.wording import counted
from reports.charts.fabric_map import fabric_map
from reports.document import Column, Findings, KeyFigure, Part, Section, Table
from topology.fabric import Fabric

Data = Mapping[str, Any]

_MOST_DRAWN_HOSTS = 64
_MOST_REASONS = 6
_MOST_EVENTS = 4
_KINDS = {"nic": "NIC", "port": "port", "host": "host", "switch": "switch", "link": "link"}


def figures(data: Data) -> list[KeyFigure]:
    """The fabric at a glance."""
    found = [_tiers(data["tiers"], "host" if data["logical"] else "NIC"), _rails(data), _links(data)]
    if data["oversubscription"]:
        found.append(_oversubscription(data["oversubscription"]))
    if data["gpus"] or data["nvl_domains"]:
        found.append(_accelerators(data))
    if data.get("events"):
        found.append(_events(data["events"]))
    bare = data["hosts_without_cable"]
    if bare:
        names = ", ".join(bare[:4]) + (", ..." if len(bare) > 4 else "")
        found.append(KeyFigure("without cable", counted(len(bare), "host"), names))
    found += [KeyFigure("left out", counted, why) for counted, why in _reasons(data["dropped"])]
    return found


def section(data: Data, fabric: Fabric, findings: Sequence[Finding]) -> Section:
    """Findings, the drawing of a small fabric, tiers, sources, what was left out."""
    parts: list[Part] = [Findings(findings)]
    if 0 < len(fabric.hosts) <= _MOST_DRAWN_HOSTS and len(fabric.links.port_a):
        blamed = [str(f.where) for f in findings if f.status in (Status.FAIL, Status.WARN)]
        caption = "The fabric; marked is what did not pass." if blamed else "The fabric."
        parts.append(fabric_map(fabric, highlight=blamed, caption=caption))
    parts.append(_tier_table(data["tiers"]))
    parts.append(
        Table(
            "Sources, the most trusted first.",
            [Column("source"), Column("format"), Column("nodes"), Column("cables")],
            [[one["name"], one["format"], one["nodes"], one["links"]] for one in data["sources"]],
        )
    )
    if data["dropped"]:
        rows = [[counted, why] for counted, why in _reasons(data["dropped"], most=None)]
        parts.append(Table("Left out of the fabric.", [Column("elements"), Column("reason")], rows))
    return Section("Structure", "What the sources say of the fabric; no transfer has tested it.", parts)


def _tiers(tiers: Sequence[Data], below: str) -> KeyFigure:
    placed = [tier for tier in tiers if tier["tier"] > 0]
    words = [
        f"{_named(tier['switches'], tier['tier'], len(placed))}{_under(tier['down_cables'], tier['tier'], below)}"
        for tier in placed
    ]
    lost = sum(tier["switches"] for tier in tiers if tier["tier"] <= 0)
    if lost:
        words.append(f"{counted(lost, 'switch')} without a host below")
    return KeyFigure("tiers", f"{len(placed)}", ", ".join(words))


def _named(switches: int, tier: int, tiers: int) -> str:
    """`31 leaves`, `1 spine`, `4 cores`, `8 of tier 4`."""
    if tier == 1:
        return f"{switches:,} {'leaf' if switches == 1 else 'leaves'}"
    name = "spine" if tier == 2 else "core" if tier == 3 and tiers == 3 else ""
    return counted(switches, name) if name else f"{switches:,} of tier {tier}"


def _under(cables: Sequence[int], tier: int, what: str) -> str:
    low, high = cables
    if tier > 1 or not high:
        return ""
    return f" with {counted(low, what)} each" if low == high else f" with {low} to {high} {what}s"


def _rails(data: Data) -> KeyFigure:
    planes = f"{data['planes']} planes; " if data["planes"] > 1 else ""
    return KeyFigure(
        "rails", f"{data['rails']}" if data["rails"] else "not told", planes + data["rails_told"]
    )


def _links(data: Data) -> KeyFigure:
    if data["logical"]:
        return KeyFigure("links", "not told", "a scheduler's tree has no real cables")
    words = [
        f"{_counted_links(data[key])} {what}"
        for key, what in (("nic_speeds", "of hosts"), ("trunk_speeds", "of switches"))
        if data[key]
    ]
    speeds = {one["gbps"] for key in ("nic_speeds", "trunk_speeds") for one in data[key]}
    if len(speeds) == 1:
        words.append(_speed(speeds.pop()))
    else:
        usual = {
            key: max(data[key], key=lambda one: one["links"])
            for key in ("nic_speeds", "trunk_speeds")
            if data[key]
        }
        words = [f"{word} ({_speed(one['gbps'])})" for word, one in zip(words, usual.values(), strict=True)]
    if data["links_down"]:
        words.append(f"{data['links_down']:,} down")
    return KeyFigure("links", f"{data['links']:,}", ", ".join(words))


def _counted_links(speeds: Sequence[Data]) -> str:
    return f"{sum(one['links'] for one in speeds):,}"


def _speed(gbps: float) -> str:
    return format_rate(gbps) if gbps else "speed not told"


def _oversubscription(tiers: Mapping[str, Data]) -> KeyFigure:
    highest = max(one["max"] for one in tiers.values())
    words = [f"{'leaves' if tier == '1' else f'tier {tier}'} {_span(one)}" for tier, one in tiers.items()]
    return KeyFigure("oversubscription", f"{highest:g}:1", ", ".join(words))


def _span(ratio: Data) -> str:
    low, high = ratio["min"], ratio["max"]
    return f"{low:g}:1" if low == high else f"{low:g} to {high:g}:1"


def _accelerators(data: Data) -> KeyFigure:
    domains = data["nvl_domains"]
    words = ""
    if domains:
        low, high = domains["least_hosts"], domains["most_hosts"]
        hosts = counted(low, "host") if low == high else f"{low} to {high} hosts"
        words = f"{counted(domains['count'], 'domain')} of {hosts}"
    return KeyFigure("accelerators", f"{data['gpus']:,}" if data["gpus"] else "not told", words)


def _events(events: Mapping[str, int]) -> KeyFigure:
    """`7 log events: 2 completion errors, ...`, the most frequent first."""
    ordered = sorted(events.items(), key=lambda event: -event[1])
    words = [counted(count, re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()) for name, count in ordered]
    more = ", ..." if len(words) > _MOST_EVENTS else ""
    return KeyFigure("log events", f"{sum(events.values()):,}", ", ".join(words[:_MOST_EVENTS]) + more)


def _reasons(dropped: Mapping[str, str], most: int | None = _MOST_REASONS) -> list[tuple[str, str]]:
    """(how many elements of which kind, why), the most frequent first; reasons that differ in names only are one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for element, why in dropped.items():
        masked = " ".join("..." if any(c.isdigit() for c in word) else word for word in why.split())
        groups.setdefault((_kind(element), masked), []).append(why)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    shown = [
        (counted(len(reasons), _KINDS.get(kind, kind)), reasons[0] if len(set(reasons)) == 1 else masked)
        for (kind, masked), reasons in ordered[:most]
    ]
    rest = sum(len(reasons) for _, reasons in ordered[len(shown) :])
    return [*shown, (f"{rest:,} elements", "other reasons; the report lists them")] if rest else shown


def _kind(element: str) -> str:
    words = element.split("/")
    return words[2] if len(words) > 2 else words[0]


def _tier_table(tiers: Sequence[Data]) -> Table:
    rows = []
    for tier in tiers:
        low, high = tier["down_cables"]
        ratio = tier["oversubscription"]
        rows.append(
            [
                f"{tier['tier']}" if tier["tier"] >= 0 else "no host below",
                tier["switches"],
                f"{low}" if low == high else f"{low} to {high}",
                _span(ratio) if ratio else "",
            ]
        )
    heads = [Column("tier"), Column("switches"), Column("cables down"), Column("oversubscription")]
    return Table("Switches by their distance from hosts.", heads, rows)

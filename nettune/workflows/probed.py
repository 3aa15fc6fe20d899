"""Probed paths in a report: what was sent, how evenly switches spread it, and what explains their choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nettune.checks import Finding
from reports.document import Column, Findings, KeyFigure, Part, Section, Table, Text

Data = Mapping[str, Any]

_MOST_ROWS, _BRIEF_ROWS = 64, 16
_LEADS = {
    "ttl": "Each probe carried a flow's addresses, ports, protocol and DSCP, and died at one router of its way.",
    "counters": "Each burst carried a flow's addresses, ports, protocol and DSCP; the ports whose counters have it are its path.",
    "captures": "The ports whose counters have a flow's packets are its path.",
}


def figures(probed: Data, learned: Data, steering: Data | None) -> list[KeyFigure]:
    """Paths found, agreement with the known hashes, fits, and what chosen ports give."""
    found = [
        KeyFigure("paths", f"{probed['complete']} of {probed['flows']}", "source ports with every link known")
    ]
    if probed["compared"]:
        share = f"{probed['as_predicted']} of {probed['compared']}"
        found.append(KeyFigure("as predicted", share, "by the hashes that discovery knew"))
    if learned:
        fitted = sum(one["spec"] is not None for one in learned.values())
        found.append(
            KeyFigure("hashes fitted", f"{fitted} of {len(learned)}", "switches that were seen to choose")
        )
    if steering and steering["pairs"]:
        flows = sum(len(pair["sports"]) for pair in steering["pairs"])
        found.append(
            KeyFigure(
                "chosen ports",
                f"{steering['efficiency']:.0%} of ideal",
                f"ports drawn at random {steering['random_efficiency']:.0%}; {flows} flows at once",
            )
        )
        found.append(
            KeyFigure(
                "fullest link",
                f"{steering['sharing']:g} flows",
                f"ports drawn at random {steering['random_sharing']:.1f}; of links between switches",
            )
        )
    return found


def section(probed: Data, findings: Sequence[Finding], steering: Data | None) -> Section:
    """Findings, chosen ports, and the spread of each switch that chose."""
    uneven = sorted(probed["switches"], key=lambda one: -one["most_over_mean"])
    choosing = [one for one in uneven if len(one["links"]) > 1]
    rows = [
        [one["switch"], len(one["links"]), sum(one["links"].values()), round(one["most_over_mean"], 2)]
        for one in choosing[:_MOST_ROWS]
    ]
    table = Table(
        "How evenly each switch spread the probes, the most uneven first.",
        [
            Column("switch"),
            Column("links used"),
            Column("flows"),
            Column("most used link over mean", decimals=2),
        ],
        rows,
    )
    by = probed.get("by", "ttl")
    lead = _LEADS[by]
    parts: list[Part] = [
        Findings(findings),
        Text(f"{'Read' if by == 'captures' else 'Sent'}: {probed['plan']}."),
        table,
    ]
    return Section("Paths", lead, [*_chosen(steering), *parts] if steering else parts)


def lint_section(findings: Sequence[Finding], flows: Sequence[Data] = ()) -> Section:
    """Findings of `lint ecmp`, and the exact paths of the flows that were given."""
    lead = (
        "Each loss is expected, none is measured: flows are walked through the next hops as they are, and as they would be"
        " if the one thing were right."
    )
    parts: list[Part] = [Findings(findings)]
    if flows:
        rows = [
            [
                flow["src"],
                flow["dst"],
                str(flow["sport"]),
                ", ".join(link.split(" ")[0] for link in flow["links"][1:-1]),
            ]
            for flow in flows[:_MOST_ROWS]
        ]
        columns = [Column("from"), Column("to"), Column("source port"), Column("switch ports that send it")]
        brief = len(flows) <= _BRIEF_ROWS
        parts.append(Table("The path of each flow that was given.", columns, rows, brief=brief))
    return Section("ECMP", lead, parts)


def _chosen(steering: Data) -> list[Part]:
    rows = [
        [_short(pair["src"]), _short(pair["dst"]), " ".join(map(str, pair["sports"]))]
        for pair in steering["pairs"][:_MOST_ROWS]
    ]
    if not rows:
        return []
    said = (
        "Ideal: equal flows, all at once, in the time that NICs and cuts of the fabric need at least. Ideal is out of reach"
        " where the flows do not divide evenly by the links."
    )
    columns = [Column("from"), Column("to"), Column("source ports")]
    return [Table("Source ports that spread the flows.", columns, rows, brief=True), Text(said)]


def _short(element: str) -> str:
    """`h0:eth0` of `host/h0/nic/eth0`."""
    parts = element.split("/")
    return f"{parts[1]}:{parts[-1]}"

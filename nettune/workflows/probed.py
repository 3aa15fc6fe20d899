"""Probed paths in a report: what was sent, how evenly switches spread it, and what explains their choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nettune.checks import Finding
from reports.document import Column, Findings, KeyFigure, Section, Table, Text

Data = Mapping[str, Any]

_MOST_ROWS = 64


def figures(probed: Data, learned: Data) -> list[KeyFigure]:
    """Paths found, agreement with the known hashes, fits."""
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
    return found


def section(probed: Data, findings: Sequence[Finding]) -> Section:
    """Findings, and the spread of each switch that chose."""
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
    lead = (
        "Each probe carried a flow's addresses, ports, protocol and DSCP, and died at one router of its way."
    )
    return Section("Paths", lead, [Findings(findings), Text(f"Sent: {probed['plan']}."), table])

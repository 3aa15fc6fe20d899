"""`nettune discover`: what the fabric looks like, from its nodes' own state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nettune.cli.common import LabOption, Output, OutputOption, finish


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""

    @app.command(epilog="Example: nettune discover --lab lab -o fabric.json")
    def discover(
        lab: LabOption = "lab",
        out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the fabric and its routing here.")] = None,
        output: OutputOption = Output.TEXT,
    ) -> None:
        """Discover hosts, switches, cables, speeds, routes and hashes; report what is wrong with the structure."""
        import json

        from nettune.checks import exit_code, worst_first
        from nettune.lab import Lab
        from nettune.records import write_atomic
        from nettune.workflows.cluster import discover_lab
        from reports.inventory import fabric_text

        cluster = discover_lab(Lab.load(lab))
        found = cluster.discovery
        findings = worst_first(cluster.findings)
        fabric = {"fabric": found.fabric.to_json(), "routing": found.routing.to_json()}
        if out is not None:
            write_atomic(out, json.dumps(fabric, indent=1) + "\n")
        data = {**fabric, "dropped": dict(found.dropped), "findings": [finding.to_json() for finding in findings]}
        finish("discover", output, exit_code(findings), data, lambda: fabric_text(found.fabric, found.routing, findings))

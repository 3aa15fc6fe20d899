"""One picture of a run that stands alone, for a README or a slide: predicted link loads before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.errors import InputError
from nettune.workflows.compose import readable
from nettune.workflows.placed import section
from reports.charts.svg import standalone
from reports.document import Figure
from topology.fabric import Fabric


def picture(data: Mapping[str, Any]) -> str:
    """An SVG file's text.

    Raises:
        InputError: the run placed nothing, or its results cannot be read.
    """
    if "placements" not in data or "fabric" not in data:
        raise InputError(
            "this run placed no ranks, so there is no map to draw; take a run of demo, place or bench"
        )
    with readable():
        parts = section(data, Fabric.from_json(data["fabric"])).parts
    figure = next(part for part in parts if isinstance(part, Figure))
    return standalone(figure.svg)

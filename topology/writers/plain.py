"""`placement.json`: the map by names, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nettune.records import json_text

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`placement.json` in the form of `Placement.to_json`."""
    return {"placement.json": json_text(placement.to_json(fabric))}

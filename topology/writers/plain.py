"""`placement.json`: the map by names, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`placement.json` in the form of `Placement.to_json`."""
    return {"placement.json": json.dumps(placement.to_json(fabric), indent=1) + "\n"}

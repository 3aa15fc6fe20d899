"""Which next hop a switch picks for a flow: `HashSpec` (the parameters) and one module per hash family."""

from __future__ import annotations

from topology.ecmp.spec import FAMILIES, HashSpec, choose
from topology.ecmp.tuples import Tuples

__all__ = ["FAMILIES", "HashSpec", "Tuples", "choose"]

"""An emulated Clos fabric on one machine: network namespaces, veth pairs, rate limits, kernel ECMP, faults.

Names are imported on first use: the processes that hold a lab start from this package with the standard
library only, and the command line must not pay for pydantic before it needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nettune.lab.available import lab_available
    from nettune.lab.faults.base import ActiveFault
    from nettune.lab.lab import Lab
    from nettune.lab.spec import LabSpec, load_spec

__all__ = ["ActiveFault", "Lab", "LabSpec", "lab_available", "load_spec"]

_HOME = {
    "ActiveFault": "nettune.lab.faults.base",
    "Lab": "nettune.lab.lab",
    "LabSpec": "nettune.lab.spec",
    "lab_available": "nettune.lab.available",
    "load_spec": "nettune.lab.spec",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_HOME[name]), name)

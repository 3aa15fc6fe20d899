"""Qualifying hosts and links by real transfers, and naming the faulty element first.

`qualify` runs the whole ladder; `make_plan`, `infer` and the worker functions can be used alone. `thresholds.py` holds
every limit with its reason.
"""

from __future__ import annotations

from nettune.qualify.campaign import QualifyResult, qualify
from nettune.qualify.flows import FlowResult, FlowState, ProbeFlow
from nettune.qualify.thresholds import THRESHOLDS, Threshold

__all__ = ["THRESHOLDS", "FlowResult", "FlowState", "ProbeFlow", "QualifyResult", "Threshold", "qualify"]

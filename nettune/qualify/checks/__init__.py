"""Checks on captures: what is wrong with hosts before any test traffic, live or from a bundle.

`judge` runs them all. `frame` has the protocol of a rule, `limits` every number with its origin, `settings` what an
operator may change, `rules/` the rules and `parsers/` the tools whose output they read.
"""

from __future__ import annotations

from nettune.qualify.checks.frame import Context, Rule
from nettune.qualify.checks.registry import RULES, judge
from nettune.qualify.checks.settings import Settings, read_settings

__all__ = ["RULES", "Context", "Rule", "Settings", "judge", "read_settings"]

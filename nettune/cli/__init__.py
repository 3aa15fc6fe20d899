"""The command line: one module a verb; each parses, calls, hands the result to a renderer and never computes."""

from __future__ import annotations

from nettune.cli.main import main

__all__ = ["main"]

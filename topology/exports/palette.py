"""Colours of drawings: Okabe and Ito (2008), which colour-blind readers can tell apart, as in the reports' charts."""

from __future__ import annotations

INK = "#1f2933"
MUTED = "#5b6672"
GRID = "#e1e5ea"
DOWN = "#d5202a"
HOST_FILL = "#f3f6f9"
SWITCH_FILL = "#e6edf5"

# Vermilion is left out: it is too near to the red of what is down.
RAILS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d1f", "#5e3c99", "#1f2933")


def rail_colour(rail: int) -> str:
    """A rail's colour, again from the first after eight; grey for a cable of no rail."""
    return RAILS[rail % len(RAILS)] if rail >= 0 else "#7b8794"

"""Attributes of what is said and their values in the words of a finding."""

from __future__ import annotations

from typing import Any

from topology.columns import LinkState, NodeKind

_WORDS = {"speed_gbps": "speed in Gbit/s", "nics": "list of nearest NICs", "numa": "NUMA node"}


def attribute_words(attribute: str) -> str:
    """`link layer` for `link_layer`, and units where the name has them."""
    return _WORDS.get(attribute, attribute.replace("_", " "))


def shown(value: Any) -> str:
    """`switch`, `mlx5_0, mlx5_1`, `400`."""
    if isinstance(value, (NodeKind, LinkState)):
        return value.name.lower()
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)

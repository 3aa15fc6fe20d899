"""Graphviz DOT. Keeps: nodes with kind, tier and accelerator domain; every cable with its ports, speed, rail, state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from topology.columns import LinkState, NodeKind
from topology.exports.capacity import cable_rails
from topology.exports.names import counts, shown
from topology.exports.palette import DOWN, rail_colour

if TYPE_CHECKING:
    from topology.fabric import Fabric

_PLAIN = re.compile(r'[^"\\<>&\x00-\x1f\x7f]+')


def export(fabric: Fabric) -> dict[str, str]:
    """`fabric.dot`, for `dot -Tsvg` at some hundred nodes, for networkx and others at any size.

    A name that DOT would read in its own way is a label; the node is then called `/` and its row.
    """
    nodes, ports, links = fabric.nodes, fabric.ports, fabric.links
    ids = [_quoted(name if _is_plain(name) else f"/{row}") for row, name in enumerate(nodes.name)]
    lines = [f"// {counts(fabric)}; written by nettune", "graph fabric {"]
    lines += ["  graph [rankdir=BT, ranksep=1.5];", '  node [shape=box, fontname="sans-serif", fontsize=11];']
    for row, name in enumerate(nodes.name):
        told = ["kind=host" if nodes.kind[row] == NodeKind.HOST else "kind=switch, style=rounded"]
        told += [f"tier={nodes.tier[row]}"] if nodes.tier[row] >= 0 else []
        told += [f"nvl_domain={nodes.nvl_domain[row]}"] if nodes.nvl_domain[row] >= 0 else []
        told += [] if _is_plain(name) else [f"label={_quoted(name)}"]
        lines.append(f"  {ids[row]} [{', '.join(told)}];")
    for tier in np.unique(nodes.tier[nodes.tier >= 0]).tolist():
        lines.append(f"  {{ rank=same; {' '.join(ids[row] for row in np.flatnonzero(nodes.tier == tier))} }}")
    rails = cable_rails(fabric)
    for row, ends in enumerate(zip(links.port_a.tolist(), links.port_b.tolist(), strict=True)):
        # the lower end first: rankdir=BT puts it below
        a, b = sorted(ends, key=lambda port: int(nodes.tier[ports.node[port]]))
        told = [f"port_a={_quoted(ports.name[a])}", f"port_b={_quoted(ports.name[b])}"]
        speed = float(min(ports.speed_gbps[a], ports.speed_gbps[b]))
        told += [f"speed_gbps={speed!r}"] if speed else []
        told += [f"rail={rails[row]}"] if rails[row] >= 0 else []
        down = links.state[row] == LinkState.DOWN
        told.append(f'color="{DOWN}", style=dashed' if down else f'color="{rail_colour(int(rails[row]))}"')
        lines.append(f"  {ids[int(ports.node[a])]} -- {ids[int(ports.node[b])]} [{', '.join(told)}];")
    return {"fabric.dot": "\n".join([*lines, "}"]) + "\n"}


def _is_plain(name: str) -> bool:
    return bool(_PLAIN.fullmatch(name)) and name.isprintable() and not name.startswith("/")


def _quoted(text: str) -> str:
    """A quoted string: in one only quote and backslash mean something, and `&` would begin an entity."""
    safe = shown(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return f'"{safe}"'

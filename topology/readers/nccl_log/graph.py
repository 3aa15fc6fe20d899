"""How the topology and the graphs that NCCL prints with NCCL_DEBUG_SUBSYS=GRAPH are recognised."""

from __future__ import annotations

import re

from topology.readers.nccl_log import comm_events as e
from topology.readers.nccl_log.events import At, Event

_NUMBER = r"(\d{1,12}\.?\d{0,12})"
_SYSTEM = re.compile(rf"=== System : maxBw {_NUMBER} +totalBw {_NUMBER} ===")
_NODE = re.compile(rf"( *)\+ (\w+)\[ ?{_NUMBER}\] - (\w+)/([0-9A-Fa-f-]+)(?: \(([^)]*)\))?\s*$")
_CPU = re.compile(r"(CPU)/([0-9A-Fa-f-]+) \(([^)]*)\)\s*$")
_PATHS_OF = re.compile(r"([A-Z]+/[0-9A-Fa-f-]+) :(?=[A-Z]+/)")
_PATH = re.compile(rf"([A-Z]+/[0-9A-Fa-f-]+) ?\((\d{{1,6}})/{_NUMBER}/(\w+)\)")
_PATTERN = re.compile(
    rf"Pattern (\d{{1,4}}), crossNic (\d), nChannels (\d{{1,6}}), (?:bw|speed) {_NUMBER}/{_NUMBER}, "
    r"(?:nvlink \d, )?type (\w+)/(\w+), sameChannels (\d)"
)
_CHANNEL = re.compile(r" *(\d{1,6}) :((?: [A-Z]+/[0-9A-Fa-f-]+)+)\s*$")


def system(at: At, text: str) -> Event | None:
    """The topology: its first line, its nodes, the paths between them. Leading blanks are its structure."""
    if match := _NODE.match(text):
        return e.SystemNode(*at, len(match[1]), match[2], float(match[3]), match[4], match[5], match[6] or "")
    if match := _CPU.match(text):
        return e.SystemNode(*at, 0, "", 0.0, match[1], match[2], match[3])
    if match := _PATHS_OF.match(text):
        paths = [
            (found[1], int(found[2]), float(found[3]), found[4])
            for found in _PATH.finditer(text, match.end())
        ]
        return e.SystemPaths(*at, match[1], tuple(paths))
    if match := _SYSTEM.match(text):
        return e.System(*at, float(match[1]), float(match[2]))
    return None


def graph(at: At, text: str) -> Event | None:
    """A graph that the search found, and its channels."""
    if match := _PATTERN.match(text):
        return e.GraphFound(
            *at,
            pattern=int(match[1]),
            cross_nic=int(match[2]),
            channels=int(match[3]),
            intra_gbytes_per_s=float(match[4]),
            inter_gbytes_per_s=float(match[5]),
            type_intra=match[6],
            type_inter=match[7],
            same_channels=match[8] != "0",
        )
    if match := _CHANNEL.match(text):
        return e.GraphChannel(*at, int(match[1]), tuple(match[2].split()))
    return None

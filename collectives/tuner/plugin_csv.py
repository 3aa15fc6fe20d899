"""The table of NCCL's example tuner plugin: written with channels everywhere, and read as the plugin reads it.

NVIDIA/nccl plugins/tuner/example/plugin.c (2.30.7): lines of at most 255 characters, `#` or an empty line are passed over,
fields are cut by strtok (an empty field vanishes), 8 to 10 of them, numbers by strtoull and atoi, names compared exactly;
an unknown name silently becomes allreduce, ring or simple. The first row that matches decides. The plugin sets one channel
before it looks: a row with -1, and every operation without a row, keeps 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

COLLECTIVES = {
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_reduce": "allreduce",
}
ALGORITHMS = {
    "Tree": "tree",
    "Ring": "ring",
    "CollNetDirect": "collnet_direct",
    "CollNetChain": "collnet_chain",
    "NVLS": "nvls",
    "NVLSTree": "nvls_tree",
    "PAT": "pat",
}
PROTOCOLS = {"LL": "ll", "LL128": "ll128", "Simple": "simple"}
LONGEST_LINE = 255
ANY = -1
_C_INT = re.compile(r"[ \t]*([+-]?\d+)")


@dataclass(frozen=True)
class PluginRow:
    """One row as the plugin holds it; -1 matches anything, but for channels, where it leaves the 1."""

    collective: str
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str
    channels: int
    nodes: int
    ranks: int
    pipe_ops: int = ANY
    registered: int = ANY

    def to_line(self) -> str:
        """The line of the file, with the 8 fields that every version reads."""
        fields = (
            self.collective,
            self.min_bytes,
            self.max_bytes,
            self.algorithm,
            self.protocol,
            self.channels,
        )
        return ",".join(map(str, (*fields, self.nodes, self.ranks)))

    def matches(self, collective: str, size_bytes: int, nodes: int, ranks: int) -> bool:
        """As pluginGetCollInfo compares."""
        return (
            self.collective == collective
            and self.min_bytes <= size_bytes <= self.max_bytes
            and self.nodes in {ANY, nodes}
            and self.ranks in {ANY, ranks}
        )


def read_rows(text: str) -> list[PluginRow]:
    """What the plugin makes of a file, mistakes in it included."""
    rows = []
    for line in _lines(text):
        if line.startswith("#") or line in {"", "\n"}:
            continue
        fields = [field.strip(" \t") for field in line.rstrip("\n").split(",") if field]
        if len(fields) < 8:
            continue
        fields = fields[:10]
        numbers = [_atoi(field) for field in fields]
        rows.append(
            PluginRow(
                _known(fields[0], COLLECTIVES.values(), "allreduce"),
                numbers[1] % 2**64,
                numbers[2] % 2**64,
                _known(fields[3], ALGORITHMS.values(), "ring"),
                _known(fields[4], PROTOCOLS.values(), "simple"),
                numbers[5],
                numbers[6],
                numbers[7],
                numbers[8] if len(fields) > 8 else ANY,
                numbers[9] if len(fields) > 9 else ANY,
            )
        )
    return rows


def applied(
    rows: Iterable[PluginRow], collective: str, size_bytes: int, nodes: int, ranks: int
) -> tuple[str, str, int] | None:
    """(algorithm, protocol, channels) that the plugin asks for; None where no row matches, and 1 channel is left."""
    row = next((one for one in rows if one.matches(collective, size_bytes, nodes, ranks)), None)
    if row is None:
        return None
    return row.algorithm, row.protocol, 1 if row.channels == ANY else row.channels


def _lines(text: str) -> Iterable[str]:
    """Pieces as fgets gives them: a longer line comes in several, each taken for a line."""
    for line in text.splitlines(keepends=True):
        yield from (line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE))


def _known(name: str, names: Iterable[str], default: str) -> str:
    return name if name in set(names) else default


def _atoi(text: str) -> int:
    found = _C_INT.match(text)
    return int(found[1][:20]) if found else 0

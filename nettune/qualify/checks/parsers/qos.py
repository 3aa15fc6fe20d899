"""`mlnx_qos -i IF` (grammar: mlnx-tools, python/mlnx_qos)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

PRIORITIES = 8


@dataclass(frozen=True)
class Qos:
    """Settings of one interface.

    Attributes:
        trust: `dscp`, `pcp` or empty where not told.
        pfc: priorities with priority flow control; None where not told.
        prio_of_dscp: DSCP -> priority, as far as told.
        buffer_of_prio: priority -> receive buffer.
    """

    trust: str = ""
    pfc: frozenset[int] | None = None
    prio_of_dscp: dict[int, int] = field(default_factory=dict)
    buffer_of_prio: dict[int, int] = field(default_factory=dict)

    @cached_property
    def dscp_map(self) -> str:
        """`0-7: 0, 8-15: 1`: equal for equal maps; empty where it is not told."""
        runs: list[tuple[int, int, int]] = []
        for dscp, prio in sorted(self.prio_of_dscp.items()):
            if runs and runs[-1][1:] == (dscp - 1, prio):
                runs[-1] = runs[-1][0], dscp, prio
            else:
                runs.append((dscp, dscp, prio))
        return ", ".join(f"{a if a == b else f'{a}-{b}'}: {prio}" for a, b, prio in runs)

    @cached_property
    def buffers(self) -> str:
        """`0: 0, 3: 1`: receive buffer by priority; empty where it is not told."""
        return ", ".join(f"{prio}: {buffer}" for prio, buffer in sorted(self.buffer_of_prio.items()))


@lru_cache(maxsize=512)  # thousands of ports print the same
def mlnx_qos(text: str) -> Qos:
    """The settings; a text without any gives an empty record."""
    trust = ""
    pfc: frozenset[int] | None = None
    dscps: dict[int, int] = {}
    buffers: dict[int, int] = {}
    columns: list[int] = []
    for line in text.splitlines():
        words = line.split()
        if match := re.match(r"\s*Priority trust state:\s*(\w+)", line):
            trust = match[1].lower()
        elif match := re.match(r"\s*prio:(\d) dscp:([\d,]*)", line):
            dscps |= {int(word): int(match[1]) for word in match[2].split(",") if word and len(word) <= 2}
        elif words[:1] == ["priority"]:
            columns = [int(word) for word in words[1:] if re.fullmatch(r"[0-7]", word)]
        elif words[:1] == ["enabled"] and columns and len(words) == len(columns) + 1:
            pfc = frozenset(prio for prio, word in zip(columns, words[1:], strict=True) if word == "1")
        elif words[:1] == ["buffer"] and columns and len(words) == len(columns) + 1:
            pairs = zip(columns, words[1:], strict=True)
            buffers = {prio: int(word) for prio, word in pairs if re.fullmatch(r"\d{1,3}", word)}
    return Qos(trust, pfc, dscps, buffers)


def global_tclass(text: str) -> int | None:
    """`Global tclass=106` of /sys/class/infiniband/DEV/tc/P/traffic_class; the lines for single connections are left."""
    match = re.search(r"Global tclass=(\d{1,3})\b", text)
    return int(match[1]) if match else None

"""`Tuples`: what switches see of flows, as columns, and as the 16-bit words that linear hashes look up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Column = NDArray[np.uint32]

TCP, UDP = 6, 17
ROCE_PORT = 4791
"""UDP destination port of RoCEv2 (IANA)."""

FIELD_WORDS = {
    "src_ip": ("saddr_hi", "saddr_lo"),
    "dst_ip": ("daddr_hi", "daddr_lo"),
    "proto": ("proto",),
    "sport": ("sport",),
    "dport": ("dport",),
    "dst_qp": ("qp_hi", "qp_lo"),
}
"""Field that a hash may use -> its 16-bit words, high one first."""
WORD_BITS = {word: 16 for words in FIELD_WORDS.values() for word in words} | {"proto": 8, "qp_hi": 8}
FIELDS = tuple(FIELD_WORDS)
FIVE_TUPLE = FIELDS[:5]


@dataclass(frozen=True)
class Tuples:
    """F flows as columns of uint32: IPv4 addresses and ports as numbers, protocol (6 TCP, 17 UDP), destination QP."""

    saddr: Column
    daddr: Column
    sport: Column
    dport: Column
    proto: Column
    dst_qp: Column | None = None

    def __len__(self) -> int:
        return len(self.saddr)

    def take(self, which: slice | NDArray[np.generic]) -> Tuples:
        """The chosen rows; a slice copies nothing."""
        return Tuples(
            self.saddr[which],
            self.daddr[which],
            self.sport[which],
            self.dport[which],
            self.proto[which],
            None if self.dst_qp is None else self.dst_qp[which],
        )

    def roce_qp(self) -> Column:
        """(F,) destination QP of RoCEv2 flows; 0 for others, which have no such header."""
        if self.dst_qp is None:
            return np.zeros(len(self), dtype=np.uint32)
        roce = (self.proto == UDP) & (self.dport == ROCE_PORT)
        return np.where(roce, self.dst_qp, np.uint32(0))

    def word(self, name: str) -> Column:
        """(F,) one 16-bit word by its name in `FIELD_WORDS`."""
        field, _, part = name.partition("_")
        column: Column = self.roce_qp() if field == "qp" else getattr(self, field)
        if part == "hi":
            return column >> np.uint32(16)
        return column & np.uint32(0xFFFF) if part == "lo" else column


def words_of(fields: Iterable[str]) -> list[str]:
    """Names of the words of some fields."""
    return [word for field in fields for word in FIELD_WORDS[field]]

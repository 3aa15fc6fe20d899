"""Toeplitz: at every input bit that is set the 32 bits of the key that start there are XORed in.

Microsoft's receive-side scaling hash ("Verifying the RSS Hash Calculation"): source address, destination address, source
port, destination port, big-endian; it is what NICs spread over queues with, and some software switches over paths. Seed 0
is the key of that document; another seed stands for a key of its own (SHAKE-128 of its 4 big-endian bytes).
Protocol and destination QP, where a spec names them, follow the ports: an extension, no vendor's.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from topology.ecmp import affine
from topology.ecmp.tuples import WORD_BITS, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.ecmp.spec import HashSpec

values = affine.values

_KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
_ORDER = ("src_ip", "dst_ip", "sport", "dport", "proto", "dst_qp")


def one(spec: HashSpec, words: Mapping[str, int]) -> int:
    """32-bit hash of one flow, before the offset; words that are left out are 0."""
    key = int.from_bytes(
        _KEY if not spec.seed else hashlib.shake_128(spec.seed.to_bytes(4, "big")).digest(40)
    )
    found, place = 0, 320
    for name in words_of(field for field in _ORDER if field in spec.fields):
        value = words.get(name, 0)
        for bit in reversed(range(WORD_BITS[name])):
            if value >> bit & 1:
                found ^= key >> (place - 32) & 0xFFFFFFFF
            place -= 1
    return found

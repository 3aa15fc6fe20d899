"""CRC and XOR over the chosen fields in the order of a packet: presets for switches of which no more is known.

The fields (addresses, protocol, ports, destination QP) as big-endian bytes; a CRC's register starts at the seed's low
bits; XOR folds 16- or 32-bit words and the seed. This is the textbook form, no vendor's: confirm it by probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.ecmp import affine
from topology.ecmp.crc import CRC16_ARC, CRC16_CCITT, CRC32_CASTAGNOLI, CRC32_ETHERNET, crc_reflected
from topology.ecmp.tuples import WORD_BITS, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.ecmp.spec import HashSpec

values = affine.values

_CRCS = {
    "crc16": (16, CRC16_ARC),
    "crc16-ccitt": (16, CRC16_CCITT),
    "crc32": (32, CRC32_ETHERNET),
    "crc32c": (32, CRC32_CASTAGNOLI),
}


def one(spec: HashSpec, words: Mapping[str, int]) -> int:
    """Hash of one flow, before the offset; words that are left out are 0."""
    used = [(name, words.get(name, 0)) for name in words_of(spec.fields)]
    if spec.family in _CRCS:
        bits, polynomial = _CRCS[spec.family]
        data = b"".join(value.to_bytes(WORD_BITS[name] // 8, "big") for name, value in used)
        return crc_reflected(data, polynomial, spec.seed & ((1 << bits) - 1))
    if spec.family == "xor16":
        found = (spec.seed >> 16) ^ (spec.seed & 0xFFFF)
        for _, value in used:
            found ^= value
        return found
    found = spec.seed
    for name, value in used:
        found ^= value << 16 if name.endswith("_hi") or name == "sport" else value
    return found

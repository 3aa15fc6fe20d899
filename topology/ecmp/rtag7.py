"""Broadcom RTAG7, the Trident family's hash: CRC16, CRC32C and XOR functions over 13 bins of 16 bits and a seed.

After the public model in OpenBCM sdk-6.5.20 (src/bcm/esw/trident/hashing.c, src/shared/util.c), restated: the bins that the
fields name, as 6 words of two bins each, then the seed as the 7th, make 28 little-endian bytes. Bins: 11/10 source
address high/low, 9/8 destination address, 6/5 source/destination port, 4 protocol; VLAN, port and module bins are 0 here.
Functions 3 BISYNC, 4 to 7 BISYNC's high byte over the XOR of all words folded to 1, 2, 4, 8 bits, 8 XOR16, 9 CCITT,
10/11 low/high half of CRC32C; CRC registers start at 0 and come out bit-reversed.

Assumed, to be confirmed by probes: a switch that hashes the destination QP puts it into bins 1 (high) and 0 (low), which
IPv4 leaves free. Not modelled: two hash blocks with selection per port or flow, IPv6. Later chips (flexible hashing) differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.ecmp import affine
from topology.ecmp.crc import CRC16_ARC, CRC16_CCITT, CRC32_CASTAGNOLI, crc_reflected, reversed_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topology.ecmp.spec import HashSpec

values = affine.values

_BINS = {
    "saddr_hi": 11,
    "saddr_lo": 10,
    "daddr_hi": 9,
    "daddr_lo": 8,
    "sport": 6,
    "dport": 5,
    "proto": 4,
    "qp_hi": 1,
    "qp_lo": 0,
}


def one(spec: HashSpec, words: Mapping[str, int]) -> int:
    """16-bit hash of one flow, before the offset; words that are left out are 0."""
    bins = [0] * 12
    for name, value in words.items():
        bins[_BINS[name]] = (value ^ (value >> 3) ^ (value << 2)) & 0xFFFF if spec.preprocess else value
    rows = [low | high << 16 for low, high in zip(bins[0::2], bins[1::2], strict=True)]
    rows.append(spec.seed)
    data = b"".join(row.to_bytes(4, "little") for row in rows)
    function = spec.family.removeprefix("rtag7-")
    if function == "xor16":
        return _fold(rows, 16)
    if function == "crc16-ccitt":
        return reversed_bits(crc_reflected(data, CRC16_CCITT, 0), 16)
    if function.startswith("crc32c"):
        register = reversed_bits(crc_reflected(data, CRC32_CASTAGNOLI, 0), 32)
        return register & 0xFFFF if function == "crc32c-lo" else register >> 16
    bisync = reversed_bits(crc_reflected(data, CRC16_ARC, 0), 16)
    if function == "crc16-bisync":
        return bisync
    return bisync & 0xFF00 | _fold(rows, int(function.removeprefix("mixed-xor")))


def _fold(rows: list[int], bits: int) -> int:
    """XOR of all words, halved again and again down to `bits`."""
    found = 0
    for row in rows:
        found ^= row
    half = 16
    while half >= bits:
        found = (found & ((1 << half) - 1)) ^ (found >> half)
        half //= 2
    return found

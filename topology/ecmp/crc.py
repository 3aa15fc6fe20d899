"""Cyclic redundancy checks of a few bytes, bit by bit: the plain functions that `topology.ecmp.affine` makes tables of."""

from __future__ import annotations

CRC16_ARC, CRC16_CCITT, CRC32_ETHERNET, CRC32_CASTAGNOLI = 0xA001, 0x8408, 0xEDB88320, 0x82F63B78
"""Reflected polynomials (check values of "123456789" from 0: ARC 0xBB3D, KERMIT 0x2189; in full form CRC32C 0xE3069283)."""


def crc_reflected(data: bytes, polynomial: int, register: int) -> int:
    """Reflected CRC from a register value, without final XOR."""
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (polynomial if register & 1 else 0)
    return register


def reversed_bits(value: int, bits: int) -> int:
    """The number with its bits in the other order."""
    return int(format(value, f"0{bits}b")[::-1], 2)

"""Linux IPv4 multipath with `fib_multipath_hash_policy=3` over the five-tuple and a fixed `fib_multipath_hash_seed`.

Source: net/ipv4/route.c (fib_multipath_custom_hash_skb) of Linux 6.11 and later: the hash of `linux` over the fields
that `fib_multipath_hash_fields` names (0x37: addresses, protocol, ports), mixed by jhash_2words with an inner hash,
which is 0 for packets that are not encapsulated. Unlike policy 1 it ignores a hash that the packet carries already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topology.ecmp.linux import flow_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.ecmp.spec import HashSpec
    from topology.ecmp.tuples import Tuples

MASKS = {"src_ip": 1, "dst_ip": 2, "proto": 4, "sport": 16, "dport": 32}
"""Field -> its bit FIB_MULTIPATH_HASH_FIELD_ SRC_IP, DST_IP, IP_PROTO, SRC_PORT, DST_PORT (include/net/ip_fib.h)."""
IGNORED = 0xFC8
"""Bits without effect on IPv4 packets that are not encapsulated: flow label 8 (IPv6), inner header 64 to 2048."""

_JHASH_INITVAL = 0xDEADBEEF


def values(spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) numbers of 31 bits."""
    return seeded(spec.seed, spec, tuples)


def seeded(seed: int | NDArray[np.uint64], spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) numbers of 31 bits under one seed for all flows, or (F,) seeds; the spec's own is not looked at."""
    return _jhash_2words(flow_hash(seed, tuples, spec.fields), 0) >> np.uint32(1)


def _jhash_2words(first: NDArray[np.uint32], second: int) -> NDArray[np.uint32]:
    """(F,) Jenkins' lookup3 of two 32-bit words with initval 0 (include/linux/jhash.h)."""
    start = np.uint32((_JHASH_INITVAL + (2 << 2)) & 0xFFFFFFFF)
    a = first + start
    b = np.full_like(a, start) + np.uint32(second)
    c = np.full_like(a, start)

    def rotate(x: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
        return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))

    c = (c ^ b) - rotate(b, 14)
    a = (a ^ c) - rotate(c, 11)
    b = (b ^ a) - rotate(a, 25)
    c = (c ^ b) - rotate(b, 16)
    a = (a ^ c) - rotate(c, 4)
    b = (b ^ a) - rotate(a, 14)
    return (c ^ b) - rotate(b, 24)

"""Linux IPv4 multipath with `fib_multipath_hash_policy=1` (addresses and ports) and a fixed `fib_multipath_hash_seed`.

Source: net/core/flow_dissector.c (flow_hash_from_keys_seed), net/ipv4/route.c (fib_multipath_hash) and
net/ipv4/fib_semantics.c (fib_select_multipath) of Linux 6.11 and later: SipHash-2-4 over 48 bytes of flow keys, low
32 bits, halved, then hash-threshold selection. Addresses and ports are each put into ascending order first, so both
directions of a connection hash alike.

Policy 1 computes this only for packets that carry no hash yet: one that a NIC or a local TCP socket has marked
(skb->l4_hash) is taken as it is. Across veth pairs that is the sending socket's random number, so TCP between
namespaces is not predictable under policy 1; `linux_fields` (policy 3) always computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from topology.ecmp.spec import HashSpec
    from topology.ecmp.tuples import Tuples

    Words = NDArray[np.uint64]

_INIT = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_KEY_BYTES = 48


def values(spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) numbers of 31 bits."""
    return seeded(spec.seed, spec, tuples)


def seeded(seed: int | Words, spec: HashSpec, tuples: Tuples) -> NDArray[np.uint32]:
    """(F,) numbers of 31 bits under one seed for all flows, or (F,) seeds; the spec's own is not looked at."""
    return flow_hash(seed, tuples, spec.fields) >> np.uint32(1)


def flow_hash(seed: int | Words, tuples: Tuples, fields: Sequence[str]) -> NDArray[np.uint32]:
    """(F,) flow_hash_from_keys_seed over some fields: 32 bits, never 0. A seed for all flows, or (F,) seeds."""
    hashed = _siphash24(_key_words(tuples, fields), seed).astype(np.uint32)
    np.maximum(hashed, np.uint32(1), out=hashed)
    return hashed


def _key_words(tuples: Tuples, fields: Sequence[str]) -> list[Words | int]:
    """The kernel's key as little-endian words, constant ones as numbers; order is by the little-endian load of big-endian fields.

    struct flow_keys from `basic` on: protocol at byte 2, ports at 28 and 30, addresses at 36 and 40. The bytes that IPv4
    multipath leaves at zero (flow label, VLANs, key id, ICMP) and fields that are not hashed stay 0.
    """
    none = np.zeros(len(tuples), dtype=np.uint32)
    saddr = tuples.saddr.astype(np.uint32).byteswap() if "src_ip" in fields else none
    daddr = tuples.daddr.astype(np.uint32).byteswap() if "dst_ip" in fields else none
    sport = tuples.sport.astype(np.uint16).byteswap() if "sport" in fields else none
    dport = tuples.dport.astype(np.uint16).byteswap() if "dport" in fields else none
    proto: Words | int = 0
    if "proto" in fields and len(tuples):
        same = bool((tuples.proto == tuples.proto[0]).all())
        proto = int(tuples.proto[0]) << 16 if same else tuples.proto.astype(np.uint64) << np.uint64(16)

    def wide(column: NDArray[np.unsignedinteger], shift: int) -> Words:
        return column.astype(np.uint64) << np.uint64(shift)

    ports = wide(np.minimum(sport, dport), 32) | wide(np.maximum(sport, dport), 48)
    return [
        proto,
        0,
        0,
        ports,
        wide(np.minimum(saddr, daddr), 32),
        np.maximum(saddr, daddr).astype(np.uint64),
    ]


def _siphash24(words: Sequence[Words | int], seed: int | Words) -> Words:
    """(F,) SipHash-2-4 of little-endian words with both halves of the key = seed << 32 | seed (Aumasson, Bernstein 2012).

    As long as words and seed are the same for all flows, one row stands for all.
    """
    key = np.asarray(seed, dtype=np.uint64).reshape(-1)
    key = (key << np.uint64(32)) | key
    v = [key ^ np.uint64(constant) for constant in _INIT]
    rows = max(len(key), *(len(word) for word in words if not isinstance(word, int)))
    for word in (*words, (_KEY_BYTES & 0xFF) << 56):
        if not isinstance(word, int) and len(v[0]) < rows:
            v = [np.full(rows, part[0]) for part in v]
        block = np.uint64(word) if isinstance(word, int) else word
        v[3] ^= block
        _rounds(v, 2)
        v[0] ^= block
    v[2] ^= np.uint64(0xFF)
    _rounds(v, 4)
    found: Words = v[0] ^ v[1] ^ v[2] ^ v[3]
    return found


def _rounds(v: list[Words], count: int) -> None:
    """SipRounds in place: nothing is allocated but one spare column."""
    a, b, c, d = v
    spare = np.empty_like(a)

    def rotate(x: Words, bits: int) -> None:
        np.right_shift(x, np.uint64(64 - bits), out=spare)
        np.left_shift(x, np.uint64(bits), out=x)
        np.bitwise_or(x, spare, out=x)

    for _ in range(count):
        a += b
        rotate(b, 13)
        b ^= a
        rotate(a, 32)
        c += d
        rotate(d, 16)
        d ^= c
        a += d
        rotate(d, 21)
        d ^= a
        c += b
        rotate(b, 17)
        b ^= c
        rotate(c, 32)

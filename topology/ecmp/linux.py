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

    from topology.ecmp.spec import HashSpec, Tuples

    Words = NDArray[np.uint64]

_INIT = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
# struct flow_keys from `basic` on: bytes that IPv4 multipath leaves at zero (flow label, VLANs, key id, ICMP) are padding.
_FLOW_KEYS = np.dtype(
    {
        "names": ["ip_proto", "port_low", "port_high", "addr_low", "addr_high"],
        "formats": ["u1", "<u2", "<u2", "<u4", "<u4"],
        "offsets": [2, 28, 30, 36, 40],
        "itemsize": 48,
    }
)


def choose(spec: HashSpec, tuples: Tuples, weights: Sequence[int]) -> NDArray[np.int64]:
    """(F,) index of the next hop for each flow; weights as in the route, in the route's order."""
    return select(flow_hash(spec.seed, tuples), weights)


def flow_hash(seed: int, tuples: Tuples) -> Words:
    """(F,) flow_hash_from_keys_seed: 32 bits, never 0."""
    hashes: Words = np.maximum(_siphash24(_flow_keys(tuples), seed) & np.uint64(0xFFFFFFFF), np.uint64(1))
    return hashes


def select(hashes: Words, weights: Sequence[int]) -> NDArray[np.int64]:
    """(F,) next hop by hash-threshold of the halved 32-bit hash."""
    hashed = (hashes >> np.uint64(1)).astype(np.int64)
    cumulative = np.cumsum(np.asarray(weights, dtype=np.int64))
    total = int(cumulative[-1])
    # The last hash value of each next hop: DIV_ROUND_CLOSEST_ULL(2^31 * cumulative weight, total) - 1.
    upper = (cumulative * 2**31 + total // 2) // total - 1
    picked: NDArray[np.int64] = np.searchsorted(upper, hashed, side="left")
    return picked


def _flow_keys(tuples: Tuples) -> Words:
    """(F, 6) little-endian words of the kernel's key; order is by the little-endian load of big-endian fields."""
    saddr, daddr = (column.astype(np.uint32).byteswap() for column in (tuples.saddr, tuples.daddr))
    sport, dport = (column.astype(np.uint16).byteswap() for column in (tuples.sport, tuples.dport))
    keys = np.zeros(len(saddr), dtype=_FLOW_KEYS)
    keys["ip_proto"] = tuples.proto
    keys["port_low"], keys["port_high"] = np.minimum(sport, dport), np.maximum(sport, dport)
    keys["addr_low"], keys["addr_high"] = np.minimum(saddr, daddr), np.maximum(saddr, daddr)
    return keys.view("<u8").reshape(-1, _FLOW_KEYS.itemsize // 8)


def _siphash24(words: Words, seed: int) -> Words:
    """(F,) SipHash-2-4 of (F, W) words with both halves of the key = seed << 32 | seed (Aumasson, Bernstein 2012)."""
    key = (seed << 32) | seed
    v = [np.full(len(words), key ^ constant, dtype=np.uint64) for constant in _INIT]

    def rotate(x: Words, bits: int) -> Words:
        return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = v[0] + v[1]
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = v[2] + v[3]
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3]
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1]
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    length_word = np.full(len(words), (words.shape[1] * 8 & 0xFF) << 56, dtype=np.uint64)
    for word in (*words.T, length_word):
        v[3] = v[3] ^ word
        rounds(2)
        v[0] = v[0] ^ word
    v[2] = v[2] ^ np.uint64(0xFF)
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]

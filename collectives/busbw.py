"""Bus bandwidth: the algorithm's bandwidth times a factor that makes it comparable with the speed of a link.

Factors of nccl-tests (doc/PERFORMANCE.md, and getBw in src/all_reduce.cu and its siblings): the message size is the
largest buffer of a rank. With one rank nothing crosses a network and the bus bandwidth is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from nettune.errors import InputError

FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": lambda _: 1.0,
    "reduce": lambda _: 1.0,
    "sendrecv": lambda _: 1.0,
}


def busbw_factor(op: str, ranks: int) -> float:
    """Ratio of bus bandwidth to the algorithm's bandwidth; 0 for one rank.

    Raises:
        InputError: an operation without a factor, or no rank.
    """
    if op not in FACTORS or ranks < 1:
        raise InputError(f"no bus bandwidth for {op!r} on {ranks} ranks; known: {', '.join(FACTORS)}")
    return FACTORS[op](ranks) if ranks > 1 else 0.0


def algbw_gbytes_per_s(size_bytes: float, time_s: float) -> float:
    """Message size over time, 1e9 bytes per second, as nccl-tests prints it.

    Raises:
        InputError: a time that is not above 0.
    """
    if time_s <= 0:
        raise InputError(f"a time of {time_s} s gives no bandwidth")
    return size_bytes / time_s / 1e9


def busbw_gbytes_per_s(op: str, ranks: int, size_bytes: float, time_s: float) -> float:
    """Bus bandwidth, 1e9 bytes per second, as nccl-tests prints it.

    Raises:
        InputError: as `busbw_factor` and `algbw_gbytes_per_s`.
    """
    return algbw_gbytes_per_s(size_bytes, time_s) * busbw_factor(op, ranks)


def busbw_gbps(op: str, ranks: int, size_bytes: float, time_s: float) -> float:
    """Bus bandwidth, 1e9 bit per second, to stand beside the rate of a link.

    Raises:
        InputError: as `busbw_factor` and `algbw_gbytes_per_s`.
    """
    return 8 * busbw_gbytes_per_s(op, ranks, size_bytes, time_s)

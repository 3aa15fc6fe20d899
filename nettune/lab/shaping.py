"""Rate limits of the emulated ports: token buckets (tbf), which every kernel has.

The root qdisc's rate is the port's nominal speed. A fault that slows a link puts a second bucket inside the root
one (handle 10:), so that whoever asks the port for its speed is told the nominal one.
"""

from __future__ import annotations

# A bucket of 2 ms of the rate, but never under a few packets. Measured with all hosts of a 2-core machine busy:
# with 0.4 ms timers that run late cost 5% of the rate, with 2 ms under 2%; what an idle link saves up is 25 kB at
# 100 Mbit/s, less than 1% of a transfer of a few megabytes.
_BURST_S = 0.002
_BURST_PACKETS = 10
# The queue of a port: 5 ms, or enough packets for fast retransmission to work with several flows.
_QUEUE_S = 0.005
_QUEUE_PACKETS = 40
_ETHERNET_HEADER_BYTES = 14


def _bucket(rate_gbps: float, mtu: int) -> str:
    frame = mtu + _ETHERNET_HEADER_BYTES
    burst = max(int(rate_gbps * 1e9 / 8 * _BURST_S), _BURST_PACKETS * frame)
    return f"rate {round(rate_gbps * 1e9)}bit burst {burst} limit {queue_bytes(rate_gbps, mtu)}"


def queue_bytes(rate_gbps: float, mtu: int) -> int:
    """Bytes that wait at a port before it drops."""
    frame = mtu + _ETHERNET_HEADER_BYTES
    return max(int(rate_gbps * 1e9 / 8 * _QUEUE_S), _QUEUE_PACKETS * frame)


def root_limit(iface: str, rate_gbps: float, mtu: int) -> str:
    """`tc -batch` line that gives a port its nominal speed."""
    return f"qdisc replace dev {iface} root handle 1: tbf {_bucket(rate_gbps, mtu)}"


def inner_limit(iface: str, rate_gbps: float, mtu: int) -> str:
    """`tc -batch` line that slows a port below its nominal speed."""
    return f"qdisc replace dev {iface} parent 1:1 handle 10: tbf {_bucket(rate_gbps, mtu)}"


def no_inner_limit(iface: str, rate_gbps: float, mtu: int) -> str:
    """`tc -batch` line that takes the inner limit away.

    Deleting the inner qdisc would leave one that drops everything, so a plain queue replaces it.
    """
    return f"qdisc replace dev {iface} parent 1:1 handle 11: bfifo limit {queue_bytes(rate_gbps, mtu)}"

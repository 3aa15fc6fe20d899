"""Thresholds of a shared-memory switch: headroom, when PFC pauses, and where ECN must mark so that it marks first.

Source: DCQCN (Zhu et al., SIGCOMM 2015), section 4 "Buffer settings", generalised from 8 priorities to those that are
lossless. All sizes are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from nettune.errors import InputError

_PAUSE_FRAME_BYTES = 64


def headroom_bytes(link_gbps: float, delay_us: float, packet_bytes: int, response_us: float = 0.0) -> float:
    """Bytes that still arrive at one port after it decided to pause its neighbour (t_flight).

    The packet that no longer fits under the threshold is in it itself; the pause frame waits for a packet that is being
    sent, takes its own time and the cable's; the neighbour ends the packet that it is sending, and what is on the cable
    arrives: 2 delay rate + 3 packets + the frame, and what is sent while the neighbour reacts.

    Args:
        link_gbps: rate of the link.
        delay_us: one way.
        packet_bytes: largest packet on the wire.
        response_us: reaction of the neighbour (IEEE 802.1Qbb leaves it to the device).

    Raises:
        InputError: a rate or packet that is not positive, a negative time.
    """
    if not (0 < link_gbps < float("inf") and packet_bytes > 0):
        raise InputError(
            f"headroom: rate and packet must be above 0, not {link_gbps:g} Gb/s and {packet_bytes}"
        )
    if not (isfinite(delay_us) and isfinite(response_us) and min(delay_us, response_us) >= 0):
        raise InputError("headroom: times must be 0 or more")
    return (2 * delay_us + response_us) * link_gbps * 125 + 3 * packet_bytes + _PAUSE_FRAME_BYTES


@dataclass(frozen=True)
class SharedBuffer:
    """The packet memory of a switch.

    Attributes:
        buffer_bytes: all of it (B).
        ports: number of ports (n).
        headroom_bytes: kept for each port and lossless priority (t_flight).
        priorities: lossless priorities that keep headroom; the paper has 8.

    Raises:
        InputError: the headroom alone is more than the buffer, or a size that is not positive.
    """

    buffer_bytes: float
    ports: int
    headroom_bytes: float
    priorities: int = 8

    def __post_init__(self) -> None:
        sizes = (self.buffer_bytes, self.ports, self.priorities)
        if not all(0 < value < float("inf") for value in (*sizes, self.headroom_bytes + 1)):
            raise InputError("buffer: bytes, ports and priorities must be above 0")
        if self.shared_bytes <= 0:
            raise InputError(
                f"buffer: {self.buffer_bytes:,.0f} bytes are not more than the headroom of {self.ports} ports x "
                f"{self.priorities} lossless priorities x {self.headroom_bytes:,.0f} bytes = {self.reserved_bytes:,.0f}"
            )

    @property
    def reserved_bytes(self) -> float:
        """Headroom of all ports and priorities."""
        return self.ports * self.priorities * self.headroom_bytes

    @property
    def shared_bytes(self) -> float:
        """What is left to share."""
        return self.buffer_bytes - self.reserved_bytes

    @property
    def static_pfc_bytes(self) -> float:
        """Highest constant PFC threshold of a port and priority at which nothing is ever lost."""
        return self.shared_bytes / (self.ports * self.priorities)

    @property
    def static_ecn_bytes(self) -> float:
        """ECN must mark below this: n ports that each stay under the constant PFC threshold may feed one egress queue."""
        return self.static_pfc_bytes / self.ports

    def dynamic_pfc_bytes(self, beta: float, occupied_bytes: float = 0.0) -> float:
        """PFC threshold of a port and priority that follows the free part of the buffer: beta free / priorities.

        Raises:
            InputError: beta is not positive.
        """
        self._check(beta)
        return beta * max(0.0, self.shared_bytes - occupied_bytes) / self.priorities

    def dynamic_ecn_bytes(self, beta: float) -> float:
        """ECN must mark below this for every egress queue to be marked before any port is paused.

        Raises:
            InputError: beta is not positive.
        """
        self._check(beta)
        return beta * self.shared_bytes / (self.priorities * self.ports * (beta + 1))

    @staticmethod
    def _check(beta: float) -> None:
        if not 0 < beta < float("inf"):
            raise InputError(f"buffer: beta must be above 0, not {beta:g}")

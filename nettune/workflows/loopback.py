"""What of the demo can be shown without namespaces: ranks on this machine's loopback, with no fabric between them."""

from __future__ import annotations

from dataclasses import dataclass

from collectives.communicator import PRELOAD
from nettune.launch import Agents, LocalLauncher

RANKS = 4
NOT_SHOWN = (
    "discovery, qualification and placement: they need a fabric between the ranks",
    "the gain of an order of ranks in busbw and MFU: on loopback all orders are the same",
)


@dataclass(frozen=True)
class Loopback:
    """Ranks that share this machine."""

    iface: str = "lo"

    @property
    def hosts(self) -> tuple[str, ...]:
        """One label a rank."""
        return tuple(f"local{rank}" for rank in range(RANKS))

    def agents(self) -> Agents:
        """One persistent agent a rank."""
        return Agents(LocalLauncher(self.hosts), self.hosts, preload=(*PRELOAD, "nettune.trainer.train"))

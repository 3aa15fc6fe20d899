"""What of the demo can be shown without namespaces: ranks on this machine's loopback, with no fabric between them."""

from __future__ import annotations

import socket
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
    """Ranks that share this machine; satisfies `training.Reach`."""

    iface: str = "lo"

    @property
    def hosts(self) -> tuple[str, ...]:
        """One label a rank."""
        return tuple(f"local{rank}" for rank in range(RANKS))

    def address(self, host: str) -> str:
        """Always 127.0.0.1, whatever the label."""
        assert host in self.hosts
        return "127.0.0.1"

    @staticmethod
    def fresh_port() -> int:
        """A port that the kernel says is free now."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    def agents(self) -> Agents:
        """One persistent agent a rank."""
        return Agents(LocalLauncher(self.hosts), self.hosts, preload=(*PRELOAD, "nettune.trainer.train"))

"""Training the reference model on a cluster's hosts: one call is one fresh initialisation under one order of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from collectives.communicator import call_to_join, seat_agents
from nettune.launch import Agents
from nettune.trainer.config import TrainConfig
from nettune.trainer.flops import Flops, count_flops
from nettune.trainer.peak import Peak, cluster_peak

_TRAIN = "nettune.trainer.train"
_SETUP_TIMEOUT_S = 60.0


class Training:
    """A job on agents; every `run` makes new connections, hence draws new ports.

    Args:
        agents: one agent per host.
        iface: network interface of the ranks' traffic.
        config: the job.
    """

    def __init__(self, agents: Agents, iface: str, config: TrainConfig) -> None:
        self._agents = agents
        self._iface = iface
        self.config = config

    @property
    def flops(self) -> Flops:
        """Model FLOPs of one step of the whole job, with their convention."""
        return count_flops(self.config.model, self.config.tokens_per_rank * len(self._agents.placement))

    def run(
        self,
        order: Sequence[str],
        steps: int,
        *,
        warmup: int = 2,
        changes: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[dict[str, Any]]:
        """Train with rank r on `order[r]`; `changes` replace fields of the config.

        Returns:
            What `nettune.trainer.train.run` returned in each rank, in order of rank.

        Raises:
            AgentError: a rank failed, died or hung; it is named.
        """
        self._set_up(order, changes)
        results = self._agents.call(
            f"{_TRAIN}:run", {"steps": steps, "warmup": warmup}, timeout_s=60 + 20 * (steps + warmup)
        )
        self._agents.call(f"{_TRAIN}:teardown")
        return sorted(results, key=lambda result: int(result["rank"]))

    def peak(self, order: Sequence[str]) -> Peak:
        """Peak FLOP/s of the job, measured with every rank computing at once.

        Raises:
            AgentError: a rank failed.
        """
        self._set_up(order, {})
        measured = self._agents.call("nettune.trainer.peak:measure_peak", {"config": self.config.to_json()})
        self._agents.call(f"{_TRAIN}:teardown")
        return cluster_peak(measured)

    def _set_up(self, order: Sequence[str], changes: Mapping[str, Any]) -> None:
        call_to_join(
            self._agents,
            f"{_TRAIN}:setup",
            seat_agents(self._agents.placement, order),
            [self._iface] * len(order),
            timeout_s=_SETUP_TIMEOUT_S,
            config=self.config.with_changes(**changes).to_json(),
        )

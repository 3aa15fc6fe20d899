"""One run: a network, flows, congestion control and a seed in; completion times and counters out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from collectives.congestion.parameters import CongestionControl
from collectives.fabric_sim import core
from collectives.fabric_sim.core import Status
from collectives.fabric_sim.encoding import encode
from collectives.fabric_sim.flows import Flow
from collectives.fabric_sim.network import Network, Transport
from collectives.fabric_sim.options import Options
from collectives.fabric_sim.result import Result
from nettune.errors import NettuneError

__all__ = ["Options", "Simulation", "simulate"]


def simulate(
    network: Network,
    flows: Sequence[Flow],
    controls: Sequence[CongestionControl],
    *,
    transport: Transport | None = None,
    options: Options | None = None,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Simulate flows until all have finished, or nothing moves any more (`Result.stuck`).

    Args:
        network: hosts, switches, links.
        flows: what is sent.
        controls: congestion controls; `Flow.control` names one by its row.
        transport: of all NICs; by default `Transport()`.
        options: what is recorded.
        seed: of ECN's and loss' draws and of flowlets; the same seed gives the same result, bit for bit.
        progress: told now and then how many flows are left, and the simulated time in ps.

    Raises:
        InputError: a flow, a path or a setting that cannot be.
        NettuneError: queues outgrow the memory.
    """
    return Simulation(network, flows, controls, transport=transport, options=options).run(seed, progress)


class Simulation:
    """A network with flows, ready to run with several seeds."""

    def __init__(
        self,
        network: Network,
        flows: Sequence[Flow],
        controls: Sequence[CongestionControl],
        *,
        transport: Transport | None = None,
        options: Options | None = None,
    ) -> None:
        self._network = network
        self._counts, self._arrays = encode(
            network, flows, controls, transport or Transport(), options or Options()
        )
        self._start_us = array("d", [flow.start_us for flow in flows])

    def run(self, seed: int = 1, progress: Callable[[int, int], None] | None = None) -> Result:
        """One run.

        Raises:
            NettuneError: queues outgrow the memory.
        """
        outcome = core.run({**self._counts, "seed": seed}, self._arrays, progress)
        if outcome.status is Status.OUT_OF_MEMORY:
            raise NettuneError(
                f"the simulation needs more than {self._counts['memory_bytes'] / 2**20:.0f} MiB: simulate less at once"
            )
        waits = tuple(zip(outcome.waits[::2], outcome.waits[1::2], strict=True))
        return Result(
            network=self._network,
            classes=self._counts["classes"],
            seed=seed,
            status=outcome.status,
            start_us=self._start_us,
            finish_ps=outcome.column["finish"],
            delivered_ps=outcome.column["delivered"],
            total=outcome.total,
            column=outcome.column,
            samples=outcome.samples,
            sample_width=1 + self._counts["watched_links"] + self._counts["watched_flows"],
            waits=waits,
        )

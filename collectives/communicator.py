"""`Communicator`: one initialisation of a job's ranks on agents that stay.

The agents are processes bound to hosts. Which rank each of them is belongs to the initialisation, so another order of
hosts needs no new process, only new connections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collectives.connections import Connection, pair
from nettune.errors import InputError
from nettune.launch.caller import Caller
from nettune.launch.failures import AgentError

_BACKEND = "collectives.backends.torch_backend"
_SERVE = "collectives.backends.joining:serve_store"
PRELOAD = (_BACKEND,)
"""What agents for these calls should import before they are forked."""

MODULES = {"gloo": _BACKEND, "nccl": _BACKEND, "mpi": "collectives.backends.mpi_backend"}
"""Modules that carry out collectives inside a rank, by the backend's name; they have the same functions."""

Seat = str | tuple[str, str]
"""Where a rank sits: a host, or (host, network interface)."""


@dataclass(frozen=True)
class StepTimes:
    """Times of R repeats of a step at each of N ranks.

    Attributes:
        total_s: (N lists of R) the whole step.
        phases_s: name of a phase to (N lists of R).
        wrong: values of the first step's results that are wrong, all ranks together.
    """

    total_s: tuple[tuple[float, ...], ...]
    phases_s: Mapping[str, tuple[tuple[float, ...], ...]]
    wrong: int = 0

    @property
    def job_s(self) -> list[float]:
        """Per repeat the slowest rank's time: that of the job."""
        return slowest(self.total_s)


def slowest(of_rank: Sequence[Sequence[float]]) -> list[float]:
    """Per repeat the largest of the ranks' times."""
    return [max(column) for column in zip(*of_rank, strict=True)]


class Communicator:
    """Ranks that are connected. Made by `connected`."""

    def __init__(
        self, agents: Caller, agent_of_rank: Sequence[int], timeout_s: float, init_s: float, module: str
    ) -> None:
        self._module = module
        self._agents = agents
        self._agent_of_rank = list(agent_of_rank)
        self._timeout_s = timeout_s
        self.init_s = init_s

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self._agent_of_rank)

    def step(
        self, work: Sequence[Mapping[str, Any]], *, repeats: int, warmup: int = 0, check: bool = True
    ) -> StepTimes:
        """Carry out a step's communication; see `collectives.backends.torch_backend.step_traffic`.

        Raises:
            AgentError: a rank died or hangs; the line names it.
        """
        results = self._call(
            "step_traffic",
            {"phases": list(work), "repeats": repeats, "warmup": warmup, "check": check},
            operations=1 + (repeats + warmup) * max(1, len(work)),
        )
        phases = {
            str(phase["name"]): tuple(tuple(result["phases"][phase["name"]]) for result in results)
            for phase in work
        }
        total = tuple(tuple(result["times_s"]) for result in results)
        return StepTimes(total, phases, sum(int(result["wrong"]) for result in results))

    def cap_rate(self, bytes_per_s: float) -> None:
        """Let no connection send faster from now on.

        Raises:
            AgentError: a rank died.
        """
        self._call("cap_rate", {"bytes_per_s": bytes_per_s})

    def connections(self) -> list[Connection]:
        """All connections between ranks, both directions.

        Raises:
            AgentError: a rank died.
        """
        return pair(self._call("connections", {}))

    def _call(self, function: str, kwargs: Mapping[str, Any], operations: int = 1) -> list[Any]:
        # Each operation ends by the group's own time-out, which says more than the agents' can.
        timeout_s = operations * self._timeout_s + 10
        try:
            return self._agents.call(
                f"{self._module}:{function}", kwargs, ranks=self._agent_of_rank, timeout_s=timeout_s
            )
        except AgentError as error:
            raise _blame(error, self._agent_of_rank) from error


def _blame(error: AgentError, agent_of_rank: Sequence[int]) -> AgentError:
    """Put a rank that died or hangs in front of those that complained of it; else the error as it is.

    Peers may notice a death first, by the connection. Those that wait for one that hangs run into the group's time-out
    at the same moment; only that one says nothing then.
    """
    states = {state.state for state in error.states}
    guilty = [state for state in error.states if state.state == "died"]
    if not guilty and "raised" in states:
        guilty = [state for state in error.states if state.state in {"stopped", "hung"}]
    if not guilty or guilty[0].rank == error.ranks[0]:
        return error
    parts = []
    for one in guilty:
        what = one.message if one.state == "died" else "hangs: it did not answer while others waited"
        parts.append(f"rank {agent_of_rank.index(one.rank)} on {one.host} {what}")
    blamed = AgentError(f"{', '.join(parts)}; {error}", error.states, error.ranks)
    blamed.details = error.details
    return blamed


@contextlib.contextmanager
def connected(
    agents: Caller,
    seats: Sequence[Seat],
    *,
    backend: str = "gloo",
    iface: str = "eth0",
    timeout_s: float = 30.0,
    groups: Sequence[Sequence[int]] = (),
    connections: int = 1,
) -> Iterator[Communicator]:
    """Connect ranks for the block: rank r is an agent on `seats[r]`.

    Args:
        agents: running agents; those on hosts without a seat stay idle.
        seats: host, or (host, interface), of each rank.
        backend: torch's name of the backend.
        iface: interface of ranks whose seat names none.
        timeout_s: for joining, and for every operation.
        groups: members of process groups beside the one of all ranks, ascending.
        connections: of each pair of ranks, in the group of all ranks.

    Raises:
        InputError: more ranks on a host than agents there, or an unknown backend.
        AgentError: a rank died, did not join, or cannot connect; the line names it.
    """
    hosts, ifaces = zip(*((seat, iface) if isinstance(seat, str) else seat for seat in seats), strict=True)
    agent_of_rank = seat_agents(agents.placement, hosts)
    if backend not in MODULES:
        raise InputError(f"backend {backend!r} is not known; known: {', '.join(MODULES)}")
    module = MODULES[backend]
    try:
        joined = call_to_join(
            agents,
            f"{module}:init_group",
            agent_of_rank,
            ifaces,
            timeout_s=timeout_s,
            meet=backend != "mpi",  # MPI's ranks have met
            backend=backend,
            groups=[list(one) for one in groups],
            connections=connections,
        )
        yield Communicator(agents, agent_of_rank, timeout_s, max(one["init_s"] for one in joined), module)
    except BaseException:
        # The error that is on its way says what happened; agents that are gone cannot leave a group.
        with contextlib.suppress(Exception):
            agents.call(f"{module}:destroy_group", {}, ranks=agent_of_rank, timeout_s=10)
        raise
    agents.call(f"{module}:destroy_group", {}, ranks=agent_of_rank, timeout_s=timeout_s)


def call_to_join(
    agents: Caller,
    function: str,
    agent_of_rank: Sequence[int],
    ifaces: Sequence[str],
    *,
    timeout_s: float,
    meet: bool = True,
    **shared: Any,
) -> list[Any]:
    """Call a function that joins the ranks, with a store that the first rank's agent serves on a port of the kernel's.

    Args:
        agents: running agents.
        function: called with rank, world_size, master_addr, master_port, iface, timeout_s and what is shared.
        agent_of_rank: agent of each rank, from `seat_agents`.
        ifaces: network interface of each rank.
        timeout_s: for joining, and for every operation.
        meet: whether the first rank serves a store.
        **shared: further arguments, the same for all ranks.

    Returns:
        Results in order of rank.

    Raises:
        AgentError: a rank died, did not join, or cannot connect; the line names it.
    """
    rank_of_agent = {agent: rank for rank, agent in enumerate(agent_of_rank)}
    common = {"world_size": len(agent_of_rank), "timeout_s": timeout_s}
    master: dict[str, Any] = {}
    if meet:
        served = {**common, "iface": ifaces[0]}
        master = agents.call(_SERVE, served, ranks=agent_of_rank[:1], timeout_s=timeout_s + 10)[0]

    def arguments(agent: int) -> dict[str, Any]:
        rank = rank_of_agent[agent]
        return {**shared, **common, **master, "rank": rank, "iface": ifaces[rank]}

    # A joining rank may use the whole time-out twice: to meet, and then to connect.
    try:
        return agents.call(function, arguments, ranks=agent_of_rank, timeout_s=2 * timeout_s + 10)
    except AgentError as error:
        raise _blame(error, agent_of_rank) from error


def seat_agents(placement: Sequence[str], hosts: Sequence[str]) -> list[int]:
    """Agent of each rank: the next free one on its host.

    Raises:
        InputError: a host has fewer agents than ranks.
    """
    free: dict[str, list[int]] = {}
    for agent, host in enumerate(placement):
        free.setdefault(host, []).append(agent)
    chosen = []
    for rank, host in enumerate(hosts):
        if not free.get(host):
            raise InputError(f"rank {rank} sits on {host!r}, which has no free agent")
        chosen.append(free[host].pop(0))
    return chosen

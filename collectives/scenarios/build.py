"""`Scenario`: a scenario file made ready: fabric, parameters and jobs are there, and fit each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from collectives.congestion.presets import control, ecn_curve
from collectives.job import load_job
from collectives.scenarios.fabrics import routing_of
from collectives.scenarios.flowlist import read_flows
from collectives.scenarios.jobs import Member, add_pairs, add_schedule, add_step, again, starts
from collectives.scenarios.paths import drawn_paths
from collectives.scenarios.workload import MOST_ROWS, WorkloadBuilder
from collectives.schedules import Op
from collectives.schedules import build as build_schedule
from collectives.traffic import JobTraffic
from nettune.errors import InputError
from nettune.hosts import expand_hosts
from topology.placement.mapping import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from collectives.congestion.parameters import CongestionControl, EcnCurve
    from collectives.scenarios.jobs import Rows
    from collectives.scenarios.spec import JobTable, ScenarioFile
    from collectives.scenarios.workload import Workload
    from collectives.schedules import Schedule
    from topology.routing import Routing

    Ints = NDArray[np.int64]
    # Adds one iteration: (job, rows after which each rank may begin, `#2` of the second iteration) to rows when done.
    Iteration = Callable[[Member, Rows, str], Rows]


@dataclass(frozen=True)
class PreparedJob:
    """A job whose ranks have NICs.

    Attributes:
        name: unique in the scenario.
        table: its keys.
        ports: (R,) port row of each rank.
        add: adds one iteration to a workload.
    """

    name: str
    table: JobTable
    ports: Ints
    add: Iteration


@dataclass(frozen=True)
class Scenario:
    """All that a simulation needs.

    Attributes:
        spec: the file.
        routing: forwarding state with its fabric.
        host_gbps: rate of the slowest NIC that a job uses: presets scale with it.
        control: congestion control of the senders.
        curve: marking of the switches.
        jobs: in the order of the file.
    """

    spec: ScenarioFile
    routing: Routing
    host_gbps: float
    control: CongestionControl
    curve: EcnCurve
    jobs: tuple[PreparedJob, ...]

    def workload(self, seed: int) -> Workload:
        """What the fabric is to carry; start jitter is drawn with the seed.

        Raises:
            InputError: nothing is sent, or too many messages.
        """
        builder = WorkloadBuilder()
        for number, job in enumerate(self.jobs):
            table = job.table
            member = Member(
                builder,
                self.routing.fabric,
                job.name,
                job.ports.tolist(),
                table.connections,
                table.priority,
            )
            random = np.random.default_rng((seed, number))
            ready = starts(builder, len(job.ports), table.start_us, table.jitter_us, random)
            for iteration in range(table.iterations):
                if iteration:
                    ready = again(builder, ready, table.compute_us)
                ready = job.add(member, ready, f"#{iteration + 1}" if table.iterations > 1 else "")
        return builder.build()

    def paths(self, workload: Workload, seed: int) -> tuple[Ints, Ints]:
        """Directed links of the workload's flows (its rows `flows`), forth and back; each connection draws both.

        Returns:
            Two (F, H) arrays, -1 behind the last link.

        Raises:
            UnknownPathError: a flow has no route.
        """
        rows = workload.flows
        src, dst, connection = (
            one[rows] for one in (workload.src_port, workload.dst_port, workload.connection)
        )
        random = np.random.default_rng((seed, len(self.jobs)))
        forth, back = random.random((2, int(connection.max()) + 1))
        return (
            drawn_paths(self.routing, src, dst, forth[connection]),
            drawn_paths(self.routing, dst, src, back[connection]),
        )


def prepare(spec: ScenarioFile, beside: Path) -> Scenario:
    """Read what the file names, and refuse what does not fit.

    Args:
        spec: the file.
        beside: folder that relative files stand in.

    Raises:
        InputError: a fabric, file, host, preset, parameter or schedule that is not there or cannot be.
    """
    routing = routing_of(spec.fabric, beside)
    fabric = routing.fabric
    jobs: list[PreparedJob] = []
    for number, table in enumerate(spec.job):
        name = table.name or f"job{number}"
        if name in {job.name for job in jobs}:
            raise InputError(f"[[job]] {number}: the name {name!r} stands for another job, too")
        try:
            jobs.append(_job(name, table, routing, beside))
        except InputError as error:
            if error.file is not None:
                raise
            raise InputError(f"[[job]] {number}: {error}") from None
    used = np.unique(np.concatenate([job.ports for job in jobs]))
    host_gbps = float(fabric.ports.speed_gbps[used].min())
    made = control(spec.congestion.preset, host_gbps, spec.congestion.model_extra)
    curve = ecn_curve(spec.ecn.preset, host_gbps, spec.ecn.model_extra)
    return Scenario(spec, routing, host_gbps, made, curve, tuple(jobs))


def _job(name: str, table: JobTable, routing: Routing, beside: Path) -> PreparedJob:
    fabric = routing.fabric
    cabled = set(fabric.ports.node[fabric.link_of_port >= 0].tolist())
    hosts = [host for host in fabric.hosts if fabric.node_row(host) in cabled]
    hosts = expand_hosts(table.hosts) if table.hosts else hosts
    if not hosts:
        raise InputError("hosts: names no host")
    known = set(fabric.hosts)
    for host in hosts:
        if host not in known:
            raise InputError(f"hosts: the fabric has no host {host[:60]!r}")
    if table.kind == "flows":
        return _flow_list(name, table, routing, beside / _file(table))
    if table.kind == "step":
        traffic = JobTraffic(load_job(beside / _file(table)))
        per_host, rest = divmod(traffic.ranks, len(hosts))
        if rest or not per_host:
            raise InputError(f"{table.file}: {traffic.ranks} ranks do not divide over {len(hosts)} hosts")
        ports = _ports(routing, hosts, per_host)
        return PreparedJob(name, table, ports, partial(_step, traffic))
    ports = _ports(routing, hosts, table.ranks_per_host)
    ranks = len(ports)
    if ranks < 2:
        raise InputError(f"{table.kind}: needs at least 2 ranks, not {ranks}")
    if table.kind == "collective":
        least = ranks * table.channels * (ranks if table.op == Op.ALL_TO_ALL else table.chunks)
        if least > MOST_ROWS:
            raise InputError(
                f"collective: {least:,} messages are more than {MOST_ROWS:,}; send fewer and larger ones"
            )
        schedule = build_schedule(
            table.algorithm, table.op, ranks, channels=table.channels, chunks=table.chunks
        )
        return PreparedJob(name, table, ports, partial(_collective, table, schedule))
    if table.kind == "incast":
        if table.to not in hosts:
            raise InputError(f"to: the receiver {table.to[:60]!r} is not among the job's hosts")
        first = hosts.index(table.to) * table.ranks_per_host
        pairs = [(rank, first) for rank in range(ranks) if hosts[rank // table.ranks_per_host] != table.to]
    else:
        pairs = [(rank, (rank + table.shift) % ranks) for rank in range(ranks)]
        if not table.shift % ranks:
            raise InputError(f"shift: {table.shift} sends each of {ranks} ranks to itself")
    return PreparedJob(name, table, ports, partial(_pairs, table, pairs))


def _collective(table: JobTable, schedule: Schedule, job: Member, ready: Rows, iteration: str) -> Rows:
    return add_schedule(job, schedule, table.size, ready, f"{table.op}{iteration}")


def _step(traffic: JobTraffic, job: Member, ready: Rows, iteration: str) -> Rows:
    return add_step(job, traffic, ready, iteration)


def _pairs(table: JobTable, pairs: list[tuple[int, int]], job: Member, ready: Rows, iteration: str) -> Rows:
    return add_pairs(job, pairs, table.size, ready, f"{table.kind}{iteration}")


def _flow_list(name: str, table: JobTable, routing: Routing, path: Path) -> PreparedJob:
    fabric = routing.fabric
    flows = read_flows(path)
    names = list(dict.fromkeys(end for flow in flows for end in (flow.src, flow.dst)))
    known = set(fabric.hosts)
    for flow in flows:
        for host in (flow.src, flow.dst):
            if host not in known:
                raise InputError(f"a flow to or from {host[:60]!r}, which is no host of the fabric", path)
        if flow.src == flow.dst:
            raise InputError(f"a flow from {flow.src[:60]!r} to itself", path)
    ports = _ports(routing, names, 1)
    rank = {host: number for number, host in enumerate(names)}

    def add(job: Member, ready: Rows, iteration: str) -> Rows:
        touched: list[Rows] = [[row] for row in ready]
        for number, flow in enumerate(flows):
            src, dst = rank[flow.src], rank[flow.dst]
            begin = job.builder.moment([ready[src], ready[dst]], gap_us=flow.start_us)
            rows = job.send((src, dst), flow.bytes_, f"flows{iteration}", [begin], channel=number)
            touched[src] += rows
            touched[dst] += rows
        return [job.builder.moment(rows) for rows in touched]

    return PreparedJob(name, table, ports, add)


def _file(table: JobTable) -> str:
    if not table.file:
        raise InputError(f"file: is missing; a job of kind {table.kind!r} needs one")
    return table.file


def _ports(routing: Routing, hosts: list[str], ranks_per_host: int) -> Ints:
    return Placement.of_hosts(routing.fabric, [host for host in hosts for _ in range(ranks_per_host)]).nic

"""Bytes on every link of a real fabric are those that the connections' exact paths predict."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from collectives.bench import Method, compare_orders
from collectives.communicator import PRELOAD, connected
from collectives.job import JobSpec
from collectives.traffic import AllReduceTraffic, JobTraffic
from nettune.lab import Lab, LabSpec
from nettune.launch import AgentError, run
from nettune.launch.agents import Agents
from topology.discovery import discover

pytestmark = [pytest.mark.lab, pytest.mark.slow]

MIB = 1 << 20


@contextlib.contextmanager
def ranks_on_lab(name, **options):
    """A lab, agents on its hosts, and what discovery learned of its routing."""
    pytest.importorskip("torch")
    with Lab.up(LabSpec(name=name, leaves=2, hosts_per_leaf=2, **options)) as lab:
        routing = discover(partial(run, lab.launcher()), lab.nodes).routing
        with Agents(lab.launcher(), lab.hosts, preload=PRELOAD) as agents:
            yield lab, agents, routing


def assert_predicted(done, payload_bytes):
    """Within 8% on every link that carries more than 5% of the payload, and nearly nothing on the others."""
    checked = 0
    for order in done.orders.values():
        for one in order.inits:
            assert one.links
            for link in one.links:
                if link.predicted_bytes > 0.05 * payload_bytes or link.measured_bytes > 0.05 * payload_bytes:
                    checked += 1
                    assert link.measured_bytes == pytest.approx(link.predicted_bytes, rel=0.08), link
    return checked


@pytest.mark.parametrize("spines", [1, 2])
def test_all_reduce_puts_the_predicted_bytes_on_every_link(spines):
    """Four ranks on two leaves under two orders: host links and, behind the kernel's ECMP, uplinks."""
    with ranks_on_lab(f"bytes{spines}", spines=spines, host_rate="200mbit", uplink_rate="200mbit") as (
        lab,
        agents,
        routing,
    ):
        orders = {"leaf": lab.hosts, "across": [lab.hosts[i] for i in (0, 2, 1, 3)]}
        traffic = AllReduceTraffic(4, 2 * MIB)
        method = Method(inits=2, repeats=2)
        done = compare_orders(agents, orders, traffic, method, counters=lab.counters, routing=routing)
    checked = assert_predicted(done, 2 * 1.5 * 2 * MIB)
    # Eight directed host links and at least two directed links each side of a spine, in each of four initialisations.
    assert checked >= 4 * (8 + 4)


def test_job_step_puts_the_predicted_bytes_on_every_link():
    """Pipeline transfers and concurrent gradient groups: each on the connection of its own group."""
    with ranks_on_lab("bytes-job", spines=2, host_rate="200mbit", uplink_rate="200mbit") as (
        lab,
        agents,
        routing,
    ):
        traffic = JobTraffic(JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=2 * MIB, pp_bytes=MIB))
        method = Method(inits=2, repeats=2)
        done = compare_orders(
            agents, {"a": lab.hosts}, traffic, method, counters=lab.counters, routing=routing
        )
    assert assert_predicted(done, 2 * 3 * MIB) >= 2 * (8 + 4)


def test_host_that_is_cut_off_ends_in_one_line():
    """Ranks that reach nobody do not join; the error comes in time and names rank or address."""
    with ranks_on_lab("bytes-down", spines=1) as (lab, agents, _):
        lab.exec("leaf1", ["ip", "link", "set", "d1", "down"])
        message = r"found no rank 0 at 10\.0\.0\.1|rank 3 did not join"
        with pytest.raises(AgentError, match=message) as caught, connected(agents, lab.hosts, timeout_s=2):
            pass
    assert "\n" not in str(caught.value)

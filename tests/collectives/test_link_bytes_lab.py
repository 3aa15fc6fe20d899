"""Bytes on every link of a real fabric are those that the connections' exact paths predict."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def ranks_on_lab():
    """A lab with a choice of two spines, agents on its hosts, and what discovery learned of its routing."""
    pytest.importorskip("torch")
    spec = LabSpec(
        name="coll-bytes", leaves=2, hosts_per_leaf=2, spines=2, host_rate="200mbit", uplink_rate="200mbit"
    )
    with Lab.up(spec) as lab:
        routing = discover(partial(run, lab.launcher()), lab.nodes).routing
        assert routing.hashes, "discovery does not know how the lab's routers hash"
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


def test_all_reduce_puts_the_predicted_bytes_on_every_link(ranks_on_lab):
    """Four ranks on two leaves under two orders: host links and, behind the kernel's ECMP, uplinks."""
    lab, agents, routing = ranks_on_lab
    orders = {"leaf": lab.hosts, "across": [lab.hosts[i] for i in (0, 2, 1, 3)]}
    traffic = AllReduceTraffic(4, MIB)
    method = Method(inits=3, repeats=2)
    done = compare_orders(agents, orders, traffic, method, counters=lab.counters, routing=routing)
    # Eight directed host links and at least two directed links each side of a spine, in each of six initialisations.
    assert assert_predicted(done, 2 * 1.5 * MIB) >= 6 * (8 + 4)


def test_job_step_puts_the_predicted_bytes_on_every_link(ranks_on_lab):
    """Pipeline transfers and concurrent gradient groups: each on the connection of its own group."""
    lab, agents, routing = ranks_on_lab
    traffic = JobTraffic(JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=2 * MIB, pp_bytes=MIB))
    method = Method(inits=3, repeats=1)
    done = compare_orders(agents, {"a": lab.hosts}, traffic, method, counters=lab.counters, routing=routing)
    assert assert_predicted(done, 3 * MIB) >= 3 * (8 + 4)


def test_host_that_is_cut_off_ends_in_one_line(ranks_on_lab):
    """Ranks that reach nobody do not join; the error comes in time, names rank or address, and heals."""
    lab, agents, _ = ranks_on_lab
    lab.exec("leaf1", ["ip", "link", "set", "d1", "down"])
    try:
        message = r"found no rank 0 at 10\.0\.0\.1|rank 3 did not join"
        with pytest.raises(AgentError, match=message) as caught, connected(agents, lab.hosts, timeout_s=2):
            pass
    finally:
        lab.exec("leaf1", ["ip", "link", "set", "d1", "up"])
    assert "\n" not in str(caught.value)
    with connected(agents, lab.hosts, timeout_s=10) as ranks:
        ranks.step(AllReduceTraffic(4, 1024).work, repeats=1)

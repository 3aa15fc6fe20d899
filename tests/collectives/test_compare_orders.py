"""Comparing orders: interleaved fresh initialisations, one number for each, records as they come."""

from __future__ import annotations

import json
import math

import pytest

from collectives.bench import Method, Order, compare_orders, random_order, sweep_sizes
from collectives.busbw import busbw_gbps
from collectives.comparison import Comparison, InitResult, OrderResult
from collectives.job import JobSpec
from collectives.traffic import AllReduceTraffic, JobTraffic
from nettune.errors import InputError
from nettune.records import Measurement

HOSTS = ["h0", "h1", "h2", "h3"]
KIB = 1 << 10


def quick(inits=2, repeats=2):
    return Method(inits=inits, repeats=repeats, iface="lo", timeout_s=10)


def test_initialisations_are_interleaved_and_recorded(agents):
    """Initialisation i of every order runs before i + 1 of any; each repeat is recorded; busbw is nccl-tests'."""
    lines: list[str] = []
    records: list[Measurement] = []
    orders: dict[str, Order] = {"forward": HOSTS, "random": random_order(HOSTS, seed=3)}
    traffic = AllReduceTraffic(4, 64 * KIB)
    done = compare_orders(
        agents, orders, traffic, quick(), record=records.append, progress=lines.append, run="test"
    )
    assert [line.split(":")[0] for line in lines] == [
        "order forward, initialisation 1 of 2",
        "order random, initialisation 1 of 2",
        "order forward, initialisation 2 of 2",
        "order random, initialisation 2 of 2",
    ]
    assert [one.init for one in done.orders["random"].inits] == [0, 1]
    assert {one.trial for one in records} == {"order=forward", "order=random"}
    busbw = [one for one in records if one.metric == "busbw"]
    times = [one for one in records if one.metric == "step_time"]
    assert len(busbw) == len(times) == 8
    for rate, time in zip(busbw, times, strict=True):
        assert rate.value == pytest.approx(busbw_gbps("all_reduce", 4, 64 * KIB, time.value))
    assert {one.rank for one in records} == {-1}
    interval = done.orders["forward"].busbw_gbps
    assert interval.lo <= interval.median <= interval.hi
    data = json.loads(json.dumps(done.to_json()))
    assert data["schema"] == "nettune.comparison/1"
    assert [order["name"] for order in data["orders"]] == ["forward", "random"]
    assert data["orders"][0]["inits"][1]["hosts"] == HOSTS
    assert set(data["orders"][0]["busbw_gbps"]) == {"median", "lo", "hi"}


def test_job_step_under_two_orders(agents):
    """A job's step is measured as a whole and phase by phase."""
    traffic = JobTraffic(JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=64 * KIB, pp_bytes=16 * KIB))
    done = compare_orders(agents, {"a": HOSTS, "b": HOSTS[::-1]}, traffic, quick(repeats=3))
    for order in done.orders.values():
        assert order.time_s.median > 0
        assert set(order.inits[0].phases_s) == {"pp p2p", "dp all-reduce"}
        assert order.phase_s("dp all-reduce").median <= order.time_s.hi
    assert done.speedup("a", "b").median > 0


def test_random_order_is_repeatable():
    """The same seed gives the same permutations, another initialisation another one."""
    orders = [random_order(HOSTS * 4, seed=5)(init) for init in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == sorted(HOSTS * 4)


def test_sizes_within_one_initialisation(agents):
    """Every size gives one point for each order; recorded with its size."""
    records: list[Measurement] = []
    points = sweep_sizes(agents, {"forward": HOSTS}, [4 * KIB, 64 * KIB], quick(), record=records.append)
    assert [point.size_bytes for point in points["forward"]] == [4 * KIB, 64 * KIB]
    assert all(point.busbw_gbps > 0 for point in points["forward"])
    assert {one.trial for one in records} == {"order=forward,size=4096", "order=forward,size=65536"}


def test_what_was_measured_before_a_failure_is_kept(agents):
    """An order that cannot run ends the comparison, but its predecessors' records are out already."""
    records: list[Measurement] = []
    with pytest.raises(InputError, match="order 'bad' seats 2 ranks, the job has 4"):
        compare_orders(
            agents,
            {"good": HOSTS, "bad": ["h0", "h1"]},
            AllReduceTraffic(4, KIB),
            quick(),
            record=records.append,
        )
    assert [one.trial for one in records if one.metric == "busbw"] == ["order=good"] * 2


@pytest.mark.parametrize("options", [{"inits": 0}, {"repeats": 0}, {"warmup": 0}, {"timeout_s": 0}])
def test_method_refuses_nonsense(options):
    """Nothing can be measured in no initialisation, no repeat or no time; the first warm-up checks the sums."""
    with pytest.raises(InputError, match="bench"):
        Method(**options)


def test_no_order_is_refused(agents):
    """An empty comparison is bad input."""
    with pytest.raises(InputError, match="no order"):
        compare_orders(agents, {}, AllReduceTraffic(4, KIB), quick())


def result(*groups):
    inits = tuple(
        InitResult(init=number, seats=("h0",), init_s=0.0, times_s=times, phases_s={}, bus_bytes=1e9)
        for number, times in enumerate(groups)
    )
    return OrderResult(name="x", inits=inits)


def test_an_initialisation_counts_once():
    """Many repeats of a bad initialisation weigh no more than one: 8 Gbit/s is the median of 8, 4 and 8."""
    order = result((1.0,), (2.0,) * 9, (1.0, 1.0))
    assert order.busbw_gbps.median == pytest.approx(8.0)
    assert order.time_s.median == pytest.approx(1.0)
    assert order.busbw_gbps.lo == pytest.approx(4.0)


def test_one_initialisation_has_no_interval():
    """Limits are not known then: NaN here, null in JSON."""
    order = result((1.0, 2.0))
    assert math.isnan(order.busbw_gbps.lo)
    assert order.to_json()["busbw_gbps"] == {"median": 6.0, "lo": None, "hi": None}


def test_speedup_pairs_initialisations():
    """The ratio is taken within pairs, so a slow phase of the machine cancels."""
    slow, fast = result((2.0,), (20.0,), (2.0,)), result((1.0,), (10.0,), (1.0,))
    done = Comparison(ranks=1, orders={"slow": slow, "fast": fast})
    assert done.speedup("slow", "fast") == pytest.approx((2.0, 2.0, 2.0))

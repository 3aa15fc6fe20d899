"""Judging a discovered fabric: what `discover` does after its files are read, for 512 to 4,096 hosts with 8 rails."""

from __future__ import annotations

import pytest

from topology.discovery.analysis import analyse
from topology.discovery.analysis_summary import summarise
from topology.expect import expect
from topology.filters import apply_filters
from topology.merge import merge
from topology.readers.said import Said

HOSTS = [512, 4096]


@pytest.mark.parametrize("hosts", HOSTS)
def test_analyse(benchmark, rail_fabric, hosts):
    """All rules and the summary."""
    fabric = rail_fabric(hosts)
    benchmark.pedantic(lambda: (analyse(fabric), summarise(fabric)), rounds=3)


@pytest.mark.parametrize("hosts", HOSTS)
def test_filter(benchmark, rail_fabric, hosts):
    """Filters that find nothing to leave out."""
    said = Said.from_fabric(rail_fabric(hosts), "a", "x")
    benchmark.pedantic(apply_filters, (said,), rounds=3)


@pytest.mark.parametrize("hosts", HOSTS)
def test_merge(benchmark, rail_fabric, hosts):
    """Two sources that say the same."""
    fabric = rail_fabric(hosts)

    def fresh():
        return ([Said.from_fabric(fabric, "a", "x"), Said.from_fabric(fabric, "b", "x")],), {}

    benchmark.pedantic(merge, setup=fresh, rounds=2)


@pytest.mark.parametrize("hosts", HOSTS)
def test_expect(benchmark, rail_fabric, hosts):
    """A plan that is met."""
    found, plan = (Said.from_fabric(rail_fabric(hosts), name, "x") for name in "ab")
    benchmark.pedantic(expect, (found, plan), rounds=2)

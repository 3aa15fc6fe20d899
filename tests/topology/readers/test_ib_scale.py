"""A three-tier InfiniBand fabric as ibnetdiscover prints it, at a size that a regular test can afford."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from nettune.checks import Status
from topology.discovery.analysis import analyse
from topology.fabric import NodeKind
from topology.readers import Source, read


@pytest.fixture(scope="module")
def dump():
    """The dump of 256 hosts with 8 rails: 27,000 lines."""
    spec = importlib.util.spec_from_file_location("ib_dump", Path(__file__).with_name("ib_dump.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ibnetdiscover_dump(256)


def test_a_three_tier_dump_is_read_and_analysed(dump) -> None:
    """64 leaves, 64 aggregation switches and 32 cores; every aggregation node is left out, and nothing fails."""
    said = read(Source("big", dump.text))
    fabric = said.to_fabric()
    assert (len(fabric.hosts), len(fabric.switches), len(fabric.links.port_a)) == (256, 160, 3 * 2048)
    assert (dump.hosts, dump.switches, dump.links) == (256, 160, 3 * 2048)
    assert len(said.dropped) == 160
    tiers = Counter(fabric.nodes.tier.tolist())
    assert tiers == {0: 256, 1: 64, 2: 64, 3: 32}
    nics = fabric.nodes.kind[fabric.ports.node] == NodeKind.HOST
    assert Counter(fabric.ports.rail[nics].tolist()) == dict.fromkeys(range(8), 256)
    assert set(fabric.ports.speed_gbps.tolist()) == {400.0}
    assert said.findings == []
    found = analyse(fabric)
    assert not [one for one in found if one.status in {Status.FAIL, Status.WARN}]


def test_a_miswired_nic_in_a_dump_is_found(dump) -> None:
    """Two hosts' cables of one rail, swapped between two pods, both ends of both lines."""
    text = dump.text
    for line in ('"node3 mlx5_2"', '"node40 mlx5_2"'):
        assert text.count(line) == 2
    # the descriptions are swapped where the NICs are: the GUIDs stay in place
    text = (
        text.replace('"node3 mlx5_2"', '"?"')
        .replace('"node40 mlx5_2"', '"node3 mlx5_2"')
        .replace('"?"', '"node40 mlx5_2"')
    )
    failed = {
        str(one.where) for one in analyse(read(Source("big", text)).to_fabric()) if one.status is Status.FAIL
    }
    assert {"host/node3/nic/mlx5_2", "host/node40/nic/mlx5_2"} <= failed

"""ECMP: hashing, walking, steering and fitting.

Run it on one core (`taskset -c 0`) to compare with the target: 10 million flow-hops of any family in 5 s. Growth shows in the
three sizes of each benchmark.
"""

from __future__ import annotations

import numpy as np
import pytest

from topology.builder import FabricBuilder
from topology.ecmp import FAMILIES, HashSpec, Tuples, choose
from topology.ecmp.fit import fit
from topology.ecmp.lint import lint_ecmp
from topology.ecmp.steer import steer
from topology.ecmp.walk import FlowColumns, walked_loads
from topology.fabric import NodeKind
from topology.routing import Routing

HASHING = [name for name, family in FAMILIES.items() if family.module]


def tuples(count: int) -> Tuples:
    """Make RoCEv2 flows between random addresses."""
    generator = np.random.default_rng(0)

    def column(low: int, high: int) -> np.ndarray:
        return generator.integers(low, high, count, dtype=np.uint32)

    same = np.ones(count, dtype=np.uint32)
    return Tuples(
        column(0, 2**32),
        column(0, 2**32),
        column(49152, 65536),
        same * np.uint32(4791),
        same * np.uint32(17),
        column(0, 2**24),
    )


@pytest.fixture(scope="module")
def many() -> Tuples:
    """Ten million flows."""
    return tuples(10_000_000)


@pytest.fixture(scope="module")
def routing() -> Routing:
    """32 leaves of 32 hosts, 16 spines, a CRC on every switch."""
    builder = FabricBuilder()
    for node in range(32):
        builder.node(f"leaf{node}", NodeKind.SWITCH)
    for node in range(16):
        builder.node(f"spine{node}", NodeKind.SWITCH)
    for host in range(1024):
        leaf = host // 32
        builder.node(f"h{host}", NodeKind.HOST)
        builder.port(f"h{host}", "eth0", speed_gbps=400, rail=0, address=f"10.{leaf}.0.{host % 32}")
        builder.port(f"leaf{leaf}", f"d{host % 32}", speed_gbps=400)
        builder.link((f"h{host}", "eth0"), (f"leaf{leaf}", f"d{host % 32}"))
    for leaf in range(32):
        for spine in range(16):
            builder.port(f"leaf{leaf}", f"u{spine}", speed_gbps=800)
            builder.port(f"spine{spine}", f"d{leaf}", speed_gbps=800)
            builder.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"d{leaf}"))
    found = Routing.shortest_paths(builder.build(), HashSpec("rtag7-crc16-bisync", 3))
    assert found.choices.choices
    return found


def flows(routing: Routing, count: int) -> FlowColumns:
    """Make RoCEv2 flows between random hosts."""
    generator = np.random.default_rng(1)
    nics = np.flatnonzero(routing.group >= 0)
    return FlowColumns(
        generator.choice(nics, count),
        generator.choice(nics, count),
        np.full(count, 17),
        generator.integers(49152, 65536, count),
        np.full(count, 4791),
        np.full(count, -1),
    )


@pytest.mark.parametrize("family", HASHING)
def test_ten_million_flow_hops(benchmark, many, family):
    """Hash and choose among four, tables included where they are made."""
    benchmark.pedantic(choose, (HashSpec(family, 5), many, (1,) * 4), rounds=1)


@pytest.mark.parametrize("count", [100_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("family", ["rtag7-crc16-bisync", "linux-multipath-fields"])
def test_growth(benchmark, many, family, count):
    """Time by number of flows, weighted next hops."""
    benchmark.pedantic(choose, (HashSpec(family, 5), many.take(slice(0, count)), (3, 1, 1)), rounds=1)


@pytest.mark.parametrize("count", [50_000, 500_000, 5_000_000])
def test_walk(benchmark, routing, count):
    """Flows through two switches that choose or forward, and their bytes on links."""
    asked = flows(routing, count)
    benchmark.pedantic(walked_loads, (routing, asked, np.ones(count)), rounds=1)


@pytest.mark.parametrize("count", [64, 512, 4096])
def test_steer(benchmark, routing, count):
    """Choose source ports."""
    asked = flows(routing, count)
    benchmark.pedantic(steer, (routing, asked, np.ones(count)), {"draws": 5}, rounds=1)


def test_lint(benchmark, routing):
    """All rules."""
    benchmark.pedantic(lint_ecmp, (routing,), rounds=1)


@pytest.mark.parametrize("hops", [2, 3, 4])
@pytest.mark.parametrize("family", ["rtag7-crc16-ccitt", "linux-multipath-fields"])
def test_fit(benchmark, family, hops):
    """1,000 rows against all presets."""
    seen = tuples(1000)
    hop = choose(HashSpec(family, 4711), seen, (1,) * hops)
    found = benchmark.pedantic(fit, (seen, hop, (1,) * hops), rounds=1)
    assert found.spec is not None

"""Flows, a fabric of three tiers, and the reference scripts, for the tests of this folder."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from topology.builder import FabricBuilder
from topology.ecmp import Tuples
from topology.ecmp.walk import FlowColumns
from topology.fabric import NodeKind


@pytest.fixture(scope="session")
def oracle(shared):
    """Load a reference script by name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"oracle_{name}", shared / "oracles" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def make_tuples(count, seed=0, *, proto=(6, 17), dport=None):
    """Random flows with destination QPs."""
    generator = np.random.default_rng(seed)

    def draw(limit):
        return generator.integers(0, limit, count).astype(np.uint32)

    return Tuples(
        saddr=draw(2**32),
        daddr=draw(2**32),
        sport=draw(2**16),
        dport=draw(2**16) if dport is None else np.full(count, dport, dtype=np.uint32),
        proto=generator.choice(np.array(proto, dtype=np.uint32), count),
        dst_qp=draw(2**24),
    )


@pytest.fixture(scope="session")
def tuples():
    """The function that makes random flows."""
    return make_tuples


def make_flows(source, target, *, sport=-1, dst_qp=-1):
    """RoCEv2 flows between NICs; one port or QP for all, or a column."""
    count = len(source)
    whole = np.zeros(count, dtype=np.int64)
    return FlowColumns(
        np.asarray(source), np.asarray(target), whole + 17, whole + sport, whole + 4791, whole + dst_qp
    )


@pytest.fixture(scope="session")
def roce_flows():
    """The function that makes RoCEv2 flows."""
    return make_flows


@pytest.fixture(scope="session")
def three_tiers():
    """Two pods of two leaves and 8 aggregation switches with 4 cores each: fan-outs 8, then 4."""
    builder = FabricBuilder()
    for pod in range(2):
        for leaf in range(2):
            builder.node(f"leaf{pod}{leaf}", NodeKind.SWITCH)
            for host in range(4):
                name = f"h{pod}{leaf}{host}"
                builder.node(name, NodeKind.HOST)
                builder.port(name, "eth0", speed_gbps=100, rail=0, address=f"10.{pod}.{leaf}.{host + 1}")
                builder.port(f"leaf{pod}{leaf}", f"d{host}", speed_gbps=100)
                builder.link((name, "eth0"), (f"leaf{pod}{leaf}", f"d{host}"))
    for core in range(32):
        builder.node(f"core{core}", NodeKind.SWITCH)
    for pod in range(2):
        for agg in range(8):
            name = f"agg{pod}{agg}"
            builder.node(name, NodeKind.SWITCH)
            for leaf in range(2):
                builder.port(f"leaf{pod}{leaf}", f"u{agg}", speed_gbps=100)
                builder.port(name, f"d{leaf}", speed_gbps=100)
                builder.link((f"leaf{pod}{leaf}", f"u{agg}"), (name, f"d{leaf}"))
            for up in range(4):
                builder.port(name, f"u{up}", speed_gbps=100)
                builder.port(f"core{4 * agg + up}", f"d{pod}", speed_gbps=100)
                builder.link((name, f"u{up}"), (f"core{4 * agg + up}", f"d{pod}"))
    return builder.build(["test"])


def hashed_by_tier(routing, by_tier):
    """The routing with one hash a tier."""
    tier = routing.fabric.nodes.tier
    hashes = {node: by_tier[int(tier[node])] for node in routing.hashes if int(tier[node]) in by_tier}
    return replace(routing, hashes=hashes)


@pytest.fixture(scope="session")
def by_tier():
    """The function that gives each tier a hash."""
    return hashed_by_tier

"""Fabrics and traffic for the tests of costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.traffic import Phase


def build_fabric(
    hosts_per_leaf=(2, 2),
    *,
    spines: int = 2,
    host_gbps=100.0,
    uplink_gbps=100.0,
    rails: int = 1,
    domain: int = 0,
) -> Fabric:
    """Hosts h0.. on leaves that may differ in size; host_gbps by host and uplink_gbps by leaf and spine if callable.

    With several rails each has its own leaf in every group of hosts; `domain` hosts share an accelerator domain.
    """
    builder = FabricBuilder()
    speed = host_gbps if callable(host_gbps) else lambda _host: host_gbps
    up = uplink_gbps if callable(uplink_gbps) else lambda _leaf, _spine: uplink_gbps
    for spine in range(spines):
        builder.node(f"spine{spine}", NodeKind.SWITCH)
    host = 0
    for group, count in enumerate(hosts_per_leaf):
        for rail in range(rails):
            leaf = f"leaf{group}-{rail}"
            builder.node(leaf, NodeKind.SWITCH)
            for spine in range(spines):
                builder.port(leaf, f"u{spine}", speed_gbps=up(group, spine))
                builder.port(f"spine{spine}", f"d{group}-{rail}", speed_gbps=up(group, spine))
                builder.link((leaf, f"u{spine}"), (f"spine{spine}", f"d{group}-{rail}"))
        for _ in range(count):
            builder.node(f"h{host}", NodeKind.HOST, nvl_domain=host // domain if domain else -1)
            for rail in range(rails):
                builder.port(f"h{host}", f"eth{rail}", speed_gbps=speed(host), rail=rail)
                builder.port(f"leaf{group}-{rail}", f"d{host}", speed_gbps=speed(host))
                builder.link((f"h{host}", f"eth{rail}"), (f"leaf{group}-{rail}", f"d{host}"))
            host += 1
    return builder.build(["test"])


@dataclass
class Step:
    """Phases as they are."""

    ranks: int
    phases: tuple[Phase, ...]


def build_phase(pairs, size=1e6, name="p", after=(), **options) -> Phase:
    """Every pair sends the same bytes, or its own where `size` is a list."""
    src, dst = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    carried = np.broadcast_to(np.array(size, dtype=float), (len(pairs),)).copy()
    return Phase(name, "p2p", float(carried.max()), src, dst, carried, after, **options)


@pytest.fixture(scope="session")
def fabric_of():
    """The function that builds a fabric."""
    return build_fabric


@pytest.fixture(scope="session")
def phase_of():
    """The function that builds a phase."""
    return build_phase


@pytest.fixture(scope="session")
def step_of():
    """The class of a step."""
    return Step

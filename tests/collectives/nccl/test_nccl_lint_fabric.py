"""`lint env` against a fabric: NICs that are not there, slow or without cable, rails, addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from collectives.nccl.environment import read_text
from collectives.nccl.job import Job
from collectives.nccl.lint_env import lint_environment
from collectives.nccl.rails import Wiring, rails_of
from nettune.checks import Finding, Status, worst_first
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind

MANAGEMENT = "mlx5_bond_0"


def fabric(
    *,
    hosts: int = 3,
    rails: int = 4,
    wiring: str = "rails",
    spine: bool = True,
    names: str = "mlx5_{}",
    management: bool = False,
) -> Fabric:
    """Hosts with a NIC a rail, on a leaf a rail or all on one leaf; a bond of 25 Gbit/s for management on request."""
    builder = FabricBuilder()
    leaves = [f"leaf{rail}" for rail in range(rails)] if wiring == "rails" else ["leaf0"]
    for host in range(hosts):
        builder.node(f"h{host}", NodeKind.HOST)
    for leaf in leaves:
        builder.node(leaf, NodeKind.SWITCH)
    if spine:
        builder.node("spine0", NodeKind.SWITCH)
        for number, leaf in enumerate(leaves):
            builder.port(leaf, "up", speed_gbps=400)
            builder.port("spine0", f"d{number}", speed_gbps=400)
            builder.link((leaf, "up"), ("spine0", f"d{number}"))
    for host in range(hosts):
        for rail in range(rails):
            nic, leaf = names.format(rail), leaves[rail % len(leaves)]
            builder.port(f"h{host}", nic, speed_gbps=400, rail=rail, address=f"10.{rail}.0.{host + 1}")
            builder.port(leaf, f"h{host}r{rail}", speed_gbps=400)
            builder.link((f"h{host}", nic), (leaf, f"h{host}r{rail}"))
        if management:
            builder.port(f"h{host}", MANAGEMENT, speed_gbps=25)
            builder.port(leaves[0], f"m{host}", speed_gbps=25)
            builder.link((f"h{host}", MANAGEMENT), (leaves[0], f"m{host}"))
    return builder.build()


def lint(text: str, cluster: Fabric) -> list[Finding]:
    found = lint_environment(Job(read_text("settings", text), fabric=cluster))
    return [
        one for one in worst_first(found) if one.check == "nccl-env-fabric" and one.status is not Status.PASS
    ]


def told(text: str, cluster: Fabric) -> list[tuple[str, str]]:
    return [(str(one.status), str(one.where)) for one in lint(text, cluster)]


@pytest.mark.parametrize(
    ("value", "expected", "says"),
    [
        ("=mlx5_0,mlx5_1,mlx5_2,mlx5_3", [], ""),
        ("mlx5", [], ""),
        ("^mlx5_9", [("WARN", "fabric")], "on no host"),
        ("=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_9", [("FAIL", "fabric")], "mlx5_9 is on no host"),
        ("=mlx5_0,mlx5_1", [("WARN", "fabric")], "takes 2 of 4 NICs of 3 hosts"),
        ("=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1", [], ""),
        ("=mlx4_0", [("FAIL", "fabric"), ("FAIL", "fabric")], "mlx4_0"),
    ],
)
def test_lists_of_nics(value: str, expected: list[tuple[str, str]], says: str) -> None:
    """Absent names, lists that leave NICs out, lists that take none."""
    found = lint(f"NCCL_IB_HCA={value}", fabric())
    assert [(str(one.status), str(one.where)) for one in found] == expected
    assert all(says in one.what for one in found)


def test_a_list_that_takes_no_nic_falls_back_to_tcp() -> None:
    """NCCL says nothing and uses sockets."""
    found = lint("NCCL_IB_HCA==mlx4_0", fabric())
    assert any("falls back to TCP" in one.what for one in found)


def test_a_management_nic_in_the_list() -> None:
    """qualification.md row 38: the list names a slow NIC; once for all hosts, by NIC where there is one host only."""
    nics = "=mlx5_0,mlx5_1,mlx5_2,mlx5_3"
    assert told(f"NCCL_IB_HCA={nics}", fabric(management=True)) == []
    [finding] = lint(f"NCCL_IB_HCA={nics},{MANAGEMENT}", fabric(management=True))
    assert (finding.status, str(finding.where)) == (Status.FAIL, "fabric")
    assert (finding.evidence["device"], finding.evidence["hosts"]) == (MANAGEMENT, ["h0", "h1", "h2"])
    assert "25 Gbit/s" in finding.what
    [finding] = lint(f"NCCL_IB_HCA={nics},{MANAGEMENT}", fabric(hosts=1, management=True))
    assert str(finding.where) == f"host/h0/nic/{MANAGEMENT}"


def test_bonds_and_ports_without_cable() -> None:
    """A bond is a warning, also where all NICs are bonds; a port without cable beside cabled ones a failure."""
    assert told("NCCL_IB_HCA=mlx5", fabric(names="mlx5_bond_{}")) == [("WARN", "fabric")] * 4
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    builder.node("leaf0", NodeKind.SWITCH)
    builder.port("leaf0", "p0", speed_gbps=400)
    for nic in range(2):
        builder.port("h0", f"mlx5_{nic}", speed_gbps=400)
    builder.link(("h0", "mlx5_0"), ("leaf0", "p0"))
    assert told("NCCL_IB_HCA=mlx5", builder.build()) == [("FAIL", "host/h0/nic/mlx5_1")]
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    for nic in range(2):
        builder.port("h0", f"mlx5_{nic}", speed_gbps=400)
    assert told("NCCL_IB_HCA=mlx5", builder.build()) == []
    assert told("NCCL_IB_HCA==mlx5_0", builder.build()) == [("WARN", "host/h0")]


def test_a_beginning_that_is_more_than_one_name() -> None:
    """`mlx5_1` without = takes mlx5_10 and mlx5_11 too."""
    found = lint("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2", fabric(rails=12))
    assert any("mlx5_1 is the beginning of mlx5_10, mlx5_11" in one.what for one in found)


def test_one_host_that_differs_is_named() -> None:
    """A NIC that only one host lacks."""
    builder = FabricBuilder()
    builder.node("leaf0", NodeKind.SWITCH)
    for host, nics in (("h0", 2), ("h1", 2), ("h2", 1)):
        builder.node(host, NodeKind.HOST)
        for nic in range(nics):
            builder.port(host, f"mlx5_{nic}", speed_gbps=400, rail=nic)
            builder.port("leaf0", f"{host}n{nic}", speed_gbps=400)
            builder.link((host, f"mlx5_{nic}"), ("leaf0", f"{host}n{nic}"))
    assert told("NCCL_IB_HCA==mlx5_0,mlx5_1", builder.build()) == [("FAIL", "host/h2")]


def test_names_of_interfaces_cannot_be_compared() -> None:
    """A fabric from LLDP names eth0: whether mlx5_0 is among them is unknown, not a pass."""
    [finding] = lint("NCCL_IB_HCA==mlx5_0", fabric(names="eth{}"))
    assert (finding.status, finding.required) == (Status.UNKNOWN, False)


def test_sockets_that_miss_the_fabric() -> None:
    """Without RDMA, data goes where NCCL_SOCKET_IFNAME points; with it, management networks are not judged."""
    cluster = fabric(names="eth{}")
    assert told("NCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME=eno1", cluster) == [("FAIL", "fabric")]
    assert told("NCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME=eth", cluster) == []
    assert told("NCCL_SOCKET_IFNAME=eno1", cluster) == [("UNKNOWN", "fabric")]


@pytest.mark.parametrize(
    ("text", "wiring", "spine", "status"),
    [
        ("NCCL_CROSS_NIC=1", "rails", True, "WARN"),
        ("NCCL_CROSS_NIC=1", "rails", False, "FAIL"),
        ("NCCL_CROSS_NIC=0", "rails", False, None),
        ("NCCL_CROSS_NIC=2", "rails", True, None),
        ("NCCL_CROSS_NIC=0", "leaf", True, "WARN"),
        ("NCCL_CROSS_NIC=1", "leaf", True, None),
        ("NCCL_PXN_DISABLE=1", "rails", True, "WARN"),
        ("NCCL_PXN_DISABLE=1", "rails", False, "FAIL"),
        ("NCCL_PXN_DISABLE=1", "leaf", True, None),
    ],
)
def test_crossing_rails(text: str, wiring: str, spine: bool, status: str | None) -> None:
    """By where the NICs of a host go, and whether switches join the rails."""
    found = lint(text, fabric(wiring=wiring, spine=spine))
    assert [str(one.status) for one in found] == ([status] if status else [])


def test_wirings(rail_fabric: Callable[..., Any]) -> None:
    """A leaf a rail, one leaf, one NIC; at the size of a cluster too."""
    assert rails_of(fabric()).wiring is Wiring.PER_RAIL
    assert not rails_of(fabric(spine=False)).joined
    assert rails_of(fabric(wiring="leaf")).wiring is Wiring.SAME_LEAF
    assert rails_of(fabric(rails=1)).wiring is Wiring.ONE_NIC
    assert rails_of(fabric(management=True)).wiring is Wiring.MIXED
    large = rails_of(rail_fabric(512))
    assert (large.wiring, large.joined) == (Wiring.PER_RAIL, True)


def test_addresses() -> None:
    """A range that holds no address of a host, a family that no NIC has."""
    assert told("NCCL_IB_ADDR_RANGE=10.0.0.0/8", fabric()) == []
    assert told("NCCL_IB_ADDR_RANGE=192.168.0.0/16", fabric()) == [("FAIL", "fabric")]
    assert told("NCCL_IB_ADDR_FAMILY=AF_INET6", fabric()) == [("FAIL", "fabric")]
    assert told("NCCL_IB_ADDR_FAMILY=AF_INET", fabric()) == []


def test_gid_tables_are_not_in_a_fabric() -> None:
    """The index is not judged, and that is said."""
    assert told("NCCL_IB_GID_INDEX=3", fabric()) == [("UNKNOWN", "fabric")]

"""Fabrics for the exports: of several shapes, and drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from topology.builder import FabricBuilder
from topology.fabric import Fabric, LinkState, NodeKind


def build_pods(
    pods: int = 2,
    leaves: int = 2,
    hosts: int = 2,
    *,
    rails: int = 1,
    spines: int = 2,
    cores: int = 2,
    domain: int = 0,
    host_name: str = "h{host:03}",
) -> Fabric:
    """Three tiers: in a pod each of `leaves` groups has one leaf a rail; a pod's spines see all its leaves; cores all.

    `domain`: hosts in an accelerator domain, 0 none.
    """
    builder = FabricBuilder()
    number = 0
    ports: dict[str, int] = {}

    def cable(a: str, b: str, **of_a: Any) -> None:
        ends = []
        for node, known in ((a, of_a), (b, {})):
            ports[node] = ports.get(node, 0) + 1
            name = known.pop("name", f"p{ports[node]}")
            builder.port(node, name, speed_gbps=400, **known)
            ends.append((node, name))
        builder.link(*ends)

    for core in range(cores):
        builder.node(f"core{core}", NodeKind.SWITCH)
    for pod in range(pods):
        for spine in range(spines):
            builder.node(f"pod{pod}-spine{spine}", NodeKind.SWITCH)
            for core in range(cores):
                cable(f"pod{pod}-spine{spine}", f"core{core}")
        for group in range(leaves):
            for rail in range(rails):
                leaf = f"pod{pod}-leaf{group * rails + rail}"
                builder.node(leaf, NodeKind.SWITCH)
                for spine in range(spines):
                    cable(leaf, f"pod{pod}-spine{spine}")
            for _ in range(hosts):
                host = host_name.format(host=number, rack=number // hosts)
                builder.node(host, NodeKind.HOST, nvl_domain=number // domain if domain else -1)
                for rail in range(rails):
                    cable(host, f"pod{pod}-leaf{group * rails + rail}", name=f"mlx5_{rail}", rail=rail)
                number += 1
    return builder.build(["made up"])


def draw_fabric(data: st.DataObject, *, plain: bool = True) -> Fabric:
    """Any fabric at all: cables between any two nodes, some down, hosts without any; `plain` names fit every format."""
    draw = data.draw
    letters = "abcxyz0123456789" if plain else "ab\"'<>&\\{}[]%$#;|é漢*?!,=@`^~ \t\n\x01"
    name = st.text(letters, min_size=1, max_size=4)
    prefixes = ("h", "s") if plain else ("", "-")
    hosts = [f"{prefixes[0]}{text}" for text in draw(st.sets(name, min_size=1, max_size=8))]
    switches = [f"{prefixes[1]}{text}" for text in draw(st.sets(name, max_size=7))]
    switches = [switch for switch in switches if switch not in hosts]
    builder = FabricBuilder()
    for host in hosts:
        builder.node(
            host, NodeKind.HOST, nvl_domain=draw(st.integers(-1, 2)), guid=draw(st.sampled_from(("", "0a")))
        )
    for switch in switches:
        builder.node(switch, NodeKind.SWITCH)
    cables = draw(
        st.lists(
            st.tuples(
                st.sampled_from(hosts + switches),
                st.sampled_from(switches or hosts),
                st.sampled_from(LinkState),
                st.integers(-1, 3),
            ),
            max_size=24,
        )
    )
    for number, (a, b, state, rail) in enumerate(cables):
        for end, node in enumerate((a, b)):
            builder.port(
                node,
                f"p{number}-{end}" if plain else f"{letters}{number}{end}",
                rail=rail if node in hosts else -1,
                plane=draw(st.integers(-1, 1)),
                speed_gbps=draw(st.sampled_from((0.0, 0.1, 100.0, 400.0))),
                mtu=draw(st.sampled_from((0, 9000))),
                address=draw(st.sampled_from(("", "10.0.0.1"))),
            )
        builder.link(
            *(
                (node, f"p{number}-{end}" if plain else f"{letters}{number}{end}")
                for end, node in enumerate((a, b))
            ),
            state=state,
        )
    nics = {
        host: [
            f"p{number}-{end}" for number, ends in enumerate(cables) for end in (0, 1) if ends[end] == host
        ]
        for host in hosts
    }
    for host in hosts if plain else ():
        for index in range(draw(st.integers(0, 3))):
            nic = draw(st.sampled_from([None, *nics[host]]))
            builder.gpu(host, index, numa=draw(st.integers(-1, 1)), nic=nic)
    return builder.build(["first", "second"])


@pytest.fixture(scope="session")
def pods() -> Callable[..., Fabric]:
    """The function that builds a fabric of three tiers."""
    return build_pods


@pytest.fixture(scope="session")
def any_fabric() -> Callable[..., Fabric]:
    """The function that draws a fabric from hypothesis' data."""
    return draw_fabric

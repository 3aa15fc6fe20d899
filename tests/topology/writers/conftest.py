"""Maps on small fabrics, drawn or given by hosts, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.placement.mapping import Placement

PLAIN = st.text("abz019-", min_size=1, max_size=5).filter(lambda name: name[0].isalnum())
ODD = st.text("ab1.-_ :#*,[]\"'$`\\é@;|&<>()%+=\n", min_size=1, max_size=6)


def make_map(
    hosts: Sequence[str], gpus: Sequence[int] | None = None, addresses: dict[str, str] | None = None
) -> tuple[Fabric, Placement]:
    """A fabric of just these hosts under one switch, and the map of rank i to hosts[i]."""
    builder = FabricBuilder()
    builder.node(" leaf", NodeKind.SWITCH)
    for number, host in enumerate(dict.fromkeys(hosts)):
        builder.node(host, NodeKind.HOST)
        builder.port(host, "eth0", speed_gbps=100, address=(addresses or {}).get(host, ""))
        builder.port(" leaf", f"d{number}", speed_gbps=100)
        builder.link((host, "eth0"), (" leaf", f"d{number}"))
    fabric = builder.build()
    placement = Placement.of_hosts(fabric, hosts)
    if gpus is not None:
        placement = Placement(placement.host, np.array(gpus, np.int64), placement.nic)
    return fabric, placement


def draw_map(data: st.DataObject, *, odd: bool = False, together: bool = False) -> list[str]:
    """Hosts by rank: names and numbers of ranks drawn; `together` keeps the ranks of a host together."""
    names = data.draw(st.lists(ODD if odd else PLAIN, min_size=1, max_size=5, unique=True))
    hosts = [name for name in names for _ in range(data.draw(st.integers(1, 3)))]
    return hosts if together else data.draw(st.permutations(hosts))


@pytest.fixture(scope="session")
def map_of() -> Callable[..., Any]:
    """The function that makes a fabric and a map of hosts on it."""
    return make_map


@pytest.fixture(scope="session")
def drawn_hosts() -> Callable[..., list[str]]:
    """The function that draws the hosts of a map."""
    return draw_map

"""Fabrics with uneven leaves, and jobs of several kinds of groups, for the tests of this folder."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.traffic import Phase


@dataclass
class Step:
    """Phases as they are."""

    ranks: int
    phases: tuple[Phase, ...] | list[Phase]
    domain: int = 1


def build_leaves(
    sizes, spines=2, *, host_gbps=100.0, up_gbps=None, parallel=1, rails=1, gpus=0, pods=1, domains=()
):
    """Leaf l with sizes[l] hosts (node1, node2, ...) of `rails` NICs and `parallel` cables of up_gbps[l] to every spine.

    With several pods, leaves are dealt out to them in runs, each pod has spines of its own, and two cores join all spines.
    `domains` is the accelerator domain of each host.
    """
    builder = FabricBuilder()
    ups = up_gbps if up_gbps is not None else [host_gbps] * len(sizes)

    def cable(one, other, speed, count, **port):
        for number in range(count):
            for node, far, extra in ((one, other, port), (other, one, {})):
                builder.port(node, f"to-{far}-{number}", speed_gbps=speed, **extra)
            builder.link((one, f"to-{other}-{number}"), (other, f"to-{one}-{number}"))

    switches = [f"leaf{leaf}" for leaf in range(len(sizes))]
    switches += [f"spine{pod}-{spine}" for pod in range(pods) for spine in range(spines)]
    for switch in [*switches, *(["core0", "core1"] if pods > 1 else [])]:
        builder.node(switch, NodeKind.SWITCH)
    host = 0
    for leaf, size in enumerate(sizes):
        for _ in range(size):
            name = f"node{host + 1}"
            builder.node(name, NodeKind.HOST, nvl_domain=domains[host] if domains else -1)
            for rail in range(rails):
                builder.port(name, f"eth{rail}", speed_gbps=host_gbps, rail=rail)
                builder.port(f"leaf{leaf}", f"d{host}-{rail}", speed_gbps=host_gbps)
                builder.link((name, f"eth{rail}"), (f"leaf{leaf}", f"d{host}-{rail}"))
            for gpu in range(gpus):
                builder.gpu(name, gpu, nic=f"eth{rails - 1 - gpu % rails}")
            host += 1
        pod = leaf * pods // len(sizes)
        for spine in range(spines):
            cable(f"leaf{leaf}", f"spine{pod}-{spine}", ups[leaf], parallel)
    if pods > 1:
        for pod, spine, core in itertools.product(range(pods), range(spines), range(2)):
            cable(f"spine{pod}-{spine}", f"core{core}", max(ups), 1)
    return builder.build(["test"])


def phase(kind, groups, size, name="a", after=(), **options):
    """One phase of rings, of chains both ways, or of all-to-alls through each group."""
    if kind == "ring":
        pairs = [(a, b) for group in groups for a, b in itertools.pairwise([*group, group[0]]) if a != b]
    elif kind == "chain":
        forth = [pair for group in groups for pair in itertools.pairwise(group)]
        pairs = forth + [(b, a) for a, b in forth]
    else:
        pairs = [pair for group in groups for pair in itertools.permutations(group, 2)]
    src, dst = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return Phase(name, kind, float(size), src, dst, np.full(len(src), float(size)), after, **options)


def grid_job(generator, ranks):
    """Two kinds of groups along the axes of a grid of ranks, of random shape, kinds and bytes, mostly one after the other."""
    columns = [one for one in range(2, ranks) if ranks % one == 0]
    grid = np.arange(ranks)
    if columns:
        grid = grid.reshape(-1, int(generator.choice(columns)))
        one, other = grid.tolist(), grid.T.tolist()
    else:
        one, other = [grid.tolist()], [generator.permutation(grid).tolist()]
    kinds = generator.choice(["ring", "chain", "all-to-all"], 2)
    sizes = 10 ** generator.uniform(6, 7, 2)
    after = ("a",) if generator.random() < 0.7 else ()
    return Step(ranks, [phase(kinds[0], one, sizes[0]), phase(kinds[1], other, sizes[1], "b", after)])


@pytest.fixture(scope="session")
def leaves():
    """The function that builds a fabric of uneven leaves."""
    return build_leaves


@pytest.fixture(scope="session")
def rings():
    """The function that makes a step out of phases of rings, one after another: (groups, bytes) each."""

    def make(ranks, *parts, domain=1):
        made = []
        for number, (groups, size) in enumerate(parts):
            after = (f"p{number - 1}",) if number else ()
            made.append(phase("ring", groups, size, f"p{number}", after))
        return Step(ranks, made, domain)

    return make


@pytest.fixture(scope="session")
def grid():
    """The function that makes a random job of two kinds of groups."""
    return grid_job

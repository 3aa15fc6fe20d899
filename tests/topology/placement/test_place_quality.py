"""How good maps are: against exhaustion, against a planted optimum, against launchers' orders.

A sample by default; NETTUNE_PLACE_CAMPAIGN=1 takes the promised sizes (some minutes) and prints the figures.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from topology.placement.classes import best_of_all
from topology.placement.methods import search
from topology.placement.place import evaluate, place, problem_of
from topology.placement.pricing import Prices
from topology.routing import Routing

WHOLE = bool(os.environ.get("NETTUNE_PLACE_CAMPAIGN"))


def report(capsys, text) -> None:
    if WHOLE:
        with capsys.disabled():
            print(f"\n{text}")


def small(leaves, grid, seed):
    """A random job on 5 to 9 hosts under 2 or 3 uneven leaves, oversubscribed or not, sometimes with a spare host."""
    generator = np.random.default_rng(seed)
    hosts = int(generator.integers(5, 10))
    ends = np.sort(generator.choice(np.arange(1, hosts), int(generator.integers(1, 3)), replace=False))
    sizes = np.diff([0, *ends, hosts])
    over = generator.choice([1, 0.5, 0.25])
    ups = [100 * over * (1 if generator.random() < 0.7 else 0.5) for _ in sizes]
    fabric = leaves(sizes, int(generator.integers(1, 4)), up_gbps=ups, parallel=int(generator.integers(1, 3)))
    ranks = hosts if generator.random() < 0.6 else hosts - 1
    return problem_of(Routing.shortest_paths(fabric), grid(generator, ranks), ranks_per_host=1, seed=1)


def test_small_problems_against_exhaustion(leaves, grid, capsys):
    """The search alone stays within 2% of the best of all maps on average and 10% at worst; what place returns is the best."""
    excess, own = [], []
    for seed in range(300 if WHOLE else 12):
        problem = small(leaves, grid, seed)
        prices = Prices(problem)
        best = best_of_all(problem, 10**6)
        assert best is not None
        least = prices.price(best).time_us
        excess.append(prices.price(search.searched(problem)).time_us / least - 1)
        own.append(prices.price(search.order(problem)).time_us / least - 1)
    report(
        capsys,
        f"{len(excess)} instances of up to 9 hosts: search alone {np.mean(excess):.2%} above exhaustion on average, "
        f"{max(excess):.2%} at worst; place {np.mean(own):.2%} and {max(own):.2%}",
    )
    assert np.mean(own) <= 0.02
    assert max(own) <= 0.10
    assert min(excess) >= -1e-9
    assert np.mean(excess) <= 0.02


@pytest.mark.parametrize("kind", ["ring", "all-to-all"])
def test_a_planted_optimum_is_found(leaves, rings, kind, capsys):
    """Ranks are shuffled over leaves whose heavy groups stay inside, light rings join all leaves: within 2% of that map."""
    hosts, count = (1024, 32) if WHOLE else (128, 8)
    per_leaf = hosts // count
    generator = np.random.default_rng(7)
    ranks = generator.permutation(hosts)
    inside = ranks.reshape(count, per_leaf)
    heavy = inside if kind == "ring" else inside.reshape(-1, per_leaf // 4)
    light = [inside[:, place].tolist() for place in range(0, per_leaf, 8)]
    traffic = rings(hosts, (heavy.tolist(), 4e7), (light, 1e7))
    routing = Routing.shortest_paths(leaves([per_leaf] * count, 16, up_gbps=[100 * per_leaf / 32] * count))
    names = np.empty(hosts, dtype=object)
    names[ranks] = [f"node{host + 1}" for host in range(hosts)]

    planted = evaluate(routing, traffic, names.tolist()).cost_us
    found = place(routing, traffic, ranks_per_host=1).cost_us

    report(capsys, f"planted optimum of {kind} groups on {hosts} hosts: {found / planted - 1:+.2%}")
    assert found <= planted * 1.02


def test_launchers_orders_are_never_better(leaves, grid, capsys):
    """Uneven oversubscribed leaves, two kinds of groups: never above a launcher's order, most often far below depth-first."""
    below = []
    for seed in range(200 if WHOLE else 8):
        generator = np.random.default_rng(1000 + seed)
        sizes = generator.integers(2, 9, int(generator.integers(3, 7)))
        spines, over = int(generator.integers(2, 5)), generator.choice([0.5, 0.33, 0.25])
        fabric = leaves(sizes, spines, up_gbps=[100 * over * max(1, round(size / spines)) for size in sizes])
        fitting = [n for n in range(6, sizes.sum() + 1) if any(n % one == 0 for one in range(2, n))]
        ranks = (
            fitting[-1] if generator.random() < 0.5 else int(generator.choice(fitting[len(fitting) // 2 :]))
        )
        routing, traffic = Routing.shortest_paths(fabric), grid(generator, ranks)
        cost = {
            method: place(routing, traffic, method, ranks_per_host=1, seed=2).cost_us
            for method in ("nettune", "depth-first", "slurm", "lexicographic")
        }
        assert cost["nettune"] <= min(cost.values()) * (1 + 1e-9)
        below.append(1 - cost["nettune"] / cost["depth-first"])
    often = np.mean(np.array(below) >= 0.1)
    report(
        capsys,
        f"{len(below)} oversubscribed uneven fabrics: at least 10% below depth-first on {often:.0%}, median {np.median(below):.0%}",
    )
    assert often >= 0.6

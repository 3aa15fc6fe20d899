"""The Linux multipath hash against an independent restatement."""

from __future__ import annotations

import importlib.util
import ipaddress
import random

import numpy as np
import pytest

from nettune.errors import InputError
from topology.ecmp import HashSpec, Tuples, choose


def columns(flows) -> Tuples:
    """Flows (saddr, daddr, sport, dport, proto) as columns."""
    table = [
        (int(ipaddress.IPv4Address(s)), int(ipaddress.IPv4Address(d)), sp, dp, proto)
        for s, d, sp, dp, proto in flows
    ]
    return Tuples(*(np.array(column, dtype=np.uint32) for column in zip(*table, strict=True)))


def random_flows(count: int, seed: int):
    """Random TCP and UDP flows."""
    rng = random.Random(seed)
    return [
        (
            str(ipaddress.IPv4Address(rng.randrange(2**32))),
            str(ipaddress.IPv4Address(rng.randrange(2**32))),
            rng.randrange(65536),
            rng.randrange(65536),
            rng.choice((6, 17)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(("hops", "seed"), [(2, 12345), (3, 1), (4, 2**32 - 1), (7, 99)])
def test_it_equals_the_oracle(shared, hops, seed):
    """Every one of 300 random flows takes the next hop of the oracle, which was checked on a running kernel."""
    spec = importlib.util.spec_from_file_location(
        "linux_multipath_oracle", shared / "oracles" / "linux_multipath.py"
    )
    assert spec is not None
    assert spec.loader is not None
    oracle = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oracle)
    flows = random_flows(300, seed)

    picked = choose(HashSpec("linux-multipath", seed), columns(flows), [1] * hops)

    assert picked.tolist() == [oracle.nexthop(*flow, seed, hops) for flow in flows]


def test_known_vectors():
    """Fixed flows keep their next hop: a change of the key layout would move about half of them."""
    flows = random_flows(32, 5)

    picked = choose(HashSpec("linux-multipath", 12345), columns(flows), [1, 1])

    assert "".join(map(str, picked.tolist())) == "00101110111001010100010011000000"


def test_both_directions_hash_alike():
    """Addresses and ports are ordered before hashing, so data and ACKs pick the same index."""
    flows = random_flows(200, 3)
    back = [(d, s, dp, sp, proto) for s, d, sp, dp, proto in flows]
    spec = HashSpec("linux-multipath", 3)

    assert np.array_equal(choose(spec, columns(flows), [1, 1, 1]), choose(spec, columns(back), [1, 1, 1]))


def test_weights_set_the_shares():
    """Weight 3 of 4 takes about three quarters of many flows."""
    picked = choose(HashSpec("linux-multipath", 3), columns(random_flows(4000, 8)), [3, 1])

    assert np.mean(picked == 0) == pytest.approx(0.75, abs=0.03)


def test_an_unknown_family_is_refused():
    """Its error lists the known ones."""
    with pytest.raises(InputError, match="linux-multipath"):
        HashSpec("crc-of-somebody", 0)

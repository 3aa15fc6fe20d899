"""Finding the hash that explains what was seen, or rejecting all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nettune.errors import InputError
from topology.ecmp import HashSpec, Tuples, choose
from topology.ecmp.fit import fit, presets
from topology.ecmp.tuples import FIVE_TUPLE

FEW = [
    HashSpec("rtag7-crc16-bisync"),
    HashSpec("rtag7-crc16-ccitt"),
    HashSpec("crc32c"),
    HashSpec("crc32c", fields=(*FIVE_TUPLE, "dst_qp")),
    HashSpec("linux-multipath-fields"),
    HashSpec("ideal"),
]
SEEDS = range(2048)


def probed(count, seed):
    """RoCEv2 flows as probes have them: a few hosts, ports of the range."""
    generator = np.random.default_rng(seed)

    def column(low, high):
        return generator.integers(low, high, count).astype(np.uint32)

    host = np.uint32(0x0A010001)
    return Tuples(
        host + column(0, 8) * np.uint32(256),
        host + column(0, 8) * np.uint32(256),
        column(49152, 65536),
        np.full(count, 4791, dtype=np.uint32),
        np.full(count, 17, dtype=np.uint32),
        column(0, 2**24),
    )


@pytest.mark.parametrize(
    ("truth", "weights"),
    [
        (HashSpec("rtag7-crc16-bisync", 0xDEADBEEF, 3), (1, 1)),
        (HashSpec("rtag7-crc16-ccitt", 0xDEADBEEF, 7), (1, 1, 1)),
        (HashSpec("crc32c", 77, 9), (1,) * 8),
        (HashSpec("crc32c", 77, 9, selection="threshold"), (1,) * 4),
        (HashSpec("crc32c", 99, fields=(*FIVE_TUPLE, "dst_qp")), (1, 1, 1)),
        (HashSpec("linux-multipath-fields", 1711), (3, 1)),
        (HashSpec("ideal", 2), (1, 1, 1)),
    ],
    ids=lambda value: value.family if isinstance(value, HashSpec) else str(len(value)),
)
def test_a_hidden_seed_and_offset_are_found(truth, weights):
    """1,000 rows, 5 of them wrong: the fit predicts 200 further flows, all of them."""
    seen, further = probed(1000, 1), probed(200, 2)
    hop = choose(truth, seen, weights)
    hop[::200] = (hop[::200] + 1) % len(weights)
    candidates = FEW if not truth.selection else [replace(each, selection=truth.selection) for each in FEW]

    found = fit(seen, hop, weights, candidates, seeds=SEEDS)

    assert found.spec is not None
    assert found.spec.family == truth.family
    assert found.explained == 995
    assert found.chance < 1e-100
    assert np.array_equal(found.predict(further), choose(truth, further, weights))


@pytest.mark.parametrize("hops", [2, 3, 5])
def test_the_order_of_next_hops_may_be_unknown(hops):
    """A switch that counts its next hops in another order is learned with that order."""
    truth, names = HashSpec("rtag7-crc16-ccitt", 4), np.random.default_rng(hops).permutation(hops)
    seen, further = probed(600, 3), probed(200, 4)

    found = fit(seen, names[choose(truth, seen, (1,) * hops)], (1,) * hops, FEW[:2], any_order=True)

    assert found.spec is not None
    assert np.array_equal(found.predict(further), names[choose(truth, further, (1,) * hops)])


@pytest.mark.parametrize("any_order", [False, True])
def test_a_hash_that_is_none_of_ours_is_rejected(any_order):
    """Random choices: no preset explains much more than chance, and the answer says so."""
    hop = np.random.default_rng(5).integers(0, 2, 400)

    found = fit(probed(400, 6), hop, (1, 1), FEW, seeds=SEEDS, any_order=any_order)

    assert found.spec is None
    assert found.explained < 0.65 * 400
    assert found.reason.startswith("none of ")
    with pytest.raises(InputError, match="no hash was fitted"):
        found.predict(probed(1, 1))


def test_few_rows_prove_nothing():
    """Ten rows are explained by many hypotheses; flows that all went one way by any."""
    truth = HashSpec("rtag7-crc16-bisync", 1)
    ten = probed(10, 7)
    assert "do not tell it from" in fit(ten, choose(truth, ten, (1, 1)), (1, 1), FEW[:1]).reason
    pinned = fit(
        probed(500, 8), np.zeros(500, dtype=np.int64), (1, 1), [HashSpec("crc16", fields=("proto",))]
    )
    assert pinned.spec is None


def test_the_evidence_is_written_down():
    """Rows, explained, chance and hypotheses of a fit as JSON values."""
    seen = probed(200, 9)

    evidence = fit(seen, choose(FEW[2], seen, (1, 1)), (1, 1), FEW[:3]).to_json()

    assert evidence["spec"] == {"family": "crc32c", "seed": 0}
    assert (evidence["rows"], evidence["explained"], evidence["tried"]) == (200, 200, 2 * 16 * 2 + 32 * 2)
    assert 90 < evidence["by_chance"] < 130


def test_presets_cover_the_families():
    """Every family that hashes, several field sets; the destination QP only where flows have one."""
    families = {spec.family for spec in presets()}

    assert families >= {"linux-multipath", "rtag7-crc32c-hi", "crc16", "toeplitz", "ideal"}
    assert "spray" not in families
    assert not any("dst_qp" in spec.fields for spec in presets())
    assert any("dst_qp" in spec.fields for spec in presets(dst_qp=True))


def test_rows_that_do_not_fit_are_refused():
    """An index beyond the next hops, and unequal weights in unknown order."""
    with pytest.raises(InputError, match="counted from 0"):
        fit(probed(2, 1), np.array([0, 2]), (1, 1))
    with pytest.raises(InputError, match="unequal weights"):
        fit(probed(2, 1), np.array([0, 1]), (1, 2), any_order=True)

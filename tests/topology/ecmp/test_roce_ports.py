"""RoCEv2 source ports from QP numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.ecmp.roce import flow_label, sport_of_label, sport_of_qps

QPN = st.integers(1, 2**24 - 1)


@pytest.mark.parametrize(
    ("lqpn", "rqpn", "label", "sport"),
    [
        (0x11, 0x11, 0x121, 0xC121),
        (0x118, 0x1F3, 0x221C8, 0xE1C0),
        (0x1234, 0x5678, 0x60002, 0xC01A),
        (0xABCDEF, 0x123456, 0xAC3E3, 0xC3C8),
        (0xFFFFFF, 0xFFFFFF, 0xFFF1E, 0xFF21),
    ],
)
def test_known_vectors(lqpn, rqpn, label, sport):
    """Flow label and source port of five pairs; columns give the same."""
    assert (flow_label(lqpn, rqpn), sport_of_qps(lqpn, rqpn)) == (label, sport)
    assert sport_of_qps(np.array([lqpn]), np.array([rqpn])).tolist() == [sport]


def test_labels_that_were_set():
    """0x4000 and 0xFFFFF make known ports."""
    assert (sport_of_label(0x4000), sport_of_label(0xFFFFF)) == (0xC001, 0xFFC0)


@given(lqpn=QPN, rqpn=QPN)
def test_both_directions_use_one_port(lqpn, rqpn):
    """Symmetric, within 0xC000 to 0xFFFF, and as the oracle has it in columns of 64 bits."""
    sport = sport_of_qps(lqpn, rqpn)

    assert sport == sport_of_qps(rqpn, lqpn)
    assert 0xC000 <= sport <= 0xFFFF


def test_it_equals_the_oracle(oracle):
    """1,000 random pairs."""
    vectors = oracle("ecmp_vectors")
    pairs = np.random.default_rng(1).integers(1, 2**24, (1000, 2))

    assert sport_of_qps(pairs[:, 0], pairs[:, 1]).tolist() == [
        vectors.roce_sport(0, *pair) for pair in pairs.tolist()
    ]


def test_equal_numbers_collide():
    """64 pairs of equal, consecutive numbers have 63 ports: only 14 bits vary."""
    number = np.arange(0x100, 0x140)

    assert len(np.unique(sport_of_qps(number, number))) == 63

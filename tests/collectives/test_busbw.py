"""Bus bandwidth factors are those of nccl-tests."""

from __future__ import annotations

import pytest

from collectives.busbw import algbw_gbytes_per_s, busbw_factor, busbw_gbps, busbw_gbytes_per_s
from nettune.errors import InputError


@pytest.mark.parametrize(
    ("op", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 4, 0.75),
        ("alltoall", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("sendrecv", 2, 1.0),
        ("all_reduce", 1, 0.0),
    ],
)
def test_factors(op, ranks, factor):
    """Factor of each operation, and 0 for one rank."""
    assert busbw_factor(op, ranks) == pytest.approx(factor)


def test_units():
    """A GB in a tenth of a second is 10 GB/s algbw, 17.5 GB/s and 140 Gbit/s busbw on eight ranks."""
    assert algbw_gbytes_per_s(1e9, 0.1) == pytest.approx(10.0)
    assert busbw_gbytes_per_s("all_reduce", 8, 1e9, 0.1) == pytest.approx(17.5)
    assert busbw_gbps("all_reduce", 8, 1e9, 0.1) == pytest.approx(140.0)


@pytest.mark.parametrize(
    ("op", "ranks", "time_s"), [("gossip", 8, 1.0), ("reduce", 0, 1.0), ("reduce", 2, 0.0)]
)
def test_nonsense_is_refused(op, ranks, time_s):
    """Unknown operations, no rank and no time give no number."""
    with pytest.raises(InputError):
        busbw_gbps(op, ranks, 1.0, time_s)

"""Times of schedules on known paths: textbook figures, waiting for one another, sharing of links and connections."""

from __future__ import annotations

import numpy as np
import pytest

from collectives.cost.schedule_time import Lane, schedule_time_us
from collectives.schedules import Op, Round, Schedule, build
from nettune.errors import InputError

MIB = 1 << 20
GBPS = 0.1
US_PER_MIB = MIB * 8e-3 / GBPS


def private(schedule, latency_us=0.0):
    """Every edge on a connection and a link of its own, and the links' speeds."""
    edges = schedule.channel_edges
    keys = list(zip(edges.src.tolist(), edges.dst.tolist(), edges.channel.tolist(), strict=True))
    return {key: Lane(key, (row,), latency_us) for row, key in enumerate(keys)}, np.full(len(keys), GBPS)


@pytest.mark.parametrize(("ranks", "chunks"), [(2, 1), (4, 1), (8, 1), (8, 3)])
def test_a_ring_takes_the_textbook_time(ranks, chunks):
    """2(n-1)/n of the message on the wire, and 2(n-1) latencies where chunks do not hide them."""
    ring = build("ring", "all_reduce", ranks, chunks=chunks)
    lanes, speed = private(ring)
    assert schedule_time_us(ring, MIB, 1.0, lanes, speed) == pytest.approx(
        2 * (ranks - 1) / ranks * US_PER_MIB, rel=1e-4
    )
    if chunks == 1:
        late, _ = private(ring, 100.0)
        expected = 2 * (ranks - 1) * (US_PER_MIB / ranks + 100.0)
        assert schedule_time_us(ring, MIB, 1.0, late, speed) == pytest.approx(expected, rel=1e-4)


def test_levels_wait_for_one_another_and_chunks_overlap_them():
    """A chain over n ranks takes n - 1 whole messages; in k chunks n - 2 + k parts of it."""
    for chunks in (1, 5):
        chain = build("ring", "broadcast", 4, chunks=chunks)
        lanes, speed = private(chain)
        expected = (2 + chunks) / chunks * US_PER_MIB
        assert schedule_time_us(chain, MIB * 5, 0.2, lanes, speed) == pytest.approx(expected, rel=1e-6)


def test_what_shares_a_link_shares_its_speed():
    """Two messages over one link take twice as long; over one connection they come one after the other."""
    step = Round.of([0, 1], [2, 2], [0, 1])
    both = Schedule.of_rounds(Op.P2P, 3, [step], share=[1.0, 1.0], home=[0, 1], target=[2, 2])
    for connections in (("a", "b"), ("a", "a")):
        lanes = {(src, 2, 0): Lane(connection, (0,)) for src, connection in enumerate(connections)}
        assert schedule_time_us(both, MIB, 1.0, lanes, np.array([GBPS])) == pytest.approx(2 * US_PER_MIB)
    apart = {(0, 2, 0): Lane("a", (0,)), (1, 2, 0): Lane("b", (1,))}
    assert schedule_time_us(both, MIB, 1.0, apart, np.array([GBPS, GBPS / 4])) == pytest.approx(
        4 * US_PER_MIB
    )


def test_inside_a_host_nothing_takes_time():
    """Lanes without links cost their latency only."""
    ring = build("ring", "all_gather", 3)
    lanes = {key: Lane(key, (), 5.0) for key in [(0, 1, 0), (1, 2, 0), (2, 0, 0)]}
    assert schedule_time_us(ring, 300, 4.0, lanes, np.empty(0)) == pytest.approx(10.0)


def test_what_is_not_known_is_refused():
    """An edge without a lane, a link without a speed."""
    ring = build("ring", "all_gather", 3)
    lanes, speed = private(ring)
    with pytest.raises(InputError, match="speed is not known"):
        schedule_time_us(ring, 300, 4.0, lanes, 0 * speed)
    del lanes[1, 2, 0]
    with pytest.raises(InputError, match=r"no path is given for \(1, 2, 0\)"):
        schedule_time_us(ring, 300, 4.0, lanes, speed)

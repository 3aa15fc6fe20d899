"""Phases of jobs with experts, context parallelism, ZeRO, domains and rails."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.groupedges import all_to_all, collective, ring_edges
from collectives.job import JobSpec, ModelShape
from collectives.schedules import Op, build
from collectives.traffic import JobTraffic
from nettune.errors import InputError

KIB = 1 << 10


def by_name(**options):
    """Phases of a job by their names."""
    return {phase.name: phase for phase in JobTraffic(JobSpec(**options)).phases}


def edges(phase):
    """(src, dst) -> bytes, added up."""
    found: dict[tuple[int, int], float] = {}
    for src, dst, carried in zip(
        phase.src.tolist(), phase.dst.tolist(), phase.edge_bytes.tolist(), strict=True
    ):
        found[src, dst] = found.get((src, dst), 0.0) + carried
    return found


@pytest.mark.parametrize("op", [Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.ALL_GATHER])
@pytest.mark.parametrize("direction", [1, -1])
def test_ring_edges_are_those_of_the_schedule(op, direction):
    """Without walking through its rounds."""
    for ranks in (1, 2, 3, 8):
        short, whole = ring_edges(op, ranks, direction), build("ring", op, ranks, direction=direction).edges
        assert short.src.tolist() == whole.src.tolist()
        assert short.dst.tolist() == whole.dst.tolist()
        assert short.share == pytest.approx(whole.share)


@given(
    nodes=st.integers(2, 6),
    members=st.integers(1, 4),
    channels=st.integers(0, 6),
    algorithm=st.sampled_from(["ring", "double_tree", "halving_doubling"]),
)
def test_members_of_a_domain_share_the_bytes_by_rail(nodes, members, channels, algorithm):
    """Edges join ranks of the same place in different domains; channels neither add nor lose bytes."""
    groups = (np.arange(nodes)[:, None] * 4 + np.arange(members)).reshape(1, -1)

    found = collective(
        groups, Op.ALL_REDUCE, np.array([1e6]), algorithm=algorithm, channels=channels, domain=4
    )

    assert np.all(found.src % 4 == found.dst % 4)
    assert np.all(found.src // 4 != found.dst // 4)
    share = build(algorithm, Op.ALL_REDUCE, nodes).edges.share.sum()
    if algorithm == "ring":
        ranks = nodes * members
        share *= (ranks - 1) / ranks * nodes / (nodes - 1)
    assert found.bytes_.sum() == pytest.approx(share * 1e6)
    if channels in {0, members}:
        sent = np.bincount(found.src % 4, found.bytes_)
        if algorithm != "double_tree" or members == 1:
            assert sent == pytest.approx(np.full(members, sent[0]))


def test_groups_inside_a_domain_use_no_network():
    """Eight ranks in a host, or 72 in a rack: the phase is there, its edges are not."""
    phases = by_name(tp=8, dp=2, domain=8, tp_bytes=KIB, dp_bytes=KIB)
    assert len(phases["tp all-reduce"].src) == 0
    assert edges(phases["dp all-reduce"]) == {
        (a, b): KIB for r in range(8) for a, b in ((r, r + 8), (r + 8, r))
    }
    rack = by_name(tp=8, dp=9, domain=72, dp_bytes=KIB)
    assert len(rack["dp all-reduce"].src) == 0


def test_zero_stages():
    """0 all-reduce; 1 scatter and gather; 2 scatters each micro batch; 3 gathers twice in each, first of all."""
    sizes = {"dp": 4, "dp_bytes": 4 * KIB, "pp": 2, "pp_bytes": KIB, "micro_batches": 3}
    names, totals = [], []
    for zero in range(4):
        phases = by_name(zero=zero, **sizes)
        names.append(list(phases))
        totals.append(
            {name: phase.edge_bytes[0] / (3 * KIB) for name, phase in phases.items() if "dp" in name}
        )
    assert names == [
        ["pp p2p", "dp all-reduce"],
        ["pp p2p", "dp reduce-scatter", "dp all-gather"],
        ["pp p2p", "dp reduce-scatter", "dp all-gather"],
        ["dp all-gather", "pp p2p", "dp reduce-scatter"],
    ]
    assert totals == [
        {"dp all-reduce": 2},
        {"dp reduce-scatter": 1, "dp all-gather": 1},
        {"dp reduce-scatter": 3, "dp all-gather": 1},
        {"dp all-gather": 6, "dp reduce-scatter": 3},
    ]


@pytest.mark.parametrize(("zero", "times"), [(1, (1, 1, 1)), (2, (3, 3, 1)), (3, (3, 3, 6))])
def test_copies_of_sharded_states(zero, times):
    """HSDP, 2 copies over 4 shards: 3/4 S each way in a copy, then 2(R-1)/R of S/4 between the copies of a shard."""
    phases = by_name(zero=zero, dp=8, dp_replicate=2, dp_bytes=4 * KIB, micro_batches=3)
    order = ["dp reduce-scatter", "dp replica all-reduce", "dp all-gather"]
    assert list(phases) == ([*order[2:], *order[:2]] if zero == 3 else order)
    scatter, copies, gather = times
    ring = [(rank, (rank - 1) % 4 + rank // 4 * 4) for rank in range(8)]
    assert edges(phases["dp reduce-scatter"]) == dict.fromkeys(ring, scatter * 3 * KIB)
    assert edges(phases["dp all-gather"]) == dict.fromkeys(ring, gather * 3 * KIB)
    pairs = [(rank, (rank + 4) % 8) for rank in range(8)]
    assert edges(phases["dp replica all-reduce"]) == dict.fromkeys(pairs, copies * KIB)
    assert {phase.after for phase in phases.values()} == {(), *((name,) for name in list(phases)[:-1])}


def test_one_copy_is_zero_and_one_shard_is_an_all_reduce():
    """The ends of HSDP: dp_replicate 1 sends what ZeRO sends, dp_replicate = dp what no ZeRO sends."""
    plain = by_name(dp=4, dp_bytes=KIB)["dp all-reduce"]
    whole = by_name(dp=4, dp_bytes=KIB, zero=1, dp_replicate=4)
    assert list(whole) == ["dp replica all-reduce"]
    assert edges(whole["dp replica all-reduce"]) == edges(plain)
    with pytest.raises(InputError, match="replicas of experts = 2"):
        JobSpec(dp=8, ep=4, zero=1, dp_replicate=4)
    with pytest.raises(InputError, match="algorithm of dp is one of ring, halving_doubling, not 'pat'"):
        JobSpec(dp=8, zero=1, dp_replicate=4, algorithm={"dp": "pat"})


def test_a_tied_embedding_joins_the_ends_of_the_pipeline():
    """First and last stage all-reduce its gradient after their own; an embedding that is not tied has none."""
    shape = ModelShape(layers=4, hidden=64, heads=4, seq=32, vocab=1000, tied=True, grad_bytes=4)
    phases = {phase.name: phase for phase in JobTraffic(JobSpec(tp=2, pp=4, dp=2, model=shape)).phases}
    assert list(phases)[-2:] == ["dp all-reduce", "embedding all-reduce"]
    ends = [(0, 12), (1, 13), (2, 14), (3, 15)]
    wanted = {pair: 1000 * 64 / 2 * 4 for a, b in ends for pair in ((a, b), (b, a))}
    assert edges(phases["embedding all-reduce"]) == wanted
    untied = JobSpec(tp=2, pp=4, dp=2, model=replace(shape, tied=False))
    assert "embedding all-reduce" not in [phase.name for phase in JobTraffic(untied).phases]


def test_experts_split_over_tp_gather_their_tokens():
    """Every rank of an expert sees the tokens of all of them, and their outputs are scattered again."""
    shape = ModelShape(layers=2, hidden=64, heads=4, seq=32, experts=4, top_k=2)
    phases = {
        phase.name: phase
        for phase in JobTraffic(JobSpec(tp=2, dp=4, ep=2, sequence_parallel=True, model=shape)).phases
    }
    gather = phases["etp all-gather"]
    # 2 directions x 2 layers, and of the tokens of both ranks, each 32 / 2 x 2 x 64 x 2 bytes, one half comes in.
    assert gather.edge_bytes.tolist() == [2 * 2 * 16 * 2 * 64 * 2] * 8
    assert edges(phases["etp reduce-scatter"]) == edges(gather)
    assert list(phases).index("ep dispatch") < list(phases).index("etp all-gather")


def test_notes_say_what_the_bytes_leave_out_and_what_stays_local():
    """One line each: the model's omissions, uniform experts, phases that no network sees."""
    shape = ModelShape(layers=2, hidden=64, heads=4, seq=32, experts=4, top_k=2)
    notes = JobTraffic(JobSpec(tp=2, dp=4, ep=4, domain=2, model=shape)).notes
    assert [note.split(":")[0] for note in notes] == [
        "left out of the model's bytes",
        "experts",
        "no network",
    ]
    assert "tp all-reduce" in notes[2]
    assert JobTraffic(JobSpec(dp=2, dp_bytes=KIB)).notes == ()
    skewed = JobSpec(ep=2, dp=2, ep_bytes=KIB, expert_tokens=(1, 2))
    assert JobTraffic(skewed).notes == ()


@pytest.mark.parametrize(
    "options",
    [
        {"ep": 8192, "dp": 8192, "ep_bytes": 4},
        {"ep": 4096, "dp": 16384, "ep_bytes": 4},
        {"cp": 65536, "cp_bytes": 4, "algorithm": {"cp": "all_to_all"}},
        {"dp": 65536, "dp_bytes": 4, "algorithm": {"dp": "halving_doubling"}},
        {"dp": 65536, "dp_bytes": 4, "zero": 1, "algorithm": {"dp": "bruck"}},
    ],
)
def test_what_does_not_fit_into_memory_is_refused_in_one_line(options):
    """Groups of tens of thousands in which everybody talks to everybody, or whose chunks are too many."""
    with pytest.raises(InputError, match=r"too (many|much)") as caught:
        JobTraffic(JobSpec(**options)).phases  # noqa: B018 - they are made when asked for
    assert "\n" not in str(caught.value)


def test_bytes_beyond_64_bits_stay_numbers():
    """2^60 bytes over thousands of virtual stages do not wrap around."""
    (phase,) = JobTraffic(JobSpec(pp=2, virtual_stages=4096, pp_bytes=2**60)).phases
    assert phase.edge_bytes.max() == pytest.approx(2.0**60 * 4096, rel=1e-3)


def test_sequence_parallelism_gathers_and_scatters():
    """As many bytes on the wire as the all-reduce."""
    whole = by_name(tp=4, tp_bytes=KIB)["tp all-reduce"].edge_bytes
    halves = by_name(tp=4, tp_bytes=KIB, sequence_parallel=True)
    assert list(halves) == ["tp all-gather", "tp reduce-scatter"]
    assert sum(phase.edge_bytes for phase in halves.values()) == pytest.approx(whole)


def test_context_parallelism_passes_on_or_exchanges():
    """A ring of neighbours, or everybody with everybody; gradients are reduced over replicas and context together."""
    ring = by_name(cp=4, dp=2, cp_bytes=KIB, dp_bytes=KIB)
    assert edges(ring["cp p2p"]) == {
        (a + 4 * g, (a + 1) % 4 + 4 * g): KIB for a in range(4) for g in range(2)
    }
    assert len(ring["dp all-reduce"].src) == 8
    assert ring["dp all-reduce"].edge_bytes[0] == pytest.approx(2 * 7 / 8 * KIB)
    exchange = by_name(cp=4, cp_bytes=KIB, algorithm={"cp": "all_to_all"})["cp all-to-all"]
    assert edges(exchange) == {(a, b): KIB / 4 for a in range(4) for b in range(4) if a != b}


def test_virtual_stages_return_to_the_first_stage():
    """Two chunks a stage: each boundary twice, and once from the last stage to the first; gradients come back."""
    found = edges(by_name(pp=3, virtual_stages=2, pp_bytes=KIB)["pp p2p"])
    forth = {(0, 1): 2 * KIB, (1, 2): 2 * KIB, (2, 0): KIB}
    assert found == forth | {(b, a): carried for (a, b), carried in forth.items()}
    work = JobTraffic(JobSpec(pp=3, virtual_stages=2, pp_bytes=KIB)).work[0]
    assert sorted(map(tuple, work["edges"])) == sorted(
        pair for pair, carried in found.items() for _ in range(int(carried) // KIB)
    )


def test_uniform_and_skewed_experts():
    """Each expert rank gets its experts' share of the tokens, and returns as much."""
    even = by_name(ep=4, dp=4, ep_bytes=8 * KIB)
    assert edges(even["ep dispatch"]) == {(a, b): 2 * KIB for a in range(4) for b in range(4) if a != b}
    skewed = by_name(ep=4, dp=4, ep_bytes=8 * KIB, expert_tokens=(1, 1, 1, 1, 0, 0, 8, 4))
    share = [1 / 8, 1 / 8, 0, 3 / 4]
    wanted = {(a, b): 8 * KIB * share[b] for a in range(4) for b in range(4) if a != b and share[b]}
    assert edges(skewed["ep dispatch"]) == pytest.approx(wanted)
    assert edges(skewed["ep combine"]) == pytest.approx(
        {(b, a): carried for (a, b), carried in wanted.items()}
    )


@given(domains=st.integers(2, 4), size=st.sampled_from([2, 4]), seed=st.integers(0, 99))
def test_pxn_keeps_an_all_to_all_on_its_rails(domains, size, seed):
    """Same bytes into every receiver and out of every domain, but each edge joins the same place of two domains."""
    groups = np.arange(domains * size).reshape(1, -1)
    share = np.random.default_rng(seed).dirichlet(np.ones(domains * size))

    direct, by_rail = (
        all_to_all(groups, np.array([1e6]), share, pxn=pxn, domain=size) for pxn in (False, True)
    )

    assert np.all(by_rail.src % size == by_rail.dst % size)
    assert len(by_rail.src) == domains * size * (domains - 1)
    ranks = domains * size
    assert np.bincount(by_rail.dst, by_rail.bytes_, ranks) == pytest.approx(
        np.bincount(direct.dst, direct.bytes_, ranks)
    )
    assert np.bincount(by_rail.src // size, by_rail.bytes_) == pytest.approx(
        np.bincount(direct.src // size, direct.bytes_)
    )


def test_pxn_sends_what_the_two_step_schedule_sends_between_nodes():
    """Uniform: the edges of `build("two_step", ...)` that join two groups."""
    schedule = build("two_step", Op.ALL_TO_ALL, 12, groups=4).edges
    across = schedule.src // 4 != schedule.dst // 4
    wanted = {
        (src, dst): share
        for src, dst, share in zip(
            schedule.src[across].tolist(),
            schedule.dst[across].tolist(),
            schedule.share[across].tolist(),
            strict=True,
        )
    }
    phase = by_name(ep=12, dp=12, ep_bytes=KIB, pxn=True, domain=4)["ep dispatch"]
    assert edges(phase) == pytest.approx({pair: share * KIB for pair, share in wanted.items()})


def test_order_overlap_connections_and_computation():
    """Phases follow each other but for those that overlap; the rest is per kind."""
    phases = by_name(
        dp=4, pp=2, cp=2, zero=1, cp_bytes=KIB, pp_bytes=KIB, dp_bytes=KIB, overlap=("dp",),
        connections={"dp": 4}, compute_us={"dp": 10.0, "pp": 3.0}, channels={"dp": 2}, backend="nccl",
    )  # fmt: skip
    assert {name: phase.after for name, phase in phases.items()} == {
        "cp p2p": (),
        "pp p2p": ("cp p2p",),
        "dp reduce-scatter": (),
        "dp all-gather": ("dp reduce-scatter",),
    }
    assert phases["dp all-gather"].connections == 4
    assert [phases[name].compute_us for name in ("pp p2p", "dp reduce-scatter", "dp all-gather")] == [3, 5, 5]
    assert len(phases["dp all-gather"].src) == 2 * 16  # two channels
    assert edges(phases["dp all-gather"])[0, 1] == pytest.approx(7 / 8 * KIB)


def test_experts_have_gradient_groups_of_their_own():
    """edp: replicas of the same experts."""
    phases = by_name(dp=8, ep=4, dp_bytes=KIB, edp_bytes=KIB)
    pairs = set(edges(phases["edp all-reduce"]))
    assert pairs == {pair for a in range(4) for pair in itertools.permutations((a, a + 4))}

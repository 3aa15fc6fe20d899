"""Bytes of a step from the shape of a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from collectives.job import JobSpec, ModelShape
from nettune.errors import InputError

GPT3 = ModelShape(layers=96, hidden=12288, heads=96, seq=2048, vocab=51200, tied=True, global_batch=1536)


def test_gpt3_as_alibaba_counts_it():
    """HPN (SIGCOMM 2024), table 3, GPT-3 175B with TP8 PP8 DP512: 5.5 GB of gradients, 6 MB between stages."""
    job = JobSpec(tp=8, pp=8, dp=512, sequence_parallel=True, model=GPT3)

    assert GPT3.params == pytest.approx(175e9, rel=0.01)
    assert job.volumes["dp"].message_bytes == pytest.approx(5.5e9, rel=0.03)
    assert job.volumes["pp"].message_bytes == 6 << 20
    assert job.batches == 3
    assert job.volumes["pp"].by_stage == (3 * (6 << 20),) * 8


def test_tensor_parallel_messages():
    """Two all-reduces of sbh a block and direction; with sequence parallelism two gathers of three are forward's."""
    model = ModelShape(layers=4, hidden=64, heads=4, seq=128, micro_batch=2, global_batch=8)
    job = JobSpec(tp=4, pp=2, dp=2, model=model)

    volume = job.volumes["tp"]

    assert volume.message_bytes == 128 * 2 * 64 * 2
    assert volume.repeats == 2 * 4 * 2  # layers of a stage x (2 forward, 2 backward) x micro batches
    assert job.volumes["tp gathers"].repeats == 2 * 6 * 2
    assert volume.by_stage == (volume.message_bytes * 16,) * 2


def test_grouped_heads_shrink_the_ring_of_keys_and_values():
    """Keys and values of a quarter of the heads: forward once, backward with their gradients, cp - 1 hops each."""
    model = ModelShape(layers=2, hidden=64, heads=8, kv_heads=2, seq=128, micro_batch=1)

    ring = JobSpec(cp=4, model=model).volumes["cp"]
    exchange = JobSpec(cp=4, model=model, algorithm={"cp": "all_to_all"}).volumes["cp"]

    assert ring.message_bytes == 2 * 32 * (2 * 8) * 2
    assert ring.repeats == 3 * 3 * 2
    assert exchange.message_bytes == 2 * 32 * (8 + 2) * 8 * 2
    assert exchange.repeats == 2 * 2


def test_experts():
    """top_k copies of every token, in layers that have experts, both ways; their gradients apart from dense ones."""
    model = ModelShape(
        layers=4,
        hidden=64,
        heads=4,
        ffn=128,
        gated=True,
        seq=32,
        experts=8,
        top_k=2,
        moe_every=2,
        grad_bytes=4,
    )
    job = JobSpec(tp=2, ep=4, pp=2, dp=4, sequence_parallel=True, model=model)

    assert job.volumes["ep"].message_bytes == 16 * 2 * 64 * 2
    assert job.volumes["ep"].repeats == 2
    assert job.volumes["edp"].message_bytes == 2 * 3 * 64 * 128 / 2 * 4
    attention, dense = 4 * 64 * 64 * 2 / 2, 3 * 64 * 128 / 2
    assert job.volumes["dp"].message_bytes == (attention + dense + 64 * 8) * 4
    assert job.volumes["dp params"].message_bytes == (attention + dense + 64 * 8) * 2
    whole = model.params
    assert whole == 4 * 4 * 64 * 64 + 2 * 3 * 64 * 128 + 2 * (8 * 3 * 64 * 128 + 64 * 8)


def test_embeddings_weigh_on_the_ends_of_the_pipeline():
    """First and last stage have an embedding each; a single stage has it once when it is tied."""

    def shape(tied):
        return ModelShape(layers=4, hidden=64, heads=4, seq=32, vocab=1000, tied=tied)

    stages = JobSpec(pp=4, model=shape(tied=False)).volumes["dp"].by_stage
    one = [JobSpec(model=shape(tied=tied)).volumes["dp"].message_bytes for tied in (True, False)]

    assert [value - stages[1] for value in stages] == [1000 * 64 * 2, 0, 0, 1000 * 64 * 2]
    assert one[1] - one[0] == 1000 * 64 * 2


MOE = ModelShape(
    layers=8,
    hidden=256,
    heads=8,
    kv_heads=4,
    seq=64,
    vocab=1000,
    micro_batch=2,
    global_batch=32,
    experts=8,
    top_k=2,
    moe_every=2,
)


def counted(job: JobSpec) -> list[Counter[str]]:
    """Bytes of each stage, added up message by message while walking through a step: chunks, layers, micro batches."""
    stages: list[Counter[str]] = [Counter() for _ in range(job.pp)]
    token = MOE.hidden * MOE.dtype_bytes * MOE.micro_batch
    activation = MOE.seq // job.cp * token
    own = MOE.seq // job.cp // (job.tp if job.sequence_parallel else 1)
    chunks = job.pp * job.virtual_stages
    per_chunk = MOE.layers // chunks

    def column_and_row(stage: Counter[str]) -> None:
        """Input of a column-parallel layer and output of a row-parallel one, forward, backward."""
        if job.sequence_parallel:
            for what in ("gather", "scatter", "gather", "scatter", "gather"):
                stage[what] += activation
        else:
            stage["reduce"] += 2 * activation

    for _ in range(job.batches):
        for layer in range(MOE.layers):
            stage = stages[layer // per_chunk % job.pp]
            column_and_row(stage)
            if layer % 2 == 0:
                column_and_row(stage)
                continue
            for _ in ("forward", "backward"):
                stage["dispatched"] += own * MOE.top_k * token
                stage["expert"] += own * MOE.top_k * token * (job.expert_tp if job.sequence_parallel else 1)
        # The embedding's output is reduced; of the head only the input is gathered and its gradient reduced.
        if job.sequence_parallel:
            stages[0].update(scatter=activation, gather=activation)
            stages[-1].update(gather=2 * activation, scatter=activation)
        else:
            stages[0]["reduce"] += activation
            stages[-1]["reduce"] += activation
    return stages


@pytest.mark.parametrize(
    "sizes",
    [
        {"tp": 2, "ep": 2, "pp": 2, "dp": 4, "sequence_parallel": True},
        {
            "tp": 2,
            "cp": 2,
            "ep": 4,
            "pp": 2,
            "dp": 2,
            "etp": 1,
            "sequence_parallel": True,
            "virtual_stages": 2,
        },
        {"tp": 4, "ep": 2, "pp": 4, "dp": 2},
        {"cp": 2, "ep": 2, "dp": 4},
    ],
)
def test_bytes_equal_a_walk_through_the_step(sizes):
    """Every message of every layer, micro batch and virtual stage, one by one, adds up to the formulas."""
    job = JobSpec(**sizes, model=MOE)
    for number, stage in enumerate(counted(job)):
        reduced = job.volumes["tp"].by_stage[number]
        assert reduced == stage["scatter" if job.sequence_parallel else "reduce"]
        if job.sequence_parallel:
            assert job.volumes["tp gathers"].by_stage[number] == stage["gather"]
        assert job.volumes["ep"].by_stage[number] == stage["dispatched"]
        assert job.volumes["etp"].by_stage[number] == stage["expert"]


def test_gradients_of_all_ranks_are_those_of_the_model():
    """Parts of all ranks of a replica add up to `params`, but for the router, which every tp rank has whole."""
    job = JobSpec(tp=2, ep=2, pp=2, dp=4, model=MOE)
    dense, experts = (sum(job.volumes[kind].by_stage) / MOE.dtype_bytes for kind in ("dp", "edp"))
    router = 4 * MOE.hidden * MOE.experts
    assert dense * 2 + experts * 2 * 2 - router == MOE.params


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"tp": 16}, "heads = 8 is no multiple of tp = 16"),
        ({"cp": 3}, "seq = 64 is no multiple of cp = 3"),
        ({"tp": 8, "cp": 16, "sequence_parallel": True}, "seq = 64 is no multiple of cp x tp = 128"),
        ({"tp": 4, "cp": 4, "algorithm": {"cp": "all_to_all"}}, "heads = 8 is no multiple of tp x cp"),
        ({"ep": 2, "dp": 2, "model": replace(MOE, experts=0)}, "are for experts"),
        ({"expert_tokens": (1, 1), "model": replace(MOE, experts=0)}, "are for experts"),
        ({"micro_batches": 2}, "micro_batches and .model. are both given"),
    ],
)
def test_sizes_that_do_not_divide_the_shape_are_refused(sizes, message):
    """A rank's part must be whole, as all three frameworks want it."""
    with pytest.raises(InputError, match=message):
        JobSpec(**{"model": MOE, **sizes})


@pytest.mark.parametrize(
    "wrong",
    [
        {"layers": 0},
        {"heads": 5},
        {"experts": 1, "top_k": 2},
        {"micro_batch": 0},
        {"vocab": -1},
        {"seq": 1.5},
        {"layers": 10**9},
        {"hidden": 2**50},
        {"kv_heads": 3},
    ],
)
def test_shapes_that_cannot_be_are_refused(wrong):
    """The error names the key of [model]."""
    with pytest.raises(InputError, match="job: model "):
        ModelShape(**({"layers": 4, "hidden": 64, "heads": 4, "seq": 32} | wrong))
    with pytest.raises(InputError, match="no multiple of ep"):
        JobSpec(ep=2, dp=2, model=ModelShape(layers=1, hidden=8, heads=1, seq=8, experts=3))

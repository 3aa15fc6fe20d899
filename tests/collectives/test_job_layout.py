"""Which ranks form groups: against torch's DeviceMesh, and Megatron-LM's rule restated from its description."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.job import GROUPS, JobSpec
from collectives.job.layout import by_domain
from nettune.errors import InputError

ORDERS = ["-".join(order) for order in itertools.permutations(["tp", "cp", "ep", "dp", "pp"])]


def digits(rank, sizes):
    """Index on each axis of a mixed-radix number, first axis fastest."""
    found = []
    for size in sizes:
        rank, index = divmod(rank, size)
        found.append(index)
    return tuple(found)


def grouped(order, sizes, inside):
    """Groups by definition: ranks that agree on every axis outside; {frozenset of ranks}."""
    names = order.split("-")
    counts = [sizes[name] for name in names]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank in range(int(np.prod(counts))):
        index = digits(rank, counts)
        key = tuple(value for name, value in zip(names, index, strict=True) if name not in inside)
        groups.setdefault(key, []).append(rank)
    return {tuple(group) for group in groups.values()}


def found(job, kind):
    """Groups of a job as a set."""
    return {tuple(group) for group in job.groups(kind)}


SIZES = st.tuples(*(st.sampled_from([1, 2, 3]) for _ in range(5)))


@given(sizes=SIZES, order=st.sampled_from(ORDERS), etp=st.sampled_from([1, 2]))
def test_groups_are_megatrons_by_its_order_string(sizes, order, etp):
    """Two generators, dense with ep 1 and expert with cp 1; what Megatron's asserts refuse is refused."""
    tp, cp, ep, dp, pp = sizes
    world = tp * cp * dp * pp
    dense = {"tp": tp, "cp": cp, "ep": 1, "dp": dp, "pp": pp}
    fits = world % (etp * ep * pp) == 0
    if fits:
        expert = {"tp": etp, "cp": 1, "ep": ep, "dp": world // (etp * ep * pp), "pp": pp}
        fits = (order.endswith("pp") or pp == 1 or expert["dp"] == dp) and (
            grouped(order, dense, {"pp"}) == grouped(order, expert, {"pp"})
        )
    if not fits:
        with pytest.raises(InputError, match=r"order|does not divide"):
            JobSpec(tp=tp, cp=cp, ep=ep, etp=etp, dp=dp, pp=pp, order=order)
        return

    job = JobSpec(tp=tp, cp=cp, ep=ep, etp=etp, dp=dp, pp=pp, order=order)

    for kind, (of_expert, inside) in GROUPS.items():
        assert found(job, kind) == grouped(order, expert if of_expert else dense, inside), kind


def test_megatrons_own_example():
    """Tp 2, pp 2 (16 ranks), as listed in the docstring of `initialize_model_parallel`: neighbours are tensor groups."""
    job = JobSpec(tp=2, pp=4, dp=2)
    assert job.groups("tp") == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]]
    assert job.groups("dp") == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]
    assert job.groups("pp") == [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]


def test_deepspeeds_own_example():
    """16 ranks, model 2, expert 4, as listed in `_create_expert_data_and_model_parallel` of deepspeed/utils/groups.py."""
    job = JobSpec(tp=2, dp=8, ep=4, framework="deepspeed")
    assert job.groups("ep") == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]
    assert job.groups("edp") == [[0, 8], [1, 9], [2, 10], [3, 11], [4, 12], [5, 13], [6, 14], [7, 15]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"framework": "torchtitan", "order": "tp-pp-dp", "pp": 2}, "torchtitan has one order"),
        ({"framework": "torchtitan", "cp": 2, "ep": 3, "dp": 3}, "torchtitan builds ep"),
        ({"framework": "torchtitan", "tp": 4, "etp": 2, "ep": 2, "dp": 4}, "torchtitan takes etp"),
        ({"framework": "deepspeed", "tp": 4, "etp": 1, "ep": 8, "dp": 2}, "DeepSpeed takes ep"),
        ({"framework": "deepspeed", "pp": 2, "zero": 2}, "DeepSpeed has no zero 2"),
        ({"order": "tp-cp-pp-dp", "cp": 2, "pp": 2}, "Megatron-LM refuses order"),
        ({"order": "tp-dp", "pp": 2}, "leaves out pp"),
        ({"order": "tp-tp-dp-pp"}, "once"),
        ({"framework": "smoke"}, "framework 'smoke' is not known"),
    ],
)
def test_what_a_framework_refuses_is_refused(options, message):
    """The error says whose rule it is."""
    with pytest.raises(InputError, match=message):
        JobSpec(**options)


def on_fake_ranks(world, ranks, check):
    """Call `check(rank)` as each of these ranks of torch's fake backend."""
    dist = pytest.importorskip("torch.distributed")
    from torch.testing._internal.distributed.fake_pg import FakeStore

    for rank in ranks:
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
        try:
            check(rank)
        finally:
            dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed"])
def test_groups_equal_torch_device_mesh_on_12288_ranks(framework):
    """MegaScale's 12,288 ranks: every dimension of [pp, dp, cp, tp] and, for torchtitan, its expert mesh."""
    pytest.importorskip("torch.distributed")
    from torch.distributed import get_process_group_ranks
    from torch.distributed.device_mesh import init_device_mesh

    job = JobSpec(tp=8, cp=2, ep=16, pp=8, dp=96, framework=framework)
    names = ("pp", "dp", "cp", "tp")

    def check(rank):
        mesh = init_device_mesh("cpu", tuple(job.size(name) for name in names), mesh_dim_names=names)
        for kind in names:
            members = get_process_group_ranks(mesh.get_group(kind))
            table = job.layout.groups(kind)
            assert members == table[np.flatnonzero((table == rank).any(axis=1))[0]].tolist()
        # All groups at once: the mesh with one dimension last is that dimension's groups.
        for place, kind in enumerate(names):
            every = mesh.mesh.movedim(place, -1).reshape(-1, job.size(kind)).numpy()
            assert np.array_equal(np.sort(every, axis=0), np.sort(job.layout.groups(kind), axis=0))
        # torchtitan: dp = dp_mod x dp_in, and ep is dp_in together with cp where experts are split over tp.
        inside = job.ep // job.cp
        experts = mesh.mesh.reshape(job.pp, job.dp // inside, inside * job.cp, job.tp).movedim(2, -1)
        wanted = {tuple(group) for group in experts.reshape(-1, job.ep).tolist()}
        assert {tuple(group) for group in job.groups("ep")} == wanted

    on_fake_ranks(job.ranks, (0, 7777, 12287), check)


def test_small_groups_equal_torch_device_mesh():
    """Any Megatron order is a DeviceMesh with its kinds reversed."""
    pytest.importorskip("torch.distributed")
    from torch.distributed import get_process_group_ranks
    from torch.distributed.device_mesh import init_device_mesh

    for order in ("tp-dp-pp", "tp-pp-dp", "pp-dp-tp", "dp-tp-pp"):
        job = JobSpec(tp=2, pp=3, dp=4, order=order)
        names = tuple(order.split("-")[::-1])

        def check(rank, job=job, names=names):
            mesh = init_device_mesh("cpu", tuple(job.size(name) for name in names), mesh_dim_names=names)
            for kind in names:
                members = get_process_group_ranks(mesh.get_group(kind))
                assert members in job.groups(kind)
                assert rank in members

        on_fake_ranks(job.ranks, range(0, job.ranks, 5), check)


@pytest.mark.parametrize(
    ("tp", "cp", "pp", "shard", "replicate"), [(2, 2, 2, 3, 2), (1, 1, 1, 4, 2), (2, 1, 3, 1, 4)]
)
def test_copies_of_shards_equal_torch_device_mesh(tp, cp, pp, shard, replicate):
    """HSDP of torchtitan: mesh [pp, dp_replicate, dp_shard, cp, tp]; sharding over dp_shard x cp, copies over dp_replicate."""
    pytest.importorskip("torch.distributed")
    from torch.distributed import get_process_group_ranks
    from torch.distributed.device_mesh import init_device_mesh

    job = JobSpec(
        tp=tp, cp=cp, pp=pp, dp=shard * replicate, dp_replicate=replicate, zero=3, framework="torchtitan"
    )
    names = ("pp", "dp_replicate", "dp_shard", "cp", "tp")

    def check(rank):
        mesh = init_device_mesh("cpu", (pp, replicate, shard, cp, tp), mesh_dim_names=names)
        assert get_process_group_ranks(mesh.get_group("dp_replicate")) in job.groups("dp-cp/replica")
        shards = mesh["dp_shard", "cp"]._flatten("dp_shard_cp")
        assert get_process_group_ranks(shards.get_group()) in job.groups("dp-cp/shard")

    on_fake_ranks(job.ranks, range(0, job.ranks, 5), check)
    for kind in ("dp-cp/shard", "dp-cp/replica", "edp/shard", "edp/replica"):
        assert sorted(itertools.chain.from_iterable(job.groups(kind))) == list(range(job.ranks))


def test_first_and_last_stage_share_an_embedding():
    """Megatron-LM's embedding group: the ends of each pipeline."""
    assert JobSpec(tp=2, pp=4).groups("embedding") == [[0, 6], [1, 7]]
    assert JobSpec(dp=2).groups("embedding") == [[0], [1]]
    for kind in ("dp-cp/half", "embedding/shard", "xp"):
        with pytest.raises(InputError, match="no kind of group"):
            JobSpec(pp=2).groups(kind)


def test_members_by_domain():
    """Groups that lie evenly over domains are domains x members; others are not."""
    assert by_domain(np.arange(16).reshape(1, 16), 8) == (2, 8)
    assert by_domain(np.arange(16).reshape(2, 8), 8) == (1, 8)
    assert by_domain(np.array([[0, 8, 16], [1, 9, 17]]), 8) == (3, 1)
    assert by_domain(np.array([[0, 1, 8]]), 8) is None
    assert by_domain(np.array([[0, 1, 8, 9], [6, 7, 8, 16]]), 8) is None
    assert by_domain(np.array([[6, 7, 8, 9], [7, 8, 9, 10]]), 8) is None

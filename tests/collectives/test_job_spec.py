"""`job.toml`: what it accepts, how it refuses, and which ranks form which groups."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.job import KINDS, JobSpec, load_job, make_job
from nettune.errors import InputError

ORDERS = ["-".join(order) for order in itertools.permutations(KINDS)]


def written(tmp_path, text):
    path = tmp_path / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_to_spec(tmp_path):
    """Sizes are binary text, and `ranks` stands in place of dp."""
    path = written(
        tmp_path, 'name = "gpt"\nranks = 16\npp = 4\norder = "tp-pp-dp"\ndp_bytes = "4M"\npp_bytes = "64K"\n'
    )
    job = load_job(path)
    assert job == JobSpec(name="gpt", pp=4, dp=4, order="tp-pp-dp", dp_bytes=4 << 20, pp_bytes=64 << 10)
    assert make_job(job.to_json()) == job


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp = 2\ndpp = 4\n", "job.toml:2: unknown key 'dpp'; known keys: name, ranks, tp"),
        ("tp = 0\n", "job.toml:1: tp: "),
        ('\ntp = "2"\n', "job.toml:2: tp: "),
        ('dp_bytes = "4X"\n', "job.toml:1: job: dp_bytes: '4X' has no known unit"),
        ("dp_bytes = -4\n", "job.toml:1: job: dp_bytes is negative"),
        ('order = "tp-dp"\n', "job.toml:1: job: order 'tp-dp' must hold each of tp, dp, pp once"),
        ("ranks = 9\npp = 2\n", "job.toml:1: job: ranks = 9 does not fit tp x pp = 2"),
        ("ranks = 8\npp = 2\ndp = 2\n", "job.toml:1: job: ranks = 8 does not fit tp x pp x dp = 4"),
        ('backend = "smoke"\n', "job.toml:1: job: backend 'smoke'"),
        ("tp = 2\npp = [\n", "job.toml:"),
        ("dp = 2000000\n", "more than 1048576"),
    ],
)
def test_bad_files_are_one_line(tmp_path, text, message):
    """`FILE:LINE: what is wrong`, on the line where it is."""
    with pytest.raises(InputError) as caught:
        load_job(written(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_file_is_named(tmp_path):
    """A file that cannot be read is an InputError with its name."""
    with pytest.raises(InputError, match=r"nowhere.toml: cannot be read"):
        load_job(tmp_path / "nowhere.toml")


def test_leftmost_of_the_order_varies_fastest():
    """Groups by hand for tp 2, dp 2, pp 2, as Megatron-LM makes them."""
    job = JobSpec(tp=2, dp=2, pp=2, order="tp-dp-pp")
    assert job.groups("tp") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert job.groups("dp") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert job.groups("pp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert JobSpec(pp=4, dp=2, order="tp-pp-dp").groups("dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    with pytest.raises(InputError, match="no kind"):
        job.groups("ep")


@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)), order=st.sampled_from(ORDERS)
)
def test_groups_divide_the_ranks(sizes, order):
    """Groups of a kind hold every rank once, and two ranks share at most one kind of group."""
    job = JobSpec(tp=sizes[0], pp=sizes[1], dp=sizes[2], order=order)
    for kind in KINDS:
        groups = job.groups(kind)
        assert sorted(itertools.chain.from_iterable(groups)) == list(range(job.ranks))
        assert all(group == sorted(group) and len(group) == job.size(kind) for group in groups)
    pairs = [
        {pair for group in job.groups(kind) for pair in itertools.combinations(group, 2)} for kind in KINDS
    ]
    assert not any(a & b for a, b in itertools.combinations(pairs, 2))


@pytest.mark.parametrize(
    ("tp", "pp", "dp", "order"), [(2, 3, 4, "tp-dp-pp"), (2, 2, 2, "tp-pp-dp"), (1, 4, 2, "pp-dp-tp")]
)
def test_groups_equal_torch_device_mesh(tp, pp, dp, order):
    """Every rank's groups are those of torch's DeviceMesh over the same sizes, slowest dimension first."""
    dist = pytest.importorskip("torch.distributed")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    job = JobSpec(tp=tp, pp=pp, dp=dp, order=order)
    names = tuple(order.split("-")[::-1])
    for rank in range(0, job.ranks, 5):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=job.ranks)
        try:
            mesh = init_device_mesh("cpu", tuple(job.size(name) for name in names), mesh_dim_names=names)
            for kind in KINDS:
                members = dist.get_process_group_ranks(mesh.get_group(kind))
                assert members in job.groups(kind)
                assert rank in members
        finally:
            dist.destroy_process_group()

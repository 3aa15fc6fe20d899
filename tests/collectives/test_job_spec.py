"""`job.toml`: what it accepts, how it refuses, and which ranks form which groups."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.job import JobSpec, load_job, make_job
from nettune.errors import InputError

AXES = ("tp", "dp", "pp")
ORDERS = ["-".join(order) for order in itertools.permutations(AXES)]


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
        ('order = "tp-xp"\n', "job.toml:1: job: order 'tp-xp' must hold each of tp, cp, ep, dp, pp once"),
        ('order = "tp-dp"\npp = 2\n', "job.toml:1: job: order 'tp-dp' leaves out pp, whose size is 2"),
        ("ranks = 9\npp = 2\n", "job.toml:1: job: ranks = 9 does not fit tp x cp x pp = 2"),
        ("ranks = 8\npp = 2\ndp = 2\n", "job.toml:1: job: ranks = 8 does not fit tp x cp x pp x dp = 4"),
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


def test_every_key_of_the_file(tmp_path):
    """Sizes, framework, model, tables by kind and skew; the table that is written is read as the same job."""
    text = """
name = "moe"
framework = "torchtitan"
tp = 2
cp = 2
ep = 4
etp = 2
pp = 2
ranks = 64
sequence_parallel = true
virtual_stages = 2
zero = 1
domain = 8
pxn = true
backend = "nccl"
overlap = ["dp"]
expert_tokens = [4, 2, 1, 1]
[model]
layers = 8
hidden = 512
heads = 8
kv_heads = 2
seq = 1024
gated = true
global_batch = 16
experts = 4
top_k = 2
[algorithm]
dp = "ring"
cp = "all_to_all"
[channels]
dp = 4
[connections]
ep = 2
[compute_us]
dp = 100.5
"""
    job = load_job(written(tmp_path, text))
    assert (job.dp, job.batches, job.expert_tp, job.ranks) == (8, 2, 2, 64)
    assert job.algorithm_of("cp") == "all_to_all"
    assert job.algorithm_of("edp") == "ring"
    assert job.compute_us == {"dp": 100.5}
    assert make_job(json.loads(json.dumps(job.to_json()))) == job


MODEL = "[model]\nlayers = 4\nhidden = 64\nheads = 4\nseq = 8\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MODEL + "depth = 3\n", "job.toml:6: [model] unknown key 'depth'; known keys: layers, hidden"),
        ("[model]\nlayers = 4\n", "job.toml:1: [model] hidden: field required"),
        (MODEL + "layer = 2\n[channels]\ndp = 2\n", "job.toml:6: [model] unknown key 'layer'"),
        ("dp = 2\n[channels]\ndp = 0\n", "job.toml:3: job: channels of dp must be at least 1"),
        (
            "[channels]\nxp = 2\n",
            "job.toml:2: [channels] unknown key 'xp'; known keys: tp, cp, ep, pp, dp, edp",
        ),
        ('zero = 1\n[algorithm]\ndp = "double_tree"\n', "job.toml:3: job: algorithm of dp is one of ring"),
        ('[algorithm]\ntp = "smoke"\n', "job.toml:2: job: algorithm of tp is one of ring, double_tree"),
        ("[compute_us]\ndp = -1\n", "job.toml:2: job: compute_us of dp must be at least 0"),
        ("channels = 3\n", "job.toml:1: channels must be a table"),
        ("pp = 3\n" + MODEL, "job.toml:3: job: model layers = 4 does not fill pp x virtual_stages = 3"),
        (
            MODEL + "global_batch = 3\nmicro_batch = 2\n",
            "job.toml:6: job: model global_batch = 3 is no multiple",
        ),
        ("dp_bytes = 4\n" + MODEL, "job.toml:1: job: dp_bytes and [model] are both given"),
        ('overlap = ["xp"]\n', "job.toml:1: job: overlap of 'xp'"),
        ("zero = 4\n", "job.toml:1: job: zero 4 is not known"),
        ("virtual_stages = 2\n", "job.toml:1: job: virtual_stages = 2 needs pp"),
        ("ep = 2\ndp = 2\nexpert_tokens = [1, 2, 3]\n", "job.toml:3: job: expert_tokens needs a count"),
        ("ep = 2\n", "job.toml:1: job: etp x ep x pp = 2 does not divide the 1 ranks"),
    ],
)
def test_bad_values_name_their_line(tmp_path, text, message):
    """The line of the key, in the table where it stands."""
    with pytest.raises(InputError) as caught:
        load_job(written(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_leftmost_of_the_order_varies_fastest():
    """Groups by hand for tp 2, dp 2, pp 2, as Megatron-LM makes them."""
    job = JobSpec(tp=2, dp=2, pp=2, order="tp-dp-pp")
    assert job.groups("tp") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert job.groups("dp") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert job.groups("pp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert JobSpec(pp=4, dp=2, order="tp-pp-dp").groups("dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    with pytest.raises(InputError, match="no kind"):
        job.groups("xp")


@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)), order=st.sampled_from(ORDERS)
)
def test_groups_divide_the_ranks(sizes, order):
    """Groups of a kind hold every rank once, and two ranks share at most one kind of group."""
    job = JobSpec(tp=sizes[0], pp=sizes[1], dp=sizes[2], order=order)
    for kind in AXES:
        groups = job.groups(kind)
        assert sorted(itertools.chain.from_iterable(groups)) == list(range(job.ranks))
        assert all(group == sorted(group) and len(group) == job.size(kind) for group in groups)
    pairs = [
        {pair for group in job.groups(kind) for pair in itertools.combinations(group, 2)} for kind in AXES
    ]
    assert not any(a & b for a, b in itertools.combinations(pairs, 2))

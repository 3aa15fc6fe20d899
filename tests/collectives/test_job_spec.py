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


MODEL = "[model]\nlayers = 4\nhidden = 64\nheads = 4\nseq = 8\n"


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
        ("tp = 0\n", "job.toml:1: tp: must be at least 1, not 0"),
        ('\ntp = "2"\n', "job.toml:2: tp: must be a whole number, not '2'"),
        ('dp_bytes = "4X"\n', "job.toml:1: job: dp_bytes: '4X' has no known unit"),
        ("dp_bytes = -4\n", "job.toml:1: job: dp_bytes is negative"),
        ('order = "tp-xp"\n', "job.toml:1: job: order 'tp-xp' must be names out of tp, cp"),
        ('order = "tp-dp"\npp = 2\n', "job.toml:1: job: order 'tp-dp' leaves out pp, whose size is 2"),
        ("ranks = 9\npp = 2\n", "job.toml:1: job: ranks = 9 does not fit tp x cp x pp = 2"),
        ("ranks = 8\npp = 2\ndp = 2\n", "job.toml:1: job: ranks = 8 does not fit tp x cp x pp x dp = 4"),
        ('backend = "smoke"\n', "job.toml:1: job: backend 'smoke'"),
        ("tp = 2\npp = [\n", "job.toml:"),
        ("dp = 2000000\n", "job.toml:1: job: tp x cp x pp x dp = 2000000 ranks are more than 1048576"),
        (
            "dp = 2048\ntp = 1024\n",
            "job.toml:2: job: tp x cp x pp x dp = 2097152 ranks are more than 1048576",
        ),
        ("dp = 2.0\n", "job.toml:1: dp: must be a whole number, not 2.0"),
        ("dp = " + "9" * 400 + "\n", "job.toml:1: dp: is a whole number of more than 63 bits"),
        (
            "dp_bytes = 1.5\n",
            'job.toml:1: dp_bytes: must be a size like "4M", or a whole number of bytes, not 1.5',
        ),
        (
            "dp_bytes = true\n",
            'job.toml:1: dp_bytes: must be a size like "4M", or a whole number of bytes, not True',
        ),
        (
            'dp_bytes = "' + "9" * 400 + '"\n',
            "job.toml:1: job: dp_bytes: '9999999999999999999999999999999999999999'...",
        ),
        ('dp_bytes = "9999999999T"\n', "job.toml:1: job: dp_bytes must be a whole number from 0 to 2^60"),
        ('pxn = "yes"\n', "job.toml:1: pxn: must be true or false, not 'yes'"),
        ('overlap = "dp"\n', "job.toml:1: overlap: must be a list of words"),
        ("name = 3\n", "job.toml:1: name: must be words in quotes"),
        ('name = ""\n', "job.toml:1: job: name must be 1 to 100 printable characters"),
        ('name = "' + "x" * 101 + '"\n', "job.toml:1: job: name must be 1 to 100 printable characters"),
        ('name = "a\\nb"\n', "job.toml:1: job: name must be 1 to 100 printable characters"),
        ("domain = 9999999999\n", "job.toml:1: job: domain = 9999999999 is more than 1048576"),
        (
            "virtual_stages = 1000000000\npp = 2\n",
            "job.toml:1: job: virtual_stages = 1000000000 is more than 4096",
        ),
        ("ep = 2\ndp = 2\nexpert_tokens = [inf, 1]\n", "job.toml:3: job: expert_tokens needs a count"),
        ("ep = 2\ndp = 2\nexpert_tokens = [1, nan]\n", "job.toml:3: job: expert_tokens needs a count"),
        ("ep = 2\ndp = 2\nexpert_tokens = [1e308, 1e308]\n", "job.toml:3: job: expert_tokens needs a count"),
        ("dp_replicate = 2\ndp = 4\n", "job.toml:1: job: dp_replicate = 2 needs zero of 1 to 3"),
        ("dp_replicate = 3\ndp = 4\nzero = 1\n", "job.toml:1: job: dp_replicate = 3 does not divide dp = 4"),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MODEL + "depth = 3\n", "job.toml:6: [model] unknown key 'depth'; known keys: layers, hidden"),
        ("[model]\nlayers = 4\n", "job.toml:1: [model] hidden: is missing"),
        (MODEL + "gated = 1\n", "job.toml:6: [model] gated: must be true or false, not 1"),
        (
            MODEL.replace("= 4\nhidden", "= 1000000000\nhidden"),
            "job.toml:2: job: model layers = 1000000000 is more than",
        ),
        (MODEL + f"vocab = {2**62}\n", "job.toml:6: job: model vocab = 4611686018427387904 is more than"),
        (MODEL + "kv_heads = 3\n", "job.toml:6: job: model kv_heads = 3 does not divide heads = 4"),
        ("tp = 8\n" + MODEL, "job.toml:5: job: model heads = 4 is no multiple of tp = 8"),
        ("cp = 3\n" + MODEL, "job.toml:6: job: model seq = 8 is no multiple of cp = 3"),
        ("ep = 2\ndp = 2\n" + MODEL, "job: ep = 2 and expert_tokens are for experts"),
        ("micro_batches = 4\n" + MODEL, "job.toml:1: job: micro_batches and [model] are both given"),
        (MODEL + "layer = 2\n[channels]\ndp = 2\n", "job.toml:6: [model] unknown key 'layer'"),
        ("dp = 2\n[channels]\ndp = 0\n", "job.toml:3: job: channels of dp must be 1 to 64, not 0"),
        (
            "[channels]\nxp = 2\n",
            "job.toml:2: [channels] unknown key 'xp'; known keys: tp, cp, ep, pp, dp, edp",
        ),
        ('zero = 1\n[algorithm]\ndp = "double_tree"\n', "job.toml:3: job: algorithm of dp is one of ring"),
        ('[algorithm]\ntp = "smoke"\n', "job.toml:2: job: algorithm of tp is one of ring, double_tree"),
        ("[compute_us]\ndp = -1\n", "job.toml:2: job: compute_us of dp must be 0 to 1e+15, not -1"),
        ("[compute_us]\ndp = nan\n", "job.toml:2: job: compute_us of dp must be 0 to 1e+15, not nan"),
        ("[compute_us]\ndp = true\n", "job.toml:2: [compute_us] dp: must be a number, not True"),
        ("[channels]\ndp = 1000000000\n", "job.toml:2: job: channels of dp must be 1 to 64"),
        ("[connections]\ndp = 1000000000\n", "job.toml:2: job: connections of dp must be 1 to 128"),
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dp = 4\n", "4 ranks send nothing (no bytes are given)"),
        ("", "1 ranks send nothing (no bytes are given)"),
        ('dp = 4\ndp_bytes = "0"\n', "4 ranks send nothing (no bytes are given)"),
        ('dp = 4\ntp_bytes = "1M"\n', "4 ranks send nothing (tp_bytes: each group has one rank)"),
        (MODEL, "1 ranks send nothing"),
    ],
)
def test_a_job_that_sends_nothing_is_no_job(tmp_path, text, why):
    """Its cost is 0 wherever its ranks are, so that placing it would look like a result."""
    with pytest.raises(InputError) as caught:
        load_job(written(tmp_path, text))
    assert why in str(caught.value)
    assert 'give dp_bytes = "4M"' in str(caught.value)


def test_a_domain_that_holds_every_group_leaves_nothing_to_place(tmp_path):
    """The line of `domain` is named; a job with one group beyond its domain is a job."""
    text = 'tp = 8\ndp = 2\ndomain = {}\ntp_bytes = "4M"\n'
    with pytest.raises(
        InputError, match=r"job.toml:3: job: nothing crosses the network: domain = 8 holds every"
    ):
        load_job(written(tmp_path, text.format(8)))
    assert load_job(written(tmp_path, text.format(4))).domain == 4
    assert load_job(written(tmp_path, text.format(8) + 'dp_bytes = "1M"\n')).domain == 8


def test_what_has_one_rank_may_be_left_out_of_the_order():
    """As in Megatron-LM, and nothing else may."""
    assert JobSpec(pp=2, dp=4, order="pp-dp").groups("pp") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert JobSpec(pp=2, dp=4, order="PP-DP").groups("dp") == [[0, 2, 4, 6], [1, 3, 5, 7]]
    with pytest.raises(InputError, match="leaves out tp"):
        JobSpec(tp=2, pp=2, dp=4, order="pp-dp")


@pytest.mark.parametrize(
    "wrong",
    [{"dp": "4"}, {"dp": 4.0}, {"dp_bytes": 1.5}, {"dp_bytes": 2**61}, {"domain": 0}, {"name": "a\n"}],
)
def test_wrong_types_are_refused_without_a_file(wrong):
    """A job that is made by a program is held to the same rules."""
    with pytest.raises(InputError, match="job: "):
        JobSpec(**wrong)


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

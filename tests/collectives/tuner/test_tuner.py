"""Measurements under several settings of NCCL become files for NCCL: right, complete, and nothing that was not measured."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.nccl.environment import Form, read_text
from collectives.nccl.job import Job
from collectives.nccl.lint_env import lint_environment
from collectives.nccl.parsing import read_selection
from collectives.nccl.tables.algorithms import ALGORITHMS
from collectives.nccl.variables import NEWEST, parse_version
from collectives.nccl_tests.jsonform import parse_json
from collectives.nccl_tests.text import parse_text
from collectives.tuner import plugin_csv
from collectives.tuner.choose import WHOLE, choose
from collectives.tuner.files import tuner_files
from collectives.tuner.measured import Measured, Setting, measured_of, possible, read_setting
from nettune.checks import Status
from nettune.errors import InputError

RING, TREE = Setting("Ring", "Simple", 16), Setting("Tree", "LL", 8)
SIZES = [1 << power for power in range(10, 28, 2)]


def series(setting, alpha_us, gbytes_per_s, op="all_reduce", ranks=16, nodes=2, noise=(1.0,)):
    return [
        Measured(
            op,
            ranks,
            nodes,
            size,
            setting,
            tuple(one * (alpha_us + size / gbytes_per_s / 1e3) for one in noise),
        )
        for size in SIZES
    ]


def crossing(**more):
    return [*series(RING, 40, 40, **more), *series(TREE, 10, 20, **more)]


def test_the_border_is_between_the_sizes_that_differ():
    """Tree for small, Ring for large; ranges touch, begin at 0 and end at the largest size there is."""
    choices = choose(crossing())

    # 40 + s/40000 = 10 + s/20000 at 1.2 MB
    assert [choice.setting for choice in choices] == [TREE, RING]
    assert choices[0].first_bytes == 0
    assert 1 << 20 <= choices[0].last_bytes < 1 << 22
    assert choices[1].first_bytes == choices[0].last_bytes + 1
    assert choices[1].last_bytes == WHOLE
    assert choices[1].slower[0][0] == TREE


def test_noise_does_not_switch():
    """A setting that is faster by 3% once, or whose interval of initialisations reaches 1, does not take over."""
    near = [*series(RING, 20, 40), *series(TREE, 20.2, 40.9)]
    assert len(choose(near)) == 1
    draw = random.Random(1)
    noisy = [*series(RING, 20, 40, noise=[draw.uniform(0.8, 1.2) for _ in range(5)]),
             *series(TREE, 21, 38, noise=[draw.uniform(0.8, 1.2) for _ in range(5)])]  # fmt: skip
    assert len(choose(noisy)) <= 2
    steady = [
        *series(RING, 20, 40, noise=(1, 1.001, 0.999)),
        *series(TREE, 10, 39, noise=(1, 1.001, 0.999)),
    ]
    assert [one.setting for one in choose(steady)] == [TREE, RING]


def test_one_setting_is_no_choice():
    """Nothing to compare with: refused; sizes of one setting only are left out."""
    with pytest.raises(InputError, match="under two settings"):
        choose(series(RING, 20, 40))
    with pytest.raises(InputError, match="under two settings"):
        choose([*series(RING, 20, 40, ranks=8), *series(TREE, 20, 40, ranks=16)])


def test_files_say_what_was_chosen_at_every_size():
    """The table, read as the plugin reads it, gives the choice at every size of every group, with its channels."""
    choices = choose([*crossing(), *series(RING, 9, 30, op="all_gather"),
                      *series(Setting("PAT", "Simple", 4), 5, 10, op="all_gather"), *crossing(ranks=32, nodes=4)])  # fmt: skip
    files, refused = tuner_files(choices)
    rows = plugin_csv.read_rows(files["nccl_tuner.conf"])

    assert set(refused) == {"nccl.conf"}
    assert "NCCL_ALGO=allgather:pat up to" in refused["nccl.conf"]
    for choice in choices:
        for size in (choice.first_bytes, choice.last_bytes, *choice.measured_bytes):
            asked = plugin_csv.applied(
                rows, plugin_csv.COLLECTIVES[choice.op], size, choice.nodes, choice.ranks
            )
            setting = choice.setting
            assert asked == (
                plugin_csv.ALGORITHMS[setting.algorithm],
                plugin_csv.PROTOCOLS[setting.protocol],
                setting.channels,
            )
    assert plugin_csv.applied(rows, "broadcast", 8, 2, 16) is None
    assert "broadcast reduce" in files["nccl_tuner.conf"]
    assert all(len(line) <= plugin_csv.LONGEST_LINE for line in files["nccl_tuner.conf"].splitlines())
    assert all(row.channels >= 1 for row in rows)


def test_nothing_is_invented():
    """Without channels, or without protocol, there is no table: the plugin would take 1, and simple."""
    for setting, lacks in ((Setting("Ring", "Simple"), "channels"), (Setting("Ring", "", 16), "protocol")):
        files, refused = tuner_files(choose([*series(setting, 20, 40), *series(TREE, 30, 20)]))
        assert set(files) == {"nccl.conf"}
        assert f"the {lacks} of" in refused["nccl_tuner.conf"]


@pytest.mark.parametrize("version", ["2.19", "2.24", "2.30"])
def test_nccl_conf_is_what_nccl_takes(version):
    """Its NCCL_ALGO follows the grammar of the version, and our own lint finds no mistake in the file."""
    known = parse_version(version)
    files, _ = tuner_files(choose([*series(RING, 20, 40), *series(TREE, 40, 20)]), known)
    environment = read_text("nccl.conf", files["nccl.conf"], Form.CONF)

    value = environment.in_force["NCCL_ALGO"].value
    assert value == ("Ring" if version == "2.19" else "allreduce:ring")
    assert not read_selection(value, ALGORITHMS).unknown
    assert not [
        one for one in lint_environment(Job(environment, known, None, None)) if one.status is Status.FAIL
    ]


def test_what_a_version_cannot_say():
    """Before 2.24 there is one NCCL_ALGO for all operations."""
    two = choose([*series(RING, 20, 40), *series(TREE, 40, 20), *series(Setting("PAT", "Simple", 4), 5, 40, op="all_gather"),
                  *series(RING, 20, 20, op="all_gather")])  # fmt: skip

    assert "one NCCL_ALGO for all operations" in tuner_files(two, parse_version("2.22"))[1]["nccl.conf"]
    assert "NCCL_ALGO=allgather:pat;allreduce:ring" in tuner_files(two, NEWEST)[0]["nccl.conf"]


def test_a_size_chooses_among_the_ranges():
    """With the job's message size, nccl.conf has the algorithm of its range; LL128 is never forced."""
    choices = choose(crossing())
    assert (
        "NCCL_ALGO=allreduce:tree\nNCCL_PROTO=allreduce:ll\n"
        in tuner_files(choices, size_bytes=4096)[0]["nccl.conf"]
    )
    assert "NCCL_ALGO=allreduce:ring" in tuner_files(choices, size_bytes=1 << 30)[0]["nccl.conf"]
    fast = choose([*series(Setting("Ring", "LL128", 8), 5, 50), *series(TREE, 20, 20)])
    assert "NCCL_PROTO" not in tuner_files(fast)[0]["nccl.conf"]


@pytest.mark.parametrize(
    ("line", "applied"),
    [
        ("allreduce,0,100,ring,simple,8,-1,-1", ("ring", "simple", 8)),
        ("allreduce, 0 ,\t100, ring , simple, 8 ,-1,-1,-1,-1", ("ring", "simple", 8)),
        (
            "allreduce,0,100,tree,simple,-1,-1,-1",
            ("tree", "simple", 1),
        ),  # -1 leaves the 1 that the plugin set
        (
            "allreduce,0,100,Tree,LL,4,-1,-1",
            ("ring", "simple", 4),
        ),  # names are compared exactly, others are defaults
        ("all_reduce,0,100,tree,ll,4,-1,-1", ("tree", "ll", 4)),  # an unknown collective is allreduce
        ("allreduce,0,100,ring,simple,8,-1", None),  # too few fields
        ("allreduce,0,,100,ring,simple,8,-1,-1", ("ring", "simple", 8)),  # strtok drops an empty field
        ("#allreduce,0,100,ring,simple,8,-1,-1", None),
        (" #allreduce,0,100,ring,simple,8,-1,-1", ("ring", "simple", 8)),
        ("allreduce,0,100,ring,simple,x,-1,-1", ("ring", "simple", 0)),
        ("allreduce,0,100,ring,simple,8,4,-1", None),  # other nodes
        ("allreduce,60,100,ring,simple,8,-1,-1", None),
    ],
)
def test_the_reader_restates_the_plugin(line, applied):
    """Silent defaults, dropped fields, comments, wildcards: as plugins/tuner/example/plugin.c of 2.30.7 has them."""
    assert plugin_csv.applied(plugin_csv.read_rows(line + "\n"), "allreduce", 50, 2, 16) == applied


def test_the_first_row_decides_and_lines_are_cut():
    """Order counts; a line of more than 255 characters comes in pieces, and the rest is taken for a line."""
    both = "allreduce,0,100,tree,ll,4,-1,-1\nallreduce,0,100,ring,simple,8,-1,-1\n"
    assert plugin_csv.applied(plugin_csv.read_rows(both), "allreduce", 5, 1, 1) == ("tree", "ll", 4)
    long = "# " + "x" * 253 + "allreduce,0,100,tree,ll,4,-1,-1\n"
    assert len(plugin_csv.read_rows(long)) == 1


@given(st.text(max_size=400))
def test_any_text_is_a_table(text):
    """The plugin refuses nothing, and neither does its reader."""
    plugin_csv.read_rows(text)


CHANNELS = "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer"
HEAD = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
DEVICES = "".join(
    f"#  Rank  {rank} Group  0 Pid 1 on g1 device  {rank} [0000:1b:00] GPU\n" for rank in range(8)
)
ROW = "        1024           256     float     sum      -1    20.00    0.05    0.09      0    20.00    0.05    0.09      0\n"
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.0896\n"


def run_with(log="", op="all_reduce"):
    lines = "".join(f"g1:1:1 [0] NCCL INFO {line}\n" for line in log.splitlines())
    return parse_text(f"$ {op}_perf\n{HEAD}{DEVICES}{lines}{ROW}{FOOT}".splitlines())[0]


@pytest.mark.parametrize(
    ("log", "setting"),
    [
        ("NCCL_ALGO set by environment to Ring", Setting("Ring")),
        (f"NCCL_ALGO set by environment to ring\nNCCL_PROTO set by environment to simple\n{CHANNELS}", Setting("Ring", "Simple", 16)),
        ("NCCL_ALGO set by environment to allreduce:tree;broadcast:ring", Setting("Tree")),
        ("NCCL_ALGO set by environment to ^ring,collnetdirect,collnetchain,nvls,nvlstree,pat", Setting("Tree")),
        (f"NCCL_ALGO set by environment to NVLS\n{CHANNELS}", Setting("NVLS")),  # which has channels of its own
        ("AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}", Setting("Tree", "LL", 4)),
        ("NCCL_ALGO set by environment to Ring\nAllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}", Setting("Tree", "LL", 4)),
    ],
)  # fmt: skip
def test_settings_that_an_output_tells(log, setting):
    """NCCL's own choice by size before the variables; what a list leaves open is not told."""
    assert measured_of(run_with(log), "x")[0].setting == setting


def test_settings_that_no_output_tells():
    """Refused by name; the caller may say it, and then it is what he says."""
    for log in ("", "NCCL_ALGO set by environment to ring,tree"):
        with pytest.raises(InputError, match=r"^x: does not tell"):
            measured_of(run_with(log), "x")
    assert measured_of(run_with(), "x", RING)[0] == Measured("all_reduce", 8, 1, 1024, RING, (20.0,))
    data = {"version": 3, "args": ["all_reduce_perf"], "env": ["NCCL_ALGO=Tree", "NCCL_MIN_CTAS=8", "NCCL_MAX_CTAS=8"],
            "config": {"nthreads": 1, "ngpus": 8, "devices": [{"rank": 0, "pid": 1, "device": 0, "hostname": "g1"}]},
            "results": [{"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "-1",
                         "out_of_place": {"time": 20.0, "alg_bw": 0.05, "bus_bw": 0.09, "nwrong": 0.0},
                         "in_place": {"time": 20.0, "alg_bw": 0.05, "bus_bw": 0.09, "nwrong": 0.0}}]}  # fmt: skip
    assert measured_of(parse_json(json.dumps(data)), "x")[0].setting == Setting("Tree", "", 8)


def test_what_nccl_cannot_do_is_refused():
    """Combinations that NCCL marks IGNORE have silently no effect."""
    for op, words in (
        ("reduce_scatter", "tree"),
        ("broadcast", "tree"),
        ("all_reduce", "pat"),
        ("all_reduce", "nvls/ll"),
        ("alltoall", "ring"),
    ):
        assert possible(op, read_setting(words))
    for op, words in (
        ("reduce_scatter", "pat"),
        ("broadcast", "ring/ll128"),
        ("all_reduce", "nvls_tree/simple"),
        ("all_gather", "NVLS"),
    ):
        assert not possible(op, read_setting(words))
    with pytest.raises(InputError, match="no choice of algorithms for alltoall"):
        measured_of(run_with(op="alltoall"), "x", RING)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "rung",
        "ring/",
        "ring/simple/0",
        "ring/simple/65",
        "ring/simple/x",
        "ring/simple/8/9",
        "ring/fast",
        "ring/simple/\uff18",
    ],
)
def test_settings_that_are_none(words):
    """One line that says what is known."""
    if words == "ring/":
        assert read_setting(words) == Setting("Ring")
        return
    with pytest.raises(InputError, match="setting"):
        read_setting(words)

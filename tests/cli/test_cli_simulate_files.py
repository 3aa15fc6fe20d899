"""`nettune simulate --topo --flows`: figures, the short way round the command line, the same bytes again, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nettune.cli.main import run as run_words
from nettune.cli.quick import arguments, ran

TOPO = "# hosts 4 switches 3\na,b,gbps,delay_ns\n" + "".join(
    f"{a},{b},100,1000\n" for a, b in [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]
)
FLOWS = "src,dst,bytes,start_s\n0,2,3000000,0\n1,2,3000000,0\n3,1,500000,0.0001\n"
PATHS = "src,dst,data_path_switches,ack_path_switches\n0,2,4-6-5,5-6-4\n1,2,4-6-5,5-6-4\n3,1,5-6-4,4-6-5\n"
CONFIG = "CC_MODE 1\nKMIN_MAP 1 100000000000 50\nKMAX_MAP 1 100000000000 200\nPMAX_MAP 1 100000000000 0.2\nBUFFER_SIZE 4\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Paths of a whole set of files."""
    texts = {"topo": TOPO, "flows": FLOWS, "paths": PATHS, "hpcc-config": CONFIG}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def words(files: dict[str, str], *more: str) -> list[str]:
    """A command line with all files."""
    return ["simulate", *(word for name, file in files.items() for word in (f"--{name}", file)), *more]


def test_the_figures(files, capsys):
    """One JSON object with the promised keys; seeds differ and their mean is reported with its spread."""
    assert run_words(words(files, "--seeds", "3", "--output", "json")) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["schema"] == "nettune.simulate/1"
    assert (found["flows"], found["seeds"]) == (3, 3)
    assert found["packet_hops"] == 3 * (3000 + 3000 + 500)
    for key in ("mean", "p50", "p99", "max"):
        spread = found["fct_us_spread"][key]
        assert spread["min"] <= found["fct_us"][key] <= spread["max"]
    assert found["fct_us_spread"]["mean"]["min"] < found["fct_us_spread"]["mean"]["max"]
    assert found["ecn_marks"] > 0
    assert {"pfc_pauses", "pfc_paused_us"} <= found.keys()
    assert [run["seed"] for run in found["runs"]] == [1, 2, 3]


def test_both_ways_round_print_the_same(files, capsys):
    """The quick way and the whole command line give the same bytes, as text and as JSON."""
    for output in ("text", "json"):
        line = words(files, "--output", output, "--seeds=2")
        assert run_words(line) == 0
        whole = capsys.readouterr().out
        assert ran(line) == 0
        assert capsys.readouterr().out == whole


def test_quick_way_knows_its_limits(files):
    """What it does not understand is left to the command line."""
    good = words(files)
    assert arguments(good) is not None
    assert arguments([*good, "--whole-ns", "--fct=x"]) is not None
    for bad in (
        ["simulate"],
        ["simulate", "scenario.toml"],
        [*good, "--help"],
        [*good, "--seeds", "x"],
        [*good, "--seeds"],
        [*good, "--output", "yaml"],
        [*good, "--topo", "again"],
        ["simulate", "--topo", files["topo"]],
        ["simulate", "--topo", "--flows", files["flows"]],
    ):
        assert arguments(bad) is None, bad


def test_quick_way_loads_nothing_heavy(files):
    """Neither numpy nor pydantic nor typer: a small fabric is simulated in less time than they take to load."""
    program = "import sys; sys.argv[1:] = sys.argv[2:]; from nettune.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    program += "print(*sorted({n.split('.')[0] for n in sys.modules}), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program, "-", *words(files, "--output", "json")],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert json.loads(done.stdout)["status"] == "PASS"
    assert not loaded & {
        "numpy",
        "scipy",
        "matplotlib",
        "pydantic",
        "torch",
        "typer",
        "rich",
        "numba",
        "difflib",
    }


def test_the_same_seed_gives_the_same_bytes_in_another_process(files, nettune, tmp_path):
    """Printed figures and the times of all flows; another number of runs before it changes nothing."""
    outputs = [
        nettune(*words(files, "--output", "json", "--fct", str(tmp_path / f"fct{i}"))) for i in range(2)
    ]
    assert outputs[0].code == 0, outputs[0].stderr
    assert outputs[0].stdout == outputs[1].stdout
    assert (tmp_path / "fct0").read_bytes() == (tmp_path / "fct1").read_bytes()
    both = nettune(*words(files, "--output", "json", "--seeds", "2"))
    assert both.json["runs"][0] == outputs[0].json["runs"][0]


def test_exact_times_and_whole_nanoseconds(files, capsys):
    """With the configuration times are cut unless --exact; without it they are exact unless --whole-ns."""

    def longest(*more: str, without: str = "") -> float:
        given = {name: file for name, file in files.items() if name != without}
        assert run_words(words(given, "--output", "json", *more)) == 0
        return float(json.loads(capsys.readouterr().out)["fct_us"]["max"])

    assert longest("--whole-ns") == longest()
    assert longest("--exact") != longest()
    bare = longest(without="hpcc-config")
    assert bare == longest("--exact", without="hpcc-config") != longest("--whole-ns", without="hpcc-config")


def test_paths_are_drawn_where_none_are_given(files, capsys):
    """Shortest paths by a hash; the tree has one for each pair, so that nothing changes."""
    assert run_words(words(files)) == 0
    given = capsys.readouterr().out
    del files["paths"]
    assert run_words(words(files)) == 0
    assert capsys.readouterr().out == given


def test_a_deadlock_is_a_failed_verdict(tmp_path, capsys):
    """Exit 1, and the ports that wait for each other are named."""
    cables = [(0, 4), (1, 5), (2, 6), (3, 7), (4, 5), (5, 6), (6, 7), (7, 4)]
    texts = {
        "topo": "# hosts 4 switches 4\na,b,gbps,delay_ns\n"
        + "".join(f"{a},{b},100,1000\n" for a, b in cables),
        "flows": "src,dst,bytes,start_s\n" + "".join(f"{i},{(i + 2) % 4},9000000,0\n" for i in range(4)),
        "paths": "src,dst,data_path_switches,ack_path_switches\n"
        + "".join(
            f"{i},{(i + 2) % 4},{4 + i}-{4 + (i + 1) % 4}-{4 + (i + 2) % 4},{4 + (i + 2) % 4}-{4 + (i + 1) % 4}-{4 + i}\n"
            for i in range(4)
        ),
        "hpcc-config": "ENABLE_QCN 0\nBUFFER_SIZE 0.5\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = {name: str(tmp_path / name) for name in texts}
    assert run_words(words(files, "--output", "json")) == 1

    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "FAIL"
    assert "PFC deadlock" in found["findings"][0]["what"]
    assert "switch4 > switch5 paused behind switch5 > switch6" in found["findings"][0]["what"]
    assert run_words(words(files)) == 1
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topo": TOPO + "0,6,100,1000\n"}, "host host0 has 2 cables"),
        ({"topo": TOPO.replace("0,4,100", "0,4,0")}, "rate must be"),
        ({"topo": "\x00\xff\n"}, "topo:"),
        ({"flows": FLOWS + "0,9,1,0\n"}, "flows:5: a flow to nowhere: 9"),
        ({"paths": PATHS.replace("4-6-5,", "4-6-4-6-5,", 1)}, "paths:2: the route 0 > 4-6-4-6-5 > 2 loops"),
        (
            {"hpcc-config": CONFIG.replace("100000000000 50", "100000000000 500")},
            "kmin_bytes = 500,000 is above",
        ),
        ({"hpcc-config": CONFIG.replace("BUFFER_SIZE 4", "BUFFER_SIZE 0.1")}, "its buffer has 104857"),
        ({"hpcc-config": CONFIG.replace("CC_MODE 1", "CC_MODE 8")}, "hpcc-config:1: CC_MODE 8"),
    ],
)
def test_mistakes_in_files(files, change, said, capsys):
    """One line on stderr, exit 2, by either way round."""
    for name, text in change.items():
        Path(files[name]).write_text(text, encoding="latin-1")
    line = words(files)
    assert ran(line) is None
    assert run_words(line) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_mistakes_in_words(files, tmp_path, capsys):
    """One line on stderr, exit 2."""
    for line, said in (
        (["simulate"], "give a scenario, or --topo and --flows"),
        (["simulate", "--topo", files["topo"]], "give a scenario, or --topo and --flows"),
        (["simulate", "x.toml", "--topo", files["topo"]], "give a scenario, or --topo and --flows"),
        (words(files, "--set", "a=b"), "--set and --compare need a scenario"),
        (words(files, "--seeds", "0"), "--seeds must be 1 to 10000"),
        (words({**files, "topo": str(tmp_path)}), "Is a directory"),
        (words({**files, "topo": str(tmp_path / "gone")}), "No such file"),
        (words({**files, "flows": "/dev/zero"}), "/dev/zero: has more than 512 MiB"),
        (words(files, "--fct", str(tmp_path / "topo" / "where.csv")), "where.csv"),
    ):
        assert run_words(line) == 2, line
        assert said in capsys.readouterr().err

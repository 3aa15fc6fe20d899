"""`nettune place` on the command line: flags, both renderings, and one line for each thing that a user gets wrong."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from topology.builder import FabricBuilder
from topology.fabric import NodeKind

JOB = 'name = "mix"\npp = 2\ndp = {dp}\norder = "tp-pp-dp"\ndp_bytes = "4M"\npp_bytes = "256K"\n'


def fabric_json(pieces=1):
    """2 leaves x 4 hosts and 2 spines; in two pieces the leaves have a spine each."""
    builder = FabricBuilder()

    def cable(a, port_a, b, port_b, speed_gbps):
        for node, port in ((a, port_a), (b, port_b)):
            builder.port(node, port, speed_gbps=speed_gbps)
        builder.link((a, port_a), (b, port_b))

    for host in range(8):
        builder.node(f"h{host}", NodeKind.HOST)
    for leaf in range(2):
        builder.node(f"leaf{leaf}", NodeKind.SWITCH)
        builder.node(f"spine{leaf}", NodeKind.SWITCH)
    for host in range(8):
        cable(f"h{host}", "eth0", f"leaf{host // 4}", f"d{host}", 200.0)
    for leaf, spine in (
        (leaf, spine) for leaf in range(2) for spine in range(2) if pieces == 1 or leaf == spine
    ):
        cable(f"leaf{leaf}", f"u{spine}", f"spine{spine}", f"d{leaf}", 100.0)
    return json.dumps({"fabric": builder.build().to_json(), "routing": None, "link_rate_gbps": 200.0})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with fabrics, jobs and maps."""
    path = tmp_path_factory.mktemp("place")
    hosts = [f"h{host}" for host in range(8)]
    texts = {
        "cables.json": fabric_json(),
        "pieces.json": fabric_json(pieces=2),
        "job.toml": JOB.format(dp=4),
        "job16.toml": JOB.format(dp=8),
        "domain.toml": "domain = 2\n" + JOB.format(dp=4),
        "odd.toml": "ranks = 7\n" + JOB.format(dp=4),
        "hosts.txt": "\n".join(hosts),
        "few.txt": "\n".join(hosts[:3]),
        "many.txt": "\n".join(hosts + hosts),
        "twice.txt": "h0\nh0\nh1\nh2\n",
        "unknown.txt": "h0\ng7\n",
        "empty.json": "{}",
    }
    for name, text in texts.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def place(inside, folder, monkeypatch):
    """Run `nettune place` in that directory, on its fabric where no other is given."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)

    def run(*words):
        given = list(words)
        if not given or not given[0].endswith(".toml"):
            given.insert(0, "job.toml")
        if "--fabric" not in given and "--lab" not in given:
            given += ["--fabric", "cables.json"]
        return inside("place", *given)

    return run


def test_json_holds_the_promised_keys_and_what_was_asked_for(place):
    """The promised keys always; `explain` and `evaluated` only where asked."""
    plain = place("--output", "json").json
    asked = place("--output", "json", "--explain", "2", "--evaluate", "hosts.txt").json

    assert {"cost_us", "bound_us", "gap", "max_link_load_bytes", "orders", "moves", "files"} <= set(plain)
    assert set(asked) - set(plain) == {"explain", "evaluated"}
    assert asked["evaluated"]["map"] == "hosts.txt"
    assert asked["evaluated"]["cost_us"] == pytest.approx(plain["orders"]["depth-first"])


def test_text_tells_price_orders_links_and_the_command_in_80_columns(place):
    """What a person wants first, and lines that can be copied last."""
    done = place("--explain", "3", "--evaluate", "hosts.txt", "--write-files", "launch")
    lines = done.stdout.splitlines()

    assert done.code == 0, done.stderr
    assert max(len(line) for line in lines if not line.startswith(("report ", "run "))) <= 80
    for words in (
        "time of a step",
        "lower bound",
        "Slurm (block)",
        "torchrun (by name)",
        "depth-first",
        "random",
    ):
        assert words in done.stdout
    assert "the map given" in done.stdout
    assert "next best host" in done.stdout
    assert re.search(r"leaf\d:u\d > spine\d:d\d .* pp p2p", done.stdout)
    assert lines[-2].startswith("files   launch (")
    assert lines[-1] == "launch  sh launch/torchrun-ssh.sh train.py ARGS"


def test_the_same_seed_gives_the_same_answer(place):
    """Whatever is random is drawn from --seed."""
    first, again = (place("--seed", "5", "--output", "json").json for _ in range(2))

    assert [first[key] for key in ("orders", "placement")] == [again[key] for key in ("orders", "placement")]


@pytest.mark.parametrize("method", ["exact", "packed", "depth-first"])
def test_another_method_is_marked_as_ours(place, method):
    """--method prices that method, and nettune's beside it."""
    found = place("--method", method, "--output", "json").json

    assert found["method"] == method
    assert found["cost_us"] == found["orders"][method]
    assert found["orders"]["nettune"] <= found["cost_us"] * 1.0001


def test_report_shows_map_histogram_bound_and_orders(place, folder):
    """Three drawings, the table of orders, what is left out; the drawings tell their figures in words."""
    found = place("--output", "json").json
    page = (folder / found["report"]).read_text(encoding="utf-8")
    texts = Words()
    texts.feed(page)

    assert page.count("<svg") == 3
    for words in (
        "Histogram of link loads",
        "Bars of predicted step time",
        "bound",
        "Left out of a prediction",
    ):
        assert words in page
    assert {"nettune", "Slurm (block)", "torchrun (by name)", "depth-first", "random"} <= set(texts.cells)


class Words(HTMLParser):
    """Collects the texts of a page."""

    def __init__(self):
        super().__init__()
        self.cells = []

    def handle_data(self, data):
        self.cells.append(data.strip())


MISTAKES = {
    "does not fit": (["job16.toml"], "16 ranks need 16 hosts, and 8 are left; where ranks share a host, give --ranks-per-host"),
    "sizes do not multiply": (["odd.toml"], "odd.toml:1: job: ranks = 7 does not fit"),
    "domain wider than a host": (["domain.toml", "--ranks-per-host", "1"], "2 hosts in one accelerator domain"),
    "two pieces": (["--fabric", "pieces.json"], "2 pieces without a cable"),
    "everything excluded": (["--exclude", "h[0-7]"], "no host is left"),
    "too many excluded": (["--exclude", "h[0-1]", "--ranks-per-host", "1"], "8 ranks need 8 hosts; 6 are left"),
    "unknown excluded": (["--exclude", "g1"], "the fabric has no node 'g1'"),
    "switch excluded": (["--exclude", "leaf0"], "--exclude: 'leaf0' is a switch"),
    "unknown pin": (["--pin", "0=g1"], "the fabric has no node 'g1'"),
    "pin of a switch": (["--pin", "0=spine0"], "--pin: 'spine0' is a switch"),
    "pin without a host": (["--pin", "0="], "write it like 0=g17"),
    "pin without a rank": (["--pin", "h1"], "write it like 0=g17"),
    "pin of no number": (["--pin", "first=h1"], "write it like 0=g17"),
    "rank pinned twice": (["--pin", "0=h1", "--pin", "0=h2"], "rank 0 is pinned to 'h1' and 'h2'"),
    "host pinned twice": (["--pin", "0=h1", "--pin", "1=h1"], "h1"),
    "pin beyond the job": (["--pin", "8=h1"], "8"),
    "pin of an excluded host": (["--pin", "0=h1", "--exclude", "h1", "--ranks-per-host", "2"], "'h1' is excluded"),
    "no ranks a host": (["--ranks-per-host", "0"], "'--ranks-per-host'"),
    "method": (["--method", "magic"], "--method 'magic' is not known; known: nettune"),
    "map is not there": (["--evaluate", "nowhere"], "nowhere: cannot be read"),
    "map too short": (["--evaluate", "few.txt"], "few.txt: the map has 3 hosts for 8 ranks"),
    "map too long": (["--evaluate", "many.txt"], "many.txt: the map has 16 hosts for 8 ranks"),
    "map names a node twice": (["--evaluate", "twice.txt"], "twice.txt: the map names host 'h0' for two nodes"),
    "map of other hosts": (["--evaluate", "unknown.txt"], "unknown.txt:2: the fabric has no host 'g7'"),
    "map is another file": (["--evaluate", "empty.json"], "empty.json: "),
    "parent is not there": (["--parent", "nowhere.json"], "nowhere.json: cannot be read"),
    "parent is another file": (["--parent", "cables.json"], "cables.json: "),
    "parent by another method": (["--parent", "empty.json", "--method", "exact"], "leave --method exact out"),
    "background is not there": (["--background", "nowhere.json"], "nowhere.json: cannot be read"),
    "background is a folder": (["--background", "."], "result.json: cannot be read"),
    "background job is not there": (["--background", "nowhere.toml=hosts.txt"], "nowhere.toml: cannot be read"),
    "background map too short": (["--background", "job.toml=few.txt"], "few.txt: names 3 hosts for the 8 ranks"),
    "background is another file": (["--background", "cables.json"], "cables.json: "),
    "background takes all": (["--background", "job.toml=hosts.txt"], "no host is left"),
    "rank beyond the job": (["--explain", "8"], "--explain 8: the job has ranks 0 to 7"),
    "rank below 0": (["--explain", "-1"], "'--explain'"),
    "two fabrics": (["--fabric", "cables.json", "--lab", "lab"], "give one of them"),
    "files are not a folder": (["--write-files", "job.toml"], "job.toml"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(place, case):
    """What is wrong and what to do, nothing on stdout."""
    words, said = MISTAKES[case]
    done = place(*words)

    assert (done.code, done.stdout) == (2, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert said in line
    assert "Traceback" not in done.stderr
    assert not [one for one in done.stderr.splitlines()[:-1] if not one.endswith(" ...")]


def test_duplicate_hosts_in_a_fabric_file_are_refused(place, folder):
    """Two nodes of one name cannot be told apart in a map."""
    data = json.loads((folder / "cables.json").read_text(encoding="utf-8"))
    names = data["fabric"]["nodes"]["name"]
    names[names.index("h1")] = "h0"
    (folder / "double.json").write_text(json.dumps(data), encoding="utf-8")

    done = place("--fabric", "double.json")

    assert done.code == 2
    assert done.stderr.splitlines()[-1].startswith("error: double.json: ")
    assert "a node's name appears twice" in done.stderr

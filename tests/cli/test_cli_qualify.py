"""`nettune qualify` on captures: collected, judged live and offline, and what schedulers take of it."""

from __future__ import annotations

import gzip
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nettune.qualify.collecting import Part
from reports import text

_MADE = importlib.util.spec_from_file_location(
    "captures_for_cli", Path(__file__).parent.parent / "qualify" / "checks" / "conftest.py"
)
EXAMPLES = Path(__file__).parent.parent / "topology" / "readers" / "examples"
DOWN = {"/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}


@pytest.fixture(scope="module")
def made():
    """Make sound captures."""
    assert _MADE is not None
    assert _MADE.loader is not None
    module = importlib.util.module_from_spec(_MADE)
    _MADE.loader.exec_module(module)
    return module


@pytest.fixture
def bundle(made, home):
    """Write a bundle of hosts g1, g2, ... in which those whose numbers are given have a port down."""

    def write(name, count, *faulty, silent=(), what="1: DOWN\n"):
        (home / name).unlink(missing_ok=True)
        with Part(home / name, [f"g{n}" for n in range(1, count + 1)]) as part:
            for n in range(1, count + 1):
                files = made.sound_files(n)
                if n in faulty:
                    files |= dict.fromkeys(DOWN, what)
                if n not in silent:
                    part.add(made.make(f"g{n}", files, made.sound_commands(n)))
            part.finish({f"g{n}": "no answer within 60 s" for n in silent})
        return name

    return write


def findings(done):
    """(check, status, element) of what did not pass, and how much passed."""
    return [(one["check"], one["status"], one["where"]) for one in done.json["findings"]], done.json[
        "judged"
    ]["passed"]


def test_live_and_offline_say_the_same(inside, home):
    """This machine, judged at once and from a bundle, gives the same verdicts and exit code."""
    collected = inside("qualify", "collect", "-o", "here.tar", "--output", "json")
    live = inside("qualify", "--live", "--output", "json")
    offline = inside("qualify", "--offline", "here.tar", "--output", "json")

    assert (collected.code, collected.json["captured"], collected.json["failed"]) == (0, 1, {})
    assert live.code == offline.code
    assert findings(live) == findings(offline)
    assert not (home / "here.tar.part").exists()


def test_a_fault_is_named_and_its_host_drained(inside, bundle, home):
    """Exit 1; drain, taint, exclusions, metrics and report of the one host."""
    done = inside("qualify", "--offline", bundle("one.tar", 8, 3), "--write-files", "out", "--output", "json")

    assert done.code == 1
    assert done.json["judged"]["statuses"]["FAIL"] == 1
    assert (home / "out/exclusions.txt").read_text() == "g3\n"
    assert "NodeName=g3 State=DRAIN" in (home / "out/drain.sh").read_text()
    assert 'nettune_host_drain{host="g3"} 1' in (home / "out/nettune.prom").read_text()
    page = Path(
        done.json["report"] if Path(done.json["report"]).is_absolute() else home / done.json["report"]
    )
    assert "host/g3/nic/mlx5_0" in page.read_text()
    again = inside("report", str(page.parent), "--form", "text")
    assert "g3" in again.stdout
    lines = (page.parent / "findings.jsonl").read_text().splitlines()
    assert {json.loads(line)["status"] for line in lines} >= {"PASS", "FAIL"}


def test_place_reads_the_exclusions(inside, bundle, home):
    """The file that qualify wrote is what `place --exclude @FILE` leaves out."""
    inside("qualify", "--offline", bundle("one.tar", 2, 1), "--write-files", "out")
    inside("discover", str(EXAMPLES / "cabling.csv"), "-o", "plan.json")
    done = inside("place", "job2.toml", "--fabric", "plan.json", "--exclude", "@out/exclusions.txt",
                  "--ranks-per-host", "2", "--output", "json")  # fmt: skip

    assert done.code == 0, done.stderr
    assert "g1" not in {row["host"] for row in done.json["placement"]["ranks"]}
    for words, said in ((["@nowhere"], "neither a file nor a group"), (["@out"], "Is a directory")):
        refused = inside("place", "job2.toml", "--fabric", "plan.json", "--exclude", *words)
        assert (refused.code, said in refused.stderr) == (2, True)


def test_too_many_drains_are_withheld(inside, bundle, home):
    """Exit 1; the first line names what they have in common, and no file has an order; --max-drain allows it."""
    name = bundle("many.tar", 8, 1, 2, 3, 4, silent=(8,))
    held = inside("qualify", "--offline", name, "--write-files", "held")
    allowed = inside("qualify", "--offline", name, "--write-files", "allowed", "--max-drain", "60%")

    assert (held.code, allowed.code) == (1, 1)
    assert "no host is drained: 4 of 8 hosts (50%)" in " ".join(held.stdout.split())
    assert (home / "held/exclusions.txt").read_text() == ""
    assert not [x for x in (home / "held/drain.sh").read_text().splitlines() if x.startswith("scontrol")]
    assert (home / "allowed/exclusions.txt").read_text() == "g[1-4]\n"


def test_hosts_that_gave_nothing_are_unknown(inside, bundle):
    """Exit 2 where nothing is at fault; they are counted and named."""
    done = inside("qualify", "--offline", bundle("silent.tar", 6, silent=(2, 5)), "--output", "json")

    assert done.code == 2
    assert done.json["judged"]["statuses"]["UNKNOWN"] >= 2
    assert {"host/g2", "host/g5"} <= {where for check, _, where in findings(done)[0] if check == "collect"}


def test_what_a_host_says_gives_no_orders_to_page_or_terminal(inside, bundle, home):
    """Markup and control characters of a capture are shown as text."""
    name = bundle("evil.tar", 4, 2, what="1: <script>alert(1)</script>\x1b[2J\n")
    done = inside("qualify", "--offline", name, "--output", "json")
    shown = inside("report", str(Path(done.json["report"]).parent), "--form", "text").stdout

    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "<script>alert" not in (home / done.json["report"]).read_text()
    assert max(map(len, shown.splitlines()[:8])) <= text.WIDTH


WORDS = {
    "no such bundle": (["--offline", "nowhere.tar"], "nowhere.tar: cannot be read: No such file"),
    "bundle is a folder": (["--offline", "."], "no regular file"),
    "bundle is a device": (["--offline", "/dev/zero"], "no regular file"),
    "bundle is text": (["--offline", "job4.toml"], "job4.toml: is no bundle"),
    "bundle is compressed": (["--offline", "b.tar.gz"], "compressed as a whole"),
    "two sources": (["--offline", "b.tar", "--live"], "exclude each other"),
    "share is no number": (["--live", "--max-drain", "some"], "--max-drain 'some'"),
    "share is NaN": (["--live", "--max-drain", "nan"], "--max-drain 'nan'"),
    "share above all": (["--live", "--max-drain", "101%"], "--max-drain '101%'"),
    "settings are not there": (["--live", "--settings", "nowhere.toml"], "nowhere.toml: cannot be read"),
    "settings are of another kind": (["--live", "--settings", "job4.toml"], "job4.toml:"),
    "earlier bundle is none": (["--live", "--before", "job4.toml"], "job4.toml: is no bundle"),
    "switch is no JSON": (["--live", "--switch", "job4.toml"], "job4.toml: is no JSON"),
    "fabric is no JSON": (["--live", "--fabric", "job4.toml"], "job4.toml: is no JSON"),
    "no job environment": (["--live", "--job-env", "nowhere.env"], "nowhere.env: cannot be read"),
    "no lab": (["--lab", "nope"], "no lab 'nope' is up"),
    "no host": (["collect", "-o", "x.tar", "--hosts", ","], "names no host"),
    "no hostlist": (["collect", "-o", "x.tar", "--hosts", "g[1-"], "is no hostlist"),
    "hosts of a file that is not there": (
        ["collect", "-o", "x.tar", "--hosts", "@nowhere"],
        "neither a file",
    ),
    "a name of a shell": (["collect", "-o", "x.tar", "--hosts", "-oProxyCommand=x"], "no host name"),
    "outside of a job": (["collect", "-o", "x.tar", "--slurm"], "--slurm outside of a job needs --hosts"),
    "gateways for nobody": (["collect", "-o", "x.tar", "--gateways", "gw1"], "--gateways reaches --hosts"),
    "gateways beside a bundle": (["--offline", "b.tar", "--gateways", "gw1"], "--gateways reaches --hosts"),
    "lab and srun": (["collect", "-o", "x.tar", "--lab", "l", "--slurm"], "--lab and --slurm exclude"),
    "folder of files is a file": (
        ["--live", "--write-files", "job4.toml"],
        "job4.toml: --write-files: is no folder",
    ),
    "no file": (["collect"], "Missing option"),
    "file is a device": (["collect", "-o", "/dev/null"], "no regular file"),
    "file without a name": (["collect", "-o", ""], "needs a file name"),
    "folder is a file": (["collect", "-o", "job4.toml/x.tar"], "cannot write job4.toml/x.tar"),
    "folder cannot be made": (["collect", "-o", "/proc/x/b.tar"], "cannot write /proc/x/b.tar"),
    "no time": (["collect", "-o", "x.tar", "--timeout", "0"], "1"),
    "time is NaN": (["collect", "-o", "x.tar", "--timeout", "nan"], "'--timeout'"),
}


@pytest.mark.parametrize("case", WORDS)
def test_mistakes_are_one_line(inside, home, case, monkeypatch):
    """On stderr, exit 2, nothing on stdout and no file left."""
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    (home / "b.tar.gz").write_bytes(gzip.compress(b"x" * 9999))
    words, said = WORDS[case]
    done = inside("qualify", *words)
    last = done.stderr.splitlines()[-1]

    assert (done.code, done.stdout) == (2, "")
    assert last.startswith("error: ")
    assert said in last
    assert len(done.stderr.splitlines()) == 1 or "..." in done.stderr
    assert not list(home.glob("x.tar*"))


def test_a_rule_that_is_switched_off_and_a_limit_are_obeyed(inside, bundle, home):
    """`--settings` is the operator's word."""
    (home / "rules.toml").write_text('[checks]\nport-state = "off"\n')
    name = bundle("one.tar", 8, 3)
    assert inside("qualify", "--offline", name, "--settings", "rules.toml").code != 1


def test_counters_are_judged_by_growth_since_an_earlier_bundle(inside, made, home):
    """`--before`: what was there already is nobody's fault, what came since is."""
    counter = "/sys/class/infiniband/mlx5_1/ports/1/counters/link_downed"
    for name, value in (("then.tar", "7\n"), ("now.tar", "9\n")):
        (home / name).unlink(missing_ok=True)
        with Part(home / name, ["g1"]) as part:
            files = made.sound_files(1) | {counter: value}
            uptime = {"/proc/uptime": "1000.00 1.0\n" if name == "then.tar" else "2000.00 1.0\n"}
            part.add(replace(made.make("g1", files | uptime, made.sound_commands(1))))
            part.finish({})

    assert inside("qualify", "--offline", "now.tar", "--before", "then.tar").code == 1
    assert inside("qualify", "--offline", "then.tar", "--before", "then.tar").code != 1

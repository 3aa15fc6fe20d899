"""What a user can get wrong: one line on stderr that says what to do, exit 2, nothing on stdout, no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nettune.workflows.demo_setup import FAULTS

pytestmark = pytest.mark.lab

# words -> what the line must say
WORDS = {
    "unknown verb": (["frobnicate"], "No such command 'frobnicate'; see `nettune --help`"),
    "unknown option": (["qualify", "--frob"], "No such option: --frob; see `nettune qualify --help`"),
    "misspelt option": (["qualify", "--laab", "x"], "--lab"),
    "missing argument": (["place"], "Missing argument 'job'; see `nettune place --help`"),
    "missing value": (["qualify", "--lab"], "'--lab' requires an argument"),
    "superfluous argument": (["qualify", "fabric.json"], "unexpected extra argument"),
    "file is not there": (["discover", "nowhere.txt"], "nowhere.txt: cannot be read: No such file"),
    "file of no known format": (["discover", "job4.toml"], "job4.toml: its format is not recognised; name one with --format"),
    "format is not known": (["discover", "job4.toml", "--format", "visio"], "format 'visio' is not known; known: "),
    "plan is not there": (["discover", "--lab", "{lab}", "--expect", "nowhere.csv"], "nowhere.csv: cannot be read"),
    "filter is not known": (["discover", "--lab", "{lab}", "--keep", "printers"], "--keep 'printers' is not known; known: sharp"),
    "export is not known": (["discover", "--lab", "{lab}", "--write", "visio=x"], "format 'visio' is not known; known: "),
    "export without a file": (["discover", "--lab", "{lab}", "--write", "svg"], "write it like svg=fabric.svg"),
    "unknown rendering": (["qualify", "--output", "yaml"], "'yaml' is not one of 'text', 'json'"),
    "no number": (["bench", "--inits", "many"], "'--inits'"),
    "too few initialisations": (["train", "--inits", "0"], "greater than or equal to 1"),
    "too few for an interval": (["sweep", "bucket_cap_mib=1,2", "--inits", "1"], "greater than or equal to 2"),
    "unit of size": (["bench", "--lab", "{lab}", "--size", "4X"], "'4X' has no known unit of size"),
    "negative size": (["bench", "--lab", "{lab}", "--size=-4M"], "-4M"),
    "first above last": (["bench", "--lab", "{lab}", "-b", "4M", "-e", "1K"], "-b 4M is above -e 1K"),
    "factor": (["bench", "--lab", "{lab}", "-f", "1"], "greater than or equal to 2"),
    "no such lab": (["qualify", "--lab", "nope"], "no lab 'nope' is up (up: "),
    "no such lab for place": (["place", "job4.toml", "--lab", "nope"], "no lab 'nope' is up"),
    "unknown fault": (["demo", "--fault", "meteor"], f"known: {', '.join(FAULTS)}"),
    "unknown knob": (["sweep", "lr=1,2", "--lab", "{lab}"], "knob 'lr' is not known; known: bucket_cap_mib"),
    "no knob": (["sweep", "bucket_cap_mib", "--lab", "{lab}"], "write it like bucket_cap_mib="),
    "one value": (["sweep", "bucket_cap_mib=1", "--lab", "{lab}"], "compares at least two"),
    "value is no number": (["sweep", "bucket_cap_mib=1,big", "--lab", "{lab}"], "is no knob"),
    "value below zero": (["sweep", "bucket_cap_mib=1,-2", "--lab", "{lab}"], "must be a number above 0"),
    "value is NaN": (["sweep", "bucket_cap_mib=1,nan", "--lab", "{lab}"], "must be a number above 0"),
    "bucket below zero": (["train", "--lab", "{lab}", "--bucket-cap-mib", "-3"], "above 0 and below 1e6, not -3"),
    "unknown order": (["train", "--lab", "{lab}", "--ab", "random,best"], "order 'best' is not known; known: nettune,"),
    "no order": (["train", "--lab", "{lab}", "--ab", ""], "order '' is not known"),
    "unknown host": (["place", "job4.toml", "--lab", "{lab}", "--exclude", "g9"], "the fabric has no node 'g9'"),
    "bad hostlist": (["place", "job4.toml", "--lab", "{lab}", "--exclude", "g[1-"], "'g[1-' is no hostlist"),
    "more ranks than hosts": (["place", "job16.toml", "--lab", "{lab}"], "16"),
    "no hosts left": (["place", "job4.toml", "--lab", "{lab}", "--exclude", "node[1-2]"], "4"),
    "no job file": (["place", "nowhere.toml", "--lab", "{lab}"], "nowhere.toml: cannot be read: No such file"),
    "job is a folder": (["place", ".", "--lab", "{lab}"], "cannot be read: Is a directory"),
    "no fabric file": (["place", "job4.toml", "--fabric", "nowhere.json"], "nowhere.json: cannot be read"),
    "no run": (["report", "runs/20260101T000000Z-demo"], "cannot be read: No such file or directory"),
    "unknown form": (["report", "runs", "--form", "pdf"], "'html', 'markdown', 'text', 'picture'"),
    "runs is a file": (["discover", "--lab", "{lab}", "--runs", "job4.toml"], "cannot make the run directory job4.toml/"),
    "runs cannot be made": (["discover", "--lab", "{lab}", "--runs", "/proc/nettune"], "cannot make the run directory /proc/"),
    "fabric cannot be written": (["discover", "--lab", "{lab}", "-o", "/proc/nettune/f.json"], "cannot write /proc/nettune/f"),
}  # fmt: skip


def one_line(done):
    """The error of a command that ended as it should, its progress left out."""
    assert done.code == 2, done
    *progress, line = done.stderr.splitlines()
    assert [text for text in progress if not text.endswith("...")] == [], done.stderr
    assert line.startswith("error: ")
    assert "Traceback" not in done.stderr
    return line.removeprefix("error: ")


@pytest.mark.parametrize("case", WORDS)
def test_mistake_on_the_command_line(inside, small, case):
    """In text mode stdout stays empty; in JSON mode it holds the same line in an envelope."""
    words, expected = WORDS[case]
    words = [word.format(lab=small) for word in words]

    plain = inside(*words)
    assert expected in one_line(plain)
    assert plain.stdout == ""
    if "--output" not in words:
        wrapped = inside(*words, "--output", "json")
        assert wrapped.json == {
            "schema": f"nettune.{wrapped.json['verb']}/1",
            "verb": words[0] if words[0] != "frobnicate" else "nettune",
            "status": "ERROR",
            "exit_code": 2,
            "error": one_line(wrapped),
        }


JOBS = {
    "unknown key": (
        b'pp = 2\nflavour = "sweet"\n',
        "job.toml:2: unknown key 'flavour'; known keys: name, ranks,",
    ),
    "wrong unit": (b'dp = 4\ndp_bytes = "4 parsec"\n', "job.toml:2: job: dp_bytes: "),
    "negative": (b"dp = 4\npp = -1\n", "job.toml:2: pp: "),
    "negative bytes": (b"dp = 4\ndp_bytes = -1\n", "job.toml:2: job: dp_bytes is negative"),
    "not whole": (b"dp = 2.5\n", "job.toml:1: dp: "),
    "ranks do not fit": (b"ranks = 7\npp = 2\n", "job.toml:1: job: ranks = 7 does not fit tp x "),
    "order": (b'dp = 4\norder = "dp-dp-pp"\n', "job.toml:2: job: order 'dp-dp-pp'"),
    "backend": (b'dp = 4\nbackend = "carrier pigeon"\n', "job.toml:2: job: backend "),
    "not TOML": (b"dp = 4\npp =\n", "job.toml:2: is no TOML"),
    "cut off": (b'dp = 4\nname = "gp', "job.toml"),
    "binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe\x00\x9c", "job.toml: is no UTF-8 text"),
    "zero bytes": (b"\x00" * 64, "job.toml:1: is no TOML"),
    "nested": (b"a = " + b"[" * 5000, "job.toml"),
    "astronomic": (b"dp = 9223372036854775807\n", "ranks are more than"),
}


@pytest.mark.parametrize("case", JOBS)
def test_mistake_in_job_toml(inside, small, home, case):
    """The line names the file, and the line of the file where that is known."""
    text, expected = JOBS[case]
    (home / "job.toml").write_bytes(text)

    line = one_line(inside("place", "job.toml", "--lab", small))
    assert line.startswith("job.toml")
    assert expected in line


def damaged(good: dict[str, Any]) -> dict[str, bytes]:
    """What can be wrong with a file of a fabric."""
    fabric = good["fabric"]
    text = json.dumps(good).encode()
    ports = {**fabric["ports"], "node": [10**6, *fabric["ports"]["node"][1:]]}
    return {
        "cut off": text[: len(text) // 2],
        "empty": b"",
        "binary": b"\x80\x81\xfe\xff" * 100,
        "a list": b"[]",
        "a number": b"7",
        "no routing": json.dumps({"fabric": fabric}).encode(),
        "another schema": json.dumps({**good, "fabric": {**fabric, "schema": "nettune.fabric/9"}}).encode(),
        "another program's": b'{"nodes": [], "edges": []}',
        "fabric is text": json.dumps({**good, "fabric": "spine and leaf"}).encode(),
        "routing is a list": json.dumps({**good, "routing": []}).encode(),
        "a port of no node": json.dumps({**good, "fabric": {**fabric, "ports": ports}}).encode(),
        "no ports": json.dumps({**good, "fabric": {**fabric, "ports": {}}}).encode(),
        "a flipped byte": text.replace(b'"kind"', b'"kin\x01"', 1),
        "rate is text": json.dumps({**good, "link_rate_gbps": "fast"}).encode(),
        "nested": b"[" * 100_000,
    }


CASES = [
    "cut off", "empty", "binary", "a list", "a number", "no routing", "another schema", "another program's",
    "fabric is text", "routing is a list", "a port of no node", "no ports", "a flipped byte", "rate is text", "nested",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_damaged_fabric_file(inside, ran, home, case):
    """The line names the file; no run directory is left for a file that cannot be read."""
    ran("discover")
    good = json.loads((home / "fabric.json").read_text(encoding="utf-8"))
    (home / "bad.json").write_bytes(damaged(good)[case])
    before = set((home / "runs").iterdir())

    line = one_line(inside("place", "job4.toml", "--fabric", "bad.json"))

    assert line.startswith("bad.json: ")
    assert set((home / "runs").iterdir()) == before


RESULTS = {
    "nothing": None,
    "cut off": b'{"verb": "demo", "find',
    "binary": bytes(range(256)),
    "a list": b"[1, 2]",
    "no verb": b"{}",
    "findings are text": b'{"verb": "qualify", "findings": "all fine"}',
    "another schema": b'{"verb": "qualify", "findings": [{"schema": "nettune.finding/7"}]}',
    "fabric is a number": b'{"verb": "qualify", "fabric": 3}',
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("case", RESULTS)
@pytest.mark.parametrize("form", ["html", "picture"])
def test_damaged_run_directory(inside, home, case, form):
    """`nettune report` names the file, and leaves no report.html beside it."""
    folder = home / "damaged" / case.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    if (content := RESULTS[case]) is not None:
        (folder / "result.json").write_bytes(content)

    line = one_line(inside("report", str(folder), "--form", form))

    assert str(folder / "result.json") in line
    assert {path.name for path in folder.iterdir()} <= {"result.json"}


def test_debug_shows_where_an_error_came_from(nettune, inside, small):
    """With --debug, anywhere on the line, the traceback comes; without it one line."""
    words = ("qualify", "--lab", "nope")
    line, debugged = one_line(inside(*words)), nettune(*words, "--debug").stderr

    assert debugged.startswith("Traceback (most recent call last)")
    assert debugged.endswith(f": {line}\n")


def test_failed_commands_leave_whole_files_only(home):
    """After all of the above no temporary file is in any run directory."""
    left = [path for path in Path(home).rglob(".*") if path.is_file()]

    assert left == []

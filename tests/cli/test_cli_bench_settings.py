"""`nettune bench` with settings: promised keys, two settings against each other, bad words, ranks that die or hang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nettune.lab import Lab

pytestmark = pytest.mark.lab

MEASURED = {"schema", "op", "type", "ranks", "backend", "cap_gbps", "settings", "ranking", "ab", "faster"}


def test_two_settings_on_a_lab(nettune, small):
    """One object on stdout; a steered setting has its unsteered twin, its prediction and its links beside it."""
    done = nettune(
        "bench", "--lab", small, "--ab", "builtin", "rings+steer", "-b", "64K", "-e", "256K", "--inits", "2", "-n", "1",
        "--fit", "--timeout", "20s", "--output", "json",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    told = done.json["bench"]
    assert set(told) == MEASURED
    assert [setting["name"] for setting in told["settings"]] == ["builtin", "rings", "rings+steer"]
    assert set(done.json["fit"]["alpha_us"]) == {"leaf", "fabric"}
    for setting in told["settings"]:
        largest = setting["cases"][-1]
        assert largest["predicted_us"] > largest["bound_us"] > 0
        assert largest["residual"] == pytest.approx(
            largest["time_us"]["median"] / largest["predicted_us"] - 1
        )
        low, middle, high = largest["unsteered_us"]
        assert 0 < low <= middle <= high
        seen = [(link["measured_bytes"], link["predicted_bytes"]) for link in setting["links"]]
        assert max(measured for measured, _ in seen) == pytest.approx(
            max(known for _, known in seen), rel=0.2
        )
        assert not setting["contaminated"]
    assert [pair["size_bytes"] for pair in told["ab"]] == [65536, 262144]
    assert all(pair["speedup"]["lo"] <= pair["speedup"]["median"] for pair in told["ab"])


def test_a_fit_alone(inside, pair):
    """Without a setting nothing else is measured; one initialisation has no interval; no link is faster than it is."""
    done = inside("bench", "--lab", pair, "--fit", "--inits", "1", "-n", "1", "--output", "json")
    assert done.code == 0, done.stderr
    assert "bench" not in done.json
    assert set(done.json["fit"]["beta_us_per_byte"]) == {"fabric"}
    value, low, high = done.json["fit"]["beta_us_per_byte"]["fabric"]
    assert 8 / value < 1.02 * 200
    assert low is high is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-s", "bush"], "no algorithm 'bush'"),
        (["-s", "ring@nowhere"], "no order 'nowhere'"),
        (["--ab", "ring", "ring"], "'ring' twice"),
        (["--op", "gossip"], "--op 'gossip' is not known"),
        (["-d", "float7"], "-d 'float7' is not known"),
        (["-s", "ring", "-b", "2M", "-e", "1M"], "-b 2M is above -e 1M"),
        (["-s", "ring", "-b", "1", "-e", "2"], "every size is below 4 bytes"),
        (["-s", "ring", "--cap", "fast"], "fast"),
        (["-s", "ring", "--timeout", "soon"], "soon"),
        (["--backend", "mpi"], "are for ranks of mpirun"),
        (["-s", "ring", "--fabric", "f.json"], "are for ranks of mpirun"),
    ],
)
def test_bad_words_are_one_line(inside, words, message):
    """Exit code 2, before a lab is looked for."""
    done = inside("bench", *words, "--lab", "nowhere")
    assert done.code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def ranks_below(pid):
    """Agents among the descendants of a process that have no children: its ranks."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(stat.parent.name))
    found, waiting = [], [pid]
    while waiting:
        at = waiting.pop()
        waiting += children.get(at, [])
        command = Path(f"/proc/{at}/cmdline").read_bytes()
        found += [at] if at not in children and b"nettune.launch.agent" in command else []
    return sorted(found)


STREAM = """
import socket, sys, time
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    stream.sendto(bytes(1400), (sys.argv[1], 9))
    time.sleep(0.0005)
"""


def test_traffic_of_others_is_told(inside, small):
    """A stream between two hosts while ranks use their links: UNKNOWN with the link and its bytes, not a slower result."""
    with contextlib.closing(Lab.load(small)) as lab:
        to = next(end.address for link in lab.wiring.links for end in link.ends if end.node == lab.hosts[2])
        argv = lab.launcher().argv(lab.hosts[0], [sys.executable, "-c", STREAM, to])
        stream = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            done = inside(
                "bench", "--lab", small, "-s", "builtin", "-b", "256K", "-e", "256K", "--inits", "1", "-n", "1",
                "--output", "json",
            )  # fmt: skip
        finally:
            os.killpg(stream.pid, signal.SIGKILL)
            stream.wait()
    assert done.code == 2
    (finding,) = [one for one in done.json["findings"] if one["check"] == "bench-background"]
    assert finding["status"] == "UNKNOWN"
    assert "others sent" in finding["what"]
    assert done.json["bench"]["settings"][0]["links"]


def test_a_rank_that_hangs_ends_the_run_by_name(small, home):
    """One that dies is told sooner, see the tests of `collectives.measuring`, and ends a run alike.

    Exit code 2 within the time-out; the line names rank and host, and what was measured before is in the result.
    """
    words = ["bench", "--lab", small, "-s", "builtin", "-s", "ring", "-b", "64K", "-e", "64K", "--inits", "500", "-n", "1",
             "--timeout", "3s", "--output", "json"]  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "-m", "nettune", *words],
        cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("ring, initialisation 2 of"):
            break
    os.kill(ranks_below(running.pid)[-1], signal.SIGSTOP)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 2, err
    told = json.loads(out)
    (finding,) = [one for one in told["findings"] if one["check"] == "bench-ranks"]
    assert (
        "hangs" in finding["what"] or "did not answer" in finding["what"]
    )  # while others wait for it, or are done
    assert " on node" in finding["what"]
    assert finding["where"].removeprefix("host/") in finding["what"].split(";")[0]
    assert len(told["bench"]["settings"][0]["cases"][0]["inits_us"]) >= 2

"""Collecting: each host's capture is kept as it comes; odd hosts, interruptions and a full disk cost only themselves."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from functools import partial

import pytest

from nettune.checks import Status
from nettune.errors import InputError, NettuneError
from nettune.launch import LocalLauncher, run
from nettune.qualify import collecting
from nettune.qualify.bundle import judge_bundle, read
from nettune.qualify.checks import judge
from nettune.qualify.collecting import Part, asking, collect
from topology.capture import HostCapture
from topology.discovery.collect import collect as captures_of


def test_this_machine_gives_the_same_verdicts_live_and_offline(tmp_path):
    """What the checks say of captures at hand they say of the bundle, but for the clock and counters that moved."""
    collect(asking(LocalLauncher(["here"])), ["here"], tmp_path / "b.tar")
    bundle = read(tmp_path / "b.tar")
    live = captures_of(partial(run, LocalLauncher(["here"])), ["here"], roles={"here": "host"}, extent="all")

    def said(findings):
        return [(one.check, one.status, one.where) for one in findings]

    assert bundle.findings == []
    assert said(judge_bundle(bundle)) == said(judge(live))


class Odd(LocalLauncher):
    """This machine under several names, of which one hangs, one lies, one ends with an error and one floods."""

    def argv(self, host, command):
        """Replace the command on odd hosts."""
        odd = {
            "hangs": ["sleep", "60"],
            "lies": ["echo", '{"schema":"nettune.capture/1"}'],
            "errs": ["sh", "-c", "printf 'no\\033[2J' >&2; exit 3"],
            "floods": ["cat", "/dev/zero"],
            "shouts": ["sh", "-c", "yes >&2"],
            "poses": ["echo", json.dumps(HostCapture("here", "host").to_json())],
            "bare": ["sh", "-c", 'case "$*" in *"sh -s "*) exec "$@" ;; esac; exit 42', "sh", *command],
        }
        return odd.get(host) or super().argv(host, command)


def test_odd_hosts_cost_only_themselves(tmp_path, monkeypatch):
    """Hosts that hang, lie, fail or flood are named as UNKNOWN, in the bundle too; the sound one is kept."""
    monkeypatch.setattr(collecting, "MAX_CAPTURE_BYTES", 4 << 20)
    hosts = ["hangs", "here", "lies", "errs", "floods", "shouts", "poses"]
    told = collect(asking(Odd(hosts)), hosts, tmp_path / "b.tar", timeout_s=5.0)
    back = read(tmp_path / "b.tar")

    assert told.captured == 1
    assert [capture.host for capture in back.captures] == ["here"]
    assert {str(f.where) for f in back.findings} == {f"host/{host}" for host in hosts if host != "here"}
    assert all(f.status is Status.UNKNOWN and f.required for f in back.findings)
    assert "without end" in told.failed["floods"]
    assert "without end" in told.failed["shouts"]
    assert "no answer within 5 s" in told.failed["hangs"]


def test_a_host_without_python_is_asked_by_its_shell(tmp_path):
    """The second question is asked after the others have answered."""
    told = collect(asking(Odd(["bare", "here"])), ["bare", "here"], tmp_path / "b.tar")

    assert (told.captured, told.failed) == (2, {})


def test_no_host_at_all_is_an_error(tmp_path):
    """Where nothing was captured no bundle is left, and what a host printed cannot move the cursor."""
    with pytest.raises(NettuneError, match="errs") as error:
        collect(asking(Odd(["errs"])), ["errs"], tmp_path / "b.tar")
    assert str(error.value).isprintable()
    with pytest.raises(InputError, match="not 0"):
        collect(asking(Odd([])), [], tmp_path / "b.tar")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "a/b", "..", "a:b", "a\x1b[2J", "", "x" * 300])
def test_names_that_no_bundle_can_hold_are_refused_before_anything_runs(tmp_path, name):
    """In one line."""
    with pytest.raises(InputError, match="no host name"):
        collect(asking(LocalLauncher([name])), [name], tmp_path / "b.tar")


def test_an_interrupted_collection_can_be_judged_and_gone_on_with(sound, tmp_path):
    """At every length that a killed writer may leave: the whole captures are there, and the rest is asked for."""
    hosts = [f"h{n}" for n in range(4)]
    answers = {host: sound(n) for n, host in enumerate(hosts)}
    with Part(tmp_path / "b.tar", hosts) as part:
        for host in hosts[:3]:
            part.add(answers[host])
    written = part.path.read_bytes()
    for length in [*range(1, len(written), 3001), len(written)]:
        part.path.write_bytes(written[:length])
        try:
            there = read(part.path)
        except InputError:
            there = None
        if there is not None:
            assert any("interrupted" in one.what or "cut short" in one.what for one in there.findings)
        try:
            again = Part(tmp_path / "b.tar", hosts, resume=True)
        except InputError:
            assert length < 2048
            continue
        with again:
            assert again.path.stat().st_size % tarfile.BLOCKSIZE == 0  # nothing torn is left behind it
            assert again.captured == {capture.host for capture in (there.captures if there else ())}
            for host in hosts:
                if host not in again.captured:
                    again.add(answers[host])
            again.finish({})
        whole = read(tmp_path / "b.tar")
        assert whole.findings == []
        assert sorted(capture.host for capture in whole.captures) == hosts


def test_a_collection_of_which_all_is_there_is_only_ended(sound, tmp_path):
    """Killed after its last host: nobody is asked again."""

    def ask(*_):
        raise AssertionError

    with Part(tmp_path / "b.tar", ["h0"]) as part:
        part.add(sound(0))
    assert collect(ask, ["h0"], tmp_path / "b.tar", resume=True).captured == 1
    assert read(tmp_path / "b.tar").findings == []


def test_two_collections_do_not_write_one_part(sound, tmp_path):
    """The second is refused while the first is at it, and harms nothing."""
    with Part(tmp_path / "b.tar", ["h0", "h1"]) as part:
        part.add(sound(0))
        with pytest.raises(InputError, match="another collection is writing it"):
            Part(tmp_path / "b.tar", ["h0", "h1"], resume=True)
        part.add(sound(1))
        part.finish({})

    assert [capture.host for capture in read(tmp_path / "b.tar").captures] == ["h0", "h1"]


def test_a_part_in_the_way_or_of_others_is_told(sound, tmp_path):
    """Nothing is mixed or overwritten unasked."""
    with Part(tmp_path / "b.tar", ["h0", "h1"]) as part:
        part.add(sound(0))
    with pytest.raises(InputError, match="--resume"):
        Part(tmp_path / "b.tar", ["h0", "h1"])
    with pytest.raises(InputError, match="other hosts"):
        Part(tmp_path / "b.tar", ["h0", "h2"], resume=True)
    with pytest.raises(InputError, match="no regular file"):
        Part(tmp_path, ["h0"])
    assert [capture.host for capture in read(part.path).captures] == ["h0"]


PROGRAM = """
import sys, time
from pathlib import Path
from nettune.cli.main import main
from nettune.launch import registry
from nettune.launch.local import LocalLauncher
class Slow(LocalLauncher):
    def argv(self, host, command):
        return super().argv(host, command) if host != "h3" else ["sleep", "600"]
registry._TARGETS["ssh"] = "__main__:Slow"
sys.argv[0] = "nettune"
main()
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killed_midway_it_keeps_what_it_has(tmp_path, signum):
    """Ctrl-C and SIGTERM end with a line that says what is there, SIGKILL with the same file."""
    words = ["qualify", "collect", "--hosts", "h[0-3]", "-o", "b.tar", "--timeout", "500"]
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    part = tmp_path / "b.tar.part"
    try:
        deadline = time.monotonic() + 60
        while not part.exists() or part.read_bytes().count(b"captures/") < 3:
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.05)
        os.kill(started.pid, signum)
        _, errors = started.communicate(timeout=20)
    finally:
        started.kill()
        started.communicate()

    assert sorted(capture.host for capture in read(part).captures) == ["h0", "h1", "h2"]
    if signum != signal.SIGKILL:
        assert started.returncode == 2
        assert "3 of 4 hosts are in b.tar.part; --resume goes on" in errors.splitlines()[-1]


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    """And what was written before can be read."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(NettuneError, match="No space left"):
        collect(asking(LocalLauncher(["here"])), ["here"], tmp_path / "b.tar")


def test_no_secret_is_in_the_file(tmp_path):
    """Planted where hosts may have them, and looked for in every byte that the file unpacks to."""
    planted = json.dumps({
        "schema": "nettune.capture/1", "host": "h0", "role": "host",
        "files": {"/proc/cmdline": {"state": "ok", "text": "root=1 my_token=hunter2 quiet", "note": ""},
                  "/proc/1/environ": {"state": "ok", "text": "PASSWORD=hunter2", "note": ""}},
        "commands": {"dmesg": {"state": "error", "text": "x\nprog --password hunter2\n", "note": "api_key: hunter2"}},
    })  # fmt: skip

    class Careless(LocalLauncher):
        def argv(self, host, command):
            return ["echo", planted]

    collect(asking(Careless(["h0"])), ["h0"], tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}
    unpacked = b"".join(gzip.decompress(d) if n.endswith(".gz") else d for n, d in members.items())

    assert b"quiet" in unpacked
    assert b"hunter2" not in unpacked + (tmp_path / "b.tar").read_bytes()

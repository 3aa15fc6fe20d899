"""Places that take no output: a reader that has gone, closed streams, a full disk, a missing tool."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

pytestmark = pytest.mark.lab

NETTUNE = f"{shlex.quote(sys.executable)} -m nettune"


def shell(text, home, *wrap):
    """Run a shell line in `home`; `nettune` in it is a function."""
    script = f'nettune() {{ {NETTUNE} "$@"; }}\n{text}'
    return subprocess.run(
        [*wrap, "sh", "-c", script], capture_output=True, text=True, check=False, cwd=home, timeout=120
    )


@pytest.mark.parametrize(
    "words", ["--help", "discover --lab {lab} --output json", "lab frob --output json"]
)  # fmt: skip
def test_reader_that_leaves_early(home, small, words):
    """`| true` or `| head -1`: no traceback, and never the exit code of a failed verdict."""
    words = words.format(lab=small)
    done = shell(f"{{ nettune {words}; echo $? >&2; }} | sleep 0", home)

    *said, code = done.stderr.splitlines()
    assert code == "2" or (code == "0" and words == "--help")
    assert [
        line for line in said if not line.endswith(" ...") and not line.startswith("error: No such")
    ] == []


def test_head_gets_its_line(ran, home):
    """What was printed before the reader left has arrived."""
    done = shell(f"nettune report {ran('discover').json['run_dir']} --form text | head -1", home)

    assert (done.stdout, done.stderr) == ("Discovery\n", "")


@pytest.mark.parametrize("words", ["lab status", "qualify --lab nope --output json"])
def test_full_stdout(small, home, words):
    """A disk that fills while the result is printed is one line and exit 2."""
    done = shell(f"nettune {words} > /dev/full", home)

    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_closed_streams(small, home):
    """As some job managers start a command; the exit code is the same, and no file gets the text instead."""
    (home / "closed").mkdir()
    done = shell(
        f"nettune discover --lab {small} --runs closed -o closed/f.json >&- 2>&- <&-; echo $?\n"
        "nettune qualify --lab nope 2>&-; echo $?",
        home,
    )

    assert (done.stdout, done.stderr) == ("0\n2\n", "")
    assert json.loads((home / "closed" / "f.json").read_text(encoding="utf-8"))["fabric"]


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        (
            "mount -t tmpfs -o size=4k tmpfs full; head -c 4096 /dev/zero > full/filler",
            "No space left on device",
        ),
        ("mount -t tmpfs -o size=48k tmpfs full", "No space left on device"),
        ("mount -t tmpfs -o ro tmpfs full", "Read-only file system"),
    ],
    ids=["full", "fills", "read-only"],
)
def test_full_disk(ran, home, private_mounts, mount, why):
    """One line that names the file, exit 2, and whole files or none: no temporary one is left."""
    ran("discover")
    (home / "full").mkdir(exist_ok=True)
    done = shell(
        f"{mount}; nettune place job4.toml --fabric fabric.json --runs full --output json; code=$?;"
        " find full -type f ! -name filler >&2; exit $code",
        home,
        *private_mounts,
    )

    progress = [line for line in done.stderr.splitlines() if not line.endswith(" ...")]
    assert done.returncode == 2, done.stderr
    assert progress[0].startswith("error: cannot ")
    assert progress[0].endswith(f": {why}")
    whole = {"environment.json", "result.json", "placement.json", "nccl.env"}
    kinds = ("slurm.", "openmpi.", "hydra.", "torchrun", "deepspeed.", "kubernetes-")
    names = [path.rpartition("/")[2] for path in progress[1:]]
    assert all(name in whole or name.startswith(kinds) for name in names), names
    assert '"status": "ERROR"' in done.stdout
    assert done.stdout.count("\n") == 1


def test_missing_ip(home, private_mounts):
    """Without iproute2 the line names program and package; a fault needs a fabric, so it is refused, too."""
    hide = (
        "for folder in $(echo $PATH:/usr/sbin:/sbin | tr : ' '); do"
        ' [ -e "$folder/ip" ] && mount --bind /dev/null "$folder/ip"; done'
    )
    done = shell(f"{hide}; nettune lab up; echo $?; nettune demo --fault mtu; echo $?", home, *private_mounts)

    said = done.stderr.splitlines()
    assert done.stdout.split() == ["2", "2"]
    assert said == [
        "error: the program 'ip' is missing; install iproute2 to use a lab",
        "error: a fault needs an emulated fabric: the program 'ip' is missing; install iproute2 to use a lab",
    ]

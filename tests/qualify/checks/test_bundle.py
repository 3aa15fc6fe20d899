"""Bundles: what is written is read back and judged the same; what is hostile in them is refused or left out."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import shutil
import subprocess
import tarfile

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from nettune.qualify import bundle as bundles
from nettune.qualify.bundle import judge_bundle, read
from nettune.qualify.checks import judge
from nettune.qualify.collecting import Part


def tar_of(path, members):
    """Write a tar of (TarInfo or name, content) pairs."""
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data) if data is not None else 0
            tar.addfile(info, io.BytesIO(data or b""))
    return path


def packed(capture):
    """Return a capture as a bundle keeps it."""
    return gzip.compress(json.dumps(capture.to_json()).encode())


def write(path, captures, failed=None):
    """Write captures as a collection does."""
    with Part(path, [capture.host for capture in captures] + list(failed or {})) as part:
        for capture in captures:
            part.add(capture)
        part.finish(failed or {})


def test_a_bundle_gives_the_same_verdicts_as_the_captures(sound, tmp_path):
    """Writing and reading change no finding."""
    down = {"/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}
    captures = [sound(0), sound(1, files=down)]
    write(tmp_path / "b.tar", captures)
    back = read(tmp_path / "b.tar")

    assert back.findings == []
    assert judge_bundle(back) == judge(captures)
    assert {f.check for f in judge_bundle(back) if f.status is Status.FAIL} == {"port-state"}


def test_hosts_that_gave_nothing_are_named(sound, tmp_path):
    """Each is an UNKNOWN with the reason, and is among the hosts."""
    write(tmp_path / "b.tar", [sound(0)], {"h7": "no answer", "bad/name": "x", "h8\x1b[2J": "y"})
    back = read(tmp_path / "b.tar")

    assert back.hosts == ["h0", "h7"]
    assert [f.status for f in back.findings] == [Status.UNKNOWN] * 3
    assert "gave no capture: no answer" in {f.what for f in back.findings}
    assert all(f.what.isprintable() for f in back.findings)


def link(name, kind, target):
    """Make a link member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_hostile_members_are_skipped_and_nothing_is_written(sound, tmp_path, monkeypatch):
    """Traversal, links, devices, twins, liars, bombs and rubbish are left out with a finding; good members are kept."""
    monkeypatch.setattr(bundles, "MAX_CAPTURE_BYTES", 2_000_000)
    good = packed(sound(0))
    fifo = tarfile.TarInfo("captures/pipe.json.gz")
    device = tarfile.TarInfo("captures/dev.json.gz")
    device.type = tarfile.BLKTYPE
    fifo.type = tarfile.FIFOTYPE
    control = "captures/x\x1b[2Jy.json.gz"
    hostile = [
        (control, good), ("captures/h1;reboot .json.gz", good), ("captures/" + "h" * 300 + ".json.gz", good),
        ("bundle.json", b"[" * 9000), ("failed.json", b"[]"), ("captures/before/h0.json.gz", good),
        ("../../outside.json", b"x"), ("/etc/passwd", b"x"), ("captures/../../x.json", b"x"), ("captures/...json", b"{}"),
        (link("captures/s.json.gz", tarfile.SYMTYPE, "/etc/passwd"), None),
        (link("captures/l.json.gz", tarfile.LNKTYPE, "captures/h0.json.gz"), None), (fifo, None), (device, None),
        ("captures/h0.json.gz", packed(sound(0))), ("captures/h9.json.gz", packed(sound(1))),
        ("captures/bomb.json.gz", gzip.compress(bytes(9_000_000))), ("captures/cut.json.gz", good[:200]),
        ("captures/deep.json.gz", gzip.compress(b"[" * 100_000)), ("captures/list.json.gz", gzip.compress(b"[]")),
        ("captures/none.json.gz", b""), ("captures/plain.json", b"{}"),
        ("captures/a b.json", b"{}"),
    ]  # fmt: skip
    folder = tmp_path / "in"
    folder.mkdir()
    tar_of(folder / "b.tar", [("captures/h0.json.gz", good), *hostile])
    back = read(folder / "b.tar")

    assert [capture.host for capture in back.captures] == ["h0"]
    assert len(back.findings) == len(hostile) + 1  # and that the collection did not end
    assert all(f.status is Status.UNKNOWN and f.required for f in back.findings)
    assert all(f.what.isprintable() for f in back.findings)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b.tar", "in"]


def test_a_member_of_ten_gigabytes_costs_no_memory(sound, tmp_path):
    """A sparse file that claims 10 GB is skipped by its header; the host before it is kept."""
    path = tar_of(tmp_path / "b.tar", [("captures/h0.json.gz", packed(sound(0)))])
    huge = tarfile.TarInfo("captures/h1.json.gz")
    huge.size = 10 << 30
    with path.open("r+b") as file:
        file.seek(-1024 * 10, 2)  # the end marks of tar
        tail = file.seek(0, 2)
        data = path.read_bytes().rstrip(b"\0")
        start = -(-len(data) // 512) * 512
        file.seek(start)
        file.write(huge.tobuf(tarfile.GNU_FORMAT))
        file.truncate(start + 512 + (10 << 30) + 1024)
        assert tail
    back = read(path)

    assert [capture.host for capture in back.captures] == ["h0"]
    assert [f.what for f in back.findings] == ["member 'captures/h1.json.gz' has 10240 MiB"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_ten_gigabytes_costs_no_memory(tmp_path, kind):
    """Extended headers are read at once by tarfile: one that claims 10 GB is refused."""
    info = tarfile.TarInfo("captures/h1.json")
    info.size, info.type = 10 << 30, kind
    path = tmp_path / "b.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT))
    with path.open("r+b") as file:
        file.truncate(512 + (10 << 30))
    with pytest.raises(InputError, match="no bundle"):
        read(path)


def test_a_sparse_member_is_left_out(sound, tmp_path):
    """GNU's sparse files, of which a few bytes claim 10 GB, are not unfolded."""
    (tmp_path / "captures").mkdir()
    for host in ("h0", "h1"):
        (tmp_path / f"captures/{host}.json.gz").write_bytes(packed(sound(0)))
    os.truncate(tmp_path / "captures/h1.json.gz", 10 << 30)
    if not shutil.which("tar"):
        pytest.skip("needs GNU tar")
    for form in ("gnu", "posix"):
        subprocess.run(
            ["tar", "-S", f"--format={form}", "-cf", "b.tar", "captures"], cwd=tmp_path, check=True
        )
        assert (tmp_path / "b.tar").stat().st_size < 1 << 20
        back = read(tmp_path / "b.tar")
        assert [capture.host for capture in back.captures] == ["h0"]
        assert len(back.findings) == 1


def test_memory_is_bounded(sound, tmp_path, monkeypatch):
    """Captures that together would fill the memory are left out from there on, with a finding."""
    monkeypatch.setattr(bundles, "_MEMORY_SHARE", 1e-9)
    write(tmp_path / "b.tar", [sound(0), sound(1)])
    back = read(tmp_path / "b.tar")

    assert len(back.captures) == 1
    assert "memory" in back.findings[0].what


@pytest.mark.parametrize(
    "data", [b"", b"no tar", bytes(5000), *(pack(bytes(5000)) for pack in (gzip.compress, lzma.compress))]
)
def test_what_is_no_bundle_is_refused_in_one_line(tmp_path, data):
    """Another file is bad input."""
    (tmp_path / "b.tar").write_bytes(data)
    with pytest.raises(InputError, match=r"no bundle|compressed"):
        read(tmp_path / "b.tar")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "absent.tar")
    with pytest.raises(InputError, match="no regular file"):
        read(tmp_path)
    with pytest.raises(InputError, match="no regular file"):
        read("/dev/zero")


def test_a_bundle_that_was_cut_gives_what_it_has(sound, tmp_path):
    """At every length: a line of refusal, or the captures that are whole and a finding."""
    write(tmp_path / "b.tar", [sound(0), sound(1)])
    whole = (tmp_path / "b.tar").read_bytes()
    kept = set()
    for length in range(0, len(whole), 1501):
        (tmp_path / "cut.tar").write_bytes(whole[:length])
        try:
            back = read(tmp_path / "cut.tar")
        except InputError:
            continue
        kept.add(len(back.captures))
        assert back.findings or length >= len(whole) - 12_000
        assert any(f.status is Status.UNKNOWN for f in judge_bundle(back))
    assert kept == {0, 1, 2}

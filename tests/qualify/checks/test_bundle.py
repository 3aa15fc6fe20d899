"""Bundles: what is written is read back and judged the same; hostile ones are refused or skipped; secrets are gone."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import pytest

from nettune.checks import Status
from nettune.errors import InputError, NettuneError
from nettune.launch import LocalLauncher
from nettune.qualify import bundle as bundles
from nettune.qualify.bundle import Bundle, collect, judge_bundle, read, write
from nettune.qualify.checks import Context, judge
from nettune.qualify.redact import GONE, redacted, without_secrets
from topology.capture import Captured, CaptureState, HostCapture


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


def test_a_bundle_gives_the_same_verdicts_as_the_captures(sound, tmp_path):
    """Writing and reading change no finding; the earlier round travels along and is used for counters."""
    down = {"/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n",
            "/sys/class/infiniband/mlx5_1/ports/1/counters/link_downed": "4\n"}  # fmt: skip
    captures = [sound(0), sound(1, files=down)]
    before = {"h1": sound(1)}
    write(tmp_path / "b.tar", Bundle(captures, before))
    back = read(tmp_path / "b.tar")

    assert back.findings == []
    assert judge_bundle(back) == judge(captures, Context(before=before))
    assert {f.check for f in judge_bundle(back) if f.status is Status.FAIL} == {"port-state", "link-downs"}


def test_this_machine_is_collected_and_judged(tmp_path):
    """Live and offline are one path: the bundle that was just written is judged again with the same findings."""
    live = collect(LocalLauncher(["here"]), ["here"], tmp_path / "b.tar")
    offline = read(tmp_path / "b.tar")

    assert [capture.host for capture in offline.captures] == ["here"]
    assert judge_bundle(offline) == judge_bundle(live)


class Odd(LocalLauncher):
    """This machine under several names, of which one hangs, one lies, one ends with an error and one floods."""

    def argv(self, host, command):
        """Replace the command on odd hosts."""
        odd = {
            "hangs": ["sleep", "60"],
            "lies": ["echo", '{"schema":"nettune.capture/1"}'],
            "errs": ["sh", "-c", "echo no >&2; exit 3"],
            "floods": ["sh", "-c", "head -c 20000000 /dev/zero"],
        }
        return odd.get(host) or super().argv(host, command)


def test_odd_hosts_cost_only_themselves(tmp_path):
    """Hosts that hang, lie, fail or flood are named as UNKNOWN, in the bundle too; the sound one is kept."""
    hosts = ["hangs", "here", "lies", "errs", "floods"]
    collect(Odd(hosts), hosts, tmp_path / "b.tar", timeout_s=5.0)
    back = read(tmp_path / "b.tar")

    assert [capture.host for capture in back.captures] == ["here"]
    assert {str(f.where) for f in back.findings} == {f"host/{host}" for host in hosts if host != "here"}
    assert all(f.status is Status.UNKNOWN and f.required for f in back.findings)


def test_no_host_at_all_is_an_error(tmp_path):
    """Where nothing was captured no bundle is written."""
    with pytest.raises(NettuneError, match="errs"):
        collect(Odd(["errs"]), ["errs"], tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


def link(name, kind, target):
    """Make a link member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_hostile_members_are_skipped_and_nothing_is_written(sound, tmp_path, monkeypatch):
    """Traversal, links, devices, twins, liars, bombs and rubbish are left out with a finding; good members are kept."""
    monkeypatch.setattr(bundles, "MAX_CAPTURE_BYTES", 2_000_000)
    good = packed(sound(0))
    fifo = tarfile.TarInfo("captures/pipe.json")
    fifo.type = tarfile.FIFOTYPE
    hostile = [
        ("../../outside.json", b"x"), ("/etc/passwd", b"x"), ("captures/../../x.json", b"x"), ("captures/...json", b"{}"),
        (link("captures/s.json", tarfile.SYMTYPE, "/etc/passwd"), None),
        (link("captures/l.json.gz", tarfile.LNKTYPE, "captures/h0.json.gz"), None), (fifo, None),
        ("captures/h0.json.gz", packed(sound(0))), ("captures/h9.json.gz", packed(sound(1))),
        ("captures/bomb.json.gz", gzip.compress(bytes(9_000_000))), ("captures/cut.json.gz", good[:200]),
        ("captures/deep.json", b"[" * 100_000), ("captures/list.json", b"[]"), ("captures/none.json", b""),
        ("captures/a b.json", b"{}"),
    ]  # fmt: skip
    folder = tmp_path / "in"
    folder.mkdir()
    tar_of(folder / "b.tar", [("captures/h0.json.gz", good), *hostile])
    back = read(folder / "b.tar")

    assert [capture.host for capture in back.captures] == ["h0"]
    assert len(back.findings) == len(hostile)
    assert all(f.status is Status.UNKNOWN and f.required for f in back.findings)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b.tar", "in"]


def test_a_member_of_ten_gigabytes_costs_no_memory(sound, tmp_path):
    """A sparse file that claims 10 GB is skipped by its header; the host before it is kept."""
    path = tar_of(tmp_path / "b.tar", [("captures/h0.json.gz", packed(sound(0)))])
    huge = tarfile.TarInfo("captures/h1.json")
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
    assert [f.what for f in back.findings] == ["member 'captures/h1.json' has 10240 MiB"]


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


@pytest.mark.parametrize("data", [b"", b"no tar", bytes(5000), gzip.compress(b"x")])
def test_what_is_no_bundle_is_refused_in_one_line(tmp_path, data):
    """Another file is bad input."""
    (tmp_path / "b.tar").write_bytes(data)
    with pytest.raises(InputError, match="no bundle"):
        read(tmp_path / "b.tar")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "absent.tar")


def test_a_bundle_that_was_cut_gives_what_it_has(sound, tmp_path):
    """At every length: a line of refusal, or the captures that are whole and a finding."""
    write(tmp_path / "b.tar", Bundle([sound(0), sound(1)]))
    whole = (tmp_path / "b.tar").read_bytes()
    kept = set()
    for length in range(0, len(whole), 1501):
        (tmp_path / "cut.tar").write_bytes(whole[:length])
        try:
            back = read(tmp_path / "cut.tar")
        except InputError:
            continue
        kept.add(len(back.captures))
        assert back.findings or len(back.captures) == 2 or not back.captures
        assert any(f.status is Status.UNKNOWN for f in judge_bundle(back))
    assert kept == {0, 1, 2}


def test_secrets_do_not_leave():
    """Keys, tokens and passwords are removed from texts and notes; files of secrets are left out whole."""
    private = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n"
    texts = {
        "/proc/cmdline": "BOOT_IMAGE=/v root=UUID=1 wandb_api_key=abcdef0123 iommu=pt",
        "/etc/nccl.conf": "NCCL_IB_HCA=mlx5\nMY_TOKEN = 'hunter2 three'\nPASSWORD: hunter2\n",
        "env": "AWS_SECRET_ACCESS_KEY=hunter2 HF=hf_" + "a" * 34 + " url=https://joe:hunter2@example.com/x",
        "key": private + "Authorization: Bearer hunter2hunter2",
    }
    capture = redacted(
        HostCapture(
            "h0",
            "host",
            {**{name: Captured(CaptureState.OK, text) for name, text in texts.items()},
             "/proc/1/environ": Captured(CaptureState.OK, "X=hunter2"),
             "/srv/joe/.ssh/id_rsa": Captured(CaptureState.OK, "hunter2")},
            {"x": Captured(CaptureState.ERROR, "", "login failed: password=hunter2")},
        )
    )  # fmt: skip
    everything = json.dumps(capture.to_json())

    for secret in ("hunter2", "abcdef0123", "abc\\n", "a" * 34):
        assert secret not in everything
    assert capture.files["/proc/cmdline"].text.endswith("iommu=pt")
    assert "NCCL_IB_HCA=mlx5" in capture.files["/etc/nccl.conf"].text
    assert capture.files["/proc/1/environ"].state is CaptureState.DENIED


def test_redaction_changes_nothing_that_checks_read(sound):
    """A sound host's sources pass unchanged."""
    capture = sound(0)

    assert redacted(capture) == capture
    assert without_secrets("token=xy") == f"token={GONE}"

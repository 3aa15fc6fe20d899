"""Bundles: captures of many hosts in one tar file, taken live, judged anywhere.

A bundle is a plain tar, `captures/HOST.json.gz` for each host (`captures/before/HOST.json.gz` for an earlier round) and
`bundle.json`. Reading extracts nothing to the disk: members are read in memory, in bounds, by their names' grammar only.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.launch import run
from nettune.launch.base import Launcher
from nettune.qualify.checks import Context, judge
from nettune.qualify.redact import redacted
from nettune.records import write_atomic
from topology.capture import HostCapture
from topology.discovery.collect import TIMEOUT_S, CollectError
from topology.discovery.collect import collect as collect_captures

BUNDLE_SCHEMA = "nettune.bundle/1"
MAX_MEMBERS = 40_000
MAX_CAPTURE_BYTES = 64 << 20
"""A host's capture unpacked; one with eight GPUs and all its counters has a few MB. Parsed it takes 20 times as much."""
MAX_TOTAL_BYTES = 64 << 30
_MEMBER = re.compile(r"captures/(?P<before>before/)?(?P<host>[^/:\s]{1,253})\.json(?P<gz>\.gz)?")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Bundle:
    """What was read.

    Attributes:
        captures: one a host, in the order of the file.
        before: earlier captures, host -> capture.
        findings: what was refused or left out, UNKNOWN; hosts that gave no capture are among them.
    """

    captures: list[HostCapture] = field(default_factory=list)
    before: dict[str, HostCapture] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def collect(
    launcher: Launcher,
    hosts: Sequence[str],
    path: Path | str,
    *,
    timeout_s: float = TIMEOUT_S,
    max_parallel: int = 64,
    before: Mapping[str, HostCapture] | None = None,
) -> Bundle:
    """Capture hosts and write a bundle. A host that does not answer, floods or refuses costs only itself.

    Args:
        launcher: how to reach them.
        hosts: their names.
        path: the file to write.
        timeout_s: time for each host.
        max_parallel: hosts asked at the same time.
        before: an earlier round, to be kept in the bundle for deltas.

    Raises:
        NettuneError: no host at all gave a capture, or the file cannot be written.
    """
    failed: Mapping[str, str] = {}
    try:
        captures = collect_captures(
            partial(_run, launcher, max_parallel), hosts, extent="all", timeout_s=timeout_s
        )
    except CollectError as error:
        if not error.captures:
            raise
        captures, failed = error.captures, error.failed
    captures = [redacted(capture) for capture in captures]
    earlier = {host: redacted(capture) for host, capture in (before or {}).items()}
    bundle = Bundle(captures, earlier, [_unreached(host, why) for host, why in failed.items()])
    _pack(path, bundle, failed)
    return bundle


def _run(launcher: Launcher, max_parallel: int, commands: Any, timeout_s: float) -> Any:
    return run(launcher, commands, timeout_s, max_parallel=max_parallel)


def write(path: Path | str, bundle: Bundle, failed: Mapping[str, str] | None = None) -> None:
    """Write captures as a bundle; secrets are taken out here, too.

    Raises:
        NettuneError: the file cannot be written.
    """
    captures = [redacted(capture) for capture in bundle.captures]
    before = {host: redacted(capture) for host, capture in bundle.before.items()}
    _pack(path, Bundle(captures, before), failed or {})


def _pack(path: Path | str, bundle: Bundle, failed: Mapping[str, str]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        about = {
            "schema": BUNDLE_SCHEMA,
            "hosts": [capture.host for capture in bundle.captures],
            "failed": dict(failed),
        }
        _add(tar, "bundle.json", json.dumps(about, indent=1).encode())
        rounds = (("captures/", bundle.captures), ("captures/before/", list(bundle.before.values())))
        for folder, captures in rounds:
            for capture in captures:
                text = json.dumps(capture.to_json())
                _add(tar, f"{folder}{capture.host}.json.gz", gzip.compress(text.encode(), 3, mtime=0))
    write_atomic(path, buffer.getvalue())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    tar.addfile(info, io.BytesIO(data))


class _Bounded:
    """A file that hands out no huge piece: a header may claim to be 10 GB long."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        """At most MAX_CAPTURE_BYTES."""
        if not 0 <= size <= MAX_CAPTURE_BYTES:
            raise tarfile.ReadError(f"a part of it claims to have {size >> 20} MiB")
        return self._file.read(size)


def read(path: Path | str) -> Bundle:
    """Read a bundle of any origin. Nothing is written anywhere; what is hostile or broken is left out with a finding.

    Raises:
        InputError: not there, or no tar at all.
    """
    bundle = Bundle()
    seen: set[str] = set()
    total = 0
    try:
        with (
            Path(path).open("rb") as file,
            tarfile.open(fileobj=cast("IO[bytes]", _Bounded(file)), mode="r:") as tar,
        ):
            for count, member in enumerate(tar):
                if count >= MAX_MEMBERS:
                    bundle.findings.append(
                        _left_out(f"more than {MAX_MEMBERS} members: the rest is left out")
                    )
                    break
                total += _member(tar, member, bundle, seen)
                if total > MAX_TOTAL_BYTES:
                    bundle.findings.append(
                        _left_out(f"more than {MAX_TOTAL_BYTES >> 30} GiB: the rest is left out")
                    )
                    break
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError, zlib.error) as error:
        if not seen:
            raise InputError(f"is no bundle: {error}", path) from error
        bundle.findings.append(_left_out(f"it is cut short or damaged: {error}"))
    if not seen and not bundle.findings:
        raise InputError("is no bundle: it has no captures/HOST.json.gz", path)
    return bundle


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, bundle: Bundle, seen: set[str]) -> int:
    """Take one member in; returns the bytes that it unpacked to."""
    name = member.name
    shown = repr(name)[:120]
    if name == "bundle.json" and member.isreg() and member.size < _CHUNK:
        seen.add(name)
        _about(tar, member, bundle)
        return member.size
    if member.isdir():
        return 0
    match = _MEMBER.fullmatch(name)
    if match is None or match["host"] in {".", ".."}:
        bundle.findings.append(_left_out(f"member {shown} is no capture by its name"))
    elif not member.isreg() or member.issparse():
        kind = (
            "a link"
            if member.issym() or member.islnk()
            else "sparse"
            if member.issparse()
            else "no regular file"
        )
        bundle.findings.append(_left_out(f"member {shown} is {kind}"))
    elif name in seen:
        bundle.findings.append(_left_out(f"member {shown} is there twice: the first is judged"))
    elif member.size > MAX_CAPTURE_BYTES:
        bundle.findings.append(_left_out(f"member {shown} has {member.size >> 20} MiB"))
    else:
        seen.add(name)
        return _capture(tar, member, match, bundle)
    return 0


def _about(tar: tarfile.TarFile, member: tarfile.TarInfo, bundle: Bundle) -> None:
    file = tar.extractfile(member)
    try:
        about = json.loads(file.read(_CHUNK)) if file else {}
    except (ValueError, RecursionError):
        bundle.findings.append(_left_out("bundle.json is no JSON"))
        return
    failed = about.get("failed") if isinstance(about, dict) else None
    for host, why in failed.items() if isinstance(failed, dict) else ():
        try:
            bundle.findings.append(_unreached(str(host), str(why)))
        except InputError:
            bundle.findings.append(_left_out(f"host {str(host)[:60]!r} has no name that an element can have"))


def _capture(tar: tarfile.TarFile, member: tarfile.TarInfo, match: re.Match[str], bundle: Bundle) -> int:
    shown = repr(member.name)[:120]
    file = tar.extractfile(member)
    if file is None:
        bundle.findings.append(_left_out(f"member {shown} has no content"))
        return 0
    data = b""
    try:
        # Unpacked in bounds: a few kB of gzip can stand for gigabytes.
        data = gzip.GzipFile(fileobj=file).read(MAX_CAPTURE_BYTES + 1) if match["gz"] else file.read()
        capture = _parsed(data, match["host"])
    except (InputError, ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
        bundle.findings.append(_left_out(f"member {shown} cannot be used: {str(error)[:200]}"))
        return len(data)
    if match["before"]:
        bundle.before[capture.host] = capture
    else:
        bundle.captures.append(capture)
    return len(data)


def _parsed(data: bytes, host: str) -> HostCapture:
    if len(data) > MAX_CAPTURE_BYTES:
        raise InputError(f"unpacks to more than {MAX_CAPTURE_BYTES >> 20} MiB")
    parsed = json.loads(data)
    if not isinstance(parsed, dict):
        raise InputError("holds no capture")
    capture = HostCapture.from_json(parsed)
    if capture.host != host:
        raise InputError(f"holds the capture of {capture.host[:60]!r}")
    ElementId.host(capture.host)
    return capture


def _left_out(what: str) -> Finding:
    return Finding(
        check="bundle",
        status=Status.UNKNOWN,
        where=ElementId.fabric(),
        what=what,
        fix="collect again with `nettune qualify collect`; what is left out was not judged",
    )


def _unreached(host: str, why: str) -> Finding:
    return Finding(
        check="collect",
        status=Status.UNKNOWN,
        where=ElementId.host(host),
        what=f"gave no capture: {why[:300]}",
        fix="see whether the host is up and can be logged into",
    )


def judge_bundle(bundle: Bundle, context: Context | None = None) -> list[Finding]:
    """Findings of all checks on a bundle, and what was left out of it.

    An earlier round in the bundle is used for counters where the context has none.
    """
    context = context or Context()
    if bundle.before and not context.before:
        context = replace(context, before=bundle.before)
    if not bundle.captures:
        return [*bundle.findings, _left_out("no host in it can be judged")]
    return [*judge(bundle.captures, context), *bundle.findings]

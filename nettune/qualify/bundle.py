"""Bundles: captures of many hosts in one tar file, taken live, judged anywhere.

A bundle is a plain tar: `bundle.json` with the hosts that were asked, `captures/HOST.json.gz` for each that answered, and
at its end `failed.json` with what became of the others; without that the collection was interrupted. Reading extracts
nothing to the disk: members are read in memory, in bounds, by their names' grammar only.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from nettune.checks import Finding, Status, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.qualify.checks import Context, judge
from nettune.wording import UNPRINTABLE
from topology.capture import HostCapture

BUNDLE_SCHEMA = "nettune.bundle/1"
ABOUT, FAILED = "bundle.json", "failed.json"
MAX_MEMBERS = 40_000
MAX_CAPTURE_BYTES = 64 << 20
"""A host's capture unpacked; one with eight GPUs and all its counters has a few MB. Parsed it takes 20 times as much."""
_SOURCE_BYTES = 600
"""Of memory, for each file or command of a capture beside its text."""
_MEMORY_SHARE = 0.5
_MEMBER = re.compile(rf"captures/(?P<host>[^/:\s{UNPRINTABLE}]{{1,253}})\.json\.gz")
_SMALL = 4 << 20
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")


@dataclass(frozen=True)
class Bundle:
    """What was read.

    Attributes:
        captures: one a host, in the order of the file.
        findings: what was refused or left out, UNKNOWN; hosts that gave no capture are among them.
    """

    captures: list[HostCapture] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def hosts(self) -> list[str]:
        """Those that were captured, and those that were asked and gave nothing."""
        silent = [one.where.node for one in self.findings if one.check == "collect" and one.where.node]
        return list(dict.fromkeys([*(capture.host for capture in self.captures), *silent]))


def member_name(host: str) -> str:
    """Name of a host's capture in a bundle.

    Raises:
        InputError: no name that a bundle, an element and a terminal can have.
    """
    name = f"captures/{host}.json.gz"
    if not _MEMBER.fullmatch(name) or host in {".", ".."}:
        raise InputError(
            f"{host[:80]!r} is no host name for a bundle: no blanks, slashes, colons or controls"
        )
    ElementId.host(host)
    return name


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


@dataclass
class _Reading:
    """What is known while a bundle is being read."""

    bundle: Bundle = field(default_factory=Bundle)
    seen: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    failed: dict[str, str] | None = None
    memory: int = 0

    def leave_out(self, what: str) -> None:
        self.bundle.findings.append(_left_out(what))


def read(path: Path | str) -> Bundle:
    """Read a bundle of any origin. Nothing is written anywhere; what is hostile or broken is left out with a finding.

    Raises:
        InputError: not there, or no bundle at all.
    """
    reading = _Reading()
    try:
        path = Path(path)
        if path.exists() and not path.is_file():
            raise InputError("is no regular file; give a bundle of `nettune qualify collect`", path)
        with path.open("rb") as file:
            if file.read(8).startswith(_COMPRESSED):
                raise InputError(
                    "is compressed as a whole; unpack it to the tar that `qualify collect` wrote", path
                )
            file.seek(0)
            _members(file, reading)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError, zlib.error) as error:
        if not reading.seen:
            raise InputError(f"is no bundle: {str(error)[:120]}", path) from error
        reading.leave_out(f"it is cut short or damaged: {str(error)[:120]}")
    if not reading.seen and not reading.bundle.findings:
        raise InputError("is no bundle: it has no captures/HOST.json.gz", path)
    _name_the_silent(reading)
    return reading.bundle


def _members(file: IO[bytes], reading: _Reading) -> None:
    most = int(_MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with tarfile.open(fileobj=cast("IO[bytes]", _Bounded(file)), mode="r:") as tar:
        for count, member in enumerate(tar):
            if count >= MAX_MEMBERS:
                reading.leave_out(f"more than {MAX_MEMBERS} members: the rest is left out")
                return
            _member(tar, member, reading)
            if reading.memory > most:
                reading.leave_out(f"unpacks to more than {most >> 30} GiB of memory: the rest is left out")
                return


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, reading: _Reading) -> None:
    """Take one member in."""
    name = member.name
    shown = repr(name)[:120]
    match = _MEMBER.fullmatch(name)
    small = name in {ABOUT, FAILED}
    if member.isdir():
        return
    if not small and (match is None or match["host"] in {".", ".."}):
        reading.leave_out(f"member {shown} is no capture by its name")
    elif not member.isreg():
        kind = "a link" if member.issym() or member.islnk() else "no regular file"
        reading.leave_out(f"member {shown} is {kind}")
    elif name in reading.seen:
        reading.leave_out(f"member {shown} is there twice: the first is judged")
    elif member.size > (_SMALL if small else MAX_CAPTURE_BYTES):
        reading.leave_out(f"member {shown} has {member.size >> 20} MiB")
    else:
        reading.seen.add(name)
        try:
            file = tar.extractfile(member)
            data = b"" if file is None else file.read()
            if match is not None:
                _capture(data, match["host"], reading)
            else:
                _about(name, data, reading)
        except (InputError, ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
            reading.leave_out(f"member {shown} cannot be used: {str(error)[:200]}")


def _about(name: str, data: bytes, reading: _Reading) -> None:
    table = json.loads(data)
    if not isinstance(table, dict):
        raise InputError("is no table")
    if name == ABOUT:
        reading.asked = [str(host) for host in table.get("hosts") or ()]
    else:
        reading.failed = {str(host): str(why) for host, why in table.items()}


def _capture(data: bytes, host: str, reading: _Reading) -> None:
    # Unpacked in bounds: a few kB of gzip can stand for gigabytes.
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(MAX_CAPTURE_BYTES + 1)
    capture = _parsed(unpacked, host)
    reading.memory += len(unpacked) + _SOURCE_BYTES * (len(capture.files) + len(capture.commands))
    reading.bundle.captures.append(capture)


def _name_the_silent(reading: _Reading) -> None:
    """A finding for each host that was asked and gave no capture."""
    told = {capture.host for capture in reading.bundle.captures}
    missing = dict.fromkeys(
        (host for host in reading.asked if host not in told), "the collection was interrupted before"
    )
    if ABOUT in reading.seen and reading.failed is None:
        reading.leave_out("the collection was interrupted; go on with --resume")
    for host, why in {**missing, **(reading.failed or {})}.items():
        if host in told:
            continue
        try:
            member_name(host)
        except InputError as error:
            reading.leave_out(str(error))
        else:
            reading.bundle.findings.append(_unreached(host, why))


def _parsed(data: bytes, host: str) -> HostCapture:
    if len(data) > MAX_CAPTURE_BYTES:
        raise InputError(f"unpacks to more than {MAX_CAPTURE_BYTES >> 20} MiB")
    parsed = json.loads(data)
    if not isinstance(parsed, dict):
        raise InputError("holds no capture")
    capture = HostCapture.from_json(parsed)
    if capture.host != host:
        raise InputError(f"holds the capture of {capture.host[:60]!r}")
    ElementId.host(host)
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
    """Findings of all checks on a bundle, and what was left out of it, the most urgent first."""
    if not bundle.captures:
        return [*bundle.findings, _left_out("no host in it can be judged")]
    return worst_first([*judge(bundle.captures, context), *bundle.findings])

"""Collecting captures into a bundle: each is in the file as soon as its host has answered."""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Self

from nettune.errors import InputError, NettuneError
from nettune.launch.base import Command, Launcher, Outcome
from nettune.launch.run import as_they_end
from nettune.qualify.bundle import (
    ABOUT,
    BUNDLE_SCHEMA,
    FAILED,
    MAX_CAPTURE_BYTES,
    MAX_MEMBERS,
    member_name,
)
from nettune.qualify.redact import redacted
from topology.capture import HostCapture
from topology.discovery.collect import NO_PYTHON, questions, read_outcome

Take = Callable[[Outcome], None]
Ask = Callable[[Sequence[Command], float, Take], None]
"""Runs commands, each with a time-out in seconds, and hands on each outcome as soon as it is there: `asking(launcher)`,
`functools.partial(nettune.launch.tree.through_gateways, gateways)`."""

Progress = Callable[[str], None]

TIMEOUT_S = 60.0
_BLOCK = tarfile.BLOCKSIZE
_TELL_EVERY = 64


@dataclass(frozen=True)
class Collected:
    """What a collection amounts to.

    Attributes:
        hosts: those that were asked.
        captured: how many of them are in the bundle.
        failed: host -> why it is not.
    """

    hosts: Sequence[str]
    captured: int
    failed: Mapping[str, str]


def collect(
    ask: Ask,
    hosts: Sequence[str],
    path: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    resume: bool = False,
    progress: Progress = lambda _: None,
) -> Collected:
    """Capture hosts into a bundle. A host that does not answer, floods or refuses costs only itself.

    While it lasts the bundle is called `PATH.part`; an interrupted one stays, can be judged, and `resume` goes on with it.

    Args:
        ask: how to reach them.
        hosts: their names.
        path: the file to write.
        timeout_s: time for each host.
        resume: ask only hosts that are not yet in `PATH.part`.
        progress: told how far it is.

    Raises:
        InputError: a name that no bundle can hold, or a `PATH.part` that is in the way or of other hosts.
        NettuneError: no host at all gave a capture, the file cannot be written, or it was interrupted.
    """
    if not 0 < len(hosts) <= MAX_MEMBERS - 2:
        raise InputError(f"a bundle holds 1 to {MAX_MEMBERS - 2:,} hosts, not {len(hosts):,}")
    names = {host: member_name(host) for host in hosts}
    failed: dict[str, str] = {}
    with Part(path, list(names), resume=resume) as part:
        asked = [host for host in names if host not in part.captured]

        def answered(host: str, answer: HostCapture | str) -> None:
            if isinstance(answer, HostCapture):
                part.add(answer)
            else:
                failed[host] = answer
            done = len(part.captured) + len(failed)
            if done % _TELL_EVERY == 0:
                progress(f"{done} of {len(names)} hosts")

        try:
            if asked:
                _answers(ask, asked, timeout_s, answered)
        except KeyboardInterrupt:
            raise NettuneError(
                f"interrupted: {len(part.captured)} of {len(names)} hosts are in {part.path}; --resume goes on with it"
            ) from None
        if not part.captured:
            first = next(iter(failed))
            others = f" (and {len(failed) - 1} others)" if len(failed) > 1 else ""
            part.discard()
            raise NettuneError(f"no host gave a capture; {first}: {failed[first]}{others}")
        part.finish(failed)
        return Collected(list(names), len(part.captured), failed)


def asking(launcher: Launcher, at_once: int = 64) -> Ask:
    """Ask each host by itself, so many at the same time."""

    def ask(commands: Sequence[Command], timeout_s: float, take: Take) -> None:
        ended = as_they_end(launcher, commands, timeout_s, max_parallel=at_once, max_bytes=MAX_CAPTURE_BYTES)
        with closing(ended):
            for _, outcome in ended:
                take(outcome)

    return ask


def _answers(
    ask: Ask, hosts: Sequence[str], timeout_s: float, answered: Callable[[str, HostCapture | str], None]
) -> None:
    """Tell of each host, as it comes, its capture or why there is none."""
    bare: list[str] = []

    def take(outcome: Outcome, *, python: bool = True) -> None:
        if python and outcome.rc == NO_PYTHON:
            bare.append(outcome.host)
            return
        try:
            answer: HostCapture | str = read_outcome(outcome.host, outcome, timeout_s)
        except NettuneError as error:
            answer = str(error).removeprefix(f"{outcome.host}: ")
        answered(outcome.host, answer)

    # A host of Kubernetes forwards, too: the role is told, not guessed.
    roles = dict.fromkeys(hosts, "host")
    ask(questions(hosts, roles, "all"), timeout_s, take)
    if bare:
        ask(questions(bare, roles, "all", python=False), timeout_s, partial(take, python=False))


class Part:
    """A bundle that is being written; whatever ends the process, it holds every capture that was added.

    Args:
        path: the bundle that it becomes.
        hosts: all that are asked.
        resume: go on with the part that is there.

    Raises:
        InputError: there is a part and `resume` was not asked for, or it is of other hosts or still being written.
        NettuneError: it cannot be written.
    """

    def __init__(self, path: Path, hosts: Sequence[str], *, resume: bool = False) -> None:
        if not path.name:
            raise InputError("the bundle needs a file name")
        self.path = path.with_name(f"{path.name}.part")
        self.captured: set[str] = set()
        self._final = path
        if path.exists() and not path.is_file():
            raise InputError("cannot be written: it is no regular file", path)
        there = self.path.exists()
        if there and not resume:
            raise InputError(
                "is of a collection that was interrupted: --resume goes on with it; else remove it", self.path
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = self.path.open("r+b" if there else "xb")
        except OSError as error:
            raise NettuneError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise InputError("another collection is writing it", self.path) from error
        except OSError:
            pass  # a file system without locks
        if there:
            self._go_on(hosts)
        # Its end marks are written by `finish` alone.
        self._tar = tarfile.TarFile(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)
        if not there:
            self._write(ABOUT, json.dumps({"schema": BUNDLE_SCHEMA, "hosts": list(hosts)}).encode())

    def _go_on(self, hosts: Sequence[str]) -> None:
        """Find what is whole in the file, and stand behind it."""
        end = 0
        known = {member_name(host): host for host in hosts}
        size = self.path.stat().st_size
        asked = None
        try:
            with tarfile.open(fileobj=self._file, mode="r:") as tar:
                for member, _ in zip(tar, range(MAX_MEMBERS), strict=False):
                    after = member.offset_data + -(-member.size // _BLOCK) * _BLOCK
                    if after > size:
                        break
                    if member.name == ABOUT:
                        content = tar.extractfile(member)
                        asked = json.loads(content.read() if content else b"{}").get("hosts")
                    if member.name in known:
                        self.captured.add(known[member.name])
                    end = after
        except (tarfile.TarError, EOFError, ValueError, AttributeError):
            pass  # a torn end: what stands before it counts
        if asked != list(hosts):
            self._file.close()
            raise InputError("is of a collection of other hosts: name the same, or remove it", self.path)
        self._file.seek(end)
        self._file.truncate()

    def add(self, capture: HostCapture) -> None:
        """Write a capture without its secrets.

        Raises:
            NettuneError: the disk is full or gone.
        """
        text = json.dumps(redacted(capture).to_json())
        self._write(member_name(capture.host), gzip.compress(text.encode(), 3, mtime=0))
        self.captured.add(capture.host)

    def finish(self, failed: Mapping[str, str]) -> None:
        """Say what became of the others, and give the bundle its name.

        Raises:
            NettuneError: the disk is full or gone.
        """
        self._write(FAILED, json.dumps(dict(failed)).encode())
        try:
            self._tar.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.path.replace(self._final)
        except OSError as error:
            raise NettuneError(f"cannot write {self._final}: {error.strerror}") from error

    def discard(self) -> None:
        """Take the file away."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _write(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        info.mode = 0o644
        try:
            self._tar.addfile(info, io.BytesIO(data))
            self._file.flush()
        except OSError as error:
            self._file.close()
            raise NettuneError(f"cannot write {self.path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

"""`nettune lint env` and `nettune lint log`: settings and logs of NCCL, read from files or a process, judged."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from collectives.nccl.environment import MAX_BYTES, Environment, Form, read_file, read_process, read_text
from collectives.nccl.firstcause import lint_logs
from collectives.nccl.job import Job
from collectives.nccl.lint_env import lint_environment
from collectives.nccl.variables import NEWEST, parse_version, value_in_force, version_name
from nettune.checks import Finding, exit_code, worst_first
from nettune.errors import InputError
from nettune.workflows.run import Progress, Run, RunResult, open_run, read_results
from topology.fabric import Fabric

_LONGEST_LINE = 1 << 20
"""Characters; a longer line comes in pieces, so that a file without line ends needs no memory."""

STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the settings are, and what they are held against.

    Attributes:
        source: a file, `-` for standard input; None for a process.
        pid: a process of this machine; None with a source, or for this one.
        form: what the file is; None to recognise it.
        fabric: a file of `nettune discover -o`.
        version: of NCCL; None for the newest known.
        dscp: DSCP of the fabric's lossless class.
    """

    source: str | None = None
    pid: int | None = None
    form: str | None = None
    fabric: Path | None = None
    version: str | None = None
    dscp: int | None = None


def lint_settings(wanted: Settings, runs: Path, progress: Progress) -> RunResult:
    """The verb `lint env`.

    Raises:
        InputError: no such file, process, form or version; a file that is no fabric.
    """
    if wanted.source is not None and wanted.pid is not None:
        raise InputError("give a file or --pid, not both")
    version = NEWEST if wanted.version is None else parse_version(wanted.version)
    environment = _environment(wanted)
    fabric = None if wanted.fabric is None else _fabric(wanted.fabric)
    with open_run("lint-env", runs, progress) as run:
        with run.step("lint"):
            findings = lint_environment(Job(environment, version, fabric, wanted.dscp))
        run.data["lint"] = {
            "kind": "env",
            "sources": [_source_name(wanted)],
            "nccl_version": version_name(version),
            "version_told": wanted.version is not None,
            "fabric": str(wanted.fabric or ""),
            "settings": [
                {
                    "variable": name,
                    "value": one.value,
                    "default": value_in_force(name, version),
                    "file": one.file,
                    "line": one.line,
                }
                for name, one in sorted(environment.in_force.items())
            ],
        }
        return _finish(run, findings)


def lint_rank_logs(files: Sequence[str], runs: Path, progress: Progress) -> RunResult:
    """The verb `lint log`; `-` is standard input.

    Raises:
        InputError: no file, or one that cannot be read.
    """
    if not files:
        raise InputError("no log is given: name the files of all ranks, or - for standard input")
    with open_run("lint-log", runs, progress) as run:
        with run.step("lint"), ExitStack() as opened:
            # All are opened first: a file that is missing is told before an hour of reading.
            logs = [(_log_name(name), _lines(name, opened.enter_context(_open(name)))) for name in files]
            findings = lint_logs(logs)
        run.data["lint"] = {"kind": "log", "sources": [_log_name(name) for name in files]}
        return _finish(run, findings)


def _finish(run: Run, findings: Sequence[Finding]) -> RunResult:
    ordered = worst_first(findings)
    run.data["findings"] = [finding.to_json() for finding in ordered]
    return run.finish(exit_code(ordered))


def _environment(wanted: Settings) -> Environment:
    form = _form(wanted.form)
    if wanted.source == STDIN:
        return read_text("<stdin>", _settings_on_stdin(), form)
    if wanted.source is not None:
        return read_file(wanted.source, form)
    return read_process(wanted.pid, socket.gethostname()) if wanted.pid is not None else _own()


def _settings_on_stdin() -> str:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"has more than {MAX_BYTES >> 20} MiB: no settings", "<stdin>")
    return data.decode("utf-8", "replace")


def _own() -> Environment:
    """Of the shell that called: what a job started here would inherit."""
    return read_process(os.getpid(), socket.gethostname())


def _form(name: str | None) -> Form | None:
    if name is None:
        return None
    try:
        return Form(name)
    except ValueError:
        raise InputError(f"--as {name!r} is not known; choose one of {', '.join(Form)}") from None


def _source_name(wanted: Settings) -> str:
    if wanted.source is not None:
        return "<stdin>" if wanted.source == STDIN else wanted.source
    return "this shell" if wanted.pid is None else f"process {wanted.pid}"


def _fabric(path: Path) -> Fabric:
    """A fabric alone: settings need no routes, which a file of cables does not tell.

    Raises:
        InputError: no results in it.
    """
    data = read_results(path)
    if "fabric" not in data:
        raise InputError("holds no fabric; make it with `nettune discover -o`", path)
    try:
        return Fabric.from_json(data["fabric"])
    except InputError as error:
        raise InputError(str(error), path) from error


def _log_name(name: str) -> str:
    return "<stdin>" if name == STDIN else name


def _open(name: str) -> IO[str]:
    if name == STDIN:
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]  # standard input is a TextIOWrapper
        return sys.stdin
    try:
        if Path(name).is_char_device():  # /dev/zero has no end
            raise InputError("is a device, no log; give a file, or - for standard input", name)
        return Path(name).open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", name) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", repr(name)) from error


def _lines(name: str, file: IO[str]) -> Iterator[str]:
    try:
        while line := file.readline(_LONGEST_LINE):
            yield line
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", name) from error

"""`Run`: one command's results as JSON, a key a step, in a run directory from which its report can be made again."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nettune import __version__
from nettune.errors import InputError
from nettune.records import RunDir, recorded_environment
from reports.document import Report
from reports.jsonform import plain

Progress = Callable[[str], None]
# Large, and of use to programs only through the run directory.
_NOT_PRINTED = ("fabric", "routing", "comparison", "placements", "sizes", "qualify", "machine")


@dataclass(frozen=True)
class RunResult:
    """What a command ends with.

    Attributes:
        exit_code: 0, 1 or 2.
        run_path: the run directory.
        report_path: `report.html` in it.
        report: the report, for the terminal.
        data: what `--output json` prints.
    """

    exit_code: int
    run_path: Path
    report_path: Path
    report: Report
    data: dict[str, Any]


@dataclass
class Run:
    """Results while they are being made.

    Attributes:
        dir: the run directory.
        progress: takes one line a step.
        seed: of every random choice.
        data: the results so far, JSON.
    """

    dir: RunDir
    progress: Progress
    seed: int
    data: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell of a step and keep how long it took."""
        self.progress(f"{name} ...")
        start = time.monotonic()
        yield
        self.data["seconds"][name] = round(time.monotonic() - start, 2)

    def finish(self, code: int, printed: Mapping[str, Any] | None = None) -> RunResult:
        """Write result.json, environment.json and report.html.

        Args:
            code: exit code of the command.
            printed: what `--output json` prints besides the small results.

        Raises:
            NettuneError: a file cannot be written.
        """
        from nettune.workflows.compose import (
            compose,
        )  # draws: not worth loading before there is something to draw
        from reports import html

        self.dir.write_json("environment.json", self.data["machine"])
        self.dir.write_json("result.json", plain(self.data))
        report = compose(self.data)
        path = self.dir.write("report.html", html.render(report))
        small = {key: value for key, value in self.data.items() if key not in (*_NOT_PRINTED, "verb")}
        return RunResult(code, self.dir.path, path, report, {**small, **(printed or {}), "report": str(path)})


@contextmanager
def open_run(verb: str, runs: Path, progress: Progress, *, seed: int = 0) -> Iterator[Run]:
    """A run directory for one command; what is recorded in it stays when the command fails, an empty one goes.

    Raises:
        NettuneError: the directory cannot be made.
    """
    with RunDir.create(verb, runs) as directory:
        about = {
            "verb": verb,
            "command": _command(verb),
            "seed": seed,
            "created": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            "version": __version__,
            "run_dir": str(directory.path),
            "seconds": {},
            "machine": {
                "kernel": platform.release(),
                "python": platform.python_version(),
                "cores": os.cpu_count(),
                "environment": recorded_environment(os.environ),
            },
        }
        try:
            yield Run(directory, progress, seed, about)
        except BaseException:
            with contextlib.suppress(OSError):  # not empty
                directory.path.rmdir()
            raise


def _command(verb: str) -> str:
    """The command line as it was typed; only the verb where nettune was called from a program."""
    typed = Path(sys.argv[0]).parent.name == "nettune" or Path(sys.argv[0]).name == "nettune"
    return shlex.join(["nettune", *sys.argv[1:]]) if typed else f"nettune {verb}"


def read_results(path: Path) -> dict[str, Any]:
    """A JSON object that a command left behind.

    Raises:
        InputError: no file, no JSON, or no object in it.
    """
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON: {error}", path) from error
    if not isinstance(data, dict):
        raise InputError("holds no results", path)
    return data

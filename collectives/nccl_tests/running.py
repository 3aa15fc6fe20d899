"""Running nccl-tests: rows as they come, and an end in any case: time-out, Ctrl-C, a rank that dies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from collectives.nccl_tests.ending import Ending
from collectives.nccl_tests.result import Row, Run
from collectives.nccl_tests.text import TextParser
from nettune.launch.base import Command, Outcome
from nettune.launch.local import LocalLauncher
from nettune.launch.run import run as run_commands

OnRow = Callable[[Row], None]


@dataclass(frozen=True)
class Ran:
    """What became of a run.

    Attributes:
        run: what it printed; the first where a script printed several.
        ending: exit code or time-out.
        text: standard output, then standard error.
        wall_s: seconds.
    """

    run: Run
    ending: Ending
    text: str
    wall_s: float


def run_tests(
    argv: Sequence[str], settings: Sequence[tuple[str, str]], timeout_s: float, on_row: OnRow | None = None
) -> Ran:
    """Run a command of `collectives.nccl_tests.command`.

    Args:
        argv: the command.
        settings: variables that it finds in its environment.
        timeout_s: after which its process group, and what carries its mark, is ended.
        on_row: called with every row as it comes.

    Raises:
        UnavailableError: the launcher of commands is missing.
    """
    parser = TextParser()

    def take(_host: str, _stream: Literal["stdout", "stderr"], line: str) -> None:
        for row in parser.feed(line):
            if on_row is not None:
                on_row(row)

    command = Command("localhost", tuple(argv), env=dict(settings))
    outcome = run_commands(LocalLauncher(), [command], timeout_s, take)[0]
    runs = parser.close()
    ending = _ending(outcome, timeout_s)
    first = runs[0]
    for other in runs[1:]:  # nothing but one binary is started: a second table is another process's
        first.copies += 1
        first.failures += other.failures
        first.failed_words += other.failed_words
    text = outcome.stdout + (f"\n--- standard error ---\n{outcome.stderr}" if outcome.stderr else "")
    return Ran(first, ending, text, outcome.wall_s)


def _ending(outcome: Outcome, timeout_s: float) -> Ending:
    if outcome.timed_out:
        return Ending(timed_out_s=timeout_s)
    if outcome.rc is None:
        return Ending(exit_code=-signal.SIGKILL, said="stopped: it printed more than is kept")
    words = (line.strip() for line in outcome.stderr.splitlines())
    return Ending(exit_code=outcome.rc, said=next((line[:200] for line in words if line.strip("-=* ")), ""))

"""The entry point: builds the app, runs it, and turns every error into one line on stderr and an exit code.

0 pass (also with warnings), 1 verdict FAIL, 2 could not run, bad input, interrupted, or a required check is UNKNOWN.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import TextIO

import typer
from typer.exceptions import TyperException

from nettune.cli import bench, demo, discover, lab, lint, place, qualify, report, simulate, sweep, train
from nettune.errors import NettuneError

COULD_NOT_RUN = 2
_TYPER_INTERRUPTED = 130

app = typer.Typer(
    name="nettune",
    help="Qualify, place, tune and prove the network of a GPU training cluster before the job runs on it.",
    epilog="Start with `nettune demo`; then `nettune lab up` and `nettune qualify --lab lab`. --debug shows tracebacks.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (demo, discover, qualify, place, bench, simulate, train, sweep, report):
    verb.register(app)
app.add_typer(
    lint.app,
    name="lint",
    help="What is wrong with settings, before any byte is sent.",
)
app.add_typer(
    lab.app,
    name="lab",
    help="An emulated Clos fabric of network namespaces, and its faults.",
    epilog="Example: nettune lab up lab.toml",
)


def _version(wanted: bool) -> None:
    if wanted:
        from nettune import __version__

        typer.echo(f"nettune {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _shown: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def run(words: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    message = ""
    details = ""
    try:
        code = app(args=list(words), prog_name="nettune", standalone_mode=False)
    except NettuneError as error:
        if debug:
            raise
        message, details, code = str(error), error.details, error.exit_code
    except TyperException as error:
        said, context = error.format_message(), getattr(error, "ctx", None)
        if said.startswith("Usage: "):  # no verb was given: its help, which is no one-liner
            _say(said, sys.stderr)
            return COULD_NOT_RUN
        hint = f"; see `{context.command_path} --help`" if context is not None else ""
        message, code = said.rstrip(".") + hint, COULD_NOT_RUN
    except typer.Abort:
        message, code = "interrupted", COULD_NOT_RUN
    except SystemExit:
        # Typer leaves this way, and with the code of a failed verdict, when the reader of stdout is gone.
        return COULD_NOT_RUN
    except OSError as error:
        if debug:
            raise
        subject = f": {error.filename}" if error.filename else ""
        message, code = f"{error.strerror or error}{subject}", COULD_NOT_RUN
    except Exception as error:  # a defect of ours: still one line, and not the exit code of a failed verdict
        if debug:
            raise
        kind = type(error).__name__
        message, code = f"unexpected {kind}: {error}; --debug shows where, please report it", COULD_NOT_RUN
    code = code if isinstance(code, int) else 0
    if code == _TYPER_INTERRUPTED:
        message, code = "interrupted", COULD_NOT_RUN
    if message:
        _fail(" ".join(message.split()), words, code)
        if debug and details:
            print(details, file=sys.stderr)
    return code


def _fail(message: str, words: Sequence[str], code: int) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # over what is left of a progress line
    _say(f"{clear}error: {message}", sys.stderr)
    asked = dict(itertools.pairwise(words)).get("--output") == "json" or "--output=json" in words
    if asked:
        from reports.jsonform import error_envelope

        known = {group.name for group in app.registered_groups} | {
            command.callback.__name__ for command in app.registered_commands if command.callback is not None
        }
        verb = next((word for word in words if word in known), "nettune")
        _say(json.dumps(error_envelope(verb, message, code)), sys.stdout)


def _say(text: str, stream: TextIO) -> None:
    """Print what cannot be reported any better when the stream is full or has no reader."""
    with contextlib.suppress(OSError):
        print(text, file=stream, flush=True)


def _open_streams() -> None:
    """Give a process that was started with a closed stdin, stdout or stderr an empty one.

    Without it the next file that is opened would take the number, and what is printed would end up in that file.
    """
    spare = os.open(os.devnull, os.O_RDWR)
    while spare <= 2:
        spare = os.open(os.devnull, os.O_RDWR)
    os.close(spare)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (lives as long as we)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (lives as long as we)


def main() -> None:
    """Console script."""
    # A job manager ends a run with SIGTERM; labs and ranks are taken down on it as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _open_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        code = COULD_NOT_RUN
        # What is still buffered would fail once more, and louder, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    raise SystemExit(code)

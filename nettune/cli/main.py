"""The entry point: builds the app, runs it, and turns every error into one line on stderr and an exit code.

0 pass (also with warnings), 1 verdict FAIL, 2 could not run, bad input, interrupted, or a required check is UNKNOWN.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from nettune.cli import bench, demo, discover, lab, place, qualify, report, sweep, train
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
)
for verb in (demo, discover, qualify, place, bench, train, sweep, report):
    verb.register(app)
app.add_typer(lab.app, name="lab", help="An emulated Clos fabric of network namespaces, and its faults.")


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
        code = app(args=list(words), standalone_mode=False)
    except NettuneError as error:
        if debug:
            raise
        message, details, code = str(error), error.details, error.exit_code
    except TyperException as error:
        message, code = error.format_message(), COULD_NOT_RUN
    except typer.Abort:
        message, code = "interrupted", COULD_NOT_RUN
    except BrokenPipeError:
        sys.stderr.close()  # the reader of stdout is gone: there is nobody left to tell
        return COULD_NOT_RUN
    except OSError as error:
        if debug:
            raise
        subject = f": {error.filename}" if error.filename else ""
        message, code = f"{error.strerror or error}{subject}", COULD_NOT_RUN
    code = code if isinstance(code, int) else 0
    if code == _TYPER_INTERRUPTED:
        message, code = "interrupted", COULD_NOT_RUN
    if message:
        _fail(" ".join(message.split()), words, code)
        if debug and details:
            print(details, file=sys.stderr)
    return code


def _fail(message: str, words: Sequence[str], code: int) -> None:
    print(f"error: {message}", file=sys.stderr)
    asked = dict(itertools.pairwise(words)).get("--output") == "json" or "--output=json" in words
    if asked:
        from reports.jsonform import error_envelope

        verb = next((word for word in words if not word.startswith("-")), "nettune")
        print(json.dumps(error_envelope(verb, message, code)))


def main() -> None:
    """Console script."""
    # A job manager ends a run with SIGTERM; labs and ranks are taken down on it as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(sys.argv[1:])
    sys.stdout.flush()
    raise SystemExit(code)

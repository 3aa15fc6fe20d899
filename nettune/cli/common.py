"""What the verbs share: their common options, and how a result is printed."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from nettune.workflows.run import RunResult


class Output(enum.StrEnum):
    """Rendering of a result on stdout."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="Rendering of the result on stdout.")]
LabOption = Annotated[str, typer.Option("--lab", help="Name of a lab that is up (`nettune lab status`).")]
RunsOption = Annotated[Path, typer.Option("--runs", help="Folder in which the run directory is made.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of every random choice.")]


def finish(
    verb: str, output: Output, exit_code: int, data: Mapping[str, Any], text: Callable[[], str]
) -> None:
    """Print a result in one of its two renderings and leave with its exit code."""
    if output is Output.JSON:
        from reports.jsonform import envelope

        typer.echo(json.dumps(envelope(verb, exit_code, data)))
    else:
        typer.echo(text())
    raise typer.Exit(exit_code)


def finish_run(verb: str, output: Output, result: RunResult, progress: Progress) -> None:
    """Print what a command with a run directory ends with, and leave with its exit code."""
    progress.done()

    def text() -> str:
        from reports import text as terminal

        footer = [f"report  {result.report_path}", f"run     {result.run_path}"]
        return terminal.render(result.report, footer=footer).rstrip("\n")

    finish(verb, output, result.exit_code, result.data, text)


class DefaultGroup(TyperGroup):
    """A verb that works by itself and has subcommands: `discover FILE` beside `discover paths`.

    Its command called `files` is meant when the first word is no subcommand, and shows no name of its own.
    """

    _NAMELESS = "files"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the nameless command in front where no subcommand is named."""
        named = bool(args) and args[0] in self.commands and args[0] != self._NAMELESS
        return super().parse_args(ctx, args if named else [self._NAMELESS, *args])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command, without its name where it is the nameless one."""
        name, command, rest = super().resolve_command(ctx, args)
        return "" if name == self._NAMELESS else name, command, rest


class Progress:
    """One line on stderr: rewritten in place on a terminal, one line a step elsewhere (no control codes in logs)."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def __call__(self, message: str) -> None:
        """Show a step."""
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{message[:78]}")
        else:
            sys.stderr.write(f"{message}\n")
        sys.stderr.flush()

    def done(self) -> None:
        """Clear the line on a terminal."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def add_group(app: typer.Typer, name: str, short_help: str) -> typer.Typer:
    """Add a verb that works by itself and has subcommands; see `DefaultGroup`."""
    verb = typer.Typer(
        cls=DefaultGroup,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_typer(verb, name=name, short_help=short_help)
    return verb

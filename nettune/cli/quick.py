"""The CSV form of `nettune simulate` without the libraries of the command line, which take longer than many a run.

Whatever is not plain and right is left to the real command line, which says what is wrong.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

_VALUED = {
    "--topo": "topo",
    "--flows": "flows_file",
    "--paths": "paths",
    "--hpcc-config": "hpcc_config",
    "--fct": "fct_file",
    "--seeds": "seeds",
    "--output": "output",
}
_FLAGS = {"--whole-ns": True, "--exact": False}


def arguments(words: Sequence[str]) -> dict[str, Any] | None:
    """Arguments of `simulate_files`, and `output`; None where a word is not understood or something is missing."""
    found: dict[str, Any] = {}
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            key, value = "whole_ns", word
        elif name in _VALUED:
            key = _VALUED[name]
            value = value if equals else next(rest, "")
        else:
            return None
        if key in found or not value or (value.startswith("-") and key != "whole_ns"):
            return None
        found[key] = value
    seeds, output = found.get("seeds", "1"), found.setdefault("output", "text")
    if words[:1] != ["simulate"] or not {"topo", "flows_file"} <= found.keys():
        return None
    if not (seeds.isascii() and seeds.isdigit() and len(seeds) < 6) or output not in {"text", "json"}:
        return None
    found["seeds"] = int(seeds)
    if "whole_ns" in found:
        found["whole_ns"] = _FLAGS[found["whole_ns"]]
    return found


def ran(words: Sequence[str]) -> int | None:
    """Run the command line; its exit code, or None where the real one must.

    Nothing has been printed to stdout then, and nothing written.
    """
    given = arguments(words)
    if given is None or None in {sys.stdout, sys.stderr}:
        return None
    from pathlib import Path

    from nettune.errors import NettuneError
    from nettune.workflows.simulated_files import simulate_files

    output = given.pop("output")
    files: dict[str, Any] = {
        key: Path(value) if isinstance(value, str) else value for key, value in given.items()
    }
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        simulated = simulate_files(files.pop("topo"), files.pop("flows_file"), **files, progress=_show)
        text = simulated.text
        if output == "json":
            import json

            from reports.jsonform import envelope

            text = json.dumps(envelope("simulate", simulated.exit_code, simulated.data))
    except (NettuneError, OSError):
        return None
    except KeyboardInterrupt:
        _clear()
        print("error: interrupted", file=sys.stderr)
        return 2
    _clear()
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered would fail once more at the end
        return 2
    return simulated.exit_code


def _show(message: str) -> None:
    """A line of progress; what shows it is loaded only by runs that are long enough for one."""
    from nettune.cli.common import Progress

    Progress()(message)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

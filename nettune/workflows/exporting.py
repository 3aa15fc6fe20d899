"""Files that `nettune discover` writes beside its run: the fabric with its routing, and exports of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nettune.errors import InputError
from nettune.records import json_text, write_atomic
from topology.exports import EXPORTS, export

if TYPE_CHECKING:
    from topology.fabric import Fabric


@dataclass(frozen=True)
class Target:
    """One thing to write.

    Attributes:
        format: of an export, or `fabric` for the fabric with its routing.
        path: as the user gave it; what a symbolic link leads to is written.
    """

    format: str
    path: Path


def targets(writes: Sequence[str], out: Path | None) -> list[Target]:
    """What `--write FORMAT=FILE` and `-o FILE` ask for, checked before any work is done.

    Raises:
        InputError: words that are no `FORMAT=FILE`, a format that is not known, one path for two things, a path that is
            a device or a pipe: a file is renamed into its place, which would take its place away.
    """
    found = [] if out is None else [Target("fabric", out)]
    for words in writes:
        name, equals, path = words.partition("=")
        if not equals or not path:
            raise InputError(f"--write {words!r}: write it like svg=fabric.svg")
        if name not in EXPORTS:
            raise InputError(f"--write {words!r}: format {name!r} is not known; known: {', '.join(EXPORTS)}")
        found.append(Target(name, Path(path)))
    seen: set[Path] = set()
    for target in found:
        place = _place(target.path)
        if place.exists() and not place.is_file() and not place.is_dir():
            raise InputError(f"{target.path} is no regular file; give the name of a file to write")
        if target.format == "fabric" and place.is_dir():
            raise InputError(f"{target.path} is a folder; give the name of a file to write")
        if place in seen and not place.is_dir():
            raise InputError(f"{target.path} is given for two files; give each a name of its own")
        seen.add(place)
    return found


def write(fabric: Fabric, beside: Mapping[str, Any], wanted: Sequence[Target]) -> dict[str, list[str]]:
    """Write what was asked for; format -> paths. A format of several files makes a folder.

    Args:
        fabric: what is exported.
        beside: what the file of format `fabric` holds.
        wanted: as `targets` gives them.

    Raises:
        InputError: the format cannot express the fabric, or several files are to go into one.
        NettuneError: a file cannot be written.
    """
    written: dict[str, list[str]] = {}
    for target in wanted:
        place = _place(target.path)
        if target.format == "fabric":
            files = {place.name: json_text(beside)}
        else:
            files = export(fabric, target.format)
        if len(files) == 1 and not place.is_dir():
            named = [(target.path, place, next(iter(files.values())))]
        elif place.is_file():
            raise InputError(f"{target.path} is a file, {target.format} writes {len(files)}; give a folder")
        else:
            named = [(target.path / name, place / name, text) for name, text in files.items()]
        for shown, path, text in named:
            write_atomic(path, text)
            written.setdefault(target.format, []).append(str(shown))
    return written


def _place(path: Path) -> Path:
    """Where a path leads.

    Raises:
        InputError: links that lead to each other.
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path} leads nowhere: its links form a loop") from error

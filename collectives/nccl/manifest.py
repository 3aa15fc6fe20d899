"""Settings in YAML and JSON: env lists of Kubernetes, `environment` of Compose, ConfigMaps, runtime environments.

A variable is a mapping with `name` and `value`, a key, or a text `NAME=VALUE`; texts of several words are read as the
shell scripts that they mostly are (`args`, `command`). Where it stands in the file is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from collectives.nccl.jobscript import script_settings
from collectives.nccl.settings import Origin, Setting
from collectives.nccl.variables import is_meant_for_nccl
from topology.readers import yamltext
from topology.readers.source import Source

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(\S*)", re.ASCII)
LOOKS_SO = re.compile(
    r"""^\s*(?:-\s+)?(?:\{\s*)?["']?name["']?\s*:\s*["']?NC?CL_|^[\s{]*["']?NCCL_\w+["']?\s*:\s|^\s*-\s+["']?NCCL_\w+=|"NCCL_\w+"\s*:|"name"\s*:\s*"NCCL_""",
    re.MULTILINE,
)


def manifest_settings(name: str, text: str) -> list[Setting]:
    """The settings of a manifest, in its order.

    Raises:
        InputError: no YAML or JSON, with file and line.
    """
    text = text.encode("utf-8", "replace").decode()  # PyYAML's parser in C takes no half of a surrogate pair
    lines = text.split("\n")
    found: list[Setting] = []
    waiting: list[tuple[Any, int]] = [(yamltext.load_all(Source(name, text), templates=True), 1)]
    seen: set[int] = set()
    while waiting:
        value, line = waiting.pop()
        if isinstance(value, str):
            found += _of_text(name, value, _line_of(lines, value.split("\n")[0].strip(), line))
        elif isinstance(value, (Mapping, list)) and id(value) not in seen:
            seen.add(id(value))
            line = getattr(value, "line", line)
            if isinstance(value, Mapping):
                found += _of_mapping(name, value, line, lines)
            parts = value.values() if isinstance(value, Mapping) else value
            waiting += [(part, line) for part in reversed(list(parts))]
    return found


def _of_mapping(file: str, mapping: Mapping[str, Any], line: int, lines: list[str]) -> Iterator[Setting]:
    name = mapping.get("name")
    if isinstance(name, str) and is_meant_for_nccl(name) and mapping.keys() & {"value", "valueFrom"}:
        value = mapping.get("value")
        # A value out of a ConfigMap, a secret or a field of the pod stands elsewhere.
        text = value if isinstance(value, str) else "$(valueFrom)"
        yield Setting(
            name, text, file, _line_of(lines, name, line), Origin.COMMAND, expands=text.startswith("$(")
        )
    for key, value in mapping.items():
        if is_meant_for_nccl(key) and isinstance(value, str):
            yield Setting(key, value, file, _line_of(lines, key, line), Origin.COMMAND)


def _of_text(file: str, text: str, line: int) -> list[Setting]:
    if "NCCL" not in text and "NCLL" not in text:
        return []
    match = _ASSIGNMENT.fullmatch(text)
    if match:
        return (
            [Setting(match[1], match[2], file, line, Origin.COMMAND)] if is_meant_for_nccl(match[1]) else []
        )
    return [replace(one, line=line + one.line - 1) for one in script_settings(file, text)]


def _line_of(lines: list[str], words: str, first: int) -> int:
    """The line on or behind `first` that has these words; `first` where none has."""
    near = lines[first - 1 : first + 400]
    return next((first + offset for offset, line in enumerate(near) if words and words in line), first)

"""The readers by name, and `read`: detect the format of an input by its content, or take the one that is named.

Adding one: `topology/readers/<name>.py` with a `READER`, its line in `_MODULES`, a fixture after the grammar and a row
in the table of `tests/topology/readers/`. The contract tests there (fuzzing, detection) run over all entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_MODULES: tuple[str, ...] = (
    "fabric_json",
    "nccl_topology",
    "nccl_graph",
    "lstopo",
    "nvidia_smi_topo",
    "nccl_log",
    "lldpcli",
    "eos",
    "sonic",
    "scontrol",
    "slurm_conf",
    "slurm_yaml",
    "ec2",
    "gcp",
    "oci",
    "topograph_graph",
    "topograph_payload",
    "topograph_model",
    "kubernetes",
    "netq",
    "nmx",
    "batfish",
    "containerlab",
    "cabling",
    "ibnetdiscover",
    "ibnetdiscover_ports",
    "iblinkinfo",
    "ibdiagnet",
    "opensm_subnet",
    "lft",
)
"""Modules of this package in the order in which they are asked: the more specific recognition first."""


@dataclass(frozen=True)
class Reader:
    """One format.

    Attributes:
        name: for `--format`, provenance and errors.
        what: one line: what prints it.
        recognises: whether the input looks like it; quick, looks at `Source.head` only, raises nothing.
        read: the parser. Raises InputError with the line where content does not follow the grammar.
    """

    name: str
    what: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], Said]


@cache
def readers() -> dict[str, Reader]:
    """All readers by name, in the order in which they are asked."""
    found = [import_module(f"topology.readers.{module}").READER for module in _MODULES]
    return {reader.name: reader for reader in found}


def detect(source: Source) -> Reader:
    """The first reader that recognises the content.

    Raises:
        InputError: none does.
    """
    for reader in readers().values():
        if reader.recognises(source):
            return reader
    raise source.error(f"its format is not recognised; name one with --format: {', '.join(readers())}")


def read(source: Source, format_name: str | None = None) -> Said:
    """What an input says.

    Raises:
        InputError: no such format, not recognised, or content that does not follow it.
    """
    if format_name is not None and format_name not in readers():
        raise InputError(f"format {format_name!r} is not known; known: {', '.join(readers())}")
    reader = detect(source) if format_name is None else readers()[format_name]
    try:
        return reader.read(source)
    except InputError as error:
        if error.file is None:
            raise source.error(str(error)) from error
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise source.error(
            f"unexpected content for {reader.name}: {type(error).__name__}: {error}"
        ) from error

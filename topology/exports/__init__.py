"""Forms in which a fabric leaves for other programs and for eyes; one module per format.

Adding one: a module here with `export(fabric) -> dict[file name, content]`, a line in `EXPORTS`. What the format cannot
express at all is an InputError with the reason; what it loses is told in a comment of the file. A lossless format is
`fabric-json`; the docstring of every other module says what it keeps.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nettune.errors import InputError

if TYPE_CHECKING:
    from topology.fabric import Fabric

EXPORTS = {
    "fabric-json": "topology.exports.fabric_json",
    "slurm-tree": "topology.exports.slurm_tree",
    "slurm-block": "topology.exports.slurm_block",
    "slurm-yaml": "topology.exports.slurm_yaml",
    "kueue": "topology.exports.kueue",
    "nccl-xml": "topology.exports.nccl_xml",
    "dot": "topology.exports.dot",
    "tree": "topology.exports.text_tree",
    "svg": "topology.exports.svg",
}


def export(fabric: Fabric, format_name: str) -> dict[str, str]:
    """Content of every file of a format by its name.

    Raises:
        InputError: no such format, or one that cannot express this fabric.
    """
    if format_name not in EXPORTS:
        raise InputError(f"format {format_name!r} is not known; known: {', '.join(EXPORTS)}")
    files: dict[str, str] = import_module(EXPORTS[format_name]).export(fabric)
    return files

"""`--tuner DIR`: what was measured under several settings of NCCL, as files that make NCCL choose the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from collectives.nccl_tests.completeness import missing
from collectives.nccl_tests.result import Run as TestRun
from collectives.nccl_tests.statements import finding, unknown
from collectives.tuner.choose import choose
from collectives.tuner.files import CONF, CSV, reason, tuner_files
from collectives.tuner.measured import Setting, measured_of
from nettune.checks import Finding, Status
from nettune.errors import InputError
from nettune.records import write_atomic
from nettune.units import format_size
from nettune.workflows.run import Run
from reports.document import Column, Table

TUNER = "nccl-tuner"
Tuner = tuple[Path, int | None]
"""Folder of the files, and message size of the job for nccl.conf."""


def check_folder(tuner: Tuner | None) -> None:
    """Make the folder before anything is measured.

    Raises:
        InputError: it cannot be made, or is no folder.
    """
    if tuner is not None:
        try:
            tuner[0].mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--tuner: cannot be made: {error.strerror}", tuner[0]) from error


def write_tuning(
    run: Run, outputs: Sequence[tuple[str, object, Setting | None]], folder: Path, size_bytes: int | None
) -> list[Finding]:
    """Choose, write the files into the folder, and say what was chosen and what could not be written.

    Args:
        run: keeps the choices under `tuner`.
        outputs: (name, run of nccl-tests, its setting where the caller knows it); other tools' and incomplete ones are
            left out.
        folder: of the files.
        size_bytes: message size of the job, for nccl.conf; None for all sizes.

    Raises:
        NettuneError: a file cannot be written.
    """
    whole = [
        (name, one, told)
        for name, one, told in outputs
        if isinstance(one, TestRun) and not one.failed and not any(missing(one))
    ]
    if len(whole) < 2:
        what = f"{len(whole)} of {len(outputs)} runs is whole: a choice needs two settings"
        return [
            unknown(TUNER, what, "Run or give one output for each setting, from the first line to the last.")
        ]
    try:
        choices = choose([entry for name, one, told in whole for entry in measured_of(one, name, told)])
    except InputError as error:  # what was measured stays, whatever cannot be made of it
        return [unknown(TUNER, str(error), "Name or record the setting of every run.")]
    files, refused = tuner_files(choices, size_bytes=size_bytes)
    for name, text in files.items():
        write_atomic(folder / name, text)
    run.data["tuner"] = {
        "folder": str(folder),
        "files": sorted(files),
        "choices": [
            {
                "op": one.op, "ranks": one.ranks, "nodes": one.nodes, "first_bytes": one.first_bytes,
                "last_bytes": one.last_bytes, "setting": str(one.setting), "why": reason(one),
                "next": f"{one.slower[0][1]:.2f}x {one.slower[0][0]}" if one.slower else "",
                "measured_bytes": list(one.measured_bytes),
            }
            for one in choices
        ],
    }  # fmt: skip
    written = ", ".join(str(folder / name) for name in sorted(files)) or "nothing"
    found = (
        [finding(TUNER, Status.PASS, f"{len(choices)} choices written: {written}", choices=len(choices))]
        if files
        else []
    )
    found += [
        finding(
            TUNER,
            Status.WARN,
            f"{name} was not written: {why}",
            "Give the job's message size with --size, or use the table."
            if name == CONF
            else "Record what is missing, then run again.",
            file=name,
        )
        for name, why in refused.items()
    ]
    if CSV in files and len({one.op for one in choices}) < 5:
        what = "NCCL's example tuner plugin runs every operation without a row on 1 channel"
        found.append(
            finding(TUNER, Status.WARN, what, "Measure the job's other operations too, or use nccl.conf.")
        )
    return found


def table(tuner: Mapping[str, Any]) -> Table:
    """The choices, for the report."""
    rows = [
        [one["op"], one["ranks"], f"from {format_size(one['first_bytes'])}", one["setting"], one["next"]]
        for one in tuner["choices"]
    ]
    heads = [Column(head) for head in ("operation", "ranks", "sizes", "best setting", "the next takes")]
    return Table("The best setting of each range of sizes.", heads, rows, brief=True)

"""`nettune bench --parse`: recorded outputs of nccl-tests and perftest, read and judged as a run of ours would be."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectives.nccl_tests.expectation import Expectation
from collectives.nccl_tests.result import Run
from collectives.nccl_tests.verdict import judge
from collectives.outputs import runs_in
from collectives.perftest import PerfRun
from collectives.perftest_verdict import judge_perftest
from collectives.tuner.measured import Setting, read_setting
from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.errors import InputError
from nettune.stats import bootstrap_median
from nettune.units import format_rate, format_size
from nettune.wording import counted, some
from nettune.workflows.run import Progress, RunResult, open_run
from nettune.workflows.tuned import Tuner, check_folder, write_tuning
from nettune.workflows.tuned import table as tuner_table
from reports.document import Column, Findings, KeyFigure, Part, Report, Section, Table, Verdict

STDIN = "-"
_MOST_BYTES = 256 << 20
_MOST_BRIEF_ROWS = 32
_MOST_BRIEF_TABLES = 3
_HEADS = ("size", "time", "algbw", "busbw", "wrong", "time", "busbw", "wrong")


@dataclass(frozen=True)
class Output:
    """A run in a recorded output, by the name of its file, with the setting that the caller says it had."""

    name: str
    run: Run | PerfRun
    told: Setting | None = None

    def judge(self, expected: Expectation | None, *, named: bool) -> list[Finding]:
        """Findings; with the file's name in front where there are several."""
        name = self.name if named else ""
        if isinstance(self.run, PerfRun):
            return judge_perftest(self.run, expected, name)
        return judge(self.run, expected, name=name)

    def to_json(self) -> dict[str, Any]:
        """What a record keeps."""
        kind = "perftest" if isinstance(self.run, PerfRun) else "nccl-tests"
        return {"name": self.name, "kind": kind, "run": self.run.to_json()}


def parse_files(
    files: Sequence[str], expect: str | None, tuner: Tuner | None, runs: Path, progress: Progress
) -> RunResult:
    """The verdict on recorded outputs; `-` is standard input, `FILE@ring/simple/16` names the setting for the tuner.

    Raises:
        InputError: a file that cannot be read, an expectation that is none.
    """
    expected = None if expect is None else Expectation.parse(expect)
    outputs = read_outputs(files)
    check_folder(tuner)
    with open_run("bench", runs, progress) as run:
        with run.step("read"):
            findings = [one for output in outputs for one in output.judge(expected, named=len(outputs) > 1)]
        run.data["outputs"] = [output.to_json() for output in outputs]
        if tuner is not None:
            findings += write_tuning(run, [(one.name, one.run, one.told) for one in outputs], *tuner)
        run.data["findings"] = [finding.to_json() for finding in worst_first(findings)]
        return run.finish(exit_code(findings))


def _named(word: str) -> tuple[str, Setting | None]:
    file, sign, setting = word.rpartition("@")
    if not sign or Path(word).exists():
        return word, None
    return file, read_setting(setting)


def read_outputs(files: Sequence[str]) -> list[Output]:
    """The runs in files, in their order; `FILE@ring/simple/16` names the setting of the file's runs.

    Raises:
        InputError: a file that cannot be read, a setting that is none.
    """
    found = []
    for word in files:
        file, told = _named(word)
        name, text = ("<stdin>" if file == STDIN else file), _read(file)
        parsed = runs_in(text)
        many = len(parsed) > 1
        found += [
            Output(f"{name}#{number}" if many else name, run, told) for number, run in enumerate(parsed, 1)
        ]
    return found


def _read(file: str) -> str:
    try:
        if file == STDIN:
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", repr(file)) from error
    if len(data) > _MOST_BYTES:
        raise InputError(f"has more than {format_size(_MOST_BYTES)}: no output of one benchmark", file)
    return data.decode("utf-8", "replace")


def report(data: Mapping[str, Any], findings: Sequence[Finding], meta: Mapping[str, str]) -> Report:
    """The report of outputs, read from files or run by us.

    Args:
        data: results of the run, with `outputs`.
        findings: worst first.
        meta: command, versions, machine.
    """
    outputs = data["outputs"]
    tables = [
        _table(output, brief=len(outputs) <= _MOST_BRIEF_TABLES)
        for output in outputs
        if output["run"]["rows"]
    ]
    if "tuner" in data:
        tables.append(tuner_table(data["tuner"]))
    parts: list[Part] = [*tables, Findings(findings)]
    return Report(
        title="Benchmark, run by nettune" if data.get("ran") else "Benchmark, from its recorded output",
        subtitle=some([output["name"] for output in outputs], 4),
        summary=[*map(_figure, _shown(outputs)), *_over_initialisations(outputs)],
        sections=[Section("Results", "Every size as the tool printed it.", parts)],
        meta=dict(meta),
        verdict=_verdict(findings),
    )


def _verdict(findings: Sequence[Finding]) -> Verdict:
    code, first = exit_code(findings), findings[0]
    status = {1: Status.FAIL, 2: Status.UNKNOWN}.get(code, Status.WARN if first.urgency >= 2 else Status.PASS)
    if status is Status.PASS:
        return Verdict(
            status, "all of the output is there, the data is right, and nothing expected is missed"
        )
    return Verdict(status, f"{first.where}: {first.what}")


def _shown(outputs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that have a figure of their own."""
    return [output for output in outputs if output["run"]["rows"]][:16]


def _over_initialisations(outputs: Sequence[Mapping[str, Any]]) -> list[KeyFigure]:
    """The median of runs of one setting: every run is a fresh initialisation, and the interval is drawn over them."""
    groups: dict[str, list[float]] = {}
    for output in _shown(outputs):
        setting, sign, _ = output["name"].rpartition(" #")
        if sign and output["kind"] == "nccl-tests":
            groups.setdefault(setting, []).append(output["run"]["busbw_gbytes_per_s"])
    figures = []
    for setting, values in groups.items():
        if len(values) > 1:
            found = bootstrap_median([[value] for value in values])
            detail = f"({found.lo:.4g} to {found.hi:.4g}), {counted(len(values), 'initialisation')}"
            figures.append(KeyFigure(setting, f"{found.median:.4g} GB/s", detail))
    return figures


def _figure(output: Mapping[str, Any]) -> KeyFigure:
    run = output["run"]
    if output["kind"] == "perftest":
        row = max(run["rows"], key=lambda one: one["size_bytes"])
        rate = format_rate(row["average_gbps"])
        ways = ", both ways" if run["bidirectional"] else ""
        label = f"{run['test'] or 'perftest'} {format_size(row['size_bytes'])}"
        return KeyFigure(label, rate, f"{counted(len(run['rows']), 'size')}{ways}; printed in {run['unit']}")
    size = max(row["size_bytes"] for row in run["rows"])
    label = f"{run['op'] or 'busbw'} {format_size(size)}"
    ranks = (
        f"{counted(run['ranks'], 'rank')} on {counted(len(run['hosts']), 'host')}"
        if run["ranks"]
        else "ranks not told"
    )
    version = f", NCCL {run['nccl_version']}" if run["nccl_version"] else ""
    return KeyFigure(label, f"{run['busbw_gbytes_per_s']:.4g} GB/s", f"{ranks}{version}")


def _table(output: Mapping[str, Any], *, brief: bool) -> Table:
    run, rows = output["run"], output["run"]["rows"]
    caption = f"{output['name']}: {run.get('op') or run.get('test') or 'results'}"
    if output["kind"] == "perftest":
        caption += "; bandwidths in Gbit/s, messages in 1e6 per second"
        heads = [Column(head) for head in ("size", "iterations", "peak", "average", "messages")]
        keys = ("iterations", "peak_gbps", "average_gbps", "msg_rate_mpps")
        cells: list[list[Any]] = [
            [format_size(one["size_bytes"]), *(one[key] for key in keys)] for one in rows
        ]
    else:
        caption += "; us and GB/s, out of place, then in place"
        heads = [Column(head, decimals=2 if "bw" in head else None) for head in _HEADS]
        cells = [_cells(one) for one in rows]
    shown = cells[-_MOST_BRIEF_ROWS:] if brief else cells
    if len(shown) < len(cells):
        caption += f"; the last {len(shown)} of {len(cells)} rows"
    return Table(caption, heads, shown, brief=brief)


def _cells(row: Mapping[str, Any]) -> list[Any]:
    what = " ".join(word for word in (row["type"], row["redop"]) if word not in {"float", "sum", ""})
    out, into = row["out_of_place"], row["in_place"]
    return [
        f"{format_size(row['size_bytes'])}{f' {what}' if what else ''}",
        out["time_us"], out["algbw_gbytes_per_s"], out["busbw_gbytes_per_s"], _count(out["wrong"]),
        into["time_us"], into["busbw_gbytes_per_s"], _count(into["wrong"]),
    ]  # fmt: skip


def _count(wrong: float | None) -> str:
    return "n/a" if wrong is None else f"{wrong:g}"

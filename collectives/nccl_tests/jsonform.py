"""The JSON file of `-J`, versions 1 to 3 (nccl-tests 2.17.5 to 2.19.6), whole or cut short.

src/util.cu, writeBenchmarkLine.. and jsonOutput..: booleans are the strings "true" and "false", `root` is a padded string,
`nwrong` is a number or null, a NaN is the string "nan", `errors` has one empty string when there is none, and `env` is the
whole environment of the process, secrets too: nothing of it leaves this module but NCCL's variables.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from collectives.nccl_tests.result import PROGRAMS, Device, Failure, Row, Run, Values
from collectives.nccl_tests.text import nccl_version_name

_OPTIONS = {
    "nthreads": "threads",
    "ngpus": "gpus",
    "minimum_bytes": "min_bytes",
    "maximum_bytes": "max_bytes",
    "step_factor": "step_factor",
    "step_bytes": "step_bytes",
    "warmup_iters": "warmup",
    "iterations": "iterations",
    "aggregated_iterations": "aggregated",
    "validation": "validation",
    "graph": "graph",
}
_LARGEST = 2**63
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|PRIVATE|JWT", re.IGNORECASE)
_KEY = re.compile(
    r'"(version|start_time|args|env|nccl_version|config|results|out_of_bounds|average_bus_bandwidth|errors|end_time)"\s*:\s*'
)


def looks_like_json(text: str) -> bool:
    """Whether this is a file of -J rather than text."""
    begin = text.lstrip()[:4096]
    return begin.startswith("{") and ('"version"' in begin or '"args"' in begin or '"config"' in begin)


def parse_json(text: str) -> Run:
    """The run in a file of -J; what is left of one that was cut short."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        run = _run(_left_over(text))
        run.concluded = False  # the last bracket, or something before it, is missing
        return run
    return _run(data if isinstance(data, dict) else {})


def _left_over(text: str) -> dict[str, Any]:
    """Values of the top level that are whole; of `results` the rows that are."""
    decoder = json.JSONDecoder()
    found: dict[str, Any] = {}
    at = 0
    while (key := _KEY.search(text, at)) is not None:
        at = key.end()
        try:
            found[key[1]], at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            if key[1] == "results":
                found["results"] = list(_whole_items(decoder, text, at))
    return found


def _whole_items(decoder: json.JSONDecoder, text: str, begin: int) -> Iterator[Any]:
    at = text.find("[", begin) + 1
    while at > 0:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield item


def _run(data: Mapping[str, Any]) -> Run:
    config = _object(data.get("config"))
    environment = _environment(data.get("env"))
    run = Run(
        program=_program(data.get("args")),
        nccl_version=nccl_version_name(code) if (code := _whole(data.get("nccl_version"))) else "",
        options={
            name: number for key, name in _OPTIONS.items() if (number := _whole(config.get(key))) is not None
        },
        devices=[device for entry in _list(config.get("devices")) if (device := _device(entry)) is not None],
        announced=True,
        concluded="end_time" in data,
        per_iteration=config.get("per_iter_timing") == "true",
        environment=shareable(environment),
        secrets=sum(map(is_secret, environment)),
    )
    for entry in _list(data.get("results")):
        row = _row(entry)
        if row is None:
            run.bad_lines.append((0, json.dumps(entry)[:120]))
        else:
            run.rows.append(row)
        run.cpu_time |= "cpu_time" in _object(_object(entry).get("out_of_place"))
    bounds, average = _object(data.get("out_of_bounds")), _object(data.get("average_bus_bandwidth"))
    count, mean = _real(bounds.get("count")), _real(average.get("bandwidth"))
    if math.isfinite(count) and bounds.get("okay") in {"true", "false"}:
        run.out_of_bounds = (count, bounds["okay"] == "true")
    if math.isfinite(mean) and average.get("okay") in {"true", "false", "unchecked"}:
        run.average = mean
        run.average_ok = {"true": True, "false": False}.get(average["okay"])
    run.failures += [
        Failure("error", str(error)[:200], 0)
        for error in _list(data.get("errors"))
        if error not in ("", None)
    ]
    return run


def _row(entry: Any) -> Row | None:
    data = _object(entry)
    size, count, root = (_whole(data.get(key)) for key in ("size", "count", "root"))
    out, into = _values(data.get("out_of_place")), _values(data.get("in_place"))
    if size is None or count is None or out is None or into is None:
        return None
    redop, kind = str(data.get("redop") or ""), str(data.get("type") or "")
    named = None if root is None or root < 0 else root
    return Row(size, count, kind, "" if redop == "none" else redop, named, out, into)


def _values(entry: Any) -> Values | None:
    data = _object(entry)
    time = _real(data.get("time", data.get("cpu_time")))
    algbw, busbw = _real(data.get("alg_bw")), _real(data.get("bus_bw"))
    if not all(map(math.isfinite, (time, algbw, busbw))) or "nwrong" not in data:
        return None
    wrong = data["nwrong"]
    number = None if wrong is None else _real(wrong)
    return Values(time, algbw, busbw, math.inf if number is not None and math.isnan(number) else number)


def _device(entry: Any) -> Device | None:
    data = _object(entry)
    rank, pid, index = (_whole(data.get(key)) for key in ("rank", "pid", "device"))
    if rank is None or rank < 0:
        return None
    host, bus, model = (str(data.get(key) or "")[:255] for key in ("hostname", "device_hex", "device_info"))
    return Device(rank, pid or 0, host, index or 0, bus, model[:80], _whole(data.get("group")) or 0)


def _program(args: Any) -> str:
    first = next((one for one in _list(args) if isinstance(one, str)), "")
    name = PurePosixPath(first).name.removesuffix("_mpi")
    return name if name in PROGRAMS else ""


def _environment(entries: Any) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in _list(entries) if isinstance(entry, str))
    return {name: value for name, sign, value in pairs if sign}


def is_secret(name: str) -> bool:
    """Whether a variable's name looks like a secret's."""
    return _SECRET.search(name) is not None


def shareable(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of NCCL and its tests whose names do not look like a secret's."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(("NCCL_", "RCCL_")) and not is_secret(name)
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    """A whole number, also in a padded string; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,18}\s*", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST else None


def _real(value: Any) -> float:
    """A number; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) < 1e300 else math.inf

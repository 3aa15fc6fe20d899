"""`job.toml` to `JobSpec`: every key has a type, unknown ones are refused, and the line of what is wrong is named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectives.job.layout import DEFAULT_ORDER
from collectives.job.model import ModelShape
from collectives.job.spec import SENDING, JobSpec
from nettune.errors import InputError
from nettune.tables import explain, line_named, line_of, read_toml
from nettune.units import parse_size

if TYPE_CHECKING:
    from pydantic import BaseModel

_BY_KIND = {"algorithm": str, "channels": int, "connections": int, "compute_us": float}
_BITS = 63
"""What TOML promises for a whole number; Python reads longer ones too."""
_MOST_CHARACTERS = 40


def make_job(values: Mapping[str, Any], file: Path | str | None = None, text: str = "") -> JobSpec:
    """A job from plain values; `file` and `text` say where they came from.

    Raises:
        InputError: an unknown key, a wrong type or size, sizes that contradict `ranks`, a job that sends nothing over
            the network; with the line if known.
    """
    tables = _tables()
    parts: dict[str, Any] = {}
    for name, table in tables.items():
        part = (
            values.get(name) if name else {key: value for key, value in values.items() if key not in tables}
        )
        if part is not None:
            parts[name] = _checked(table, part, name, file, text)
    flat = parts.pop("")
    ranks, dp = flat.pop("ranks"), flat.pop("dp")
    try:
        for kind in SENDING:
            flat[f"{kind}_bytes"] = _size(f"{kind}_bytes", flat[f"{kind}_bytes"])
        model = parts.pop("model", None)
        flat["dp"] = _replicas(ranks, flat["tp"] * flat["cp"] * flat["pp"], dp)
        flat["model"] = None if model is None else ModelShape(**model)
        for name, part in parts.items():
            flat[name] = {kind: value for kind, value in part.items() if value is not None}
        job = JobSpec(**flat)
    except InputError as error:
        raise InputError(str(error), file, _line_of_error(str(error), text)) from None
    _refuse_silent(job, file, text)
    return job


def load_job(path: Path | str) -> JobSpec:
    """Read `job.toml`.

    Raises:
        InputError: `FILE:LINE: what is wrong` (the line where it can be found); see `make_job`.
    """
    values, text = read_toml(path)
    return make_job(values, path, text)


def _tables() -> dict[str, type[BaseModel]]:
    """What each table of the file holds; the nameless one is the top."""
    from pydantic import BaseModel, ConfigDict, Field, create_model

    config = ConfigDict(extra="forbid", strict=True)
    whole = Field(default=1, ge=1)

    class Top(BaseModel):
        """Keys outside of tables."""

        model_config = config

        name: str = "job"
        ranks: int | None = Field(default=None, ge=1)
        tp: int = whole
        cp: int = whole
        ep: int = whole
        etp: int = Field(default=0, ge=0)
        pp: int = whole
        dp: int | None = Field(default=None, ge=1)
        dp_replicate: int = whole
        framework: str = "megatron"
        order: str = DEFAULT_ORDER
        sequence_parallel: bool = False
        virtual_stages: int = whole
        zero: int = 0
        micro_batches: int = whole
        domain: int = whole
        pxn: bool = False
        backend: str = "gloo"
        overlap: list[str] = []
        tp_bytes: str | int = 0
        cp_bytes: str | int = 0
        ep_bytes: str | int = 0
        pp_bytes: str | int = 0
        dp_bytes: str | int = 0
        edp_bytes: str | int = 0
        expert_tokens: list[float] = []

    shape = {
        key: (
            bool if one.type == "bool" else int,
            ... if key in {"layers", "hidden", "heads", "seq"} else one.default,
        )
        for key, one in ModelShape.__dataclass_fields__.items()
    }
    make: Any = create_model  # its overloads do not take fields from a dict
    tables = {"": Top, "model": make("Model", __config__=config, **shape)}
    for name, kind in _BY_KIND.items():
        tables[name] = make(name, __config__=config, **dict.fromkeys(SENDING, (kind | None, None)))
    return tables


def _checked(
    table: type[BaseModel], part: Any, name: str, file: Path | str | None, text: str
) -> dict[str, Any]:
    from pydantic import ValidationError

    if not isinstance(part, Mapping):
        raise InputError(f"{name} must be a table, [{name}], not {part!r:.60}", file, line_of(name, text))
    for key, value in part.items():
        if isinstance(value, int) and value.bit_length() > _BITS:
            what = f"{key}: is a whole number of more than {_BITS} bits"
            raise InputError(f"[{name}] {what}" if name else what, file, _line_in(name, str(key), text))
    try:
        found = table.model_validate(dict(part)).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0])
        known = table.model_fields
        if not name:
            known = known | dict.fromkeys(["model", *_BY_KIND])  # type: ignore[assignment] # only their names are told
        what = explain(first, known)
        raise InputError(f"[{name}] {what}" if name else what, file, _line_in(name, key, text)) from None
    return {key: tuple(value) if isinstance(value, list) else value for key, value in found.items()}


def _refuse_silent(job: JobSpec, file: Path | str | None, text: str) -> None:
    """A step that sends nothing over the network costs 0 wherever its ranks are: a pass would look like an answer."""
    # Here, since the phases are made of this package's jobs.
    from collectives.phases import plans

    found = plans(job)
    domains = [job.layout.groups(plan.group) // job.domain for plan in found]
    if any((domain != domain[:, :1]).any() for domain in domains):
        return
    if found:
        names = ", ".join(plan.name for plan in found)
        raise InputError(
            f"job: nothing crosses the network: domain = {job.domain} holds every group of {names}; lower domain to the "
            "ranks of one host, or place nothing",
            file,
            line_of("domain", text),
        )
    idle = [f"{kind}_bytes" for kind in SENDING if job.bytes_of(kind)]
    why = f"{', '.join(idle)}: each group has one rank" if idle else "no bytes are given"
    raise InputError(
        f'job: {job.ranks} ranks send nothing ({why}); give dp_bytes = "4M" with dp of 2 or more, or [model]',
        file,
    )


def _line_in(table: str, key: str, text: str) -> int | None:
    """Line of a key in a table; the table's own where it stands in one line with its keys."""
    lines = text.splitlines()
    start = line_of(table, text) if table else 0
    if start is None:
        return None
    stop = next((row for row in range(start, len(lines)) if lines[row].lstrip().startswith("[")), len(lines))
    found = line_of(key, "\n".join(lines[start:stop]))
    return (start or None) if found is None else start + found


def _line_of_error(message: str, text: str) -> int | None:
    """Line of the key that an error of `JobSpec` or `ModelShape` names first."""
    for name in _BY_KIND:
        if message.startswith(f"job: {name} of "):
            return _line_in(name, message.split()[3].strip("':"), text)
    in_model = message.startswith("job: model ")
    fields = ModelShape.__dataclass_fields__ if in_model else JobSpec.__dataclass_fields__
    known = [word for word in re.findall(r"\w+", message) if word in {*fields, "ranks"}]
    if in_model and known:
        return _line_in("model", known[0], text)
    return line_named(message, known, text)


def _replicas(ranks: int | None, per_replica: int, dp: int | None) -> int:
    if ranks is None:
        return 1 if dp is None else dp
    if ranks % per_replica or (dp is not None and ranks != per_replica * dp):
        sizes = f"tp x cp x pp = {per_replica}" if dp is None else f"tp x cp x pp x dp = {per_replica * dp}"
        raise InputError(f"job: ranks = {ranks} does not fit {sizes}")
    return ranks // per_replica


def _size(key: str, value: str | int) -> int:
    if isinstance(value, int):
        return value
    if len(value) > _MOST_CHARACTERS:
        raise InputError(
            f"job: {key}: {value[:_MOST_CHARACTERS]!r}... is no size; write it like 8, 4K, 128M or 8G"
        )
    try:
        return 0 if value.strip() == "0" else parse_size(value)
    except InputError as error:
        raise InputError(f"job: {key}: {error}") from None

"""Measured data and where it is kept: `Measurement`, run directories, atomic files.

A run directory is `runs/<UTC time>-<verb>/` with config.toml or config.json (resolved), environment.json,
records.jsonl (one writer, one JSON object a line), report.html. A killed run leaves whole lines and perhaps
one torn last line, which the reader drops.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from nettune.errors import InputError, NettuneError
from nettune.schemas import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

MEASUREMENT_SCHEMA = "nettune.measurement/1"
_SECRET_WORDS = (
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "API_KEY", "CREDENTIAL", "PRIVATE"),
    "JWT",  # SLURM_JWT, as `scontrol token` prints it, is a credential
    "PSK",  # NCCL_PSK is a key
)
_RECORDED_PREFIXES = ("NCCL_", "UCX_", "SLURM_", "NETTUNE_", "GLOO_", "OMPI_", "OMP_", "TORCH_", "CUDA_")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One measured number.

    Attributes:
        run: name of the run.
        trial: what was measured under which setting, `order=nettune,size=4194304`.
        init: which initialisation of the communicator: new connections, new ports, a new ECMP outcome.
        repeat: repeat inside the initialisation; repeats of one `init` are not independent.
        rank: the rank that measured it; -1 for the job as a whole.
        metric: what, `allreduce_time`.
        value: the number.
        unit: its unit, `s`, `gbps`, `bytes`.
    """

    run: str
    trial: str
    init: int
    repeat: int
    rank: int
    metric: str
    value: float
    unit: str

    def __post_init__(self) -> None:
        if self.init < 0 or self.repeat < 0 or self.rank < -1:
            msg = f"{self.metric}: init and repeat start at 0, rank at -1"
            raise ValueError(msg)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`."""
        return {"schema": MEASUREMENT_SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, or keys that are missing or unknown.
        """
        check_schema(data, MEASUREMENT_SCHEMA)
        try:
            return cls(**{key: value for key, value in data.items() if key != "schema"})
        except TypeError as error:
            raise InputError(f"not a measurement: {error}") from error


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write a file under a temporary name beside it and rename it: readers see the old or the new whole.

    Raises:
        NettuneError: the disk is full, the folder cannot be written, or the path is a device or a pipe, whose place a
            renamed file would take.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise NettuneError(f"cannot write {path}: it is no regular file")
    data = content.encode() if isinstance(content, str) else content
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise NettuneError(f"cannot write {path}: {error.strerror}") from error
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def json_text(data: Any) -> str:
    """JSON with one line for each key of the outermost object.

    Indenting all of it would take the encoder written in Python, which needs seconds for a large fabric.

    Raises:
        ValueError: a number that is NaN or infinite.
    """
    if not isinstance(data, dict) or not data:
        return json.dumps(data, allow_nan=False) + "\n"
    lines = (f" {json.dumps(str(key))}: {json.dumps(value, allow_nan=False)}" for key, value in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that shape a run's network, without anything that looks like a secret."""
    return {
        key: value
        for key, value in sorted(environment.items())
        if key.startswith(_RECORDED_PREFIXES) and not is_secret(key)
    }


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a credential."""
    return any(word in name.upper() for word in _SECRET_WORDS)


class RunDir:
    """The directory of one run; a context manager around its one writer of records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: IO[str] | None = None

    @classmethod
    def create(cls, verb: str, root: Path | str = "runs") -> RunDir:
        """Make `root/<UTC time>-<verb>`; a number is added when two runs start in the same second.

        Raises:
            NettuneError: the folder cannot be made.
        """
        stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{verb}"
        for suffix in ("", *(f".{number}" for number in range(1, 100))):
            path = Path(root) / (stem + suffix)
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise NettuneError(f"cannot make the run directory {path}: {error.strerror}") from error
            return cls(path)
        raise NettuneError(f"cannot make a run directory {stem} in {root}: a hundred exist already")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._records is not None:
            self._records.close()
            self._records = None

    def write(self, name: str, content: str | bytes) -> Path:
        """Write one file of the run, whole or not at all; returns its path."""
        write_atomic(self.path / name, content)
        return self.path / name

    def write_json(self, name: str, data: Any) -> Path:
        """Write one JSON file of the run."""
        return self.write(name, json_text(data))

    def record(self, measurement: Measurement) -> None:
        """Append one measurement to records.jsonl; it is on its way to the disk when this returns.

        Raises:
            NettuneError: the disk is full or gone; what was written before is kept.
        """
        try:
            if self._records is None:
                self._records = (self.path / "records.jsonl").open("a", encoding="utf-8")
            self._records.write(json.dumps(measurement.to_json()) + "\n")
            self._records.flush()
        except OSError as error:
            raise NettuneError(f"cannot write {self.path / 'records.jsonl'}: {error.strerror}") from error


def read_records(path: Path | str) -> Iterator[Measurement]:
    """Measurements of a records.jsonl; a torn last line (a killed run) is dropped.

    Raises:
        InputError: the file is absent, or a line that is not the last is no measurement.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path) from error
    torn = lines.pop()  # b"" after a whole last line
    for number, line in enumerate(lines, start=1):
        try:
            yield Measurement.from_json(json.loads(line))
        except (ValueError, InputError, AttributeError) as error:
            raise InputError(f"not a record: {error}", path, number) from error
    if torn:
        with contextlib.suppress(ValueError, InputError, AttributeError):
            yield Measurement.from_json(json.loads(torn))

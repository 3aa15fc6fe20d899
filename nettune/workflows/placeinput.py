"""What people give to `nettune place` beside the job: pins, maps that were made elsewhere, the load of other jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from collectives.job import load_job, make_job
from collectives.traffic import JobTraffic
from nettune.errors import InputError
from nettune.hosts import expand_hosts
from nettune.schemas import check_schema
from nettune.workflows.run import read_results
from topology.loads import job_loads
from topology.placement.mapping import PLACEMENT_SCHEMA, Placement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topology.fabric import Fabric
    from topology.routing import Routing

LOADS_SCHEMA = "nettune.link-loads/1"

_RANK_LINE = re.compile(r"rank\s+(\d+)\s*=\s*(\S+)(?:\s+slot\s*=.*)?")
_HOST_LINE = re.compile(
    r"(?:[^\s@,]+@)?([^\s:*]+?)(?:[:*](\d{1,9}))?((?:\s+(?:slots|max_slots|max-slots)\s*=\s*\d{1,9})*)"
)
_SLOTS = re.compile(r"\bslots\s*=\s*(\d+)")
_MOST_SLOTS = 4096
_MOST_RANKS = 1 << 20
_COMMA = re.compile(r",(?![^\[]*\])")


@dataclass(frozen=True)
class OtherJobs:
    """What is on the fabric already.

    Attributes:
        link_bytes: (2L,) bytes on each directed link while a step of the job lasts.
        hosts: those that the other jobs run on.
        said: one line for each, for notes.
    """

    link_bytes: NDArray[np.float64]
    hosts: tuple[str, ...] = ()
    said: tuple[str, ...] = field(default=())


def check_hosts(fabric: Fabric, names: Iterable[str], where: str) -> None:
    """Refuse names that are no hosts of the fabric.

    Raises:
        InputError: the name, and whether it is a switch.
    """
    hosts = set(fabric.hosts)
    for name in names:
        if name not in hosts:
            fabric.node_row(name)
            raise InputError(f"{where}: {name!r} is a switch of the fabric, and ranks run on hosts")


def read_pins(words: Sequence[str]) -> dict[int, str]:
    """`RANK=HOST` words as rank -> host.

    Raises:
        InputError: another form, or a rank that is pinned twice.
    """
    pins: dict[int, str] = {}
    for word in words:
        rank, equals, host = word.partition("=")
        if not equals or not host.strip() or not re.fullmatch(r"\s*[0-9]{1,9}\s*", rank):
            raise InputError(f"--pin {word!r} is no pin; write it like 0=g17")
        if pins.setdefault(int(rank), host.strip()) != host.strip():
            raise InputError(f"--pin: rank {int(rank)} is pinned to {pins[int(rank)]!r} and {host.strip()!r}")
    return pins


def read_placement(path: Path, fabric: Fabric) -> Placement:
    """The map of a `placement.json`, or of the run directory of `nettune place`.

    Raises:
        InputError: no such file, none of these, or names that the fabric does not have; with the file.
    """
    path = path / "placement.json" if path.is_dir() else path
    data = read_results(path)
    try:
        found = Placement.from_json(data, fabric)
        check_hosts(fabric, found.hosts(fabric), "the map")
    except InputError as error:
        raise InputError(str(error), path) from None
    return found


def read_parent(path: Path, fabric: Fabric) -> tuple[NDArray[np.int64], list[str]]:
    """Where the ranks of a `placement.json`, or of a run directory, are, and the hosts that the fabric has no more.

    Returns:
        (R,) node rows, -1 for a host that is gone; names of the hosts that are gone.

    Raises:
        InputError: no such file, or none of these; with the file.
    """
    path = path / "placement.json" if path.is_dir() else path
    data = read_results(path)
    known = {host: fabric.node_row(host) for host in fabric.hosts}
    try:
        check_schema(data, PLACEMENT_SCHEMA)
        names = [str(entry["host"]) for entry in data["ranks"]]
    except (KeyError, TypeError) as error:
        raise InputError(f"is no placement: {type(error).__name__}: {error}", path) from None
    except InputError as error:
        raise InputError(str(error), path) from None
    rows = np.array([known.get(name, -1) for name in names], dtype=np.int64)
    if not (rows >= 0).any():
        raise InputError("none of its hosts is in the fabric", path)
    return rows, list(dict.fromkeys(name for name in names if name not in known))


def read_map(path: Path, fabric: Fabric) -> list[str] | Placement:
    """A map that was made elsewhere: placement.json, a hostfile of any launcher, or an Open MPI rankfile.

    A hostfile has a host a line, or several with commas between them, `#` begins a comment; `slots=N` (Open MPI, DeepSpeed),
    `HOST:N` (Hydra) and `HOST*N` (Slurm) mean N ranks in a row, `h[1-4]` four hosts.

    Returns:
        Hosts, accelerators and NICs of a placement.json; else the host of each line or rank, in order: as many as the job has
        ranks or nodes, which the caller checks.

    Raises:
        InputError: no such file, a line that is none of these, a host that the fabric does not have; with the line.
    """
    if path.is_dir() or _starts_with_brace(path):
        return read_placement(path, fabric)
    known = set(fabric.hosts)
    hosts: list[str] = []
    by_rank: dict[int, str] = {}
    for number, raw in enumerate(_text(path).splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if ranked := _RANK_LINE.fullmatch(line):
            if int(ranked[1]) in by_rank:
                raise InputError(f"rank {int(ranked[1])} is named twice", path, number)
            by_rank[int(ranked[1])] = ranked[2]
            named = [(ranked[2], 1)]
        else:
            named = _hosts_of_line(line, path, number)
        for host, count in named:
            if host not in known:
                raise InputError(f"the fabric has no host {host[:60]!r}", path, number)
            hosts += [host] * count
        if len(hosts) > _MOST_RANKS:
            raise InputError(f"names more than {_MOST_RANKS} ranks", path, number)
    if not hosts:
        raise InputError("names no host", path)
    if not by_rank:
        return hosts
    if len(by_rank) < len(hosts) or sorted(by_rank) != list(range(len(by_rank))):
        raise InputError(
            f"a rankfile must have a line for each of the ranks 0 to {max(by_rank)}, and nothing else", path
        )
    return [by_rank[rank] for rank in range(len(by_rank))]


def _hosts_of_line(line: str, path: Path, number: int) -> list[tuple[str, int]]:
    """Hosts of a line of a hostfile, and how many ranks in a row each has there.

    Raises:
        InputError: no line of a hostfile, or so many ranks that it cannot be meant.
    """
    found: list[tuple[str, int]] = []
    for word in _COMMA.split(line):
        plain = _HOST_LINE.fullmatch(word.strip())
        if not plain:
            raise InputError(
                f"{line[:60]!r} is no line of a hostfile or rankfile; write a host a line", path, number
            )
        slots = _SLOTS.search(plain[3])
        count = int(slots[1] if slots else plain[2] or 1)
        if not 1 <= count <= _MOST_SLOTS:
            raise InputError(f"{count} slots are not 1 to {_MOST_SLOTS}", path, number)
        try:
            hosts = expand_hosts(plain[1]) if "[" in plain[1] else [plain[1]]
            found += [(host, count) for host in hosts]
        except InputError as error:
            raise InputError(str(error), path, number) from None
    return found


def read_other_jobs(words: Sequence[str], routing: Routing) -> OtherJobs | None:
    """What is on the fabric already; None where nothing is given.

    Args:
        words: each a run directory of `nettune place`, `JOB.toml=MAP`, or a file of link loads.
        routing: forwarding state with its fabric.

    Raises:
        InputError: a file that is none of these, or that speaks of another fabric; with the file.
        UnknownPathError: two hosts of another job have no route between them.
    """
    if not words:
        return None
    fabric = routing.fabric
    loads = np.zeros(fabric.directed_count)
    hosts: dict[str, None] = {}
    said = []
    for word in words:
        job_file, equals, map_file = word.rpartition("=")
        path = Path(word)
        if equals and not path.exists():
            traffic = JobTraffic(load_job(job_file))
            placement = _map_of(traffic, read_map(Path(map_file), fabric), fabric, Path(map_file))
        elif path.is_dir():
            traffic = _job_of_run(path)
            placement = read_placement(path, fabric)
        else:
            loads += read_link_loads(path, fabric)
            said.append(f"link loads of {path.name}")
            continue
        try:
            loads += job_loads(routing, [(traffic, placement)])
        except InputError as error:
            raise InputError(f"--background {word}: {error}") from None
        used = dict.fromkeys(placement.hosts(fabric))
        hosts |= used
        said.append(f"job {traffic.job.name} on {len(used)} hosts")
    return OtherJobs(loads, tuple(hosts), tuple(said))


def read_link_loads(path: Path, fabric: Fabric) -> NDArray[np.float64]:
    """(2L,) bytes of a file of link loads: `{"schema": "nettune.link-loads/1", "links": {"leaf0:u0 > spine1:d0": 1e6}}`.

    Raises:
        InputError: no such file, no numbers, or links that the fabric does not have; with the file.
    """
    data = read_results(path)
    try:
        check_schema(data, LOADS_SCHEMA)
        rows = {fabric.directed_name(row): row for row in range(fabric.directed_count)}
        loads = np.zeros(fabric.directed_count)
        unknown = [name for name in data["links"] if name not in rows]
        for name, value in data["links"].items():
            loads[rows.get(name, 0)] = float(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"is no file of link loads: {type(error).__name__}: {error}", path) from None
    except InputError as error:
        raise InputError(str(error), path) from None
    if unknown:
        raise InputError(
            f"the fabric has no link {unknown[0][:80]!r}; write it like 'leaf0:u0 > spine1:d0'", path
        )
    if not (np.isfinite(loads) & (loads >= 0)).all():
        raise InputError("links: bytes are negative or no number", path)
    return loads


def _map_of(traffic: JobTraffic, hosts: list[str] | Placement, fabric: Fabric, path: Path) -> Placement:
    if isinstance(hosts, Placement):
        return hosts
    per_host, rest = divmod(traffic.ranks, len(hosts))
    if rest or not per_host:
        raise InputError(
            f"names {len(hosts)} hosts for the {traffic.ranks} ranks of job {traffic.job.name!r}", path
        )
    return Placement.of_hosts(fabric, [host for host in hosts for _ in range(per_host)])


def _job_of_run(folder: Path) -> JobTraffic:
    path = folder / "result.json"
    job: Any = read_results(path).get("job")
    if not isinstance(job, dict):
        raise InputError("is no run of `nettune place`", path)
    values = {key: value for key, value in job.items() if value is not None and value != {}}
    return JobTraffic(make_job(values, path))


def _starts_with_brace(path: Path) -> bool:
    return _text(path).lstrip().startswith("{")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except UnicodeDecodeError as error:
        raise InputError("is no text in UTF-8", path) from error


def prediction_json(data: dict[str, Any], fabric: Fabric) -> str:
    """`prediction.json`: what a map is predicted to do, links by their names; `--background` reads it again."""
    predicted = data["predicted"]
    rows = {row for phase in predicted["phases"] for row in phase["link_bytes"]}
    name = {row: fabric.directed_name(int(row)) for row in rows}
    total: dict[str, float] = {}
    phases = {}
    for phase in predicted["phases"]:
        links = {name[row]: value for row, value in phase["link_bytes"].items()}
        phases[phase["name"]] = {"time_us": phase["time_us"], "links": links}
        for link, value in links.items():
            total[link] = total.get(link, 0.0) + value
    figures = {key: data[key] for key in ("cost_us", "bound_us", "gap", "max_link_load_bytes", "moves")}
    content = {
        "schema": LOADS_SCHEMA,
        **figures,
        "time_us": predicted["time_us"],
        "links": total,
        "phases": phases,
    }
    return json.dumps(content) + "\n"

"""What is known of each lab between commands: one small file per lab, in a folder that only its user can read.

A lab lives as long as its holder process; a state whose holder is gone is stale, and the next command removes it
with whatever its faults left outside the lab (cgroups).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nettune.errors import NettuneError
from nettune.lab.cgroups import remove_stale_cgroups
from nettune.lab.frame.process import ProcessId
from nettune.lab.spec import LabSpec, make_spec
from nettune.lab.wiring import Move
from nettune.records import write_atomic

SCHEMA = "nettune.lab-state/1"
_LOCK_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class LabState:
    """A lab as other processes find it.

    Attributes:
        spec: what was asked for.
        holder: the process that keeps it alive.
        user: whether it lives in a user namespace (made by an ordinary user).
        moves: (host, NIC) -> where it is cabled instead of where the spec says.
        faults: records of active faults, oldest first (`ActiveFault.to_json`).
        counter: number of the last fault, so that ids are not used twice.
    """

    spec: LabSpec
    holder: ProcessId
    user: bool
    moves: dict[tuple[str, str], Move] = field(default_factory=dict)
    faults: tuple[dict[str, Any], ...] = ()
    counter: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "schema": SCHEMA,
            "spec": self.spec.model_dump(mode="json"),
            "holder": {"pid": self.holder.pid, "start": self.holder.start},
            "user": self.user,
            "moves": [[host, nic, move.leaf, move.port] for (host, nic), move in self.moves.items()],
            "faults": list(self.faults),
            "counter": self.counter,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LabState:
        """Inverse of `to_json`; KeyError, TypeError or ValueError when it is none."""
        return cls(
            spec=make_spec(values["spec"]),
            holder=ProcessId(values["holder"]["pid"], values["holder"]["start"]),
            user=values["user"],
            moves={(host, nic): Move(leaf, port) for host, nic, leaf, port in values["moves"]},
            faults=tuple(values["faults"]),
            counter=values["counter"],
        )

    def with_faults(self, faults: tuple[dict[str, Any], ...]) -> LabState:
        """The same lab with other faults."""
        return replace(self, faults=faults)


def state_folder() -> Path:
    """This user's folder of lab states, made on first use.

    Raises:
        NettuneError: it cannot be made, or belongs to somebody else.
    """
    uid = os.getuid()
    runtime = [os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}"]
    base = next((Path(folder) for folder in runtime if folder and _is_mine(Path(folder))), None)
    folder = base / "nettune-lab" if base else Path(tempfile.gettempdir(), f"nettune-lab-{uid}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise NettuneError(f"cannot make {folder}: {error.strerror}") from None
    if not _is_mine(folder):
        raise NettuneError(f"{folder} belongs to another user; set XDG_RUNTIME_DIR to a folder of your own")
    return folder


def _is_mine(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold this user's lab lock: one `up`, `down` or fault at a time.

    Raises:
        NettuneError: another command holds it for too long.
    """
    path = state_folder() / "lock"
    try:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NettuneError(f"cannot write {path}: {error.strerror}") from None
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NettuneError(f"another lab command is still at work (it holds {path})") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def write_state(state: LabState) -> None:
    """Put the state where `read_state` finds it."""
    write_atomic(_path(state.spec.name), json.dumps(state.to_json()))


def read_state(name: str) -> LabState | None:
    """The state of a lab that is up, else None."""
    state = _parse(_path(name))
    return state if state is not None and state.holder.alive else None


def remove_state(name: str) -> None:
    """Forget a lab."""
    _path(name).unlink(missing_ok=True)


def names() -> list[str]:
    """Names of the labs that are up."""
    return [path.stem for path in _files() if read_state(path.stem) is not None]


def clean_stale() -> list[str]:
    """Remove what labs left whose holder is gone; their names. Call it under the lock."""
    gone = [path.stem for path in _files() if read_state(path.stem) is None]
    for name in gone:
        remove_state(name)
    for torn in state_folder().glob(".*.json.*"):
        torn.unlink(missing_ok=True)
    remove_stale_cgroups()
    return gone


def _path(name: str) -> Path:
    return state_folder() / f"{name}.json"


def _files() -> list[Path]:
    return sorted(path for path in state_folder().glob("*.json") if not path.name.startswith("."))


def _parse(path: Path) -> LabState | None:
    try:
        return LabState.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, KeyError, TypeError, ValueError, NettuneError):
        return None

"""Settings as they are given: of a process, of files with KEY=VALUE, of nccl.conf, of a job script or a manifest.

Only variables that are NCCL's, or were meant to be, are kept: an environment holds secrets.
Precedence (NVIDIA/nccl src/misc/param.cc, 2.30.7): the process's own environment, then NCCL_CONF_FILE (2.23 and later)
or else ~/.nccl.conf of the user in the password file, then /etc/nccl.conf; each sets only what is not yet set.
"""

from __future__ import annotations

import enum
import pwd
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from collectives.nccl.jobscript import script_settings
from collectives.nccl.manifest import LOOKS_SO, manifest_settings
from collectives.nccl.settings import Origin, Setting
from collectives.nccl.variables import is_meant_for_nccl
from nettune.errors import InputError
from nettune.records import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 16 << 20
"""A file of settings is not larger."""

_CONF_VALUE = 1023
"""Bytes of a name and of a value that nccl.conf keeps."""


class Form(enum.StrEnum):
    """What a text is."""

    ENVIRON = "environ"  # KEY=VALUE with a NUL after each: /proc/PID/environ
    CONF = "nccl.conf"
    LINES = "env"  # KEY=VALUE a line: the output of env, a container's env file
    SCRIPT = "script"  # shell, sbatch
    MANIFEST = "manifest"  # YAML, JSON: Kubernetes, Compose


@dataclass(frozen=True)
class Environment:
    """Settings from one or more sources.

    Attributes:
        settings: all, in the order of their sources.
        empty: the text had nothing in it at all.
        unread: why it may hold settings that were not read; empty otherwise.
        host: of a live process; empty otherwise.
        notes: sources that could not be read, with the reason.
    """

    settings: tuple[Setting, ...]
    empty: bool = False
    unread: str = ""
    host: str = ""
    notes: tuple[str, ...] = ()
    _first: dict[str, Setting] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Setting] = {}
        for setting in self.settings:
            if setting.origin in {Origin.LOST, Origin.LOCAL}:
                continue
            held = by_name.get(setting.name)
            # A script's last assignment counts; between files, and inside nccl.conf, the first one does.
            if held is None or (setting.origin.is_script and held.file == setting.file):
                by_name[setting.name] = setting
        seen = {name: one for name, one in by_name.items() if one.origin is not Origin.UNSET}
        object.__setattr__(self, "_first", seen)

    @property
    def in_force(self) -> dict[str, Setting]:
        """The setting of each name that NCCL would see."""
        return self._first

    def get(self, name: str) -> Setting | None:
        """The setting of a variable; None where it is not set."""
        return self._first.get(name)

    def shadowed(self) -> list[tuple[Setting, Setting]]:
        """(a setting without effect, the one before it that counts), where the two differ."""
        return [
            (one, self._first[one.name])
            for one in self.settings
            if one.name in self._first
            and not (one.origin.is_script or one.origin is Origin.UNSET)
            and self._first[one.name] is not one
            and self._first[one.name].value != one.value
        ]


_MANIFESTS = {".yaml", ".yml", ".json"}


def form_of(name: str, text: str) -> Form:
    """What a text is, by the file's name and its content."""
    if "\0" in text:
        return Form.ENVIRON
    if Path(name).name.endswith("nccl.conf"):
        return Form.CONF
    if Path(name).suffix in _MANIFESTS:
        return Form.MANIFEST
    if text.startswith("#!") or _SHELL.search(text):
        return Form.SCRIPT
    if LOOKS_SO.search(text):
        return Form.MANIFEST
    return Form.LINES


_SHELL = re.compile(
    r"^[ \t]*(?:export|unset|setenv|declare|module|source|set|if|for|exec|srun|mpirun|mpiexec|torchrun|docker|#SBATCH)\b"
    r"|(?:^|\s)(?:-x|-e|--env|--export=?|-genv)[ =]\S*NCCL",
    re.MULTILINE,
)


def read_text(name: str, text: str, form: Form | None = None) -> Environment:
    """The settings of a text; its form is recognised where it is not told.

    Raises:
        InputError: a manifest that is no YAML.
    """
    recognised = form is None and Path(name).suffix not in _MANIFESTS
    form = form or form_of(name, text)
    if form is Form.ENVIRON:
        found = _environ(name, text)
    elif form is Form.CONF:
        found = _conf(name, text)
    elif form is Form.SCRIPT:
        found = script_settings(name, text)
    elif form is Form.MANIFEST:
        try:
            found = manifest_settings(name, text)
        except InputError:
            if not recognised:
                raise
            found, form = _lines(name, text), Form.LINES
    else:
        found = _lines(name, text)
    settings = tuple(
        _masked(one) for one in found if is_meant_for_nccl(one.name) or one.origin is Origin.LOST
    )
    return Environment(
        settings,
        empty=not text.strip("\0 \t\r\n"),
        unread="" if settings else _named_without_effect(text, form) or _too_little(text, form),
    )


def _too_little(text: str, form: Form) -> str:
    """Whether a text is no environment at all: values of several lines are few, other files hold a `=` here and there."""
    if form not in {Form.ENVIRON, Form.LINES}:
        return ""
    entries = [entry for entry in text.split("\0" if form is Form.ENVIRON else "\n") if entry.strip()]
    told = sum(_ENTRY.match(entry) is not None for entry in entries)
    return "holds hardly any NAME=VALUE" if told * _MOST_OTHERS < len(entries) else ""


def _named_without_effect(text: str, form: Form) -> str:
    """A variable of NCCL that a text names though nothing of it was read as a setting; empty where there is none."""
    for line in text.splitlines():
        match = _NAME.search(line)
        if match and not _TELLS.match(line):
            return f"names {match[0][:60]}, but not as a setting in the form `{form}`"
    return ""


_ENTRY = re.compile(r"\s*(?:#|[A-Za-z_][\w.%-]*=)", re.ASCII)
_MOST_OTHERS = 4
"""One line in so many of an environment is at least a setting or a comment; own figure."""
_TELLS = re.compile(r"\s*(?:#|echo\b|printf\b|printenv\b)")
_NAME = re.compile(r"(?<![\w${])NCCL_[A-Z][A-Z0-9_]+")


def _masked(setting: Setting) -> Setting:
    """Without a secret's value."""
    return replace(setting, value="*" * len(setting.value)) if is_secret(setting.name) else setting


def read_file(path: Path | str, form: Form | None = None) -> Environment:
    """The settings of a file.

    Raises:
        InputError: it cannot be read, or is far too large.
    """
    return read_text(str(path), _text(Path(path)), form)


def read_process(pid: int, host: str, proc: Path = Path("/proc")) -> Environment:
    """The settings that a running process of this machine sees: its environment, then the configuration files.

    The environment is the one that it was started with; what it set itself later is not in /proc.

    Raises:
        InputError: no such process, or another user's.
    """
    folder = proc / str(pid)
    try:
        own = read_text(f"environ of process {pid}", _text(folder / "environ"), Form.ENVIRON)
        user = folder.stat().st_uid
    except InputError as error:
        raise InputError(
            f"process {pid}: {error}; give the id of a process that is running and yours, or be root"
        ) from error
    except OSError as error:
        raise InputError(f"process {pid}: {error.strerror}; give the id of a running process") from error
    root = folder / "root"
    files, notes = [], []
    told = own.get("NCCL_CONF_FILE")
    if told is not None and told.value:
        files.append(Path(told.value) if Path(told.value).is_absolute() else folder / "cwd" / told.value)
    else:
        home = _home(user)
        files += [Path(home) / ".nccl.conf"] if home else []
    files.append(Path("/etc/nccl.conf"))
    settings = list(own.settings)
    for file in files:
        seen = root / str(file).lstrip("/") if file.is_absolute() and not file.is_relative_to(proc) else file
        try:
            settings += [replace(one, file=str(file)) for one in read_file(seen, Form.CONF).settings]
        except InputError as error:
            if told is not None and file is files[0]:
                notes.append(f"NCCL_CONF_FILE {told.value}: {error}")
            elif "No such file" not in str(error):
                notes.append(str(error))
    return Environment(tuple(settings), host=host, notes=tuple(notes), empty=own.empty and not settings)


def _home(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_dir
    except KeyError:
        return ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"cannot be read: {error}", repr(str(path))) from error
    if len(data) > MAX_BYTES:
        raise InputError(f"has more than {MAX_BYTES >> 20} MiB: no file of settings", path)
    return data.decode("utf-8", "replace")


def _environ(name: str, text: str) -> list[Setting]:
    found = []
    for number, entry in enumerate(text.split("\0"), 1):
        key, equals, value = entry.partition("=")
        if equals:
            found.append(Setting(key, value, name, number, Origin.PROCESS))
    return found


def _conf(name: str, text: str) -> list[Setting]:
    """As setEnvFile of param.cc: `#` is a comment as first character only, nothing is trimmed, lengths are cut."""
    found = []
    for number, line in _numbered(text):
        key, equals, value = line.partition("=")
        if line.startswith("#") or not equals:
            if not equals and is_meant_for_nccl(line.strip().split(" ")[0]):
                found.append(Setting(line.strip().split(" ")[0], "", name, number, Origin.LOST))
            continue
        cut = _cut(value)
        found.append(Setting(_cut(key), cut, name, number, Origin.CONF, cut=cut != value))
    return found


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= _CONF_VALUE else data[:_CONF_VALUE].decode("utf-8", "ignore")


def _lines(name: str, text: str) -> list[Setting]:
    found = []
    for number, line in _numbered(text):
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith("#"):
            found.append(Setting(key, value, name, number, Origin.LINES))
    return found


def _numbered(text: str) -> Iterable[tuple[int, str]]:
    return enumerate(text.split("\n"), 1)

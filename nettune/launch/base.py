"""What a launcher is: how a command, or a forked rank, comes to run on a named host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Entry:
    """How a process that already runs on this machine becomes one that runs on a host.

    Attributes:
        netns: path of the host's network namespace, valid inside the mount namespace of the process that
            `Launcher.root_argv` starts; None keeps the network namespace.
        hostname: name the process sees as its own (a UTS namespace of its own); None keeps the name.
        cgroup_procs: `cgroup.procs` file of the host's control group; None, or a file that does not
            exist, leaves the process where it is.
    """

    netns: str | None = None
    hostname: str | None = None
    cgroup_procs: str | None = None


@runtime_checkable
class Launcher(Protocol):
    """Knows a set of hosts and how to run a command on each; starts nothing itself."""

    @property
    def name(self) -> str:
        """Name of this kind of launcher, as in the registry."""
        ...

    def hosts(self) -> list[str]:
        """Names of the hosts, in the order of the fabric where there is one."""
        ...

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        """Local argument list that runs `command` on `host` with its standard streams passed through.

        Raises:
            NettuneError: this launcher does not know the host.
        """
        ...

    def root_argv(self, command: Sequence[str]) -> list[str] | None:
        """Argument list of a local process from which every host can be entered by its `Entry`.

        One warm process is started that way and one agent per rank is forked from it. None where hosts
        cannot be entered so (they are other machines): each rank then gets a process of its own by `argv`.
        """
        ...

    def entry(self, host: str) -> Entry:
        """How a process started by `root_argv` enters `host`.

        Raises:
            NettuneError: this launcher does not know the host.
        """
        ...


@dataclass(frozen=True)
class Command:
    """One command for one host; `env` is added to the environment it finds there."""

    host: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a `Command`.

    Attributes:
        host: where it ran.
        argv: the command as asked for (not the launcher's wrapping of it).
        rc: exit status; negative: killed by that signal; 127: not found; None: it was stopped.
        stdout: all of its standard output (bytes that are not UTF-8 replaced).
        stderr: all of its standard error.
        timed_out: it was stopped because its time was up.
        wall_s: seconds from its start to its end.
        flooded: it was stopped because it printed more than is kept.
    """

    host: str
    argv: tuple[str, ...]
    rc: int | None
    stdout: str
    stderr: str
    timed_out: bool
    wall_s: float
    flooded: bool = False

    @property
    def ok(self) -> bool:
        """It ended by itself with exit status 0."""
        return self.rc == 0

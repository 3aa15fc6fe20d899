"""The lab's way to run things: commands enter a node's namespaces by nsenter, ranks by their `Entry`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nettune.errors import InputError
from nettune.lab.cgroups import group_path
from nettune.lab.frame.client import enter_argv
from nettune.lab.frame.process import ProcessId
from nettune.launch.base import Entry

# Keeps the working directory, which entering a mount namespace resets, and joins the node's CPU limit if it has one.
_PRELUDE = 'cd "$1" 2>/dev/null; [ -e "$2" ] && echo 0 >"$2"; shift 2; exec "$@"'


class LabLauncher:
    """Implements `nettune.launch.base.Launcher`; `hosts` lists hosts only, any node's name is accepted.

    Commands keep the caller's environment and working directory; /run is the lab's own, /etc/hosts names its
    nodes, and the process sees the node's name as host name.
    """

    def __init__(self, holder: ProcessId, hosts: Sequence[str], nodes: Sequence[str], *, user: bool) -> None:
        self._holder = holder
        self._hosts = list(hosts)
        self._nodes = frozenset(nodes)
        self._user = user

    @property
    def name(self) -> str:
        """`lab`."""
        return "lab"

    def hosts(self) -> list[str]:
        """The lab's hosts in fabric (depth-first) order."""
        return list(self._hosts)

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        """Local argv that runs `command` on a node."""
        self._check(host)
        enter = enter_argv(self._holder, user=self._user, net=f"/run/netns/{host}", uts=f"/run/uts/{host}")
        return [*enter, *_prelude(str(self._group(host) or "")), *command]

    def root_argv(self, command: Sequence[str]) -> list[str]:
        """Local argv of a process inside the lab, in no node yet; its network has no way out."""
        return [*enter_argv(self._holder, user=self._user), *_prelude(""), *command]

    def entry(self, host: str) -> Entry:
        """How a process started by `root_argv` enters a node."""
        self._check(host)
        group = self._group(host)
        return Entry(
            netns=f"/run/netns/{host}", hostname=host, cgroup_procs=None if group is None else str(group)
        )

    def _group(self, host: str) -> os.PathLike[str] | None:
        path = group_path(self._holder, host)
        return None if path is None else path / "cgroup.procs"

    def _check(self, host: str) -> None:
        if host not in self._nodes:
            known = ", ".join(self._hosts[:8]) + (", ..." if len(self._hosts) > 8 else "")
            raise InputError(f"the lab has no host or switch {host!r}; its hosts are {known}")


def _prelude(group: str) -> list[str]:
    return ["sh", "-c", _PRELUDE, "sh", str(Path.cwd()), group]

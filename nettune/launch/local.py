"""The launcher of this machine: every host is this machine."""

from __future__ import annotations

from collections.abc import Sequence

from nettune.errors import NettuneError
from nettune.launch.base import Entry


class LocalLauncher:
    """Runs everything here, unwrapped; the host names only label ranks."""

    name = "local"

    def __init__(self, hosts: Sequence[str] = ("localhost",)) -> None:
        self._hosts = list(hosts)

    def hosts(self) -> list[str]:
        """The labels given at construction, in that order."""
        return list(self._hosts)

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        """The command itself."""
        self._check(host)
        return list(command)

    def root_argv(self, command: Sequence[str]) -> list[str] | None:
        """The command itself: a process here is already on every host."""
        return list(command)

    def entry(self, host: str) -> Entry:
        """An empty entry: nothing is to be entered."""
        self._check(host)
        return Entry()

    def _check(self, host: str) -> None:
        if host not in self._hosts:
            raise NettuneError(f"unknown host {host!r}: this launcher knows {', '.join(self._hosts)}")

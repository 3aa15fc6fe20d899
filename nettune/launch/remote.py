"""What launchers of other machines share: a list of hosts, none of which can be entered by a fork."""

from __future__ import annotations

from collections.abc import Sequence

from nettune.errors import NettuneError
from nettune.launch.base import Entry


class RemoteLauncher:
    """Knows its hosts; a launcher adds `name` and `argv`.

    Args:
        hosts: names that the launcher has found fit for its command line.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = list(hosts)
        self._known = frozenset(hosts)

    def hosts(self) -> list[str]:
        """The hosts given at construction, in that order."""
        return list(self._hosts)

    def root_argv(self, command: Sequence[str]) -> list[str] | None:  # noqa: ARG002 (of the protocol)
        """None: other machines cannot be entered by a fork."""
        return None

    def entry(self, host: str) -> Entry:
        """An empty entry."""
        self._check(host)
        return Entry()

    def _check(self, host: str) -> None:
        if host not in self._known:
            raise NettuneError(f"unknown host {host!r}: this launcher knows {', '.join(self._hosts)[:200]}")

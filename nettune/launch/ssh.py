"""The launcher of hosts that are reached over ssh, with whatever the user's ssh configuration says of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from nettune.errors import InputError, NettuneError
from nettune.launch.base import Entry

# Nobody is there to answer a question; a host that is off must not hold the others up.
OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-T", "-x")

# Without a terminal sshd leaves the command running when the connection ends. This watcher, which holds none of the
# streams and is no child of the command, ends the command's process group once the sshd that started it is gone.
_WATCH = (
    "trap '' TERM; exec </dev/null >/dev/null 2>&1; while sleep 1; do [ -d /proc/$$ ] || exit; "
    '[ -d /proc/"$PPID" ] || { kill -TERM -$$; sleep 1; kill -KILL -$$; exit; }; done'
)
_WATCHED = f'( ({_WATCH}) & ); exec "$@"'


class SshLauncher:
    """Runs commands over ssh.

    Args:
        hosts: names that ssh understands: of its configuration, of DNS, addresses, `user@host`.
        options: more words for ssh, before the host: `("-F", "ssh_config")`.

    Raises:
        InputError: a name that ssh would take for an option, or that has blanks.
    """

    name = "ssh"

    def __init__(self, hosts: Sequence[str], options: Sequence[str] = ()) -> None:
        for host in hosts:
            if not host or host.startswith("-") or any(c.isspace() or not c.isprintable() for c in host):
                raise InputError(f"{host!r} is no host name for ssh")
        self._hosts = list(hosts)
        self._options = [*OPTIONS, *options]

    def hosts(self) -> list[str]:
        """The hosts given at construction, in that order."""
        return list(self._hosts)

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        """The ssh command line; the words of the command arrive on the host as they are."""
        self._check(host)
        remote = ["sh", "-c", _WATCHED, "sh", *command]
        return ["ssh", *self._options, host, shlex.join(remote)]

    def root_argv(self, command: Sequence[str]) -> list[str] | None:  # noqa: ARG002 (of the protocol)
        """None: other machines cannot be entered by a fork."""
        return None

    def entry(self, host: str) -> Entry:
        """An empty entry."""
        self._check(host)
        return Entry()

    def _check(self, host: str) -> None:
        if host not in self._hosts:
            raise NettuneError(f"unknown host {host!r}: this launcher knows {', '.join(self._hosts)[:200]}")

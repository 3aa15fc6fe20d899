"""The launcher of hosts that are reached over ssh, with whatever the user's ssh configuration says of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from nettune.errors import InputError
from nettune.launch.remote import RemoteLauncher

# Nobody is there to answer a question; a host that is off must not hold the others up.
OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-T", "-x")

# Without a terminal sshd leaves the command running when the connection ends. This watcher, which holds none of the
# streams and is no child of the command, ends the command's process group once the sshd that started it is gone.
_WATCH = (
    "trap '' TERM; exec </dev/null >/dev/null 2>&1; while sleep 1; do [ -d /proc/$$ ] || exit; "
    '[ -d /proc/"$PPID" ] || { kill -TERM -$$; sleep 1; kill -KILL -$$; exit; }; done'
)
_WATCHED = f'( ({_WATCH}) & ); exec "$@"'


class SshLauncher(RemoteLauncher):
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
        super().__init__(hosts)
        self._options = [*OPTIONS, *options]

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        """The ssh command line; the words of the command arrive on the host as they are."""
        self._check(host)
        remote = ["sh", "-c", _WATCHED, "sh", *command]
        return ["ssh", *self._options, host, shlex.join(remote)]

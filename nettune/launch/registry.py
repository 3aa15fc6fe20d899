"""The launchers by name.

To add a launcher (mpirun, kubectl, ...):

1. Write `nettune/launch/<name>.py` with one class that follows `nettune.launch.base.Launcher`. `argv` wraps a
   command; it must pass the three standard streams through, return the command's exit status, and end the
   remote command when its standard input closes or the local process is killed (ssh and srun do, and the
   agents rely on it). Other machines cannot be entered by a fork: return None from `root_argv` and an
   empty `Entry` from `entry`. Heavy imports (ClusterShell) go inside the methods that need them.
2. Add its name to `_TARGETS` below; a package on a higher floor calls `register` when it is imported.
3. Add a fixture `<name>_launcher` to `tests/launch/conftest.py` and its name to the list at the head of
   `tests/launch/test_launcher_contract.py`: every launcher passes the same tests.
4. Name it in the list of launchers in CONTRIBUTING.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nettune.errors import NettuneError
from nettune.launch.base import Launcher

_TARGETS = {
    "local": "nettune.launch.local:LocalLauncher",
    "slurm": "nettune.launch.slurm:SlurmLauncher",
    "ssh": "nettune.launch.ssh:SshLauncher",
}


def register(name: str, target: str) -> None:
    """Make the launcher class (or factory) `target`, as "package.module:name", known under `name`.

    Raises:
        ValueError: the name stands for another target already.
    """
    if _TARGETS.setdefault(name, target) != target:
        raise ValueError(f"the launcher {name!r} is {_TARGETS[name]} already, so it cannot be {target}")


def names() -> list[str]:
    """Names of the known launchers, sorted."""
    return sorted(_TARGETS)


def create(name: str, **options: Any) -> Launcher:
    """The launcher called `name`, made with `options`.

    Raises:
        NettuneError: no launcher has that name.
    """
    target = _TARGETS.get(name)
    if target is None:
        raise NettuneError(f"unknown launcher {name!r}: choose one of {', '.join(names())}")
    module, _, attribute = target.partition(":")
    made: Launcher = getattr(import_module(module), attribute)(**options)
    return made

"""Running commands and persistent rank agents on hosts: this machine, lab hosts, later a cluster."""

from __future__ import annotations

from nettune.launch.agents import Agents
from nettune.launch.base import Command, Entry, Launcher, Outcome
from nettune.launch.failures import AgentError, RankState
from nettune.launch.local import LocalLauncher
from nettune.launch.registry import create, names, register
from nettune.launch.run import run

__all__ = [
    "AgentError",
    "Agents",
    "Command",
    "Entry",
    "Launcher",
    "LocalLauncher",
    "Outcome",
    "RankState",
    "create",
    "names",
    "register",
    "run",
]

"""Run `ip -batch` and `tc -batch` in many namespaces, a few at a time."""

from __future__ import annotations

import subprocess
from collections import deque
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from nettune.lab.frame.syscalls import network_of

_AT_ONCE = 6


class Step(TypedDict):
    """One batch in one node: `tool` is ip or tc, `text` its lines; `force` goes on after a failed line."""

    node: str
    tool: str
    text: str
    force: NotRequired[bool]


class BatchError(Exception):
    """A line of a batch was refused; the message is the tool's own, with the node before it."""


def _finish(step: Step, process: subprocess.Popen[str], complaints: list[str]) -> None:
    _, err = process.communicate()
    if process.returncode != 0 and not step.get("force", False):
        said = " ".join(err.split()) or f"exit code {process.returncode}"
        complaints.append(f"{step['tool']} in {step['node'] or 'the lab'}: {said}")


def run_steps(steps: Sequence[Step]) -> None:
    """Run the steps; those of different nodes overlap, so a step must not need another node's step.

    Raises:
        BatchError: naming the first refused line.
        FileNotFoundError: `ip` or `tc` is not installed.
    """
    running: deque[tuple[Step, subprocess.Popen[str]]] = deque()
    complaints: list[str] = []
    try:
        for step in steps:
            while len(running) >= _AT_ONCE or any(other["node"] == step["node"] for other, _ in running):
                _finish(*running.popleft(), complaints)
            running.append((step, _start(step)))
    finally:
        while running:
            _finish(*running.popleft(), complaints)
    if complaints:
        raise BatchError(complaints[0])


def _start(step: Step) -> subprocess.Popen[str]:
    argv = [step["tool"], *(["-force"] if step.get("force", False) else []), "-batch", "-"]
    if step["node"]:
        with network_of(step["node"]):
            process = _popen(argv)
    else:
        process = _popen(argv)
    assert process.stdin is not None
    # A tool that stopped at an early line has closed its end; its message says why.
    try:
        process.stdin.write(step["text"])
        process.stdin.flush()
    except BrokenPipeError:
        pass
    return process


def _popen(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

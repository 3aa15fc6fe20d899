"""Let the processes of a node run for a share of the time only, by stopping and continuing them.

This runs outside the lab's pid namespace: `nsenter`, which waits there for a command in the lab, stops itself when
its command is stopped, and must be continued with it. It ends with the lab's holder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from nettune.lab.frame import syscalls
from nettune.lab.frame.process import ProcessId, comm, processes_in, send_all, start_time

COMM = "nettune-lab"
_CONTINUE_ROUNDS = 3
_ROUND_S = 0.02


def duty_cycle(holder: ProcessId, inode: int, share: float, period_s: float) -> None:
    """Stop and continue every process whose network namespace has this inode, until the holder is gone."""
    while holder.alive:
        begun = time.monotonic()
        send_all(processes_of(inode), signal.SIGSTOP)
        time.sleep(period_s * (1 - share))
        send_all(processes_of(inode), signal.SIGCONT)
        # What the machine took for itself counts as running time, or the share would sink under load.
        time.sleep(max(begun + period_s - time.monotonic(), period_s * share * 0.5))


def processes_of(inode: int) -> list[int]:
    """Processes in a network namespace, but for the lab's own, which visit it to read counters."""
    return [pid for pid in processes_in("net", inode) if comm(pid) != COMM]


def resume(inode: int) -> None:
    """Continue whatever a killed duty cycle left stopped.

    More than once: an `nsenter` that has just learned of the last stop may still be about to stop itself.
    """
    for _ in range(_CONTINUE_ROUNDS):
        send_all(processes_of(inode), signal.SIGCONT)
        time.sleep(_ROUND_S)


def main() -> None:
    """Read the parameters, leave a background process behind, and say its pid and start time."""
    params: dict[str, Any] = json.loads(sys.stdin.readline())
    syscalls.set_process_name(COMM)
    pid = os.fork()
    if pid:
        sys.stdout.write(json.dumps({"pid": pid, "start": start_time(pid)}) + "\n")
        return
    os.setsid()
    devnull = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(devnull, fd)
    holder = ProcessId(params["holder"]["pid"], params["holder"]["start"])
    duty_cycle(holder, params["inode"], params["share"], params["period_s"])

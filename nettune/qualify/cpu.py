"""A processor test that runs on the hosts: how much of a CPU a process gets, and how fast that is. Standard library only."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

_BLOCK = bytes(range(256)) * 256
_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")


def burn(cpu_s: float, most_s: float) -> dict[str, float | None]:
    """Compute checksums until `cpu_s` of processor time are used or `most_s` have passed.

    Returns:
        `blocks` of 64 KiB done, `cpu_s` and `wall_s` that they took, `throttled_s`: how long the control group's limit
        stopped the group meanwhile, None where that cannot be read.
    """
    before = throttled_s()
    blocks = 0
    wall, cpu = time.monotonic(), time.thread_time()
    while True:
        for _ in range(16):
            zlib.crc32(_BLOCK)
        blocks += 16
        used, passed = time.thread_time() - cpu, time.monotonic() - wall
        if used >= cpu_s or passed >= most_s:
            break
    after = throttled_s()
    stopped = None if before is None or after is None else after - before
    return {"blocks": blocks, "cpu_s": used, "wall_s": passed, "throttled_s": stopped}


def throttled_s() -> float | None:
    """Seconds for which the limit of this process's control group has stopped it; None where that cannot be read."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in _MOUNTS:
            try:
                text = Path(mount + group, "cpu.stat").read_text(encoding="ascii")
            except OSError:
                continue
            for entry in text.splitlines():
                name, _, value = entry.partition(" ")
                # Version 1 counts nanoseconds, version 2 microseconds.
                if name in {"throttled_time", "throttled_usec"}:
                    return int(value) * (1e-9 if name == "throttled_time" else 1e-6)
    return None

"""A processor test that runs on the hosts: how much of a CPU a process gets, and how fast that is. Standard library only."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

_BLOCK = bytes(range(256)) * 256
_MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")


def burn(cpu_s: float, most_s: float) -> dict[str, float | int | None]:
    """Compute checksums until `cpu_s` of processor time are used or `most_s` have passed.

    Returns:
        `blocks` of 64 KiB done, `cpu_s` and `wall_s` that they took, `throttled`: how often the control group's limit
        stopped this process meanwhile, None where that cannot be read.
    """
    before = _throttled()
    blocks = 0
    wall, cpu = time.monotonic(), time.thread_time()
    while True:
        for _ in range(16):
            zlib.crc32(_BLOCK)
        blocks += 16
        used, passed = time.thread_time() - cpu, time.monotonic() - wall
        if used >= cpu_s or passed >= most_s:
            break
    after = _throttled()
    throttled = None if before is None or after is None else after - before
    return {"blocks": blocks, "cpu_s": used, "wall_s": passed, "throttled": throttled}


def _throttled() -> int | None:
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
                if name == "nr_throttled":
                    return int(value)
    return None

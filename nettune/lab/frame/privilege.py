"""What this process may do by itself, and what it needs a user namespace for."""

from __future__ import annotations

import os
from pathlib import Path

_CAP_SYS_ADMIN = 21


def is_full_root() -> bool:
    """Whether namespaces can be made without a user namespace: root that has not lost its capabilities."""
    if os.geteuid() != 0:
        return False
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False

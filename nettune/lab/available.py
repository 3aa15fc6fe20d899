"""Whether a lab can be built here, found out by building the smallest one."""

from __future__ import annotations

import os
from pathlib import Path

from nettune.errors import NettuneError
from nettune.lab.frame.client import Birth, require_programs
from nettune.lab.frame.privilege import is_full_root
from nettune.lab.plan import make_plan
from nettune.lab.spec import LabSpec
from nettune.lab.wiring import Wiring

# Setting below /proc/sys -> the value that refuses namespaces to an ordinary user.
_REFUSALS = {
    "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
}


def lab_available() -> tuple[bool, str]:
    """(whether a lab works here, the reason why not in one line, else "").

    Two hosts on a leaf are really built, and are gone when this returns.
    """
    try:
        require_programs()
        spec = LabSpec(name="probe", leaves=1, spines=0, hosts_per_leaf=2)
        Birth(make_plan(Wiring(spec, {}))).abandon()
    except NettuneError as error:
        return False, f"{error}{_advice()}"
    return True, ""


def _advice() -> str:
    if is_full_root():
        return ""
    found = [
        setting
        for path, (refusing, setting) in _REFUSALS.items()
        if _value(Path("/proc/sys", path)) == refusing
    ]
    if found:
        return f"; an administrator may set {' and '.join(found)}"
    return "; this root lacks CAP_SYS_ADMIN, as in an unprivileged container" if os.geteuid() == 0 else ""


def _value(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None

"""NCCL's variables as a host's ranks would see them: the job's environment, then the host's /etc/nccl.conf."""

from __future__ import annotations

from collectives.nccl.environment import Form, read_text
from collectives.nccl.parsing import read_number
from nettune.qualify.checks.frame import Fleet
from nettune.qualify.checks.view import HostView

CONF = "/etc/nccl.conf"


def in_conf(view: HostView) -> dict[str, str]:
    """Variables of /etc/nccl.conf."""
    told = read_text(CONF, view.text(CONF) or "", Form.CONF).in_force
    return {name: one.value for name, one in told.items()}


def of_job(fleet: Fleet, view: HostView | None) -> dict[str, str]:
    """What is known of the job's variables on a host; the process's own environment comes before the file."""
    job = dict(fleet.context.job_env or {})
    return job if view is None else fleet.once(("variables", view.host), lambda: in_conf(view) | job)


def number(fleet: Fleet, view: HostView | None, name: str) -> tuple[int | None, str]:
    """(the number that NCCL reads in a variable, who says so); None where it is not set or the job is not known."""
    text = of_job(fleet, view).get(name)
    if text is None:
        return None, ""
    return read_number(text).value, name if name in (fleet.context.job_env or {}) else f"{CONF}: {name}"


def traffic_class(fleet: Fleet, view: HostView | None) -> tuple[int, str] | None:
    """The traffic class that NCCL asks for; its default is 0. None where the job's environment is not known."""
    value, source = number(fleet, view, "NCCL_IB_TC")
    if value is not None and value >= 0:
        return value & 0xFF, source
    return None if value is None and fleet.context.job_env is None else (0, "NCCL's default")

"""A host that computes slowly: its processes get a share of one CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nettune.elements import ElementId
from nettune.lab.cgroups import cpu_root, group_path, limit_cpu, move_in, remove_group
from nettune.lab.faults.base import Effect, Param, choice_of, share_of
from nettune.lab.faults.target import target_host
from nettune.lab.frame.client import start_duty_cycle
from nettune.lab.frame.duty import resume
from nettune.lab.frame.process import ProcessId
from nettune.lab.site import Site

_DUTY_PERIOD_S = 0.1


class Straggler:
    """A cgroup quota where one may be set, else processes stopped and continued in turn.

    Both hold for processes that run on the host already and for later ones.
    """

    kind = "straggler"
    summary = "a host gets only a share of one CPU"
    params = (
        Param("host", "", "the host; by default the one in the middle"),
        Param("cpu", "20%", "share of one CPU that is left, 5% to 95%"),
        Param("method", "auto", "auto, cgroup or signals (stop and continue, rough)"),
    )

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide host, share and method."""
        host = target_host(site, params)
        share = share_of(params["cpu"], "cpu", 5, 95)
        method = choice_of(params["method"], "method", ("auto", "cgroup", "signals"))
        if method == "auto":
            method = "signals" if cpu_root() is None else "cgroup"
        return Effect(
            where=(ElementId.host(host),),
            what=f"{host} gets {share:.0%} of one CPU (by {method})",
            touches=(f"cpu {host}",),
            undo={"host": host, "method": method, "share": share},
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Limit the host."""
        undo = effect.undo
        host = undo["host"]
        if undo["method"] == "cgroup":
            group = limit_cpu(site.state.holder, host, undo["share"])
            move_in(group, site.ask("inode", node=host))
            return
        undo["inode"] = site.ask("inode", node=host)
        process = start_duty_cycle(site.state.holder, undo["inode"], undo["share"], _DUTY_PERIOD_S)
        undo["process"] = {"pid": process.pid, "start": process.start}

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Lift the limit."""
        if undo["method"] == "cgroup":
            group: Path | None = group_path(site.state.holder, undo["host"])
            if group is not None:
                remove_group(group)
        elif "process" in undo:
            ProcessId(**undo["process"]).kill()
            resume(undo["inode"])

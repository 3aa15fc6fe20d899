"""A link that flaps: down for a moment, again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.errors import InputError
from nettune.lab.faults.base import Effect, Param
from nettune.lab.faults.target import LINK, element, target_link
from nettune.lab.site import Site
from nettune.units import format_duration, parse_duration

_LONGEST_S = 60.0


class Flap:
    """A process in the lab toggles the switch's port.

    The outage is shorter than a routing protocol's detection time, so far routers keep their routes; the two
    routers of the link lose theirs as the kernel does, and get them back when the port returns.
    """

    kind = "flap"
    summary = "a link goes down for a moment, again and again"
    params = (
        LINK,
        Param("down", "50ms", "length of an outage"),
        Param("every", "0.5s", "time from one outage to the next"),
    )

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide link and rhythm."""
        link = target_link(site, params)
        down_s, every_s = parse_duration(params["down"]), parse_duration(params["every"])
        if not 0.005 <= down_s < every_s <= _LONGEST_S:
            raise InputError(
                f"down={params['down']} every={params['every']}: use 5ms <= down < every <= {_LONGEST_S:g}s"
            )
        return Effect(
            where=(element(link),),
            what=f"{link.key} is down for {format_duration(down_s)} every {format_duration(every_s)}",
            touches=(f"state {link.key}",),
            undo={
                "node": link.upper.node,
                "iface": link.upper.iface,
                "down_s": down_s,
                "every_s": every_s,
            },
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Start the toggling process; it takes the routes to restore from the last convergence."""
        site.converge()
        undo = effect.undo
        params = {
            "node": undo["node"],
            "iface": undo["iface"],
            "down_s": undo["down_s"],
            "every_s": undo["every_s"],
        }
        undo["process"] = site.ask("spawn", task="flap", params=params)

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """End the process, open the port, converge."""
        if "process" in undo:
            site.ask("kill", **undo["process"])
        site.set_links([site.find_link(f"{undo['node']}:{undo['iface']}")], up=True)

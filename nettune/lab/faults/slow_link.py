"""A link slower than its port says: a second token bucket inside the port's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.elements import ElementId
from nettune.lab.faults.base import Effect, Param, choice_of, share_of
from nettune.lab.faults.target import LINK, element, port_element, target_link
from nettune.lab.shaping import inner_limit, no_inner_limit
from nettune.lab.site import Site
from nettune.lab.wiring import End, Link
from nettune.units import format_rate

_TO = Param("to", "30%", "rate that is left, 10% to 85% of nominal")
_RANGE_PERCENT = (10, 85)


def _effect(link: Link, senders: tuple[End, ...], where: str, to: str, way: str) -> Effect:
    share = share_of(to, "to", *_RANGE_PERCENT)
    rate_gbps = link.rate_gbps * share
    return Effect(
        where=(where, element(link)) if where != element(link) else (where,),
        what=f"{link.key} slowed to {format_rate(rate_gbps)} of {format_rate(link.rate_gbps)}{way}",
        touches=(f"shape {link.key}",),
        undo={
            "ports": [[end.node, end.iface] for end in senders],
            "rate_gbps": rate_gbps,
            "nominal_gbps": link.rate_gbps,
        },
    )


class _Slow:
    def start(self, site: Site, effect: Effect) -> None:
        """Put the slower bucket in."""
        for node, iface in effect.undo["ports"]:
            site.run(node, "tc", [inner_limit(iface, effect.undo["rate_gbps"], site.state.spec.mtu)])

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Put a plain queue in its place."""
        for node, iface in undo["ports"]:
            site.run(node, "tc", [no_inner_limit(iface, undo["nominal_gbps"], site.state.spec.mtu)])


class SlowLink(_Slow):
    """Both directions of a link slowed."""

    kind = "slow-link"
    summary = "a link runs at a fraction of its rate, both ways"
    params = (LINK, _TO)

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide link and rate."""
        link = target_link(site, params)
        return _effect(link, link.ends, element(link), params["to"], "")


class OneWaySlow(_Slow):
    """One direction of a link slowed; the port that sends slowly is at fault."""

    kind = "one-way-slow"
    summary = "a link runs at a fraction of its rate in one direction"
    params = (LINK, _TO, Param("direction", "up", "up (away from the host or leaf) or down"))

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide link, direction and rate."""
        link = target_link(site, params)
        up = choice_of(params["direction"], "direction", ("up", "down")) == "up"
        sender, receiver = link.ends if up else link.ends[::-1]
        where: ElementId = port_element(link, sender)
        return _effect(link, (sender,), where, params["to"], f" from {sender.node} to {receiver.node}")

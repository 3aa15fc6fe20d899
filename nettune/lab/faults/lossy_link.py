"""Packets lost at random on a link, counted one by one at the receiving port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.lab.faults.base import Effect, Param, choice_of, share_of
from nettune.lab.faults.target import LINK, element, target_link
from nettune.lab.site import Site

_RANGE_PERCENT = (0.05, 5)


class LossyLink:
    """Random loss, both ways or one way."""

    kind = "lossy-link"
    summary = "a link loses a share of its packets at random"
    params = (
        LINK,
        Param("loss", "1%", "share of packets lost in each direction, 0.05% to 5%"),
        Param("direction", "both", "both, up (away from the host or leaf) or down"),
    )

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide link, direction and loss."""
        link = target_link(site, params)
        loss = share_of(params["loss"], "loss", *_RANGE_PERCENT)
        way = choice_of(params["direction"], "direction", ("both", "up", "down"))
        receivers = {"both": link.ends, "up": (link.upper,), "down": (link.lower,)}[way]
        to = "" if way == "both" else f" towards {receivers[0].node}"
        return Effect(
            where=(element(link),),
            what=f"{link.key} loses {loss:.2%} of the packets{to}",
            touches=(f"loss {link.key}",),
            undo={
                "ports": [[end.node, end.iface, f"nettune_loss_{end.iface}"] for end in receivers],
                "per_million": round(loss * 1e6),
            },
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Add the random drops."""
        for node, iface, table in effect.undo["ports"]:
            site.ask("drop", node=node, iface=iface, table=table, per_million=effect.undo["per_million"])

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Take them away."""
        for node, _, table in undo["ports"]:
            site.ask("undrop", node=node, table=table)

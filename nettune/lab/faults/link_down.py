"""A link that is down; routes avoid it everywhere, as after a routing protocol has converged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.lab.faults.base import Effect
from nettune.lab.faults.target import UPLINK, element, target_uplink
from nettune.lab.site import Site


class LinkDown:
    """The switch's port above is shut, so the end below sees no carrier."""

    kind = "link-down"
    summary = "a link is down and is routed around"
    params = (UPLINK,)

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide the link."""
        link = target_uplink(site, params)
        return Effect(
            where=(element(link),),
            what=f"{link.key} is down",
            touches=(f"state {link.key}",),
            undo={"link": link.key},
            down=(link.key,),
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Shut the port and converge."""
        site.set_links([site.find_link(effect.undo["link"])], up=False)

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Open the port; the routes that the kernel dropped with it come back by converging."""
        site.set_links([site.find_link(undo["link"])], up=True)

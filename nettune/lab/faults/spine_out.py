"""A spine taken out: all its ports are shut at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.lab.faults.base import Effect, Param
from nettune.lab.site import Site


class SpineOut:
    """Every link of a spine is down and is routed around."""

    kind = "spine-out"
    summary = "a spine is taken out: all its ports are down"
    params = (Param("spine", "", "the spine; by default the last one"),)

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide the spine."""
        spines = site.wiring.spines
        spine = params["spine"] or (spines[-1] if spines else "")
        if spine not in spines:
            raise InputError(f"the lab has no spine {spine!r}; it has {', '.join(spines) or 'none'}")
        keys = tuple(link.key for link, _, _ in site.wiring.links_of[spine])
        return Effect(
            where=(ElementId.switch(spine),),
            what=f"{spine} is out: its {len(keys)} links are down",
            touches=tuple(f"state {key}" for key in keys),
            undo={"spine": spine},
            down=keys,
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Shut all ports and converge."""
        self._set(site, effect.undo["spine"], up=False)

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Open all ports and converge."""
        self._set(site, undo["spine"], up=True)

    @staticmethod
    def _set(site: Site, spine: str, *, up: bool) -> None:
        site.set_links([link for link, _, _ in site.wiring.links_of[spine]], up=up)

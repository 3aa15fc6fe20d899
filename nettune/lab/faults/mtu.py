"""An MTU mismatch: one end of a link takes only smaller packets, and nobody tells the sender."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nettune.errors import InputError
from nettune.lab.faults.base import Effect, Param, choice_of
from nettune.lab.faults.target import LINK, element, port_element, target_link
from nettune.lab.site import Site

_SMALLEST_BYTES = 576


class Mtu:
    """A black hole for full-sized packets towards the small end; small ones pass."""

    kind = "mtu"
    summary = "one end of a link has a smaller MTU, so large packets towards it vanish"
    params = (
        LINK,
        Param("mtu", "1000", "MTU of the small end in bytes"),
        Param("end", "upper", "which end is small: upper (the switch above) or lower"),
    )

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide link, end and MTU."""
        link = target_link(site, params)
        end = link.upper if choice_of(params["end"], "end", ("upper", "lower")) == "upper" else link.lower
        nominal = site.state.spec.mtu
        if not params["mtu"].isdecimal() or not _SMALLEST_BYTES <= int(params["mtu"]) < nominal:
            raise InputError(f"mtu={params['mtu']} is out of range; use {_SMALLEST_BYTES} to {nominal - 1}")
        return Effect(
            where=(port_element(link, end), element(link)),
            what=f"{end.node}:{end.iface} has MTU {params['mtu']} on a link of MTU {nominal}",
            touches=(f"mtu {link.key}",),
            undo={"node": end.node, "iface": end.iface, "mtu": int(params["mtu"]), "nominal": nominal},
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Make the end small."""
        undo = effect.undo
        site.run(undo["node"], "ip", [f"link set {undo['iface']} mtu {undo['mtu']}"])

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Give it its MTU back."""
        site.run(undo["node"], "ip", [f"link set {undo['iface']} mtu {undo['nominal']}"])

"""A host's rail cabled to the wrong leaf; it was renumbered there, so everything still talks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.lab.faults.base import Effect, Param
from nettune.lab.faults.target import target_host
from nettune.lab.plan import create_link, host_routes, port_address, port_sysctls
from nettune.lab.shaping import root_limit
from nettune.lab.site import Site
from nettune.lab.wiring import Link, Move


class Miswire:
    """The cable is pulled from one leaf and put into a free port of another."""

    kind = "miswire"
    summary = "a host's NIC is cabled to the wrong leaf"
    params = (
        Param("host", "", "the host; by default the one in the middle"),
        Param("rail", "", "which NIC, from 0; by default the last one"),
        Param("leaf", "", "the wrong leaf; by default the next one"),
    )

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide NIC and leaf."""
        wiring = site.wiring
        host = target_host(site, params)
        rails = wiring.spec.rails
        rail = params["rail"] or str(rails - 1)
        if not rail.isdecimal() or int(rail) >= rails:
            raise InputError(f"rail={rail} does not exist; {host} has rails 0 to {rails - 1}")
        nic = f"eth{int(rail)}"
        link = site.find_link(f"{host}:{nic}")
        home = link.upper.node
        leaves = wiring.leaves
        leaf = params["leaf"] or leaves[(leaves.index(home) + 1) % len(leaves)]
        if leaf not in leaves or leaf == home:
            raise InputError(
                f"leaf={leaf} is no other leaf; {host}'s {nic} is on {home} of {', '.join(leaves)}"
            )
        port = wiring.free_port(leaf)
        if port is None:
            raise InputError(f"{leaf} has no free port; choose another leaf")
        return Effect(
            where=(ElementId.nic(host, nic), ElementId.switch(leaf)),
            what=f"{host}'s {nic} is cabled to {leaf}:d{port}; it belongs to {home}:{link.upper.iface}",
            touches=tuple(f"{thing} {link.key}" for thing in ("shape", "loss", "mtu", "state")),
            undo={"host": host, "nic": nic, "leaf": leaf, "port": port},
        )

    def start(self, site: Site, effect: Effect) -> None:
        """Move the cable."""
        undo = effect.undo
        moves = {**site.state.moves, (undo["host"], undo["nic"]): Move(undo["leaf"], undo["port"])}
        _recable(site, undo["host"], undo["nic"], moves)

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Put the cable back."""
        moves = {nic: move for nic, move in site.state.moves.items() if nic != (undo["host"], undo["nic"])}
        _recable(site, undo["host"], undo["nic"], moves)


def _recable(site: Site, host: str, nic: str, moves: dict[tuple[str, str], Move]) -> None:
    old = site.find_link(f"{host}:{nic}")
    site.save(replace(site.state, moves=moves))
    new = site.find_link(f"{host}:{nic}")
    _unplug(site, old)
    _plug(site, new)
    site.rewrite_hosts_file()


def _unplug(site: Site, link: Link) -> None:
    nic = link.lower
    table = 100 + int(nic.iface.removeprefix("eth"))
    lines = [f"link del {nic.iface}", f"rule del priority {table}"]
    site.ask(
        "batch", steps=[{"node": nic.node, "tool": "ip", "text": "\n".join(lines) + "\n", "force": True}]
    )


def _plug(site: Site, link: Link) -> None:
    wiring = site.wiring
    site.run("", "ip", [create_link(wiring, link)])
    ports = [[end.node, end.iface] for end in link.ends]
    site.ask("links", ports=ports, peers=[], up=True)
    for end, far in ((link.upper, link.lower), (link.lower, link.upper)):
        is_host = end == link.lower
        site.ask("sysctls", node=end.node, sysctls=port_sysctls(end, is_host=is_host))
        site.ask("offloads", node=end.node, iface=end.iface, on=False)
        site.run(end.node, "tc", [root_limit(end.iface, link.rate_gbps, wiring.spec.mtu)])
        routes = host_routes(wiring, end, far) if is_host else []
        site.run(end.node, "ip", [port_address(end), *routes])

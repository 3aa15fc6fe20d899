"""The element that a fault hits, when the person does not say, and its name."""

from __future__ import annotations

from collections.abc import Mapping

from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.lab.faults.base import Param
from nettune.lab.site import Site
from nettune.lab.wiring import End, Link

LINK = Param("link", "", "HOST, NODE:PORT or A:PORT--B:PORT; by default the link of the host in the middle")
UPLINK = Param("link", "", "HOST, NODE:PORT or A:PORT--B:PORT; by default the first uplink")


def target_link(site: Site, params: Mapping[str, str]) -> Link:
    """The link of parameter `link`; by default that of the host in the middle of the fabric."""
    if params["link"]:
        return site.find_link(params["link"])
    hosts = site.wiring.hosts
    return site.find_link(hosts[len(hosts) // 2])


def target_uplink(site: Site, params: Mapping[str, str]) -> Link:
    """The link of parameter `link`; by default the first uplink, or the middle host's where there is no uplink."""
    if not params["link"] and site.wiring.spines:
        return next(link for link in site.wiring.links if link.kind == "uplink")
    return target_link(site, params)


def target_host(site: Site, params: Mapping[str, str]) -> str:
    """The host of parameter `host`; by default the one in the middle of the fabric.

    Raises:
        InputError: there is no such host.
    """
    hosts = site.wiring.hosts
    host = params["host"] or hosts[len(hosts) // 2]
    if host not in hosts:
        raise InputError(f"the lab has no host {host!r}; it has {', '.join(hosts[:8])}")
    return host


def element(link: Link) -> ElementId:
    """The link's name as findings use it."""
    return ElementId.link(link.lower.node, link.lower.iface, link.upper.node, link.upper.iface)


def port_element(link: Link, end: End) -> ElementId:
    """The name of one end of a link: a NIC or a switch port."""
    if link.kind == "host" and end == link.lower:
        return ElementId.nic(end.node, end.iface)
    return ElementId.port(end.node, end.iface)

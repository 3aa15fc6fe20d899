"""A wiring as text for the tools: batches of ip and tc lines and sysctls for every node."""

from __future__ import annotations

from pathlib import Path

from nettune.lab.frame.holder import NodePlan, Plan
from nettune.lab.routes import router_routes
from nettune.lab.shaping import root_limit
from nettune.lab.wiring import End, Link, Wiring

_RAIL_TABLE = 100
_RESTRICTED_AS_DEFAULT = "reno"


def make_plan(wiring: Wiring) -> Plan:
    """The whole lab."""
    routes = router_routes(wiring)
    create = [f"netns add {node}" for node in wiring.nodes]
    create += [create_link(wiring, link) for link in wiring.links]
    nodes = []
    for node in wiring.nodes:
        ends = wiring.links_of[node]
        is_host = node in set(wiring.hosts)
        lines = []
        for _, own, far in ends:
            lines.append(port_address(own))
            if is_host:
                lines += host_routes(wiring, own, far)
        for route in routes.get(node, ()):
            lines += route.lines()
        nodes.append(
            NodePlan(
                name=node,
                sysctls=_sysctls(wiring, node, is_host=is_host),
                interfaces=[own.iface for _, own, _ in ends],
                ip="\n".join(lines) + "\n",
                tc="".join(
                    root_limit(own.iface, link.rate_gbps, wiring.spec.mtu) + "\n" for link, own, _ in ends
                ),
            )
        )
    return Plan(create="\n".join(create) + "\n", nodes=nodes, etc_hosts=etc_hosts(wiring))


def create_link(wiring: Wiring, link: Link) -> str:
    """`ip` line that makes both ends of a cable, each in its node."""
    low, up, mtu = link.lower, link.upper, wiring.spec.mtu
    return (
        f"link add name {low.iface} netns {low.node} mtu {mtu} type veth "
        f"peer name {up.iface} netns {up.node} mtu {mtu}"
    )


def port_address(end: End) -> str:
    """`ip` line that gives a port its address."""
    return f"address add {end.address}/31 dev {end.iface}"


def host_routes(wiring: Wiring, own: End, far: End) -> list[str]:
    """`ip` lines for one NIC of a host: its default route, and for more rails its own table.

    What is sent from a rail's address leaves by that rail. Unbound traffic leaves by eth0, except with per-rail
    wiring, where each rail reaches the leaves of its own rail.
    """
    spec = wiring.spec
    extra = "" if spec.congestion_control == _RESTRICTED_AS_DEFAULT else f" congctl {spec.congestion_control}"
    rail = int(own.iface.removeprefix("eth"))
    lines = [f"route replace default via {far.address} dev {own.iface}{extra}"] if rail == 0 else []
    if spec.rails == 1:
        return lines
    table = _RAIL_TABLE + rail
    lines += [
        f"route replace default via {far.address} dev {own.iface} table {table}{extra}",
        f"rule add from {own.address} lookup {table} priority {table}",
    ]
    if spec.rail_wiring == "per-rail":
        lines += [
            f"route replace {wiring.prefix(leaf)} via {far.address} dev {own.iface}{extra}"
            for number, leaf in enumerate(wiring.leaves)
            if number % spec.rails == rail
        ]
    return lines


def etc_hosts(wiring: Wiring) -> str:
    """Names of all addresses, so that no look-up in the lab waits for a name server.

    A host's name is the address of its eth0; `HOST-ethN` and `SWITCH-PORT` name the others.
    """
    lines = ["127.0.0.1 localhost"]
    for link in wiring.links:
        for end in link.ends:
            alias = f"{end.node} " if end.iface == "eth0" else ""
            lines.append(f"{end.address} {alias}{end.node}-{end.iface}")
    return "\n".join(lines) + "\n"


def port_sysctls(end: End, *, is_host: bool) -> list[tuple[str, str, bool]]:
    """(path, value, required) of one interface."""
    conf = f"net/ipv4/conf/{end.iface}"
    sysctls = [(f"{conf}/rp_filter", "0", True), (f"{conf}/accept_local", "1", False)]
    if not is_host:
        # The kernel's hash must not count next hops behind a port without carrier.
        sysctls.append((f"{conf}/ignore_routes_with_linkdown", "1", True))
    return sysctls


def switch_seed(wiring: Wiring, node: str) -> int:
    """The multipath hash seed of a router: the spec's for leaves, the next one for spines.

    With one seed on both tiers a flow's choice of uplink would also fix its choice among parallel downlinks.
    """
    seed = wiring.spec.hash_seed
    return seed if node in set(wiring.leaves) else seed % (2**32 - 1) + 1


def _sysctls(wiring: Wiring, node: str, *, is_host: bool) -> list[tuple[str, str, bool]]:
    sysctls = [
        ("net/ipv6/conf/all/disable_ipv6", "1", False),
        ("net/ipv6/conf/default/disable_ipv6", "1", False),
        ("net/ipv4/conf/all/rp_filter", "0", True),
        ("net/ipv4/conf/default/rp_filter", "0", True),
    ]
    if is_host:
        sysctls += [
            # A new namespace may inherit forwarding from a machine that runs containers.
            ("net/ipv4/ip_forward", "0", True),
            ("net/ipv4/tcp_congestion_control", _RESTRICTED_AS_DEFAULT, True),
            # A route's memory of past losses must not shape the next measurement.
            ("net/ipv4/tcp_no_metrics_save", "1", False),
            ("net/ipv4/ip_local_port_range", wiring.spec.port_range.replace("-", " "), True),
        ]
    else:
        sysctls += [
            ("net/ipv4/ip_forward", "1", True),
            *_hash_policy(),
            ("net/ipv4/fib_multipath_hash_seed", str(switch_seed(wiring, node)), False),
            ("net/ipv4/icmp_errors_use_inbound_ifaddr", "1", True),
            ("net/ipv4/icmp_ratelimit", "0", True),
            ("net/ipv4/icmp_ratemask", "0", True),
            ("net/ipv4/icmp_msgs_per_sec", "100000", False),
            ("net/ipv4/icmp_msgs_burst", "10000", False),
        ]
    for _, own, _ in wiring.links_of[node]:
        sysctls += port_sysctls(own, is_host=is_host)
    return sysctls


def _hash_policy() -> list[tuple[str, str, bool]]:
    """The five-tuple, always computed from the packet (policy 3).

    Policy 1 would take the random hash that a sending TCP socket leaves on the packet, because a veth pair does not
    clear it: no path would follow from the ports. Kernels before 5.14 have only policy 1.
    """
    if not Path("/proc/sys/net/ipv4/fib_multipath_hash_fields").exists():
        return [("net/ipv4/fib_multipath_hash_policy", "1", True)]
    return [
        ("net/ipv4/fib_multipath_hash_fields", str(0x37), True),
        ("net/ipv4/fib_multipath_hash_policy", "3", True),
    ]

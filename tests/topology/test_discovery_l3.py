from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nettune.checks import Finding, Status, exit_code
from nettune.errors import InputError
from topology.capture import Captured, CaptureState, HostCapture
from topology.discovery import Discovery, analyse, build
from topology.discovery.counters import counters_of, link_bytes, port_counters
from topology.discovery.fib import ROUTES, RULES, read_fib
from topology.discovery.interfaces import ADDRESSES, LINKS, NEIGHBOURS, QDISCS
from topology.ecmp import HashSpec
from topology.ecmp.tuples import FIVE_TUPLE
from topology.fabric import Fabric, LinkState
from topology.routing import Routing, UnknownPathError

End = tuple[str, str]
SYSCTL = "/proc/sys/net/ipv4/"
PLAIN_RULES = [
    {"priority": 0, "src": "all", "table": "local"},
    {"priority": 32766, "src": "all", "table": "main"},
]


@dataclass
class Port:
    address: str
    mac: str
    gbps: float
    mtu: int = 1500
    up: bool = True
    carrier: bool = True


@dataclass
class Plan:
    """A Clos fabric as names, and what the kernel of each of its nodes would print."""

    ports: dict[str, dict[str, Port]] = field(default_factory=dict)
    cables: list[tuple[End, End]] = field(default_factory=list)
    routes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    seeds: dict[str, int] = field(default_factory=dict)

    def cable(self, a: End, b: End, base: str, gbps: float, mtu: int = 1500) -> None:
        first = IPv4Address(base)
        for (node, name), address in ((b, first), (a, first + 1)):
            number = sum(map(len, self.ports.values())) + 1
            mac = f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
            self.ports.setdefault(node, {})[name] = Port(str(address), mac, gbps, mtu)
        self.cables.append((a, b))

    def far(self, end: End) -> End:
        return next(b if end == a else a for a, b in self.cables if end in {a, b})

    def hop(self, node: str, name: str, weight: int = 1) -> dict[str, Any]:
        far_node, far_name = self.far((node, name))
        return {"gateway": self.ports[far_node][far_name].address, "dev": name, "weight": weight, "flags": []}


def clos(
    leaves: int = 2,
    spines: int = 2,
    hosts: int = 2,
    rails: int = 1,
    parallel: int = 1,
    *,
    mtu: int = 1500,
    seed: int = 0,
) -> Plan:
    """All rails of a host on one leaf; spine weights and the order of next hops drawn at random."""
    draw = random.Random(seed)
    plan = Plan()
    for leaf in range(leaves):
        plan.switches.add(f"leaf{leaf}")
        for place in range(hosts * rails):
            host, rail = f"n{leaf * hosts + place // rails}", place % rails
            plan.cable(
                (host, f"eth{rail}"), (f"leaf{leaf}", f"d{place}"), f"10.0.{leaf}.{2 * place}", 0.1, mtu
            )
    number = 0
    for leaf in range(leaves):
        for spine in range(spines):
            plan.switches.add(f"spine{spine}")
            for copy in range(parallel):
                ends = (
                    (f"leaf{leaf}", f"u{spine * parallel + copy}"),
                    (f"spine{spine}", f"d{leaf * parallel + copy}"),
                )
                plan.cable(*ends, str(IPv4Address("10.128.0.0") + 2 * number), 0.05, mtu)
                number += 1
    for node in sorted(plan.switches):
        plan.seeds[node] = draw.randrange(1, 2**32)
        plan.routes[node] = []
        for leaf in range(leaves):
            if node == f"leaf{leaf}":
                continue
            names = [name for name in plan.ports[node] if name.startswith("u")]
            if node.startswith("spine"):
                names = [f"d{leaf * parallel + copy}" for copy in range(parallel)]
            draw.shuffle(names)
            hops = [plan.hop(node, name, draw.choice((1, 1, 2, 5))) for name in names]
            route: dict[str, Any] = {"dst": f"10.0.{leaf}.0/24", "protocol": "static", "flags": []}
            one = {key: value for key, value in hops[0].items() if key != "weight"} if hops else {}
            plan.routes[node].append({**route, "nexthops": hops} if len(hops) > 1 else {**route, **one})
    return plan


def rendered(plan: Plan, node: str, draw: random.Random, *, neighbours: bool = True) -> HostCapture:
    """The capture of one node, with the things around that a fabric's reader must leave out."""
    links: list[dict[str, Any]] = [link_row("lo", "00:00:00:00:00:00", ["LOOPBACK", "UP", "LOWER_UP"], 65536)]
    links += [link_row("docker0", "02:42:00:00:00:01", ["BROADCAST", "UP", "LOWER_UP"], 1500), {}]
    addresses: dict[str, list[dict[str, Any]]] = {
        "lo": [v4("127.0.0.1", 8)],
        "docker0": [v4("172.17.0.1", 16)],
    }
    qdiscs: list[dict[str, Any]] = [
        {"kind": "noqueue", "handle": "0:", "dev": "lo", "root": True, "options": {}}
    ]
    seen = []
    for name, port in plan.ports[node].items():
        flags = [
            "BROADCAST",
            "MULTICAST",
            *(["UP"] if port.up else []),
            *(["LOWER_UP"] if port.carrier else []),
        ]
        links.append(link_row(name, port.mac, flags, port.mtu))
        v6 = {"family": "inet6", "local": "fe80::1", "prefixlen": 64}
        addresses[name] = draw.sample([v4(port.address, 31), v6], 2)
        slow = {
            "kind": "tbf",
            "handle": "10:",
            "dev": name,
            "parent": "1:1",
            "options": {"rate": 1000, "burst": 9},
        }
        rate = {"rate": round(port.gbps * 1.25e8), "burst": 9}
        qdiscs += [{"kind": "tbf", "handle": "1:", "dev": name, "root": True, "options": rate}, slow]
        far_node, far_name = plan.far((node, name))
        far = plan.ports[far_node][far_name]
        if neighbours and draw.random() < 0.5:
            seen.append({"dst": far.address, "dev": name, "lladdr": far.mac.upper(), "state": ["STALE"]})
    draw.shuffle(links)
    routes = [
        {"type": "local", "dst": "127.0.0.1", "dev": "lo", "table": "local"},
        {"dst": "fe80::/64", "dev": "lo"},
    ]
    switch = node in plan.switches
    outputs = {
        LINKS: links,
        ADDRESSES: [{"ifname": name, "addr_info": entries} for name, entries in addresses.items()],
        ROUTES: routes + plan.routes.get(node, []),
        RULES: PLAIN_RULES,
        NEIGHBOURS: [*seen, {"dst": "fe80::2", "dev": "lo", "lladdr": "x", "state": ["STALE"]}],
        QDISCS: qdiscs,
    }
    files = {
        f"{SYSCTL}fib_multipath_hash_policy": "3\n",
        f"{SYSCTL}fib_multipath_hash_fields": "55\n",
        f"{SYSCTL}fib_multipath_hash_seed": f"{plan.seeds.get(node, 0)}\n",
        f"{SYSCTL}fib_multipath_use_neigh": "0\n",
    }
    return HostCapture(
        node,
        "switch" if switch else "host",
        {path: Captured(CaptureState.OK, text) for path, text in files.items()},
        {command: Captured(CaptureState.OK, json.dumps(output)) for command, output in outputs.items()},
    )


def link_row(name: str, mac: str, flags: list[str], mtu: int) -> dict[str, Any]:
    stats = {
        "rx": {"bytes": 5000, "packets": 1, "dropped": 3},
        "tx": {"bytes": 7000, "packets": 1, "carrier_changes": 2},
    }
    state = "UP" if "LOWER_UP" in flags else "DOWN"
    return {
        "ifname": name,
        "flags": flags,
        "mtu": mtu,
        "operstate": state,
        "address": mac,
        "linkinfo": {"info_kind": "veth"},
        "stats64": stats,
    }


def v4(address: str, length: int) -> dict[str, Any]:
    return {"family": "inet", "local": address, "prefixlen": length, "scope": "global"}


def captured(plan: Plan, seed: int = 0, *, neighbours: bool = True) -> list[HostCapture]:
    draw = random.Random(seed)
    nodes = draw.sample(sorted(plan.ports), len(plan.ports))
    return [rendered(plan, node, draw, neighbours=neighbours) for node in nodes]


def changed(
    captures: list[HostCapture], node: str, source: str, entry: Captured | str | list[Any] | None
) -> list[HostCapture]:
    """The captures with one source of one node replaced; None leaves it out."""
    new = []
    for capture in captures:
        if capture.host == node:
            table = "files" if source.startswith("/") else "commands"
            kept = {key: value for key, value in getattr(capture, table).items() if key != source}
            if entry is not None:
                text = entry if isinstance(entry, (str, Captured)) else json.dumps(entry)
                kept[source] = text if isinstance(text, Captured) else Captured(CaptureState.OK, text)
            new.append(replace(capture, files=kept) if table == "files" else replace(capture, commands=kept))
        else:
            new.append(capture)
    return new


def output(captures: list[HostCapture], node: str, command: str) -> Any:
    return next(capture for capture in captures if capture.host == node).json_of(command)


def end_name(fabric: Fabric, port: int) -> End:
    return fabric.nodes.name[int(fabric.ports.node[port])], fabric.ports.name[port]


def check_same(found: Discovery, plan: Plan) -> None:
    """The fabric and the routing are those of the plan, up to the order of rows."""
    fabric = found.fabric
    assert set(fabric.hosts) == set(plan.ports) - plan.switches
    assert set(fabric.switches) == plan.switches
    ports = {end_name(fabric, port): port for port in range(len(fabric.ports.name))}
    assert set(ports) == {(node, name) for node, of_node in plan.ports.items() for name in of_node}
    for (node, name), row in ports.items():
        port = plan.ports[node][name]
        rail = -1 if node in plan.switches else int(name[3:])
        got = fabric.ports
        assert (got.address[row], got.mtu[row], got.rail[row]) == (port.address, port.mtu, rail)
        assert got.speed_gbps[row] == pytest.approx(port.gbps)
    cables = {
        frozenset((end_name(fabric, int(a)), end_name(fabric, int(b)))): LinkState(int(state))
        for a, b, state in zip(fabric.links.port_a, fabric.links.port_b, fabric.links.state, strict=True)
    }
    alive = {
        frozenset(cable): all(plan.ports[n][p].up and plan.ports[n][p].carrier for n, p in cable)
        for cable in plan.cables
    }
    assert cables == {cable: LinkState.UP if up else LinkState.DOWN for cable, up in alive.items()}
    tiers = {name: int(fabric.nodes.tier[row]) for row, name in enumerate(fabric.nodes.name)}
    assert tiers == {name: {"n": 0, "l": 1, "s": 2}[name[0]] for name in plan.ports}
    check_routes(found.routing, plan)
    hashes = {fabric.nodes.name[row]: spec for row, spec in found.routing.hashes.items()}
    assert hashes == {node: HashSpec("linux-multipath-fields", seed) for node, seed in plan.seeds.items()}


def check_routes(routing: Routing, plan: Plan) -> None:
    fabric = routing.fabric
    for node in plan.switches:
        for target in fabric.hosts:
            for port in fabric.nics(target):
                leaf = fabric.leaf_of(port)
                assert leaf is not None
                if fabric.nodes.name[leaf] == node:
                    continue
                subnet = fabric.ports.address[port].rpartition(".")[0]
                route = next(route for route in plan.routes[node] if route["dst"].startswith(subnet + "."))
                hops = routing.table[fabric.node_row(node), int(routing.group[port])]
                names = [end_name(fabric, int(fabric.directed_ports[link, 0]))[1] for link in hops.links]
                expected = route.get("nexthops", [route])
                assert names == [hop["dev"] for hop in expected]
                assert list(hops.weights) == [hop.get("weight", 1) for hop in expected]


@given(
    leaves=st.integers(1, 4),
    spines=st.integers(1, 3),
    hosts=st.integers(1, 3),
    rails=st.integers(1, 3),
    parallel=st.integers(1, 2),
    seed=st.integers(0, 10**6),
)
def test_a_fabric_rendered_to_captures_is_read_back(leaves, spines, hosts, rails, parallel, seed):
    """Any Clos fabric comes back with its ports, cables, states, tiers, rails, routes and hashes, in any order."""
    plan = clos(leaves, spines, hosts, rails, parallel, mtu=9000 if seed % 2 else 1500, seed=seed)
    draw = random.Random(seed)
    for a, _ in draw.sample(plan.cables, min(len(plan.cables), draw.randrange(3))):
        port = plan.ports[a[0]][a[1]]
        port.up, port.carrier = draw.choice(((False, False), (True, False)))
    found = build(captured(plan, seed))
    check_same(found, plan)
    assert found.findings == ()
    assert {name.rpartition("/")[2] for name in found.dropped} == {"lo", "docker0"}
    again = Fabric.from_json(json.loads(json.dumps(found.fabric.to_json())))
    routing = Routing.from_json(json.loads(json.dumps(found.routing.to_json())), again)
    check_same(replace(found, fabric=again, routing=routing), plan)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(
        ["", "eth0", "default", "999.1.1.1/40", "10.0.0.1", "1e999gbit", "a--b", "x y", "tbf", "🦊"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dst", "dev", "rx", "rate"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def mutated(value: Any, draw: random.Random, instead: Any) -> Any:
    """The value with one place inside replaced, doubled or taken out."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.15:
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: mutated(value[key], draw, instead)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        if draw.random() < 0.15:
            return [*value, value[place]]
        return [*value[:place], mutated(value[place], draw, instead), *value[place + 1 :]]
    return instead


@settings(max_examples=400)
@given(seed=st.integers(0, 10**9), instead=JSON, cut=st.booleans())
def test_garbage_in_a_capture_never_gives_a_traceback(seed, instead, cut):
    """Whatever one node's tools print, the result is a discovery or one line that names the node."""
    draw = random.Random(seed)
    captures = captured(clos(2, 2, 1, 2, 2, seed=1), 1)
    node = draw.choice(captures)
    source = draw.choice([*node.commands, *node.files])
    if cut or source.startswith("/"):
        text = node.text(source) or ""
        bad = draw.choice([text[: draw.randrange(len(text) + 1)], str(instead), "[" * 100_000])
    else:
        bad = json.dumps(mutated(node.json_of(source), draw, instead))
    captures = changed(captures, node.host, source, bad)
    said = ""
    try:
        found = build(captures)
        analyse(found.fabric, found.routing, found.reasons)
        port_counters(captures, found.fabric)
    except InputError as error:
        said = str(error)
    assert said == "" or node.host in said
    assert "\n" not in said


@pytest.mark.parametrize("state", [CaptureState.ABSENT, CaptureState.DENIED, CaptureState.ERROR])
def test_missing_ip_names_the_host_and_the_reason(state):
    """Without `ip link` a node cannot be placed: the error names it and says why."""
    captures = changed(captured(clos()), "n1", LINKS, Captured(state, note="the reason"))
    with pytest.raises(InputError, match=f"^n1: `{LINKS}`: {state}: the reason$"):
        build(captures)


@pytest.mark.parametrize("state", [CaptureState.ABSENT, CaptureState.DENIED, CaptureState.ERROR, None])
def test_missing_tc_gives_unknown_speeds(state):
    """Without `tc` the speeds of a node are 0 and UNKNOWN, which is no pass; all else is known."""
    entry = None if state is None else Captured(state, note="the reason")
    found = build(changed(captured(clos()), "leaf1", QDISCS, entry))
    own = found.fabric.ports.node == found.fabric.node_row("leaf1")
    assert set(found.fabric.ports.speed_gbps[own]) == {0.0}
    assert np.all(found.fabric.ports.speed_gbps[~own] > 0)
    (finding,) = found.findings
    assert (finding.check, finding.status, finding.where) == ("port-speed", Status.UNKNOWN, "switch/leaf1")
    assert ("the reason" if state else "not collected") in finding.what
    assert exit_code(found.findings) == 2
    assert len(found.fabric.links.state) == 8


def speed_of(captures: list[HostCapture], node: str, port: str) -> tuple[float, str]:
    found = build(captures)
    row = found.fabric.port_row(node, port)
    return float(found.fabric.ports.speed_gbps[row]), found.reasons[found.fabric.port_element(row)]


def with_hardware(captures: list[HostCapture], node: str, port: str, mac: str) -> list[HostCapture]:
    """A NIC that is real: no rate limit, and a speed in /sys under the given hardware address."""
    links = output(captures, node, LINKS)
    for row in links:
        row.pop("linkinfo", None)
    captures = changed(captures, node, LINKS, links)
    captures = changed(captures, node, QDISCS, [])
    captures = changed(captures, node, f"/sys/class/net/{port}/address", mac + "\n")
    return changed(captures, node, f"/sys/class/net/{port}/speed", "200000\n")


def test_speed_comes_from_the_root_queue_or_from_sys():
    """A tbf or htb root gives the speed, inner queues do not; a real NIC's is in /sys, if /sys shows that very NIC."""
    plan = clos()
    captures = captured(plan)
    gbps, reason = speed_of(captures, "n0", "eth0")
    assert gbps == pytest.approx(0.1)
    assert reason == "rail 0: the number in eth0; speed: rate of its root tbf queue"
    htb = [{"kind": "htb", "handle": "1:", "dev": "eth0", "root": True, "options": {}}]
    text = "class htb 1:1 root prio 0 rate 250Mbit ceil 250Mbit burst 1600b\nclass htb 1:2 parent 1:1 rate 9Mbit\n"
    shaped = changed(changed(captures, "n0", QDISCS, htb), "n0", "tc class show dev eth0", text)
    assert speed_of(shaped, "n0", "eth0")[0] == pytest.approx(0.25)
    assert (
        speed_of(with_hardware(captures, "n0", "eth0", plan.ports["n0"]["eth0"].mac), "n0", "eth0")[0]
        == 200.0
    )
    assert speed_of(with_hardware(captures, "n0", "eth0", "02:ff:ff:ff:ff:ff"), "n0", "eth0")[0] == 0.0
    bare = changed(captures, "n0", QDISCS, [])
    assert "veth interface without a rate limit" in speed_of(bare, "n0", "eth0")[1]


def test_carrier_counts_before_the_state_that_follows_it():
    """A port whose carrier is there is up, though the kernel's NO-CARRIER and DOWN lag behind for a second."""
    captures = captured(clos())
    links = output(captures, "leaf0", LINKS)
    for row in links:
        if row.get("ifname") == "d0":
            row["flags"], row["operstate"] = ["NO-CARRIER", "BROADCAST", "UP", "LOWER_UP"], "DOWN"
    assert set(build(changed(captures, "leaf0", LINKS, links)).fabric.links.state) == {LinkState.UP}


def test_reasons_say_which_end_of_a_link_is_down():
    """A port that was set down and its far end without carrier are told apart."""
    plan = clos()
    plan.ports["spine1"]["d0"].up = plan.ports["spine1"]["d0"].carrier = False
    plan.ports["leaf0"]["u1"].carrier = False
    found = build(captured(plan))
    why = found.reasons["link/leaf0:u1--spine1:d0"]
    assert "leaf0:u1 no carrier" in why
    assert "spine1:d0 set down" in why


def one(findings: tuple[Finding, ...], check: str) -> Finding:
    (found,) = [finding for finding in findings if finding.check == check]
    return found


def test_nodes_that_were_not_captured_are_noted():
    """A neighbour without a capture leaves a port without a cable: noted, with what is seen there."""
    plan = clos()
    captures = [capture for capture in captured(plan) if capture.host != "n3"]
    seen = [
        {
            "dst": plan.ports["n3"]["eth0"].address,
            "dev": "d1",
            "lladdr": "02:aa:aa:aa:aa:aa",
            "state": ["REACHABLE"],
        }
    ]
    found = build(changed(captures, "leaf1", NEIGHBOURS, seen))
    finding = one(found.findings, "cable-coverage")
    assert (finding.status, finding.where, finding.required) == (
        Status.UNKNOWN,
        "switch/leaf1/port/d1",
        False,
    )
    assert "neighbour 10.0.1.3 (02:aa:aa:aa:aa:aa) was not captured" in finding.what
    hosts_only = build([capture for capture in captures if capture.role == "host"])
    assert one(hosts_only.findings, "cable-coverage").where == "fabric"
    assert len(hosts_only.fabric.links.state) == 0


def test_neighbour_tables_that_disagree_with_subnets_are_reported():
    """A hardware address that belongs to another port than the subnet says is a conflict that names both."""
    plan = clos()
    captures = captured(plan, neighbours=False)
    wrong = [
        {
            "dst": plan.ports["n0"]["eth0"].address,
            "dev": "d0",
            "lladdr": plan.ports["n1"]["eth0"].mac,
            "state": ["STALE"],
        }
    ]
    found = build(changed(captures, "leaf0", NEIGHBOURS, wrong))
    finding = one(found.findings, "cable-sources")
    assert (finding.status, finding.where) == (Status.WARN, "switch/leaf0/port/d0")
    assert "n0:eth0" in finding.what
    assert "n1:eth0" in finding.what
    wrong[0]["state"] = ["FAILED"]
    assert build(changed(captures, "leaf0", NEIGHBOURS, wrong)).findings == ()


def test_a_subnet_used_twice_is_resolved_by_hardware_addresses():
    """Two cables with the same addresses are told apart by who sees whom; what cannot be told stays uncabled."""
    plan = clos(leaves=1, spines=0, hosts=2)
    for node, name in (("n1", "eth0"), ("leaf0", "d1")):
        plan.ports[node][name].address = plan.ports["n0" if node == "n1" else "leaf0"][
            "eth0" if node == "n1" else "d0"
        ].address
    captures = captured(plan, neighbours=False)
    seen = [
        {
            "dst": plan.ports["n0"]["eth0"].address,
            "dev": name,
            "lladdr": plan.ports[host]["eth0"].mac,
            "state": ["STALE"],
        }
        for name, host in (("d0", "n0"), ("d1", "n1"))
    ]
    found = build(changed(captures, "leaf0", NEIGHBOURS, seen))
    cables = {str(found.fabric.link_element(row)) for row in range(len(found.fabric.links.state))}
    assert cables == {"link/leaf0:d0--n0:eth0", "link/leaf0:d1--n1:eth0"}
    assert one(found.findings, "cable-sources").status is Status.WARN
    assert len(build(captures).fabric.links.state) == 0


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("fib_multipath_hash_policy", "0\n", "policy is 0"),
        ("fib_multipath_hash_policy", "1\n", "policy is 1"),
        ("fib_multipath_hash_fields", "0\n", "nothing of a plain IPv4 packet is hashed"),
        ("fib_multipath_hash_fields", "3016\n", "nothing of a plain IPv4 packet is hashed"),
        ("fib_multipath_hash_fields", "4151\n", "bits that are not known"),
        ("fib_multipath_hash_fields", None, "fields is not readable"),
        ("fib_multipath_hash_policy", None, "policy is not readable"),
        ("fib_multipath_hash_seed", "0\n", "seed is 0"),
        ("fib_multipath_hash_seed", None, "not readable"),
        ("fib_multipath_hash_seed", "4294967296\n", "not readable"),
        ("fib_multipath_use_neigh", "1\n", "state of neighbours"),
    ],
)
def test_a_hash_that_cannot_be_known_is_left_out_with_the_reason(name, text, why):
    """Only policy 3 with a fixed seed is predicted; else `paths` refuses and `spread` still answers."""
    found = build(changed(captured(clos()), "leaf0", SYSCTL + name, text))
    assert found.fabric.node_row("leaf0") not in found.routing.hashes
    assert len(found.routing.hashes) == 3
    assert why in found.reasons["switch/leaf0"]
    src, dst = (found.fabric.nics(host)[0] for host in ("n0", "n3"))
    assert sum(probability for probability, _ in found.routing.alternatives(src, dst)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("mask", "fields", "words"),
    [
        (3, ("src_ip", "dst_ip"), "over src_ip, dst_ip,"),
        (7 + 8, ("src_ip", "dst_ip", "proto"), "over src_ip, dst_ip, proto,"),
        (0x33 + 0xFC0, ("src_ip", "dst_ip", "sport", "dport"), "over src_ip, dst_ip, sport, dport,"),
        (0xFFF, FIVE_TUPLE, "over the five-tuple,"),
    ],
)
def test_every_set_of_plain_fields_is_read(mask, fields, words):
    """The mask's bits for plain IPv4 packets become the hash's fields; those of other packets have no effect."""
    found = build(changed(captured(clos()), "leaf0", f"{SYSCTL}fib_multipath_hash_fields", f"{mask}\n"))
    assert found.routing.hashes[found.fabric.node_row("leaf0")].fields == fields
    assert words in found.reasons["switch/leaf0"]


def routed(plan: Plan, **changes: Any) -> Discovery:
    """leaf0's route towards leaf1 with some keys changed."""
    plan.routes["leaf0"][0].update(changes)
    return build(captured(plan))


def test_dead_next_hops_are_not_counted_and_linkdown_ones_are():
    """The kernel hashes over next hops that are not dead, in their order: so does the routing."""
    plan = clos(spines=3)
    hops = plan.routes["leaf0"][0]["nexthops"]
    hops[1]["flags"], hops[2]["flags"] = ["dead", "linkdown"], ["linkdown"]
    found = routed(plan)
    row, group = found.fabric.node_row("leaf0"), int(found.routing.group[found.fabric.nics("n2")[0]])
    names = [
        end_name(found.fabric, int(found.fabric.directed_ports[link, 0]))[1]
        for link in found.routing.table[row, group].links
    ]
    assert names == [hops[0]["dev"], hops[2]["dev"]]


def test_routes_are_chosen_as_the_kernel_does():
    """The longest prefix wins, then the lower metric; unreachable is no route; unreadable rules mean the main table."""
    plan = clos()
    single = {key: value for key, value in plan.hop("leaf0", "u0").items() if key != "weight"}
    plan.routes["leaf0"] += [
        {"dst": "10.0.1.2/31", "metric": 20, **single},
        {"dst": "10.0.1.2/31", "metric": 10, "type": "unreachable", "flags": []},
        {"dst": "10.0.1.0/24", "table": "77", **single},
    ]
    captures = captured(plan)
    fib = read_fib(next(capture for capture in captures if capture.host == "leaf0"))
    near, beside = fib.lookup(int(IPv4Address("10.0.1.3"))), fib.lookup(int(IPv4Address("10.0.1.1")))
    assert near is not None
    assert near.hops == ()
    assert beside is not None
    assert len(beside.hops) == 2
    assert fib.lookup(int(IPv4Address("9.9.9.9"))) is None
    for variant in (captures, changed(captures, "leaf0", RULES, None)):
        found = build(variant)
        src, lost, reached = (found.fabric.nics(host)[0] for host in ("n0", "n3", "n2"))
        assert found.routing.group[lost] != found.routing.group[reached]
        with pytest.raises(UnknownPathError, match="no route"):
            found.routing.spread(src, lost)
        assert len(found.routing.alternatives(src, reached)) == 2


@pytest.mark.parametrize(
    ("rules", "doubtful"),
    [
        ([{"priority": 5, "src": "all", "table": "main"}], False),
        ([*PLAIN_RULES, {"priority": 10, "src": "10.0.0.1", "table": "77"}], True),
        ([*PLAIN_RULES, {"priority": 10, "src": "all", "fwmark": "0x1", "table": "77"}], True),
    ],
)
def test_policy_rules_that_are_not_followed_take_the_hash_away(rules, doubtful):
    """A router whose routes depend on more than the destination is not predicted exactly, and that is said."""
    found = build(changed(captured(clos()), "leaf0", RULES, rules))
    assert (found.fabric.node_row("leaf0") not in found.routing.hashes) is doubtful
    if doubtful:
        finding = one(found.findings, "routing-followed")
        assert (finding.where, finding.status, finding.required) == ("switch/leaf0", Status.UNKNOWN, False)
        assert "policy rules" in finding.what


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"nhid": 7}, "nexthop object"),
        (
            {"nexthops": [{"gateway": "10.9.9.9", "dev": "u0", "weight": 1, "flags": []}]},
            "not the cable's other end",
        ),
        (
            {"nexthops": [{"gateway": "10.9.9.9", "dev": "docker0", "weight": 1, "flags": []}]},
            "out of the known cables",
        ),
    ],
)
def test_next_hops_that_cannot_be_followed_are_said(changes, why):
    """Nexthop objects, gateways that are not at the cable's end and interfaces without a cable raise doubts."""
    found = routed(clos(), **changes)
    assert why in one(found.findings, "routing-followed").what
    assert found.fabric.node_row("leaf0") not in found.routing.hashes


@pytest.mark.parametrize(
    ("names", "rails"),
    [
        ({"a": ["eth0", "eth1"], "b": ["eth1"]}, {("a", "eth0"): 0, ("a", "eth1"): 1, ("b", "eth1"): 1}),
        ({"a": ["ens2", "ens10"]}, {("a", "ens2"): 0, ("a", "ens10"): 1}),
        ({"a": ["ib0", "enp2s0"], "b": ["ib0"]}, {("a", "enp2s0"): 0, ("a", "ib0"): 1, ("b", "ib0"): 0}),
    ],
)
def test_rails_come_from_names(names, rails):
    """Numbers after one common stem count over the whole fabric; otherwise the order of names on the host does."""
    from topology.discovery.rails import rails_of

    assert {key: rail for key, (rail, _) in rails_of(names).items()} == rails


def test_captures_of_the_same_node_or_none_are_refused():
    """Two captures of one node, or no capture at all, are input errors."""
    captures = captured(clos())
    with pytest.raises(InputError, match="captured more than once"):
        build([*captures, captures[0]])
    with pytest.raises(InputError, match="at least one node"):
        build([])


def test_counters_come_from_ip_or_from_proc():
    """`ip -s link` is preferred; /proc/net/dev gives the same but carrier changes."""
    (capture,) = [capture for capture in captured(clos()) if capture.host == "n0"]
    own = counters_of(capture)["eth0"]
    assert (own.rx_bytes, own.tx_bytes, own.rx_drops, own.carrier_changes) == (5000, 7000, 3, 2)
    text = (
        "Inter-|   Receive                |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n"
        "    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n"
        "  eth0: 5000 1 0 3 0 0 0 0 7000 1 0 9 0 0 0 0\n"
    )
    (fallback,) = changed(changed([capture], "n0", LINKS, None), "n0", "/proc/net/dev", text)
    assert counters_of(fallback)["eth0"] == replace(own, carrier_changes=None)
    (cut,) = changed([fallback], "n0", "/proc/net/dev", "  eth0: 5000 1 0 3 0 0")
    with pytest.raises(InputError, match=r"^n0: .*was it cut"):
        counters_of(cut)
    with pytest.raises(InputError, match="n0: neither"):
        counters_of(HostCapture("n0", "host"))


def test_link_bytes_are_those_sent_or_else_received():
    """The sender's counter counts, the receiver's stands in for it, and counters that went backwards are refused."""
    captures = captured(clos(leaves=1, spines=0))
    fabric = build(captures).fabric
    before = port_counters(captures, fabric)
    nic, port = fabric.port_row("n0", "eth0"), fabric.port_row("leaf0", "d0")
    after = dict(before)
    after[nic] = replace(before[nic], tx_bytes=8000, rx_bytes=5100)
    moved = link_bytes(fabric, before, after)
    assert moved[fabric.out_of_port[nic]] == 1000
    assert moved[fabric.out_of_port[port]] == 0
    without_switch = {row: value for row, value in before.items() if row != port}
    assert link_bytes(fabric, without_switch, after)[fabric.out_of_port[port]] == 100
    blind = link_bytes(fabric, {}, after)
    assert np.all(np.isnan(blind))
    with pytest.raises(InputError, match="backwards"):
        link_bytes(fabric, after, before)

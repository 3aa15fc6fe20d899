"""A Linux router's forwarding table: which next hops it has for an address, and whether its hash is known.

Look-ups follow the kernel: rules by priority, longest prefix, lowest metric. Next hops keep the kernel's order, which
the multipath hash counts; those marked dead (no carrier and ignore_routes_with_linkdown=1) are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from nettune.errors import InputError
from topology.capture import HostCapture
from topology.discovery.rows import Row, reading, rows_of, whole, word, words
from topology.ecmp import HashSpec
from topology.ecmp.linux_fields import IGNORED, MASKS
from topology.ecmp.tuples import FIVE_TUPLE

ROUTES = "ip -j route show table all"
RULES = "ip -j rule"
_SYSCTL = "/proc/sys/net/ipv4/"
_DEFAULT_TABLES = ("main", "default")
_PLAIN_RULE = {"priority", "src", "table", "protocol", "action"}
_NO_WAY = {"unreachable", "blackhole", "prohibit"}


@dataclass(frozen=True)
class Hop:
    """One next hop: out of which interface, to which gateway (None: unknown or on the link), with which weight."""

    device: str
    gateway: IPv4Address | None
    weight: int


@dataclass(frozen=True)
class Entry:
    """A route: its hops (empty: packets are refused), and whether it is a nexthop object, which may hash otherwise."""

    hops: tuple[Hop, ...]
    metric: int
    shared: bool


@dataclass
class Fib:
    """Forwarding of one node.

    Attributes:
        unfollowed: rules that depend on more than the destination; look-ups leave them out.
    """

    host: str
    order: tuple[str, ...]
    tables: dict[str, dict[int, dict[int, Entry]]] = field(default_factory=dict)
    unfollowed: tuple[str, ...] = ()

    def lookup(self, address: int) -> Entry | None:
        """Route for an IPv4 address as a number; None without one."""
        for table in self.order:
            prefixes = self.tables.get(table, {})
            for length in sorted(prefixes, reverse=True):
                entry = prefixes[length].get(address >> (32 - length))
                if entry is not None:
                    return entry
        return None


def read_fib(capture: HostCapture) -> Fib:
    """The forwarding table of a captured router.

    Raises:
        InputError: the routes could not be read; names the host.
    """
    order, unfollowed = _rules(capture)
    fib = Fib(capture.host, order, unfollowed=unfollowed)
    with reading(capture.host, ROUTES):
        for row in rows_of(capture, ROUTES):
            _add(fib, row)
    return fib


def read_hash(capture: HostCapture) -> tuple[HashSpec | None, str]:
    """(hash of a router or None, why)."""
    policy, fields, seed, by_neighbour = (
        (capture.text(f"{_SYSCTL}{name}") or "").strip()
        for name in (
            "fib_multipath_hash_policy",
            "fib_multipath_hash_fields",
            "fib_multipath_hash_seed",
            "fib_multipath_use_neigh",
        )
    )
    if policy == "1":
        return None, "fib_multipath_hash_policy is 1: a hash that NIC or socket gave the packet comes first"
    if policy != "3":
        return None, f"fib_multipath_hash_policy is {policy or 'not readable'}, not 3 (chosen fields)"
    mask = int(fields) if fields.isascii() and fields.isdecimal() else -1
    hashed = tuple(name for name, bit in MASKS.items() if mask > 0 and mask & bit)
    if mask < 0 or mask & ~(IGNORED | sum(MASKS.values())):
        return (
            None,
            f"fib_multipath_hash_fields is {fields or 'not readable'}, with bits that are not known here",
        )
    if not hashed:
        return None, f"fib_multipath_hash_fields is {fields}: nothing of a plain IPv4 packet is hashed"
    if not (seed.isascii() and seed.isdecimal()) or int(seed) >= 2**32:
        return None, "fib_multipath_hash_seed is not readable: this kernel draws a secret seed at boot"
    if int(seed) == 0:
        return None, "fib_multipath_hash_seed is 0: the kernel drew a secret seed at boot"
    if by_neighbour == "1":
        return None, "fib_multipath_use_neigh is 1: next hops also depend on the state of neighbours"
    spec = HashSpec("linux-multipath-fields", int(seed), fields=hashed)
    what = "the five-tuple" if spec.fields == FIVE_TUPLE else ", ".join(spec.fields)
    return spec, f"fib_multipath_hash_policy 3 over {what}, fib_multipath_hash_seed {seed}"


def _rules(capture: HostCapture) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if capture.text(RULES) is None:  # kernels without policy routing have no rules to show
        return _DEFAULT_TABLES, ()
    order: list[str] = []
    unfollowed: list[str] = []
    with reading(capture.host, RULES):
        rows = rows_of(capture, RULES)
        for row in sorted(rows, key=lambda row: whole(row, "priority", 0, 2**32 - 1, 0)):
            if set(row) <= _PLAIN_RULE and row.get("src") == "all" and "table" in row:
                order.append(word(row, "table"))
            else:
                unfollowed.append(" ".join(f"{key} {value}" for key, value in row.items())[:200])
    # The local table holds the node's own addresses, to which nothing is forwarded.
    return tuple(table for table in order if table != "local"), tuple(unfollowed)


def _add(fib: Fib, row: Row) -> None:
    destination = word(row, "dst")
    kind = word(row, "type", "unicast")
    if ":" in destination or (kind != "unicast" and kind not in _NO_WAY):
        return
    network = IPv4Network("0.0.0.0/0" if destination == "default" else destination)
    table = word(row, "table", "main")
    hops: tuple[Hop, ...] = ()
    if kind == "unicast":
        listed = row.get("nexthops", [row])
        if not isinstance(listed, list) or not all(isinstance(hop, dict) for hop in listed):
            raise InputError(f"{fib.host}: `{ROUTES}`: 'nexthops' of {destination} is no list of objects")
        hops = tuple(_hop(hop) for hop in listed if "dead" not in words(hop, "flags"))
        if not hops:
            return
    entry = Entry(hops, whole(row, "metric", 0, 2**32 - 1, 0), "nhid" in row)
    length = network.prefixlen
    slot = fib.tables.setdefault(table, {}).setdefault(length, {})
    key = int(network.network_address) >> (32 - length)
    if key not in slot or entry.metric < slot[key].metric:
        slot[key] = entry


def _hop(row: Row) -> Hop:
    gateway = IPv4Address(word(row, "gateway")) if "gateway" in row else None
    return Hop(word(row, "dev"), gateway, whole(row, "weight", 1, 256, 1))

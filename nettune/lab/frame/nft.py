"""A random drop at a port's receiving side, written straight to nf_tables (the `nft` program may be missing).

The rule, in nft's words, is
    table netdev TABLE { chain drop { type filter hook ingress device IFACE priority 0;
        numgen random mod 1000000 < PER_MILLION counter drop } }
Numbers are those of linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import errno
import socket
import struct

from nettune.lab.frame import netlink
from nettune.lab.frame.netlink import attribute, nested, text, u32be

_NETLINK_NETFILTER = 12
_SUBSYS_NFTABLES = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE = 0, 2, 3, 6, 7
_FAMILY_NETDEV = 5
_CHAIN = "drop"
_MILLION = 1_000_000
_LIST_ELEM, _EXPR_NAME, _EXPR_DATA = 1, 1, 2
_RULE_TABLE, _RULE_CHAIN, _RULE_EXPRESSIONS = 1, 2, 4
_REG_VERDICT, _REG_1 = 0, 1
_CMP_LT = 2
_COUNTER_PACKETS = 2


class NftError(Exception):
    """nf_tables refused; the message names the missing part."""


def _header(family: int, resource: int = 0) -> bytes:
    return struct.pack(">BBH", family, 0, resource)


def _message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    number = (_SUBSYS_NFTABLES << 8) | kind
    return netlink.message(number, netlink.NLM_F_REQUEST | flags, sequence, _header(_FAMILY_NETDEV) + body)


def _batch(messages: list[bytes], last: int) -> None:
    edge = _header(socket.AF_UNSPEC, _SUBSYS_NFTABLES)
    begin = netlink.message(_BATCH_BEGIN, netlink.NLM_F_REQUEST, 0, edge)
    end = netlink.message(_BATCH_END, netlink.NLM_F_REQUEST, last + 1, edge)
    netlink.exchange(_NETLINK_NETFILTER, begin + b"".join(messages) + end, last)


def _expression(name: str, *attributes: bytes) -> bytes:
    return nested(_LIST_ELEM, text(_EXPR_NAME, name), nested(_EXPR_DATA, *attributes))


def _random_drop(per_million: int) -> bytes:
    return nested(
        _RULE_EXPRESSIONS,
        # register 1 = random mod one million (DREG, MODULUS, TYPE = random)
        _expression("numgen", u32be(1, _REG_1), u32be(2, _MILLION), u32be(3, 1)),
        # cmp compares bytes, so the number is put in network order first (SREG, DREG, OP = hton, LEN, SIZE)
        _expression("byteorder", u32be(1, _REG_1), u32be(2, _REG_1), u32be(3, 1), u32be(4, 4), u32be(5, 4)),
        _expression(
            "cmp",
            u32be(1, _REG_1),
            u32be(2, _CMP_LT),
            nested(3, attribute(1, struct.pack(">I", per_million))),
        ),
        _expression("counter"),
        # verdict register = NF_DROP (0)
        _expression("immediate", u32be(1, _REG_VERDICT), nested(2, nested(2, u32be(1, 0)))),
    )


def add_random_drop(table: str, iface: str, per_million: int) -> None:
    """Drop this share of the packets that arrive at `iface` of the current network namespace.

    Raises:
        NftError: naming what the kernel lacks.
    """
    create = netlink.NLM_F_CREATE | netlink.NLM_F_ACK
    hook = nested(4, u32be(1, 0), u32be(2, 0), text(3, iface))
    steps = [
        ("nf_tables", _NEWTABLE, text(1, table)),
        ("netdev ingress hook", _NEWCHAIN, text(1, table) + text(3, _CHAIN) + hook + text(7, "filter")),
        (
            "numgen, byteorder, cmp, counter or immediate expression",
            _NEWRULE,
            text(_RULE_TABLE, table) + text(_RULE_CHAIN, _CHAIN) + _random_drop(per_million),
        ),
    ]
    messages = [_message(kind, create, n, body) for n, (_, kind, body) in enumerate(steps, 1)]
    try:
        _batch(messages, len(messages))
    except netlink.RefusedError as error:
        part = steps[error.sequence - 1][0] if 0 < error.sequence <= len(steps) else "nf_tables"
        raise NftError(f"{part} ({error.strerror})") from None
    except OSError as error:
        raise NftError(f"nf_tables ({error.strerror})") from None


def remove_table(table: str) -> None:
    """Take a table and everything in it away; nothing happens when it is gone already."""
    try:
        _batch([_message(_DELTABLE, netlink.NLM_F_ACK, 1, text(1, table))], 1)
    except netlink.RefusedError as error:
        if error.errno != errno.ENOENT:
            raise


def dropped_packets(table: str) -> int:
    """Packets that the table's rule has dropped."""
    body = text(_RULE_TABLE, table) + text(_RULE_CHAIN, _CHAIN)
    request = _message(_GETRULE, netlink.NLM_F_DUMP, 1, body)
    packets = 0
    for _, payload in netlink.exchange(_NETLINK_NETFILTER, request, 1):
        rule = dict(netlink.attributes(payload[4:]))
        for _, element in netlink.attributes(rule.get(_RULE_EXPRESSIONS, b"")):
            expression = dict(netlink.attributes(element))
            if expression.get(_EXPR_NAME, b"").rstrip(b"\0") == b"counter":
                counter = dict(netlink.attributes(expression[_EXPR_DATA]))
                packets += struct.unpack(">Q", counter[_COUNTER_PACKETS])[0]
    return packets

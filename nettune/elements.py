"""One grammar for everything that a finding, a drain line, a counter or a plot names.

host/g17                          a host
host/g17/nic/mlx5_3               one of its NICs (an emulated host's `eth0` too)
host/g17/gpu/0                    one of its accelerators
switch/leaf3                      a switch or router
switch/leaf3/port/Eth48           one of its ports
link/leaf3:Eth48--spine1:Eth3     a cable: `node:port` of both ends in sorted order
fabric                            the whole
"""

from __future__ import annotations

import re
from typing import Self

from nettune.errors import InputError

# Every character but the separators: "/" and ":" are common in switch port names (Ethernet1/1), so they are
# allowed in a port's part, which is always last or delimited by "--".
_NAME = r"[^/:\s]+"
_PORT = r"(?:(?!--)[^\s])+"
_GRAMMAR = re.compile(
    rf"(?P<fabric>fabric)"
    rf"|host/(?P<host>{_NAME})(?:/nic/(?P<nic>{_PORT})|/gpu/(?P<gpu>[0-9]+))?"
    rf"|switch/(?P<switch>{_NAME})(?:/port/(?P<port>{_PORT}))?"
    rf"|link/(?P<a>{_NAME}:{_PORT})--(?P<b>{_NAME}:{_PORT})"
)


class ElementId(str):
    """A checked name of an element; a plain string everywhere else (JSON, tables, sorting).

    Raises:
        InputError: the text does not follow the grammar of this module.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check the text against the grammar."""
        match = _GRAMMAR.fullmatch(text)
        if match is None:
            raise InputError(
                f"{text!r} names no element; write host/NAME, switch/NAME or link/A:PORT--B:PORT"
            )
        if match["a"] is not None and match["a"] > match["b"]:
            raise InputError(f"{text!r}: the ends of a link are written in sorted order")
        return super().__new__(cls, text)

    @classmethod
    def fabric(cls) -> Self:
        """The whole fabric."""
        return cls("fabric")

    @classmethod
    def host(cls, host: str) -> Self:
        """A host."""
        return cls(f"host/{host}")

    @classmethod
    def nic(cls, host: str, nic: str) -> Self:
        """A NIC of a host."""
        return cls(f"host/{host}/nic/{nic}")

    @classmethod
    def gpu(cls, host: str, index: int) -> Self:
        """An accelerator of a host."""
        return cls(f"host/{host}/gpu/{index}")

    @classmethod
    def switch(cls, switch: str) -> Self:
        """A switch or router."""
        return cls(f"switch/{switch}")

    @classmethod
    def port(cls, switch: str, port: str) -> Self:
        """A port of a switch."""
        return cls(f"switch/{switch}/port/{port}")

    @classmethod
    def link(cls, node_a: str, port_a: str, node_b: str, port_b: str) -> Self:
        """The cable between two ports; the ends may come in either order."""
        first, second = sorted((f"{node_a}:{port_a}", f"{node_b}:{port_b}"))
        return cls(f"link/{first}--{second}")

    @property
    def kind(self) -> str:
        """`fabric`, `host`, `nic`, `gpu`, `switch`, `port` or `link`."""
        match = _GRAMMAR.fullmatch(self)
        if match is None:  # pragma: no cover (checked on creation)
            raise InputError(f"{self!r} names no element")
        for kind in ("nic", "gpu", "port", "host", "switch", "fabric"):
            if match[kind] is not None:
                return kind
        return "link"

    @property
    def node(self) -> str | None:
        """The host or switch that the element belongs to; None for a link and the fabric."""
        match = _GRAMMAR.fullmatch(self)
        return None if match is None else match["host"] or match["switch"]

    @property
    def ends(self) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """((node, port), (node, port)) of a link, else None."""
        match = _GRAMMAR.fullmatch(self)
        if match is None or match["a"] is None:
            return None
        (node_a, port_a), (node_b, port_b) = match["a"].split(":", 1), match["b"].split(":", 1)
        return (node_a, port_a), (node_b, port_b)

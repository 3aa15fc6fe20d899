"""The rail of each NIC out of the NICs' names: eth0 is rail 0, eth1 rail 1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from topology.naming import natural_key


def rails_of(nics: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], tuple[int, str]]:
    """(host, NIC) -> (rail, reason) for the NICs of all hosts.

    Where all names are one stem and a number, the rail is the number's rank among those of the whole fabric, so that
    a host without eth0 still has eth1 on rail 1. Elsewhere it is the NIC's place among its host's names.
    """
    names = {name for of_host in nics.values() for name in of_host}
    parts = {name: re.fullmatch(r"(.*?)([0-9]+)", name) for name in names}
    matched = [part for part in parts.values() if part is not None]
    if len(matched) == len(names) and len({part[1] for part in matched}) == 1:
        numbers = sorted({int(part[2]) for part in matched})
        rank = {name: numbers.index(int(part[2])) for name, part in parts.items() if part is not None}
        return {
            (host, name): (rank[name], f"rail {rank[name]}: the number in {name}")
            for host, of_host in nics.items()
            for name in of_host
        }
    return {
        (host, name): (place, f"rail {place}: {name} is NIC {place + 1} of its host by name")
        for host, of_host in nics.items()
        for place, name in enumerate(sorted(of_host, key=natural_key))
    }

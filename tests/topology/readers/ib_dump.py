"""What ibnetdiscover prints of a made-up three-tier fabric of any size, for tests and benchmarks.

Leaves and aggregation switches have 32 ports down and 32 up. A leaf has one rail of 32 hosts; a block is 32 leaves and
32 aggregation switches, each pair with one cable; the aggregation switches of one place in all blocks share their cores,
with parallel cables. Every switch has a SHARP aggregation node behind port 65, as Quantum switches do.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

HALF = 32


class Dump(NamedTuple):
    """The text and what is in it; `links` without those inside the switches."""

    text: str
    hosts: int
    switches: int
    leaves: int
    links: int


class _Node(NamedTuple):
    letter: str
    guid: int
    description: str
    lid: int


def ibnetdiscover_dump(hosts: int, rails: int = 8) -> Dump:
    """The dump of a fabric with full bisection; hosts x rails is a multiple of 1,024."""
    leaves = hosts * rails // HALF
    blocks = leaves // HALF
    assert blocks * HALF * HALF == hosts * rails
    cores_of_place = max(blocks // 2, 1)
    lid = iter(range(1, 49152))
    leaf = [_switch(0x10, n, f"pod{n // rails}-rail{n % rails}", next(lid)) for n in range(leaves)]
    agg = [_switch(0x20, n, f"agg{n // HALF}-{n % HALF}", next(lid)) for n in range(leaves)]
    core = [_switch(0x30, n, f"core{n}", next(lid)) for n in range(HALF * cores_of_place)]
    adapter = [
        _Node("H", (0xA0 << 40) + n, f"node{n // rails + 1} mlx5_{n % rails}", next(lid))
        for n in range(hosts * rails)
    ]
    engine = {
        node: _Node("H", node.guid + 8, "Mellanox Technologies Aggregation Node", next(lid))
        for node in [*leaf, *agg, *core]
    }
    cables = defaultdict(list)

    def cable(a: _Node, port_a: int, b: _Node, port_b: int) -> None:
        cables[a].append((port_a, b, port_b))
        cables[b].append((port_b, a, port_a))

    for n, nic in enumerate(adapter):
        host, rail = divmod(n, rails)
        cable(leaf[host // HALF * rails + rail], host % HALF + 1, nic, 1)
    for n, switch in enumerate(leaf):
        block, place = divmod(n, HALF)
        for up in range(HALF):
            cable(switch, HALF + up + 1, agg[block * HALF + up], place + 1)
    used = [0] * len(core)
    for n, switch in enumerate(agg):
        for up in range(HALF):
            to = n % HALF * cores_of_place + up % cores_of_place
            used[to] += 1
            cable(switch, HALF + up + 1, core[to], used[to])
    links = sum(map(len, cables.values())) // 2
    for switch, node in engine.items():
        cable(switch, 65, node, 1)
    lines = ["#", "# Topology file: generated on Thu Jan  1 00:00:00 1970", "#"]
    lines.append(f"# Initiated from node {adapter[0].guid:016x} port {adapter[0].guid:016x}")
    for switch in engine:
        lines += _switch_block(switch, cables[switch])
    for node in [*adapter, *engine.values()]:
        lines += _adapter_block(node, cables[node])
    return Dump("\n".join(lines) + "\n", hosts, len(engine), leaves, links)


def _switch(group: int, number: int, name: str, lid: int) -> _Node:
    return _Node("S", (group << 40) + number * 16, f"MF0;{name}:MQM9700/U1", lid)


def _switch_block(node: _Node, cables: list[tuple[int, _Node, int]]) -> list[str]:
    lines = [
        "",
        "vendid=0x2c9",
        "devid=0xd2f2",
        f"sysimgguid=0x{node.guid:x}",
        f"switchguid=0x{node.guid:x}({node.guid:x})",
        f'Switch\t65 "S-{node.guid:016x}"\t\t# "{node.description}" enhanced port 0 lid {node.lid} lmc 0',
    ]
    for port, far, far_port in sorted(cables):
        guid = "" if far.letter == "S" else f"({far.guid:x}) "
        lines.append(
            f'[{port}]\t"{far.letter}-{far.guid:016x}"[{far_port}]{guid}\t\t# "{far.description}" lid {far.lid} 4xNDR'
        )
    return lines


def _adapter_block(node: _Node, cables: list[tuple[int, _Node, int]]) -> list[str]:
    ((port, far, far_port),) = cables
    about = f'# lid {node.lid} lmc 0 "{far.description}" lid {far.lid} 4xNDR'
    return [
        "",
        "vendid=0x2c9",
        "devid=0x1021",
        f"sysimgguid=0x{node.guid:x}",
        f"caguid=0x{node.guid:x}",
        f'Ca\t1 "H-{node.guid:016x}"\t\t# "{node.description}"',
        f'[{port}]({node.guid:x}) \t"S-{far.guid:016x}"[{far_port}]\t\t{about}',
    ]

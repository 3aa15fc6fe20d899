"""`scontrol show topology` of Slurm: what slurmctld made of its topology, tree, block, ring or torus.

Lines as `_print_topo_record` of each plugin prints them: `SwitchName= Level= LinkSpeed= Nodes= Switches=`,
`BlockName=|AggregatedBlock= BlockIndex= Nodes= BlockSize=`, `RingName= Nodes= RingSize=`, `TorusName= Dims= Nodes=`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers.registry import Reader
from topology.readers.slurm_conf import records
from topology.readers.slurm_topology import Group, Slurm, Switch

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_RECOGNISED = re.compile(
    r"^ *(?:SwitchName=\S+ +Level=|(?:BlockName|AggregatedBlock)=\S+ +(?:BlockIndex=|Nodes=\S* +BlockSize=)|RingName=\S+ +Nodes=\S* +RingSize=|TorusName=\S+ +Dims=)",
    re.MULTILINE,
)
_NONE = frozenset({"(null)", "None", "none", ""})
_KINDS = {
    "switchname": "tree",
    "blockname": "block",
    "aggregatedblock": "block",
    "ringname": "ring",
    "torusname": "torus",
}


def _recognises(source: Source) -> bool:
    return _RECOGNISED.search(source.head) is not None


def _read(source: Source) -> Said:
    slurm = Slurm(source, READER.name)
    switches: list[Switch] = []
    blocks: list[Group] = []
    rings: list[Group] = []
    tori: list[Group] = []
    sizes: set[int] = set()
    kinds: dict[str, int] = {}
    for number, pairs in records(source):
        key, name = next(iter(pairs.items()))
        if key not in _KINDS:
            raise source.error(f"{key[:40]!r} begins no line of scontrol show topology", number)
        kinds.setdefault(_KINDS[key], number)
        nodes, children = (_value(pairs, word) for word in ("nodes", "switches"))
        group = Group(name, nodes, number)
        if key == "switchname":
            # above level 0, Nodes are all hosts below
            level = _number(source, pairs, "level", number)
            switches.append(Switch(name, children, "" if level else nodes, number))
        elif _KINDS[key] == "block":
            sizes.add(_number(source, pairs, "blocksize", number))
            if key == "blockname":
                blocks.append(group)
        elif key == "ringname":
            rings.append(group)
        elif "dims" in pairs:
            tori.append(group)
    if len(kinds) != 1:
        lines = " and ".join(f"a {kind} on line {number}" for kind, number in kinds.items())
        raise source.error(
            f"should be one topology, but has {lines or 'none'}", max(kinds.values(), default=1)
        )
    if switches:
        slurm.add_tree(switches, whole=False)
    slurm.add_rings(rings)
    if blocks:
        slurm.add_blocks(blocks, sorted(sizes))
    for torus in tori:
        for host in slurm.expand(torus.nodes, torus.line):
            slurm.tree.host(host, torus.line)
    if tori:
        slurm.tree.finding(
            "scontrol prints the hosts of a torus without their places", fix="give topology.yaml instead"
        )
    return slurm.tree.finish()


def _value(pairs: dict[str, str], key: str) -> str:
    value = pairs.get(key, "")
    return "" if value in _NONE else value


def _number(source: Source, pairs: dict[str, str], key: str, line: int) -> int:
    text = pairs.get(key, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise source.error(f"has no number for {key}: is the line cut (SLURM_TOPO_LEN)?", line)
    return int(text)


READER = Reader(
    name="scontrol",
    what="`scontrol show topology` of Slurm",
    recognises=_recognises,
    read=_read,
)

"""How messages about communicators are recognised: their start and end, rings, trees, connections, tuning.

As in `network`: each function gives an event or None; patterns are anchored and none repeats a repetition.
"""

from __future__ import annotations

import re
from sys import intern

from topology.readers.nccl_log import comm_events as e
from topology.readers.nccl_log.events import At, Event
from topology.readers.nccl_log.gid import bus_address

_INIT = re.compile(
    r"(?:\[Rank \d{1,9}\] )?(?:(\w+) )?comm (0x[0-9a-fA-F]+|\(nil\)) rank (-?\d{1,9}) nranks (\d{1,9}) "
    r"cudaDev (-?\d{1,6})(?: nvmlDev (-?\d{1,6}))? busId ([0-9a-fA-F]{1,16})(.*)"
)
_PARENT = re.compile(r" parent (\S+)")
_COMM_ID = re.compile(r" commId (0x[0-9a-fA-F]+)")
_STATE = re.compile(r"- (?:Init (START|COMPLETE)|(\w+) COMPLETE)")
_SHAPE = re.compile(
    r"comm (\S+) rank (\d{1,9}) nRanks (\d{1,9}) nNodes (\d{1,9}) localRanks (\d{1,9}) localRank (\d{1,9}) "
    r"MNNVL (\d{1,3})"
)
_TIMINGS = re.compile(
    r"Init timings(?: - (\w+))?: rank (\d{1,9}) nranks (\d{1,9}) total (\d{1,9}\.?\d{0,9})(?: \(([^)]*)\))?"
)
_RING = re.compile(r"Channel (\d{1,6})/(\d{1,6}) :\s+([\d ]+)$")
_CONNECTION = re.compile(
    r"(?:Channel|Ring) (\d{1,6})(?:/(\d{1,6}))? : (\d{1,9})(?:\[([0-9a-f]{1,16})\])? -> "
    r"(\d{1,9})(?:\[([0-9a-f]{1,16})\])?(?: \[(send|receive)\])? via (.*)"
)
_VIA_NET = re.compile(r"NET/([^/]+)/(\d{1,6})(?:\((\d{1,9})\))?(.*)")
_TREE = re.compile(r"\[(\d{1,6})\] (\S+)")
_COUNT = re.compile(r"(\d{1,6}) (coll|collnet|nvls|p2p) channels( per peer)?")
_CONNECTED = re.compile(r"Connected all (\w+)(?:, use ring PXN (\d) GDR (\d))?")
_CHOICE = re.compile(
    r"(?:(\w+): )?(\d{1,18}) Bytes -> Algo (\w+) proto (\w+)"
    r"(?: channel\{Lo\.\.Hi\}=\{(\d{1,6})\.\.(\d{1,6})\})?(?: time (\d{1,15}\.?\d{0,15}))?"
)
_CELL = re.compile(r"\s*(\d{1,12}\.?\d{0,12})\s*/\s*(\d{1,12}\.?\d{0,12})\s*")


def comm(at: At, text: str) -> Event | None:
    """`ncclCommInitRank comm ..`, `comm .. - Abort COMPLETE`, `comm .. nRanks ..`."""
    if match := _SHAPE.match(text):
        return e.CommShape(
            *at,
            comm=match[1],
            rank=int(match[2]),
            nranks=int(match[3]),
            nnodes=int(match[4]),
            local_ranks=int(match[5]),
            local_rank=int(match[6]),
            mnnvl=int(match[7]) != 0,
        )
    match = _INIT.match(text)
    state = _STATE.search(match[8]) if match else None
    if match is None or state is None:
        return None
    parent, comm_id = _PARENT.search(match[8]), _COMM_ID.search(match[8])
    return e.CommInit(
        *at,
        state=state[1] or state[2],
        function=match[1] or "",
        comm=match[2],
        rank=int(match[3]),
        nranks=int(match[4]),
        cuda_dev=int(match[5]),
        nvml_dev=int(match[6] or -1),
        bus=bus_address(match[7]),
        comm_id=comm_id[1] if comm_id else "",
        parent=parent[1] if parent else "",
    )


def timings(at: At, text: str) -> Event | None:
    """`Init timings - ..`."""
    match = _TIMINGS.match(text)
    if match is None:
        return None
    parts = []
    for part in (match[5] or "").split(","):
        name, _, value = part.strip().rpartition(" ")
        if name and value.replace(".", "", 1).isdecimal() and len(value) < 20:
            parts.append((name, float(value)))
    return e.InitTimings(*at, match[1] or "", int(match[2]), int(match[3]), float(match[4]), tuple(parts))


def channel(at: At, text: str) -> Event | None:
    """`Channel 00/02 : 0 1`, `Channel 00/0 : 0[0] -> 1[1] via ..`, `Ring 00 : ..`."""
    if match := _CONNECTION.match(text):
        via = intern(match[8].strip())
        net = _VIA_NET.match(via)
        return e.Connection(
            *at,
            channel=int(match[1]),
            connection=int(match[2] or -1),
            from_rank=int(match[3]),
            from_dev=intern(match[4] or ""),
            to_rank=int(match[5]),
            to_dev=intern(match[6] or ""),
            direction=intern(match[7] or ""),
            via=via,
            transport=intern(net[1]) if net else "",
            net_dev=int(net[2]) if net else -1,
            proxy_rank=int(net[3] or -1) if net else -1,
            gpu_direct="/GDRDMA" in via,
            shared="/Shared" in via,
        )
    if match := _RING.match(text):
        ranks = match[3].split()
        if all(len(rank) < 10 for rank in ranks):
            return e.RingOrder(*at, int(match[1]), int(match[2]), tuple(map(int, ranks)))
    return None


def trees(at: At, text: str) -> Event | None:
    """`Trees [0] 1/-1/-1->0->-1 [1] ..`."""
    nodes: dict[e.TreeNode, None] = {}
    for match in _TREE.finditer(text):
        number = int(match[1])
        for half, reverse in zip(match[2].split("|"), (False, True), strict=False):
            parts = half.split("->")
            node = _tree_node(number, parts[::-1] if reverse else parts)
            if node is None:
                return None
            nodes[node] = None
    return e.Trees(*at, tuple(nodes)) if nodes else None


def _tree_node(number: int, parts: list[str]) -> e.TreeNode | None:
    try:
        children, rank, parent = parts
        if max(map(len, (*children.split("/"), rank, parent))) > 9:
            return None
        below = tuple(int(child) for child in children.split("/") if int(child) >= 0)
        return e.TreeNode(number, below, int(rank), int(parent))
    except ValueError:
        return None


def counts(at: At, text: str) -> Event | None:
    """`24 coll channels, .. p2p channels per peer`."""
    found = {f"{match[2]}{match[3] or ''}": int(match[1]) for match in _COUNT.finditer(text[:400])}
    if "coll" not in found or "p2p" not in found:
        return None
    return e.ChannelCounts(
        *at,
        coll=found["coll"],
        collnet=found.get("collnet", -1),
        nvls=found.get("nvls", -1),
        p2p=found["p2p"],
        p2p_per_peer=found.get("p2p per peer", -1),
    )


def connected(at: At, text: str) -> Event | None:
    """`Connected all rings ..`."""
    match = _CONNECTED.match(text)
    return e.Connected(*at, match[1], int(match[2] or -1), int(match[3] or -1)) if match else None


def choice(at: At, text: str) -> Event | None:
    """`AllReduce: 1024 Bytes -> Algo RING proto LL ..`."""
    match = _CHOICE.match(text)
    if match is None:
        return None
    first, last = match[5], match[6]
    return e.AlgorithmChoice(
        *at,
        function=intern(match[1] or ""),
        bytes=int(match[2]),
        algorithm=intern(match[3]),
        protocol=intern(match[4]),
        first_channel=int(first) if first else -1,
        last_channel=int(last) if last else -1,
        time_us=float(match[7]) if match[7] else 0.0,
    )


class TuningTable:
    """The tuning table of one writer, whose heads stand in rows of their own.

    Since 2.2x `Algorithm | Tree | Ring |`, `Protocol | LL | LL128 | Simple | ..` (three columns an algorithm; the last
    block may name more protocols than it has columns); before that `Latency/AlgBw | Tree/ LL | Tree/ LL128 | ..`.
    """

    def __init__(self) -> None:
        self._algorithms: list[str] = []
        self._protocols: list[str] = []

    @property
    def begun(self) -> bool:
        """Whether a head was seen."""
        return bool(self._algorithms)

    def row(self, at: At, text: str) -> Event | None:
        """The event of a row; None for heads, which are kept, and for what is no row."""
        name, *columns = (part.strip() for part in text.rstrip().removesuffix("|").split("|"))
        if name == "Algorithm":
            self._algorithms = [column for column in columns for _ in range(3)]
        elif name == "Protocol":
            self._protocols = columns
        elif name == "Latency/AlgBw":
            pairs = [column.partition("/") for column in columns]
            self._algorithms = [algorithm.strip() for algorithm, _, _ in pairs]
            self._protocols = [protocol.strip() for _, _, protocol in pairs]
        elif name == "Max NThreads" and all(column.isdecimal() and len(column) < 9 for column in columns):
            threads = zip(self._algorithms, self._protocols, map(int, columns), strict=False)
            return e.TuningThreads(*at, tuple(threads))
        elif self._algorithms:
            cells = [_CELL.fullmatch(column) for column in columns]
            told = zip(self._algorithms, self._protocols, cells, strict=False)
            if cells and all(cells):
                row = [e.TuningCell(a, p, float(cell[1]), float(cell[2])) for a, p, cell in told if cell]
                return e.TuningRow(*at, name, tuple(row))
        return None

"""Events of things that go wrong: completions with error, port events, watchdogs, RAS; and how they are recognised.

Sources: NVIDIA/nccl transport/net_ib (wordings changed in 2.21, 2.24 and 2.28, see each class), misc/socket.cc, ras/;
PyTorch ProcessGroupNCCL.cpp. Opcode and length of a completion with error are garbage (verbs define only wr_id, status,
qp_num and vendor_err then).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from topology.readers.nccl_log.events import At, Event

STATUS = {
    "IBV_WC_SUCCESS": 0,
    "IBV_WC_LOC_LEN_ERR": 1,
    "IBV_WC_LOC_QP_OP_ERR": 2,
    "IBV_WC_LOC_EEC_OP_ERR": 3,
    "IBV_WC_LOC_PROT_ERR": 4,
    "IBV_WC_WR_FLUSH_ERR": 5,
    "IBV_WC_MW_BIND_ERR": 6,
    "IBV_WC_BAD_RESP_ERR": 7,
    "IBV_WC_LOC_ACCESS_ERR": 8,
    "IBV_WC_REM_INV_REQ_ERR": 9,
    "IBV_WC_REM_ACCESS_ERR": 10,
    "IBV_WC_REM_OP_ERR": 11,
    "IBV_WC_RETRY_EXC_ERR": 12,
    "IBV_WC_RNR_RETRY_EXC_ERR": 13,
}
"""`enum ibv_wc_status` (rdma-core libibverbs/verbs.h)."""


@dataclass(frozen=True, slots=True)
class CompletionError(Event):
    """`Got completion from peer 10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129 (Recv)`: up to 2.18.

    Then `.. with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid A remoteGidsB hca mlx5_1` (no blank after
    remoteGids), from 2.28 on `.. with status=NAME(12) opcode=NAME(1) vendor_err=129 localGid A remoteGidsB hca mlx5_1`.

    Attributes:
        status: 12 retries exceeded (path), 5 flushed (follows from an earlier one), 4 local protection, 10 remote access.
        peer, peer_port: of the bootstrap socket.
        request: `Send`, `Recv`, ...; `vendor_err` -1 where the line is cut.
    """

    peer: str
    peer_port: int
    status: int
    vendor_err: int
    request: str
    local_gid: str
    remote_gid: str
    hca: str
    qp_num: int

    @property
    def status_name(self) -> str:
        """`IBV_WC_RETRY_EXC_ERR`; the number where verbs have no name for it."""
        return next((name for name, code in STATUS.items() if code == self.status), str(self.status))


@dataclass(frozen=True, slots=True)
class CqeError(Event):
    """`Got CQE with error (devIndex=0, req=.., comm=0x.. (recv), wr_id=0, qp_num=26257)` (net_ib/p2p.cc, 2.28 on)."""

    dev_index: int
    side: str
    qp_num: int


@dataclass(frozen=True, slots=True)
class AsyncEvent(Event):
    """`NET/IB : mlx5_0:1 Got async error event: port error` and its kin (net_ib/init.cc).

    Up to 2.20 without device: `Got async event : port error`; 2.28 on `Got non-fatal async event: port error(10)`;
    `mlx5_0:1 async fatal event on QP (0x..): ..`; `mlx5_0:1 GID table changed`.
    """

    device: str
    port: int
    event: str
    fatal: bool
    affected: str


@dataclass(frozen=True, slots=True)
class FatalCommunicator(Event):
    """`communicator encountered a fatal error (detected in ncclIbTest)` (net_ib)."""

    function: str


@dataclass(frozen=True, slots=True)
class SocketError(Event):
    """`socketProgress: Connection closed by remote peer ..`, `.. Call to recv from A<p> failed : reason` (misc/socket.cc)."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class CudaError(Event):
    """`Cuda failure 1 'invalid argument'`; up to 2.1x `Cuda failure 'invalid argument'` (include/checks.h)."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class CallTrace(Event):
    """`transport/net.cc:1134 -> 6 [Proxy Thread]`: an error on its way up (include/checks.h); 6 is ncclRemoteError."""

    where: str
    result: int
    thread: str


@dataclass(frozen=True, slots=True)
class NoPath(Event):
    """`Could not find a path for pattern 4, falling back to simple order` (graph/search.cc)."""

    pattern: int


@dataclass(frozen=True, slots=True)
class WatchdogTimeout(Event):
    """`[Rank 118] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=.., OpType=ALLREDUCE, ..)` (PyTorch)."""

    rank: int
    sequence: int
    operation: str
    numel_in: int
    numel_out: int
    timeout_ms: int
    ran_ms: int


@dataclass(frozen=True, slots=True)
class WatchdogStatus(Event):
    """`failure detected by watchdog at work sequence id: 2 PG status: last enqueued work: 3, last completed work: 1`."""

    rank: int
    group: str
    sequence: int
    last_enqueued: int
    last_completed: int


@dataclass(frozen=True, slots=True)
class HeartbeatStuck(Event):
    """`ProcessGroupNCCL's watchdog got stuck for 480 seconds` (2.3 on): TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC."""

    rank: int
    group: str
    stuck_s: int


@dataclass(frozen=True, slots=True)
class RasCommunicators(Event):
    """A row of the group table of `ncclras`: `RUNNING`, and the errors (`OK`, `MISMATCH`, `INCOMPLETE`).

    Counts are as printed: `8`, or `7-8` where the communicators or nodes of a group differ.
    """

    group: str
    communicators: str
    nodes: str
    ranks_per_node: str
    ranks: str
    ranks_in_group: str
    status: str
    errors: str


@dataclass(frozen=True, slots=True)
class RasProblem(Event):
    """`#0-0 (fa93daea854b060b) MISMATCH`: what is wrong with one communicator."""

    communicator: str
    comm_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class RasOperationCount(Event):
    """`30 ranks have launched up to operation 640`; which collective stands in the line before (`Other`)."""

    ranks: int
    operation: int


@dataclass(frozen=True, slots=True)
class RasRank(Event):
    """`Rank 12 -- GPU 4 managed by process 323032 on node 10.0.0.1`."""

    rank: int
    gpu: int
    pid: int
    node: str


_COMPLETION = re.compile(
    r"Got completion from peer (?P<peer>[^\s<]+)(?:<(?P<port>\d{1,6})>)? with "
    r"(?:error (?P<error>\d{1,6})|status=(?:\w+\()?(?P<status>\d{1,6}))"
)
_VENDOR = re.compile(r"vendor[ _]err[ =](\d{1,10})(?: \((\w+)\))?")
_LOCAL_GID = re.compile(r"localGid (\S+)")
_REMOTE_GID = re.compile(r"remoteGids? ?(\S+)")
_HCA = re.compile(r"\bhca (\S+)")
_QP_NUM = re.compile(r"\bqp_num=(\d{1,10})")
_CQE = re.compile(r"Got CQE with error \(devIndex=(\d{1,6}),(?:[^()]*\((\w+)\))?[^()]*?qp_num=(\d{1,10})")
_ASYNC = re.compile(
    r"NET/\w+ ?: (?:(?P<device>\S+):(?P<port>\d{1,6}) )?"
    r"(?:Got (?:non-fatal )?async (?:error )?event ?: (?P<event>[^()]*)"
    r"|(?P<fatal>async fatal event)(?: on (?P<on>\w+)[^:]*)?: (?P<reason>.*)"
    r"|(?P<gid>GID table changed))"
)
_FATAL = re.compile(r"communicator encountered a fatal error \(detected in (\w+)\)")
_SOCKET = re.compile(
    r"(?:Call to \w+ (?:from |to )?|Connect to |Accept from )(?P<peer>\S+<\d+>|\S+) (?:failed|returned \d+) ?:? ?(?P<reason>.*)"
    r"|Connection closed by remote peer ?(?P<closed>\S*)"
)
_CUDA = re.compile(r"Cuda failure (?:(\d{1,6}) )?'([^']*)'")
_TRACE = re.compile(r"(\S+:\d+) -> (\d{1,4})(?: \[([^\]]*)\])?$")
_NO_PATH = re.compile(r"Could not find a path for pattern (\d{1,4})")
_RANK = re.compile(r"\[?[Rr]ank ?(\d{1,9})\]")
_GROUP = re.compile(r"PG (?:ID \S+ PG )?GUID ([^\s()]+(?:\([^)]*\))?)")
_WORK = re.compile(r"(SeqNum|OpType|NumelIn|NumelOut|Timeout\(ms\))=(\w+)")
_RAN = re.compile(r"ran for (\d{1,12}) milliseconds")
_STATUS = re.compile(
    r"work sequence id: (\d{1,12}) PG status: last enqueued work: (-?\d{1,12}), last completed work: (-?\d{1,12})"
)
_STUCK = re.compile(r"watchdog (?:thread )?got stuck for (\d{1,9}) seconds")
_RAS_ROW = re.compile(r"\s*" + r"(\d{1,9}(?:-\d{1,9})?)\s+" * 6 + r"([A-Z]+)\s+([A-Z]+)\s*$")
_RAS_PROBLEM = re.compile(r"#(\d+-\d+) \(([0-9a-f]+)\) ([A-Z]+)")
_RAS_COUNT = re.compile(r"\s*(\d{1,9}) ranks? (?:has|have) launched up to operation (\d{1,12})")
_RAS_RANK = re.compile(r"\s*Rank (\d{1,9}) -- GPU (\d{1,6}) managed by process (\d{1,9}) on node ([^\s<]+)")


def is_unfinished(text: str) -> bool:
    """Whether a completion's message misses its end: loggers wrap it, the rest is the next line."""
    return "Got completion from peer" in text and _VENDOR.search(text) is None


def trouble(at: At, text: str) -> Event | None:
    """The event of a message of NCCL that tells of trouble; None for any other."""
    if "Got completion" in text and (match := _COMPLETION.search(text)):
        vendor, gids = _VENDOR.search(text), (_LOCAL_GID.search(text), _REMOTE_GID.search(text))
        hca, qp = _HCA.search(text), _QP_NUM.search(text)
        return CompletionError(
            *at,
            peer=match["peer"],
            peer_port=int(match["port"] or -1),
            status=int(match["error"] or match["status"]),
            vendor_err=int(vendor[1]) if vendor else -1,
            request=(vendor[2] or "") if vendor else "",
            local_gid=gids[0][1] if gids[0] else "",
            remote_gid=gids[1][1] if gids[1] else "",
            hca=hca[1] if hca else "",
            qp_num=int(qp[1]) if qp else -1,
        )
    if match := _CQE.search(text):
        return CqeError(*at, int(match[1]), match[2] or "", int(match[3]))
    if match := _ASYNC.match(text):
        what = match["event"] or match["reason"] or match["gid"] or ""
        fatal = match["fatal"] is not None
        port = int(match["port"] or -1)
        return AsyncEvent(*at, match["device"] or "", port, what.strip(), fatal, match["on"] or "")
    if match := _FATAL.search(text):
        return FatalCommunicator(*at, match[1])
    if match := _TRACE.match(text):
        return CallTrace(*at, match[1], int(match[2]), match[3] or "")
    if match := _CUDA.match(text):
        return CudaError(*at, int(match[1] or -1), match[2])
    if match := _NO_PATH.match(text):
        return NoPath(*at, int(match[1]))
    if at[2] != "INFO" and (match := _SOCKET.search(text)):
        closed = match["closed"] is not None
        reason = "Connection closed by remote peer" if closed else match["reason"]
        return SocketError(*at, (match["closed"] if closed else match["peer"]) or "", reason)
    return None


def torch_trouble(at: At, text: str) -> Event | None:
    """The event of a line of PyTorch's ProcessGroupNCCL; None for any other."""
    rank = _RANK.search(text)
    group = _GROUP.search(text)
    number = int(rank[1]) if rank else -1
    name = group[1] if group else ""
    if "Watchdog caught collective operation timeout" in text:
        work = dict(_WORK.findall(text))
        ran = _RAN.search(text)

        def told(key: str) -> int:
            value = work.get(key, "")
            return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else -1

        return WatchdogTimeout(
            *at,
            rank=number,
            sequence=told("SeqNum"),
            operation=work.get("OpType", ""),
            numel_in=told("NumelIn"),
            numel_out=told("NumelOut"),
            timeout_ms=told("Timeout(ms)"),
            ran_ms=int(ran[1]) if ran else -1,
        )
    if match := _STATUS.search(text):
        return WatchdogStatus(*at, number, name, int(match[1]), int(match[2]), int(match[3]))
    if match := _STUCK.search(text):
        return HeartbeatStuck(*at, number, name, int(match[1]))
    return None


def ras(at: At, text: str) -> Event | None:
    """The event of a line of `ncclras` text output (ras/client_support.cc, 2.24 on); None for any other."""
    if match := _RAS_ROW.match(text):
        return RasCommunicators(*at, *match.groups())
    if match := _RAS_PROBLEM.match(text):
        return RasProblem(*at, match[1], match[2], match[3])
    if match := _RAS_COUNT.match(text):
        return RasOperationCount(*at, int(match[1]), int(match[2]))
    if match := _RAS_RANK.match(text):
        return RasRank(*at, int(match[1]), int(match[2]), int(match[3]), match[4])
    return None

"""Kinds of trouble in a log, how near each is to the root, and what to do about it.

Statuses are those of verbs (rdma-core libibverbs/verbs.h). NCCL's own HINT lines are not believed: in 2.30 their switch
has no `break` and prints the hints of other statuses too. What vendor errors mean is from issues (nccl#1905,
nccl-tests#252): 81 and 83 beside status 4 local protection, 129 beside 12 retries exceeded, 249 beside 5 flushed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nettune.checks import Status


class Kind(enum.StrEnum):
    """What a sign of trouble is; its value is the name of the finding's check."""

    PORT_ERROR = "nccl-port-error"
    LOCAL_ACCESS = "nccl-local-access"
    REMOTE_ACCESS = "nccl-remote-access"
    CUDA = "nccl-cuda-failure"
    SHARED_MEMORY = "nccl-shared-memory"
    FATAL_EVENT = "nccl-fatal-event"
    MIXED_LAYERS = "nccl-mixed-link-layers"
    RETRY_EXCEEDED = "nccl-retry-exceeded"
    NOT_READY = "nccl-receiver-not-ready"
    OTHER_STATUS = "nccl-completion-error"
    CUT_COMPLETION = "nccl-cut-completion"
    SOCKET = "nccl-socket-error"
    PEER_CLOSED = "nccl-peer-closed"
    FLUSHED = "nccl-flushed"
    FATAL_COMMUNICATOR = "nccl-fatal-communicator"
    WATCHDOG = "nccl-watchdog"
    WATCHDOG_STATUS = "nccl-watchdog-status"
    HEARTBEAT = "nccl-heartbeat"
    RAS_INCOMPLETE = "nccl-ras-incomplete"
    RAS_MISMATCH = "nccl-ras-mismatch"
    SOCKET_FALLBACK = "nccl-socket-fallback"
    NO_GPU_DIRECT = "nccl-no-gpudirect"
    INVALID_SETTING = "nccl-invalid-setting"
    NIC_EVENT = "nccl-nic-event"
    TOPO_FILE = "nccl-topology-file"
    WRONG_DATA = "nccl-wrong-data"
    TEST_FAILED = "nccl-test-failed"
    TEST_MISSED = "nccl-test-below-minimum"


@dataclass(frozen=True)
class Cause:
    """How a kind is judged.

    Attributes:
        depth: 0 is a root of its own; a deeper one is explained by a shallower one that is not later.
        status: of the finding where it comes first.
        says: what happened, as a sentence without subject.
        fix: what to do.
    """

    depth: int
    status: Status
    says: str
    fix: str


CAUSES: dict[Kind, Cause] = {
    Kind.PORT_ERROR: Cause(
        0,
        Status.FAIL,
        "the NIC reports a port error: its link went down; errors 12 of its peers follow from it",
        "Look at this port's cable, optics and switch port (link_downed, symbol errors); drain this host, not its peers.",
    ),
    Kind.LOCAL_ACCESS: Cause(
        0,
        Status.FAIL,
        "the NIC may not access memory of its own host (status 4, local protection): not the network",
        "Check ACS and IOMMU, nvidia-peermem or dma-buf, and whether a buffer was freed while in use; no cable helps.",
    ),
    Kind.REMOTE_ACCESS: Cause(
        0,
        Status.FAIL,
        "the peer's NIC refused an access to its memory: not the network",
        "Look at the peer: its memory registration (nvidia-peermem, dma-buf), and that both ends run one version of NCCL.",
    ),
    Kind.CUDA: Cause(
        0,
        Status.FAIL,
        "a CUDA call failed: the GPU or its driver, not the network",
        "Look for Xid in the kernel log of this host, and whether this version of NCCL supports the GPU and driver.",
    ),
    Kind.SHARED_MEMORY: Cause(
        0,
        Status.FAIL,
        "NCCL's kernels want more shared memory than the GPU gives: this version of NCCL does not fit this GPU",
        "Update NCCL to a version that supports the GPU.",
    ),
    Kind.FATAL_EVENT: Cause(
        0,
        Status.FAIL,
        "the NIC reports a fatal event of a queue pair or of itself",
        "Look at the kernel log of this host for the NIC's driver and firmware at that time.",
    ),
    Kind.MIXED_LAYERS: Cause(
        1,
        Status.WARN,
        "NCCL uses InfiniBand and RoCE NICs together: unlike ones cannot reach each other",
        "Name the NICs of the fabric in NCCL_IB_HCA, and leave the front-end or bonded one out.",
    ),
    Kind.RETRY_EXCEEDED: Cause(
        2,
        Status.FAIL,
        "no answer from the peer's NIC until the retries were used up (status 12)",
        "",
    ),
    Kind.NOT_READY: Cause(
        2,
        Status.FAIL,
        "the peer posted no receive buffer until the retries were used up (status 13; the name is from memory)",
        "Look at the peer's process: it is dead, stuck, or out of memory.",
    ),
    Kind.OTHER_STATUS: Cause(
        2,
        Status.FAIL,
        "a completion with error",
        "Look the status up in verbs.h and the vendor's error in the NIC's manual; compare firmware of both ends.",
    ),
    Kind.CUT_COMPLETION: Cause(
        3,
        Status.FAIL,
        "a completion with error, whose status is not in the log",
        "Get the whole log: the next message of this process has the status.",
    ),
    Kind.SOCKET: Cause(
        2,
        Status.FAIL,
        "a TCP connection failed",
        "Check that NCCL_SOCKET_IFNAME names an interface that reaches this peer, and firewalls between the hosts.",
    ),
    Kind.PEER_CLOSED: Cause(
        4,
        Status.FAIL,
        "the peer closed its connection: its process ended first",
        "Look at the log of the peer, and for the out-of-memory killer on its host.",
    ),
    Kind.FLUSHED: Cause(
        5,
        Status.FAIL,
        "requests were flushed (status 5, vendor error 249): the queue pair had failed before, for another reason",
        "Find the first completion with another status, in the logs of the other ranks too.",
    ),
    Kind.FATAL_COMMUNICATOR: Cause(
        5,
        Status.FAIL,
        "the communicator stopped after an error",
        "Find the error before it, in the logs of the other ranks too.",
    ),
    Kind.WATCHDOG: Cause(6, Status.FAIL, "PyTorch's watchdog ended an operation that did not finish", ""),
    Kind.WATCHDOG_STATUS: Cause(6, Status.FAIL, "PyTorch's watchdog reports its group's progress", ""),
    Kind.HEARTBEAT: Cause(
        7,
        Status.FAIL,
        "PyTorch's watchdog thread was itself stuck, mostly in a CUDA call or for Python's lock: a GPU or driver that hangs",
        "Take stacks of this rank (py-spy dump, gdb) and look for Xid on its host; a longer timeout hides it.",
    ),
    Kind.RAS_INCOMPLETE: Cause(
        6,
        Status.FAIL,
        "RAS misses ranks of a communicator: their processes are gone or not reachable",
        "Look at the hosts of the ranks that RAS lists as missing.",
    ),
    Kind.RAS_MISMATCH: Cause(
        8,
        Status.WARN,
        "ranks of a communicator have launched different numbers of operations",
        "",
    ),
    Kind.SOCKET_FALLBACK: Cause(9, Status.FAIL, "TCP sockets are used, not RDMA", ""),
    Kind.NO_GPU_DIRECT: Cause(
        10,
        Status.WARN,
        "RDMA without GPUDirect: every byte passes host memory",
        "Load nvidia-peermem or use dma-buf, check NCCL_NET_GDR_LEVEL and that GPU and NIC share a PCIe switch.",
    ),
    Kind.WRONG_DATA: Cause(
        0,
        Status.FAIL,
        "nccl-tests received wrong data: no bandwidth counts before this is found",
        "Run pairs of the hosts with -c 1 to find the one with wrong data; then its GPU memory test, and NCCL_PROTO unset.",
    ),
    Kind.TOPO_FILE: Cause(
        9,
        Status.WARN,
        "the topology file could not be read: NCCL goes by what it detects (15.1 in place of 431 GB/s in azurehpc-health-checks#142)",
        "Correct the path in NCCL_TOPO_FILE, also inside the container, or unset it.",
    ),
    Kind.TEST_FAILED: Cause(
        8,
        Status.FAIL,
        "nccl-tests ended early",
        "See the messages before it; with NCCL_DEBUG=INFO all ranks tell more.",
    ),
    Kind.TEST_MISSED: Cause(
        8,
        Status.FAIL,
        "the average bandwidth is below the NCCL_TESTS_MIN_BW that was asked for",
        "The average counts small sizes too: compare the largest size with what the links allow.",
    ),
    Kind.INVALID_SETTING: Cause(
        11,
        Status.WARN,
        "a variable's value is beyond 64 bits and the default was taken",
        "Correct the value; `nettune lint env` checks the rest.",
    ),
    Kind.NIC_EVENT: Cause(
        12,
        Status.WARN,
        "the NIC reports an event that is not fatal",
        "Compare its time with the job's slow steps.",
    ),
}

_BY_STATUS = {
    1: Kind.LOCAL_ACCESS,
    2: Kind.LOCAL_ACCESS,
    4: Kind.LOCAL_ACCESS,
    5: Kind.FLUSHED,
    6: Kind.LOCAL_ACCESS,
    8: Kind.LOCAL_ACCESS,
    9: Kind.REMOTE_ACCESS,
    10: Kind.REMOTE_ACCESS,
    11: Kind.REMOTE_ACCESS,
    12: Kind.RETRY_EXCEEDED,
    13: Kind.NOT_READY,
}
_FLUSH_VENDOR = 249


def kind_of_status(status: int, vendor_err: int) -> Kind:
    """The kind of a completion's status; vendor error 249 is a flush under any status but a root's."""
    kind = _BY_STATUS.get(status, Kind.OTHER_STATUS)
    if vendor_err == _FLUSH_VENDOR and kind is Kind.OTHER_STATUS:
        return Kind.FLUSHED
    return kind

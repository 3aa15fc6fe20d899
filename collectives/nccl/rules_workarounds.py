"""Rules of stale workarounds: settings that once helped, stayed, and cost bandwidth; each with the cost where it was measured.

Costs are those that the sources state, on their machines; what has no figure has no measured cost at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collectives.nccl.job import Job, shown
from nettune.checks import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKAROUND = "nccl-env-workaround"


@dataclass(frozen=True)
class Workaround:
    """A setting that should not stay.

    Attributes:
        numbers: values that make it one; empty for any value.
        effect: what it costs.
        source: who measured or says so.
        status: FAIL where the job is not fit to run like that.
    """

    name: str
    numbers: tuple[int, ...]
    effect: str
    source: str
    status: Status = Status.WARN


WORKAROUNDS = (
    Workaround(
        "NCCL_IB_DISABLE", (1,),
        "RDMA is off and TCP used: 123 became 5.4 GB/s busbw at 128 MB on two GH200 nodes",
        "CSCS documentation", Status.FAIL,
    ),
    Workaround(
        "NCCL_NVLS_ENABLE", (0,),
        "NVLink SHARP is off: 506 became 1350 us for 112 MiB on GB200",
        "tokenspeed#1127; set after hangs and memory errors of early versions (nccl#1197)",
    ),
    Workaround("NCCL_P2P_DISABLE", (1,), "GPUs of a host exchange over host memory, not NVLink or PCIe", "env.rst, Debugging"),
    Workaround("NCCL_SHM_DISABLE", (1,), "GPUs without peer access exchange over the network", "env.rst, Debugging"),
    Workaround("NCCL_NVB_DISABLE", (1,), "no NVLink path over an intermediate GPU", "env.rst, Debugging"),
    Workaround(
        "NCCL_PXN_DISABLE", (1,),
        "no path over another GPU's NIC: all-to-all leaves its rail; it once helped NCCL 2.25 (7 became 34 GB/s)",
        "nccl#1876, nccl-tests#352",
    ),
    Workaround("NCCL_IB_ECE_ENABLE", (0,), "congestion control and adaptive routing of the NIC are not negotiated; on some RoCE clusters that is faster", "nccl#1403"),
    Workaround("NCCL_IB_PCI_RELAXED_ORDERING", (0,), "relaxed ordering is off: less bandwidth in virtual machines", "env.rst"),
    Workaround("NCCL_IB_RETURN_ASYNC_EVENTS", (0,), "a fatal event of the NIC no longer stops the communicator: it hangs", "env.rst"),
    Workaround("NCCL_CUMEM_ENABLE", (0,), "no cuMem allocations: without them no NVLS and no multi-node NVLink", "env.rst"),
    Workaround("NCCL_MNNVL_ENABLE", (0,), "hosts of one NVLink domain exchange over the network", "env.rst"),
    Workaround("NCCL_DMABUF_ENABLE", (0,), "GPUDirect RDMA over dma-buf is off", "env.rst"),
    Workaround("NCCL_NET_GDR_READ", (0,), "data to be sent is copied over host memory", "env.rst"),
    Workaround("NCCL_NET_SHARED_BUFFERS", (0,), "memory grows with the number of peers", "env.rst"),
    Workaround("NCCL_RUNTIME_CONNECT", (0,), "all peers are connected at start: slow starts of large jobs", "env.rst"),
    Workaround(
        "NCCL_TOPO_FILE", (),
        "the file replaces what NCCL finds itself; one that was missing or of another machine gave 15.1 in place of 431 GB/s",
        "azurehpc-health-checks#142",
    ),
    Workaround("NCCL_ALGO", (), "the algorithm is fixed, for all sizes; 2.24 and later fail where it does not fit", "nccl#1304, nccl#1184"),
    Workaround("NCCL_PROTO", (), "the protocol is fixed, for all sizes", "env.rst"),
    Workaround("NCCL_NTHREADS", (), "the number of threads is fixed", "env.rst, Debugging"),
)  # fmt: skip


def workarounds(job: Job) -> Iterator[Finding]:
    """Settings that the documentation calls debugging, and their cost."""
    for known in WORKAROUNDS:
        setting = job.get(known.name)
        if setting is None or not setting.value:
            continue
        if known.numbers and job.number(known.name) not in known.numbers:
            continue
        what = f"{shown(setting)}: {known.effect} ({known.source})"
        fix = f"Unset {known.name}, measure both, and keep it only if it still helps on this version of NCCL."
        yield job.finding(WORKAROUND, known.status, what, fix, setting, source=known.source)
    level = job.get("NCCL_NET_GDR_LEVEL")
    if level is not None and level.value.strip().upper() in {"LOC", "0"}:
        what = f"{shown(level)} turns GPUDirect RDMA off: data passes host memory"
        fix = "Unset it, or write PHB or SYS where the NIC is far from the GPU."
        yield job.finding(WORKAROUND, Status.FAIL, what, fix, level, source="env.rst")
    peers = job.get("NCCL_P2P_LEVEL")
    if peers is not None and peers.value.strip().upper() in {"LOC", "0"}:
        what = f"{shown(peers)}: GPUs of a host exchange over host memory, not NVLink or PCIe"
        yield job.finding(WORKAROUND, Status.FAIL, what, "Unset it.", peers, source="env.rst, Debugging")

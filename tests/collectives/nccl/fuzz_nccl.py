"""Mutated settings and logs for the lints: a mutant is a function of its number, so any failure can be looked at again."""

from __future__ import annotations

import random

SETTINGS = [
    "NCCL_IB_TIMEOUT=22\nNCCL_IB_HCA==mlx5_0:1,mlx5_1:1\nNCCL_ALGO=ring;allreduce:tree\nNCCL_SOCKET_IFNAME=^docker,lo\n",
    "PATH=/bin\0NCCL_DEBUG=INFO\0NCCL_DEBUG_SUBSYS=INIT,NET\0NCCL_IB_GID_INDEX=3\0TORCH_NCCL_BLOCKING_WAIT=1\0",
    (
        "#!/bin/bash\n#SBATCH --export=ALL,NCCL_IB_TC=106\nset -a; A=\"x $B\"\nexport NCCL_IB_HCA='mlx5_0,mlx5_1' NCCL_X=$(a b)\n"
        'srun --export=ALL,NCCL_PROTO=LL,LL128 bash -c "export NCCL_NVLS_ENABLE=0; unset NCCL_DEBUG" &\n'
        "mpirun -x NCCL_CROSS_NIC=1 -genv NCCL_MIN_CTAS 4 docker -e NCCL_P2P_DISABLE=1 `date` ${Y:-3}\n"
    ),
    (
        "#!/bin/sh\ncat > ~/.nccl.conf <<-'EOF'\n\tNCCL_IB_TC=106\n\tit's\n\tEOF\nexport NCCL_IB_SL=$'\\x33' NCCL_NET+=B\n"
        ': "${NCCL_IB_TC:=106}"; eval export NCCL_IB_QPS_PER_CONNECTION=4; env -u NCCL_IB_SL bash -c "NCCL_ALGO=Ring ./a"\n'
    ),
    "kind: Pod\nenv:\n- name: NCCL_IB_TC\n  value: \"106\"\n- {name: NCCL_IB_SL, valueFrom: {a: b}}\nargs: ['export NCCL_NET=IB; x']\n",
    "#conf\nNCCL_IB_ADDR_RANGE=10.0.0.0/8\nNCCL_NETDEVS_POLICY=MAX:2\nNCCL_RAS_TIMEOUT_FACTOR=2\n NCCL_IB_SL = 3\nNCCL_PSK=x\n",
]

LOGS = [
    (
        "[2026-01-01 10:00:00] a:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
        "a:1:2 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n"
        "a:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n"
        "a:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
        "[2026-01-01 10:00:05] a:1:2 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n"
        "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"
    ),
    (
        "[2026-01-01 10:09:00] b:1:2 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n"
        "[2026-01-01 10:10:00] a:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5> with status=12 opcode=0"
        " len=0 vendor err 129 (Send) localGid ::ffff:1.1.2.2 remoteGids::ffff:1.1.1.4 hca mlx5_1\n"
        "a:1:2 [0] x.cc:1 NCCL WARN NET/IB: Got CQE with error (devIndex=0, req=0x7, comm=0x7 (recv), wr_id=0, qp_num=2)\n"
        "a:1:2 [0] x.cc:1 NCCL WARN communicator encountered a fatal error (detected in ncclIbTest)\n"
        "a:1:2 [0] enqueue.cc:1 NCCL WARN Cuda failure 1 'invalid argument'\n"
        "a:1:2 [0] misc/socket.cc:4 NCCL WARN socketProgress: Connection closed by remote peer b<5>\n"
    ),
    (
        "[rank1]:[E603 17:48:01.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=239, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for 1800068 milliseconds before timing"
        " out.\n[rank1]:[E ProcessGroupNCCL.cpp:2] [PG ID 0 PG GUID 0(default_pg) Rank 1]  failure detected by watchdog at work"
        " sequence id: 239 PG status: last enqueued work: 240, last completed work: 238\n"
        "[rank6]:[E ProcessGroupNCCL.cpp:1743] [PG ID 0 Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds\n"
    ),
    (
        "NCCL version 2.26.2 compiled with CUDA 12.6\nJob summary\n===========\n"
        "    0         1         4         8        32        32   RUNNING  MISMATCH\n#0-0 (fa93daea854b060b) MISMATCH\n"
        "  30 ranks have launched up to operation 640\n  2 ranks have launched up to operation 641\n"
        "  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124\n"
    ),
]

LOGS.append(
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 validation: 1\n#  Rank  0 Group  0 Pid 7 on a device  0 [0x02] GPU\n"
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "  1024  256  float  sum  -1  10.0  0.1  0.2  0  10.0  0.1  0.2  3\n# Out of bounds values : 1 FAILED\n"
    "# Avg bus bandwidth    : 0.2 FAILED\na: Test NCCL failure common.cu:5 'x / y'\n .. a pid 7: Test failure common.cu:6\n"
)

_PIECES = [
    "-1", "9" * 30, "0x", "=", "^", ",", ";", ":", "\0", "\n", "\r\n", "'", '"', "$", "$(", "${", "`", "\\", "#", "\t", "é",
    "\ud800", "NCCL_", "export ", "--export=", "-x ", "NCCL INFO ", "NCCL WARN ", "[0] ", "a:1:2 ", "<5>", "::ffff:", "--",
    "/", "[2026-99-99 99:99:99]", "0" * 400, "%", "(", ")", "٣", "status=", "SeqNum=", "",
]  # fmt: skip


def mutant(base: str, number: int) -> str:
    """A text with one to eight changes: pieces put in, taken out, doubled, swapped, cut."""
    draw = random.Random(number)
    text = base
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(text) + 1)
        to = min(len(text), at + draw.choice([0, 1, 4, 40]))
        kind = draw.randrange(5)
        if kind == 0:
            text = text[:at] + draw.choice(_PIECES) + text[to:]
        elif kind == 1:
            text = text[:at] + text[to:]
        elif kind == 2:
            text = text[:at] + text[at:to] * draw.randint(2, 50) + text[to:]
        elif kind == 3:
            text = text[: draw.randrange(len(text) + 1)]
        else:
            text = text[:at] + chr(draw.randrange(1, 0x250)) + text[at + 1 :]
    return text

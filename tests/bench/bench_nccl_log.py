"""The tokenizer of NCCL logs: time by length, for a start of many ranks and for text that fits no message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from topology.readers import Source
from topology.readers.nccl_log import READER, tokenize

CHANNELS = 16


def start_of_ranks(ranks: int) -> Iterator[str]:
    """33 lines a rank: its start, and a connection and a queue pair of each channel."""
    for rank in range(ranks):
        gpu = rank % 8
        at = f"gpu-{rank // 8:04d}:{1000 + gpu}:{2000 + gpu} [{gpu}] NCCL INFO"
        yield (
            f"{at} ncclCommInitRank comm 0x5 rank {rank} nranks {ranks} cudaDev {gpu} nvmlDev {gpu} "
            f"busId {gpu + 1}1000 commId 0x7 - Init START"
        )
        for channel in range(CHANNELS):
            yield (
                f"{at} Channel {channel:02d}/0 : {rank}[{gpu}] -> {(rank + 8) % ranks}[{gpu}] [send] "
                f"via NET/IB/{gpu}/GDRDMA"
            )
            yield (
                f"{at} NET/IB: ncclIbConnect: NCCL Dev {gpu} IbDev {gpu} Port 1 qp_num {500 + channel} mtu 5 "
                "GID 3 (0/1064A8C0FFFF0000) ctsFifoRkey=0x1 ctsFifoLkey=0x1"
            )


def count(lines: list[str]) -> int:
    return sum(1 for _ in tokenize(lines))


@pytest.mark.parametrize("ranks", [64, 256, 1024])
def test_events_of_a_start(benchmark: Any, ranks: int) -> None:
    """Growth: 33 events a rank."""
    lines = list(start_of_ranks(ranks))
    assert benchmark(count, lines) == 33 * ranks


@pytest.mark.parametrize("kib", [64, 256, 1024])
def test_events_of_a_line_without_end(benchmark: Any, kib: int) -> None:
    """Growth: one line of prefixes that belong to nobody."""
    assert benchmark(count, ["NCCL INFO " * (kib * 1024 // 10)]) == 1


def test_a_log_of_4096_ranks(benchmark: Any) -> None:
    """Read into hosts, GPUs and 135,168 events."""
    source = Source("job.log", "\n".join(start_of_ranks(4096)))
    said = benchmark.pedantic(READER.read, (source,), rounds=2)
    assert (len(said.nodes), len(said.gpus), len(said.events)) == (512, 4096, 33 * 4096)

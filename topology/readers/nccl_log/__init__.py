"""NCCL and RCCL logs (NCCL_DEBUG=INFO), PyTorch's NCCL watchdog, `ncclras`: one tokenizer for every later use.

`tokenize(lines)` yields typed events in order: those of processes and networks (`events`), of communicators and the
topology (`comm_events`), of trouble (`trouble`). The reader turns a log into what it says of hosts.
"""

from __future__ import annotations

from topology.readers.nccl_log import comm_events, events, trouble
from topology.readers.nccl_log.reader import READER
from topology.readers.nccl_log.tokenizer import tokenize

__all__ = ["READER", "comm_events", "events", "tokenize", "trouble"]

"""`tokenize`: an NCCL log of one or many ranks into typed events, line by line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from topology.readers.nccl_log import communicator, graph, network
from topology.readers.nccl_log.events import At, Event, Other, Writer
from topology.readers.nccl_log.prefix import Message, Prefixes
from topology.readers.nccl_log.trouble import is_unfinished, ras, torch_trouble, trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Recognise = Callable[[At, str], Event | None]

MAX_MESSAGE = 1 << 16
"""Longer texts are `Other` unread: NCCL's own buffer has 1,024 characters."""

_WORD = re.compile(r"[A-Za-z]{0,12}")

_BY_WORD: dict[str, tuple[Recognise, ...]] = {
    "Bootstrap": (network.using,),
    "CPU": (graph.system,),
    "Channel": (communicator.channel,),
    "Connected": (communicator.connected,),
    "Failed": (network.using,),
    "GPU": (network.gpu_direct, graph.system),
    "Init": (communicator.timings,),
    "Invalid": (network.environment,),
    "NCCL": (network.environment, network.version),
    "NET": (network.plugin, network.network, graph.system),
    "Pattern": (graph.graph,),
    "RCCL": (network.environment, network.version),
    "Ring": (communicator.channel,),
    "Trees": (communicator.trees,),
    "Using": (network.using,),
    "comm": (communicator.comm,),
}
"""Recognisers by the word (letters only) that a message begins with; all others go to `_ELSE`."""

_ELSE: tuple[Recognise, ...] = (
    network.environment,
    communicator.comm,
    network.using,
    network.plugin,
    communicator.choice,
    communicator.counts,
    graph.system,
    graph.graph,
)


def tokenize(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a log, in order of its lines; what is of no known kind is `Other`, only blank lines are left out.

    Reads ahead at most one line (a completion with error that a logger wrapped) and keeps only names of writers and
    heads of their tuning tables. Time grows with the length of the log.

    Args:
        lines: with or without line ends: an open file, `str.splitlines()`.
    """
    prefixes = Prefixes()
    tables: dict[Writer, communicator.TuningTable] = {}
    in_ras = False
    held: Message | None = None
    for number, line in enumerate(lines, 1):
        for message in prefixes.messages(number, line.rstrip("\r\n")):
            if held is not None:
                first, held = held, None
                if not message.at[2] and "vendor" in message.text[:80]:
                    text = f"{first.text.rstrip()} {message.text.lstrip()}"
                    yield _event(first.at, first.where, text)
                    continue
                yield _event(first.at, first.where, first.text)
            text = message.text
            if not text.strip():
                continue
            if message.at[2] == "WARN" and len(text) < MAX_MESSAGE and is_unfinished(text):
                held = message
                continue
            if not message.at[2]:
                in_ras = in_ras or text.startswith(("Communicators...", "Job summary"))
                yield _bare(message.at, text, in_ras=in_ras)
                continue
            if "|" in text and len(text) < MAX_MESSAGE:
                table = tables.get(message.at[1]) or communicator.TuningTable()
                row = table.row(message.at, text)
                if table.begun:
                    tables[message.at[1]] = table
                if row is not None:
                    yield row
                    continue
            yield _event(message.at, message.where, text)
    if held is not None:
        yield _event(held.at, held.where, held.text)


def _event(at: At, where: str, text: str) -> Event:
    """The event of a message with prefix."""
    if len(text) < MAX_MESSAGE:
        if at[2] == "INFO":
            for recognise in _BY_WORD.get(_word(text), _ELSE):
                event = recognise(at, text)
                if event is not None:
                    return event
        event = trouble(at, text)
        if event is not None:
            return event
    return Other(*at, text.rstrip(), where)


def _bare(at: At, text: str, *, in_ras: bool) -> Event:
    """The event of a line without prefix."""
    event: Event | None = None
    if len(text) < MAX_MESSAGE:
        if "ProcessGroupNCCL" in text or "Watchdog caught" in text:
            event = torch_trouble(at, text)
        elif in_ras:
            event = ras(at, text)
        event = event or network.version(at, text) or graph.system(at, text) or graph.graph(at, text)
    return event or Other(*at, text.rstrip())


def _word(text: str) -> str:
    """The letters that a text begins with."""
    match = _WORD.match(text)
    return match[0] if match else ""

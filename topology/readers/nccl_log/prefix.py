"""Lines of an NCCL log into messages with their writer: prefixes are found, glued messages are taken apart.

NVIDIA/nccl debug.cc writes `host:pid:tid [dev] NCCL INFO text`, and WARN as `host:pid:tid [dev] file.cc:12 NCCL WARN
text` (2.32: `file.cc:12 (function)`), each with one write; a collector, a launcher or NCCL itself puts time and label
before it. Writes of several ranks into one file may still end up on one line: a prefix in the middle begins a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topology.readers.nccl_log.events import NOBODY, At, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANCHOR = re.compile(r"NCCL (INFO|WARN|TRACE|ABORT|CALL|ATTN)(?: |$)")
_DEVICE = re.compile(r"\[(-?\d{1,6})\]")
_IDENTITY = re.compile(r"(.*):(\d{1,10}):(\d{1,10})")
_LOOK_BACK = 400
"""Characters before the anchor in which a prefix is looked for: names have at most 64, times about 80."""

_MOST_SEEN = 1 << 16
"""Prefixes that are remembered whole: without timestamps, each writer has one for INFO."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: where it came from, `where` (source line of a WARN), and its text with leading blanks."""

    at: At
    where: str
    text: str


class Prefixes:
    """Takes lines apart; remembers the writers, whose names come again and again."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str, str, str], Writer] = {}
        self._hosts: set[str] = set()
        self._seen: dict[str, tuple[Writer, str, str, int]] = {}

    def messages(self, number: int, line: str) -> Iterator[Message]:
        """The messages of one line; a line without prefix is one message with an empty level."""
        begin = 0
        found: tuple[Writer, str, str, str] | None = None
        for anchor in _ANCHOR.finditer(line):
            window = max(begin, anchor.start() - _LOOK_BACK)
            if window < anchor.start() and not line[anchor.start() - 1].isspace():
                continue
            before = line[window : anchor.start()]
            known = self._seen.get(before)
            if known is None or begin:
                known = self._prefix(before, torn=begin > 0)
                if not begin and len(self._seen) < _MOST_SEEN:
                    self._seen[before] = known
            writer, stamp, where, prefix_at = known
            if begin == 0 and window > 0:  # so much before a prefix is no stamp
                yield Message((number, NOBODY, "", ""), "", line[: window + prefix_at])
                stamp = "" if prefix_at else stamp
            if begin and writer is NOBODY:  # words of a message, not the begin of another
                continue
            cut = window + prefix_at
            if found is not None:
                # a stamp in the middle cannot be told from the end of the message before it: it stays there
                yield _message(number, found, line[begin : max(begin, cut)])
                stamp = ""
            found = (writer, anchor[1], stamp, where)
            begin = anchor.end()
        if found is None:
            yield Message((number, NOBODY, "", ""), "", line)
        else:
            yield _message(number, found, line[begin:])

    def _prefix(self, text: str, *, torn: bool) -> tuple[Writer, str, str, int]:
        """(writer, stamp, source line, where the prefix begins) of what stands before an anchor."""
        words = text.rsplit(None, 4)
        for back, word in enumerate(reversed(words[-4:])):
            device = _DEVICE.fullmatch(word)
            if device is None:
                continue
            position = len(words) - 1 - back
            where = " ".join(words[position + 1 :])
            identity = _IDENTITY.fullmatch(words[position - 1].rsplit(None, 1)[-1]) if position else None
            if identity is None:
                return self._writer("", "-1", "-1", device[1]), _stamp(words[:position]), where, 0
            host = identity[1].rpartition(":")[2].lstrip("\"'")
            if torn:
                host = self._known(host)
            begin = text.rfind(f"{host}:{identity[2]}:{identity[3]}")
            return (
                self._writer(host, identity[2], identity[3], device[1]),
                _stamp([text[:begin]]),
                where,
                begin,
            )
        return NOBODY, _stamp([text]), "", len(text) if torn else 0

    def _known(self, glued: str) -> str:
        """The name of a host seen before that ends a word which the message before has run into."""
        return next((glued[i:] for i in range(len(glued)) if glued[i:] in self._hosts), glued)

    def _writer(self, host: str, pid: str, tid: str, dev: str) -> Writer:
        key = (host, pid, tid, dev)
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = Writer(host, int(pid), int(tid), int(dev))
            self._hosts.add(host)
        return writer


def _message(number: int, found: tuple[Writer, str, str, str], text: str) -> Message:
    writer, level, stamp, where = found
    return Message((number, writer, level, stamp), where, text)


def _stamp(words: list[str]) -> str:
    return " ".join(words).strip()

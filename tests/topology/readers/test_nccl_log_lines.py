"""The tokenizer of NCCL logs, line by line: prefixes, torn and wrapped lines, watchdog and RAS, cut text."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.readers.nccl_log import events as e
from topology.readers.nccl_log import tokenize

EXAMPLE = Path(__file__).parent / "examples" / "nccl-log.txt"


P = "gpu-1:10:20 [3] NCCL INFO "
W = "gpu-1:10:20 [3] transport/net_ib.cc:93 NCCL WARN "


def events(*lines: str) -> list[Any]:
    return list(tokenize(lines))


def one(line: str) -> Any:
    [event] = tokenize([line])
    return event


def values(event: Any) -> tuple[Any, ...]:
    """What an event tells, without where it came from, in the order of its fields."""
    return tuple(getattr(event, field.name) for field in fields(event)[4:])


@pytest.mark.parametrize(
    ("prefix", "writer", "stamp"),
    [
        ("h:1:2 [0] ", e.Writer("h", 1, 2, 0), ""),
        (":1:2 [0] ", e.Writer("", 1, 2, 0), ""),
        (" [5] ", e.Writer("", -1, -1, 5), ""),
        ("", e.NOBODY, ""),
        ("[2026-09-09 10:46:33] h-1.a:1:2 [0] ", e.Writer("h-1.a", 1, 2, 0), "[2026-09-09 10:46:33]"),
        ("12: h:1:2 [0] ", e.Writer("h", 1, 2, 0), "12:"),
        ("[1,0]<stdout>:h:1:2 [0] ", e.Writer("h", 1, 2, 0), "[1,0]<stdout>:"),
        ("(worker pid=7) h:1:2 [0] ", e.Writer("h", 1, 2, 0), "(worker pid=7)"),
    ],
)
def test_prefixes_of_launchers_and_collectors(prefix: str, writer: e.Writer, stamp: str) -> None:
    """Who wrote it is found behind whatever stands before."""
    event = one(f"{prefix}NCCL INFO Using network IB")
    assert (event.name, event.writer, event.stamp) == ("IB", writer, stamp)


def test_warnings_name_the_source_line_also_with_its_function() -> None:
    """2.32 adds the function in brackets."""
    event = one("h:1:2 [0] transport/net.cc:7 (ncclNetInit) NCCL WARN odd")
    assert (event.where, event.writer, event.text) == (
        "transport/net.cc:7 (ncclNetInit)",
        e.Writer("h", 1, 2, 0),
        "odd",
    )


def test_messages_of_two_ranks_on_one_line_are_taken_apart() -> None:
    """A prefix in the middle begins a message, also where the end of the one before has run into the host's name."""
    found = events(
        "h-2:3:4 [1] NCCL INFO Using network Socket",
        "h-1:1:2 [0] NCCL INFO Using network IBh-2:3:4 [1] NCCL INFO Channel 00/02 : 0 1",
        "h-1:1:2 [0] NCCL INFO odd h-9:5:6 [1] NCCL INFO Using network IB",
    )
    assert [(event.line, event.writer.host) for event in found] == [
        (1, "h-2"),
        (2, "h-1"),
        (2, "h-2"),
        (3, "h-1"),
        (3, "h-9"),
    ]
    assert (found[1].name, found[2].ranks, found[3].text) == ("IB", (0, 1), "odd")


def test_words_that_look_like_a_prefix_stay_in_their_message() -> None:
    """Without a writer in brackets before it, `NCCL INFO` in the middle is text."""
    assert one(f"{P}grep NCCL INFO in the log").text == "grep NCCL INFO in the log"
    assert one("set NCCL_DEBUG=INFO for NCCL INFO lines").text == "lines"


def test_a_wrapped_completion_is_joined_and_a_cut_one_stands_alone() -> None:
    """The line behind belongs to it when it has no prefix and goes on with the vendor's code."""
    head = f"{W}NET/IB : Got completion from peer h-2<1> with error 12, opcode 0, len"
    joined, after = events(head, "0, vendor err 129 (Recv)", f"{P}x")
    assert (joined.line, joined.vendor_err, after.line) == (1, 129, 3)
    cut, other = events(head, f"{P}x")
    assert (cut.vendor_err, other.text) == (-1, "x")
    [last] = events(head)
    assert last.status == 12


def test_status_codes_have_the_names_of_verbs() -> None:
    """12 is IBV_WC_RETRY_EXC_ERR; what verbs do not know keeps its number."""
    text = "NET/IB : Got completion from peer h<1> with status={} opcode=0 len=0 vendor err 1 (Send)"
    assert one(W + text.format(12)).status_name == "IBV_WC_RETRY_EXC_ERR"
    assert one(W + text.format(99)).status_name == "99"


def test_torchs_watchdog_tells_rank_sequence_and_sizes() -> None:
    """Fields that old versions lack are -1."""
    new, old = events(
        "[rank6]:[E 1 ProcessGroupNCCL.cpp:1] [PG ID 1 PG GUID 3(tp) Rank 6] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=_ALLGATHER_BASE, NumelIn=1, NumelOut=8, Timeout(ms)=600000) ran for 600001 milliseconds",
        "[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625251 milliseconds before timing out.",
    )
    assert values(new) == (6, 9, "_ALLGATHER_BASE", 1, 8, 600000, 600001)
    assert (old.rank, old.numel_in, old.ran_ms) == (7, -1, 25625251)


def test_ras_rows_count_only_behind_its_head() -> None:
    """Six numbers and two words are a row of `ncclras`, and of no other table."""
    row = "    0         1         2       7-8        16        15   RUNNING  INCOMPLETE"
    assert isinstance(one(row), e.Other)
    found = events("Communicators... (0.00s)", row)[1]
    assert (found.ranks_per_node, found.ranks, found.status, found.errors) == (
        "7-8",
        "16",
        "RUNNING",
        "INCOMPLETE",
    )


def test_lines_are_taken_one_by_one() -> None:
    """Lazily: the first events are there before the last line is."""

    def endless() -> Any:
        while True:
            yield f"{P}Using network IB\n"

    stream = tokenize(endless())
    assert [next(stream).line for _ in range(3)] == [1, 2, 3]


def test_messages_of_any_length_take_time_by_their_length() -> None:
    """Longer than NCCL's buffer by far, they are kept unread."""
    text = "Using network IB" + "x" * (1 << 20)
    assert one(P + text).text == text


PIECES = [
    *EXAMPLE.read_text().splitlines(),
    *("NCCL INFO ", "[0]", ":", "<0>", "->", " | ", "h:1:2 [0] NCCL WARN "),
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=12), st.data())
def test_no_line_is_lost_and_none_brings_it_down(pieces: list[str], data: st.DataObject) -> None:
    """Cut and glued at any place: at least one event for each line that is not blank, all of them events."""
    lines = []
    for piece in pieces:
        cut = data.draw(st.integers(0, len(piece)))
        lines.append(piece[:cut] + "".join(data.draw(st.lists(st.sampled_from(PIECES), max_size=2))))
    lines = [line for text in lines for line in text.split("\n")]
    found = list(tokenize(lines))
    assert all(isinstance(event, e.Event) for event in found)
    blank_or_continued = {
        number
        for number, line in enumerate(lines, 1)
        if not line.strip() or line.rstrip().endswith(("INFO", "WARN")) or "vendor" in line[:80]
    }
    assert set(range(1, len(lines) + 1)) - {event.line for event in found} <= blank_or_continued


def test_text_far_before_a_prefix_is_kept() -> None:
    """What is too long for a stamp is an event of its own."""
    before, event = events("x " * 500 + f"{P}Using network IB")
    assert (before.text.split(), event.name, event.stamp) == (["x"] * 500, "IB", "")

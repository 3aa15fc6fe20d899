"""NCCL's parsing: strtoll with base 0 as the C library has it, traps of values, the grammar of NCCL_ALGO."""

from __future__ import annotations

import ctypes
import ctypes.util

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collectives.nccl.parsing import Trap, in_hardware, read_number, read_selection, strtoll
from collectives.nccl.tables.algorithms import ALGORITHMS, PROTOCOLS
from collectives.nccl.variables import variables

LIBC = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
LIBC.strtoll.restype = ctypes.c_longlong
ERANGE = 34

numbers = st.from_regex(
    r"[ \t]?[-+]{0,2}(0[xXbB]?)?[0-9a-fA-F]{0,25}([ a-zA-Z.,_'\"].{0,4})?", fullmatch=True
)


@given(st.one_of(numbers, st.text(alphabet=" \t\n+-0123456789abcdefxXbBMkK.'\"\u0663", max_size=30)))
@example("abc")
@example("0x")
@example("0xg")
@example("- 1")
@example("9223372036854775807")
@example("9223372036854775808")
@example("-9223372036854775809")
@example("0" * 40 + "7")
def test_numbers_are_read_as_the_c_library_reads_them(text: str) -> None:
    """Value, rest and ERANGE of strtoll(text, &end, 0)."""
    if "\0" in text:
        return
    raw = text.encode()
    ours = strtoll(text)
    end = ctypes.c_char_p()
    buffer = ctypes.create_string_buffer(raw)
    ctypes.set_errno(0)
    value = LIBC.strtoll(buffer, ctypes.byref(end), 0)
    out_of_range = ctypes.get_errno() == ERANGE
    rest = (end.value or b"").decode()
    # glibc 2.38 and later read 0b101 as binary where a program is compiled for C23; NCCL's wheels are not.
    if "0b" in text.lower():
        return
    assert (ours.value, ours.rest, ours.out_of_range) == (value, rest, out_of_range)


@pytest.mark.parametrize(
    ("text", "value", "trap", "meant"),
    [
        ("abc", 0, Trap.NO_NUMBER, None),
        ("22s", 22, Trap.REST, 22),
        ("1e3", 1, Trap.FRACTION, 1000),
        ("1.5", 1, Trap.FRACTION, None),
        ("022", 18, Trap.OCTAL, 22),
        ("08", 0, Trap.OCTAL, 8),
        ("0x16", 22, Trap.NONE, 22),
        ("", None, Trap.EMPTY, None),
        ("4M", 4, Trap.UNIT, 4 << 20),
        ("4MiB", 4, Trap.UNIT, 4 << 20),
        ("true", 0, Trap.TRUTH, 1),
        ("off", 0, Trap.TRUTH, 0),
        ('"7"', 0, Trap.QUOTES, 7),
        ("-1", -1, Trap.NONE, -1),
        ("0", 0, Trap.NONE, 0),
        ("22 # comment", 22, Trap.REST, 22),
        ("1_000", 1, Trap.REST, 1),
        ("7\r", 7, Trap.NONE, 7),
        ("9223372036854775808", None, Trap.TOO_LONG, None),
    ],
)
def test_traps(text: str, value: int | None, trap: Trap, meant: int | None) -> None:
    """What NCCL takes, why it is not what it looks like, and what a person means."""
    reading = read_number(text)
    assert (reading.value, reading.trap, reading.meant) == (value, trap, meant)


@given(st.text(max_size=40))
def test_any_text_has_a_reading(text: str) -> None:
    """No value of any text is a traceback."""
    reading = read_number(text)
    assert (reading.value is None) == (reading.trap in {Trap.EMPTY, Trap.TOO_LONG})


def test_fields_of_queue_pairs_are_narrow() -> None:
    """276 as a timeout is 20 (5 bits of 8), 15 and 10 retries are 7 and 2 (3 bits)."""
    timeout, retries = variables()["NCCL_IB_TIMEOUT"], variables()["NCCL_IB_RETRY_CNT"]
    assert [in_hardware(timeout, value) for value in (22, 276, 32)] == [22, 20, 0]
    assert [in_hardware(retries, value) for value in (7, 15, 10)] == [7, 7, 2]
    assert in_hardware(variables()["NCCL_IB_TC"], 300) == 300


@pytest.mark.parametrize(
    ("text", "chosen", "unknown"),
    [
        ("ring", (("", ("Ring",), False),), ()),
        ("^Tree,NVLS", (("", ("Tree", "NVLS"), True),), ()),
        ("ring;allreduce:tree", (("", ("Ring",), False), ("AllReduce", ("Tree",), False)), ()),
        ("allreduce:^tree", (("AllReduce", ("Tree",), True),), ()),
        ("ring,foo", (("", ("Ring",), False),), ("foo",)),
        ("ring;tree", (("", ("Ring",), False),), ("tree",)),
        ("alltoall:ring", (), ("alltoall",)),
    ],
)
def test_the_grammar_of_algorithms(text: str, chosen: tuple[object, ...], unknown: tuple[str, ...]) -> None:
    """Only the first list may be without a function; names are in any case."""
    selection = read_selection(text, ALGORITHMS)
    assert (selection.chosen, selection.unknown) == (chosen, unknown)


def test_protocols_are_not_algorithms() -> None:
    """Each has its own names."""
    assert read_selection("LL128,Simple", PROTOCOLS).unknown == ()
    assert read_selection("ring", PROTOCOLS).unknown == ("ring",)

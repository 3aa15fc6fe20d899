"""Traps of what nccl-tests prints: layouts of all versions, labels, torn and glued rows, copies, several runs."""

from __future__ import annotations

import pytest

from collectives.nccl_tests.labels import unlabelled
from collectives.nccl_tests.rows import finished, read_layout, started
from collectives.nccl_tests.text import TextParser, nccl_version_name, parse_text

ROW = "     1048576        262144     float     sum      -1    38.76   27.05   47.34       0    38.77   27.05   47.34       0"
OPS = ("all_reduce", "all_gather", "alltoall", "broadcast", "reduce", "sendrecv", "reduce_scatter")


@pytest.mark.parametrize("version", ["2.9", "2.13", "2.14", "2.17.1", "2.18.2", "2.19.6"])
@pytest.mark.parametrize("op", OPS)
def test_every_version_of_every_operation_reads_alike(emulated, op, version):
    """The same run printed by old and new versions gives the same sizes, times and bandwidths."""
    code, text = emulated(op, version=version)

    (run,) = parse_text(text.splitlines())

    assert code == 0
    assert [row.size_bytes for row in run.rows] == run.asked_sizes == [1 << 20, 2 << 20, 4 << 20]
    assert run.ranks == 8
    assert run.out_of_bounds == (0.0, True)
    assert run.average == pytest.approx(
        sum(r.out_of_place.busbw_gbytes_per_s for r in run.rows) / 3, rel=2e-3
    )
    assert {row.root for row in run.rows} == ({0} if op in {"broadcast", "reduce"} else {None})
    assert {row.redop for row in run.rows} == (
        {"sum"} if op in {"all_reduce", "reduce", "reduce_scatter"} else {""}
    )
    halves = [half for row in run.rows for half in row.halves]
    if version == "2.9":
        assert {half.wrong for half in halves} == {None}
    elif op in {"alltoall", "sendrecv"}:
        assert [half.wrong for half in halves] == [0.0, None] * 3
    else:
        assert {half.wrong for half in halves} == {0.0}


@pytest.mark.parametrize("words", [("-S", "1"), ("-I", "1"), ("-c", "0"), ("-S", "1", "-c", "0")])
def test_options_that_add_columns(emulated, words):
    """A date and a time, four statistics, N/A in place of counts: the same columns are found."""
    _, text = emulated("all_reduce", "-b", "1M", "-e", "4M", "-f", "2", "-g", "8", *words)

    (run,) = parse_text(text.splitlines())

    assert len(run.rows) == 3
    assert run.rows[0].in_place.time_us == pytest.approx(65.88, abs=0.01)
    assert run.rows[0].in_place.wrong == (None if "-c" in words else 0.0)


@pytest.mark.parametrize(
    ("label", "rank"),
    [
        ("[1,0]<stdout>:", 0),
        ("   [1,12]<stderr>:", 12),
        ("[1,0]<stdout>: ", 0),
        ("[prterun-node-7-4711@1,3]<stdout>: ", 3),
        ("0: ", 0),
        (" 15: ", 15),
        ("[7] ", 7),
        ("2026-01-02T03:04:05.678901234Z ", None),
        ("2026-01-02T03:04:05.6+01:00 [1,2]<stdout>: ", 2),
        ("\x1b[32m", None),
        ("", None),
    ],
)
def test_labels_of_launchers(label, rank):
    """A label is taken off, its rank kept, and the row behind it is whole."""
    text, found = unlabelled(label + ROW + "\r\n")

    begun = started(text, 1)
    assert found == rank
    assert begun is not None
    assert finished(begun, None).size_bytes == 1 << 20


def test_a_row_torn_by_a_log_line_is_joined():
    """NCCL's lines may end half a row; its rest comes on the next line."""
    half = len("     1048576        262144     float     sum      -1    38.76   27.05")
    log = "g1:10:10 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"

    (run,) = parse_text(["# nThread 1", ROW[:half], log, ROW[half:], ROW])

    assert len(run.rows) == 2
    assert run.rows[0].in_place == run.rows[1].in_place
    assert run.torn is None


def test_half_rows_stay_torn():
    """What ends in the middle is no row, and its size is known; numbers of another kind end it, too."""
    assert parse_text([ROW, ROW[:70]])[0].torn == 1 << 20
    assert parse_text([ROW[:70], ROW])[0].torn == 1 << 20
    assert parse_text([ROW[:70], "38.76", "x"])[0].rows == []


@pytest.mark.parametrize("host", ["vm", "1node", "-1x", "9"])
def test_a_message_glued_to_half_a_row(host):
    """`-1vm: Test ..`: the host is told from the root where the head lists it."""
    lines = [
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 1 iters: 20 validation: 1",
        f"#  Rank  0 Group  0 Pid 1 on {host} device  0 [0000:1b:00] GPU",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
        f"           8             2     float     sum      -1{host}: Test CUDA failure common.cu:1 'out of memory'",
    ]

    (run,) = parse_text(lines)

    assert run.torn == 8
    assert run.failures[0].host == host
    assert run.failures[0].text == "CUDA: out of memory"


def test_copies_of_a_build_without_mpi(emulated):
    """Heads before the first row are other processes; a head after the footer is another run."""
    _, text = emulated()
    lines = text.splitlines()
    head = next(index for index, line in enumerate(lines) if line.startswith("# nThread"))

    assert parse_text([*lines[: head + 1], *lines])[0].copies == 2
    runs = parse_text([*lines, *lines])
    assert [len(run.rows) for run in runs] == [3, 3]
    assert [run.copies for run in runs] == [1, 1]
    killed = parse_text([*lines[:-8], *lines])
    assert [run.ended for run in killed] == [False, True]


def test_counts_that_are_large_or_marked():
    """`#wrong` is printed by %g; rccl-tests marks an error beyond its threshold; inf is no zero."""
    for word, wrong in (
        ("1.23457e+08", 1.23457e8),
        ("0*", 1.0),
        ("5*", 5.0),
        ("inf", float("inf")),
        ("nan", float("inf")),
    ):
        (run,) = parse_text([ROW.rsplit(maxsplit=1)[0] + f"  {word}"])
        assert run.rows[0].in_place.wrong == wrong


def test_what_is_no_row():
    """Placeholders, too many columns, words: named as bad lines, or passed over outside of a table."""
    head = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
    for bad in ("XXXXX", "12.3x", "١٢", "1e9999"):
        (run,) = parse_text([head, ROW.replace("38.76", bad)])
        assert (len(run.rows), len(run.bad_lines)) == (0, 1), bad
    assert parse_text(["2 3 mice sat on a mat"])[0].empty
    assert parse_text([head, ROW + " 1 2 3"])[0].rows == []
    assert read_layout("# size of it") is None


def test_rows_come_as_they_are_fed():
    """A caller sees each row at once."""
    parser = TextParser()

    assert parser.feed("# nothing\n") == []
    assert [row.size_bytes for row in parser.feed(ROW + "\n")] == [1 << 20]


def test_asked_sizes_end():
    """Steps of bytes, a factor of 1, a step of 0, and a million sizes: the list ends."""
    line = "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {} warmup iters: 1 iters: 20 validation: 1"
    cases = [("8", "64", "2(factor)", 4), ("8", "64", "8(bytes)", 8), ("8", "64", "0(bytes)", 1),
             ("8", "8", "1048576(bytes)", 1), ("0", "9", "2(factor)", 1), ("9", "8", "2(factor)", 0),
             ("1", "99999999999999", "1(bytes)", 100_000)]  # fmt: skip
    for begin, end, step, count in cases:
        (run,) = parse_text([line.format(begin, end, step)])
        assert len(run.asked_sizes) == count


def test_versions_of_nccl():
    """NCCL_VERSION of nccl.h, before and after 2.9."""
    assert [nccl_version_name(code) for code in (23203, 2804, 21903)] == ["2.32.3", "2.8.4", "2.19.3"]

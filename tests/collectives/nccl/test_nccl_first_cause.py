"""`lint log`: the first cause of every recorded log, and of logs written for one trap each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from collectives.nccl.firstcause import lint_logs
from collectives.nccl.symptoms import time_of
from nettune.checks import Finding, Status, exit_code, worst_first
from topology.readers.nccl_log import tokenize
from topology.readers.nccl_log.trouble import HeartbeatStuck, WatchdogStatus

# Made by reading each log and its .src: (file, status, check, line of the first cause, element).
SAMPLES = [
    ("01-tuning-table-2.29.7-2ranks-socket.log", "PASS", "log", None, "fabric"),
    # InfiniBand and RoCE in one list of NICs, then status 12 (the page that it is from names that as the cause)
    ("02-ib-error12-azure-mixed-ib-roce.log", "FAIL", "mixed-link-layers", 1, "host/node-2"),
    # four lines of four clusters: the third one is the socket transport
    ("03-net-ib-using-lines.log", "FAIL", "socket-fallback", 3, "fabric"),
    # kernels want 82,240 bytes of shared memory, the GPU has 79,856; the launch then fails
    ("04-5090-shm-init-2.25.1.log", "FAIL", "shared-memory", 4, "host/GENOA-06"),
    ("05-ib-status12-vendor129-roce-ipv6.log", "FAIL", "retry-exceeded", 1, "host/kp-ddp-worker-0"),
    # line 1 is the head of the completion in line 3; another host follows a second later
    ("07-ib-2.30-new-format-retry-exc.log", "FAIL", "retry-exceeded", 3, "host/ubuntu2/nic/mlx5_1"),
    ("09-ring-trees-2.5.7-roce-no-gdr.log", "WARN", "no-gpudirect", 13, "fabric"),
    ("10-channel-lines-ib-no-gdr-and-gid3.log", "WARN", "no-gpudirect", 1, "fabric"),
    ("11-channel-lines-gdrdma-ibext-p2pcumem.log", "PASS", "log", None, "fabric"),
    # the node with the port error, not its peer with error 12
    ("12-async-port-error-then-error12.log", "FAIL", "port-error", 1, "host/...-48"),
    # `fatal error` of line 1 follows from the event of line 2, in the same second
    ("13-async-fatal-2.27-local-access.log", "FAIL", "local-access", 2, "host/h100-28/nic/mlx5_ib0"),
    ("14-graph-system-topology.log", "PASS", "log", None, "fabric"),
    ("16-torch-watchdog-2.7.log", "FAIL", "watchdog", 1, "fabric"),
    # rank 7 is 32,000 operations behind rank 0
    ("17-torch-watchdog-different-seq.log", "FAIL", "watchdog", 3, "fabric"),
    ("18-torch-heartbeat-480s.log", "FAIL", "heartbeat", 1, "fabric"),
    # the two ranks that RAS lists are ahead
    ("19-ras-mismatch.txt", "WARN", "ras-mismatch", 24, "host/10.137.190.124"),
]
OF_RAS = [
    # one of 16 ranks has no data: rank 3 of 10.245.40.180
    ("rccl_v2283_text_degraded_2node.txt.txt", "FAIL", "ras-incomplete", 25, "host/10.245.40.180"),
    # the client lost its connection; the inspector's JSON lines: nothing of a log in them
    ("rccl_v2283_text_connection_reset.txt.txt", "UNKNOWN", "log", None, "fabric"),
    ("inspector_sample.jsonl.txt", "UNKNOWN", "log", None, "fabric"),
    ("inspector_v5_sample.jsonl.txt", "UNKNOWN", "log", None, "fabric"),
]


def lint(text: str) -> list[Finding]:
    return worst_first(lint_logs([("log", text.splitlines(keepends=True))]))


def lint_files(files: Iterable[tuple[str, str]]) -> list[Finding]:
    return worst_first(lint_logs([(name, text.splitlines(keepends=True)) for name, text in files]))


def recorded(shared: Path, name: str) -> list[Finding]:
    folder = "ncclras_and_inspector" if name in {of_ras for of_ras, *_ in OF_RAS} else "nccl-logs"
    with (shared / "samples" / folder / name).open(errors="replace") as file:
        return worst_first(lint_logs([(name, file)]))


@pytest.mark.parametrize(("name", "status", "check", "line", "where"), SAMPLES + OF_RAS)
def test_recorded_logs(
    shared: Path, name: str, status: str, check: str, line: int | None, where: str
) -> None:
    """The first finding is the first cause; only one is worse than a warning; each says what to do."""
    found = recorded(shared, name)
    first = found[0]
    assert (str(first.status), first.check, first.evidence.get("line"), str(first.where)) == (
        status,
        f"nccl-{check}",
        line,
        where,
    )
    assert sum(finding.status is Status.FAIL for finding in found) == (status == "FAIL")
    assert all(finding.fix for finding in found if finding.status is not Status.PASS)


def test_every_recorded_log_is_in_the_table(shared: Path) -> None:
    """A new sample needs a verdict."""
    for folder, table in (("nccl-logs", SAMPLES), ("ncclras_and_inspector", OF_RAS)):
        there = {path.name for path in (shared / "samples" / folder).iterdir() if path.suffix != ".src"}
        assert there == {name for name, *_ in table}


def disturbed(lines: list[str], draw: random.Random) -> Iterator[list[tuple[str, list[str]]]]:
    """The same lines as many ranks print them: in any order, between those of sound ranks, in several files."""
    yield [("log", draw.sample(lines, len(lines)))]
    noise = (
        f"z{n % 3}:7:{n} [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
        for n in range(9999)
    )
    yield [("log", [one for line in lines for one in (*itertools.islice(noise, draw.randrange(4)), line)])]
    yield [(f"rank{rank}", lines[rank::3]) for rank in range(3)]


@pytest.mark.parametrize(
    ("name", "status", "check", "line", "where"), [row for row in SAMPLES if "ras" not in row[0]]
)
def test_the_order_of_lines_decides_nothing(
    shared: Path, name: str, status: str, check: str, line: int | None, where: str
) -> None:
    """Shuffled, interleaved with other ranks and spread over files, a log has the same first cause at the same element."""
    lines = (shared / "samples" / "nccl-logs" / name).read_text(errors="replace").splitlines(keepends=True)
    for seed in range(8):
        for logs in disturbed(lines, random.Random(seed)):
            first = worst_first(lint_logs(logs))[0]
            assert (str(first.status), first.check, str(first.where)) == (status, f"nccl-{check}", where)


@pytest.mark.parametrize("name", [name for name, *_ in SAMPLES + OF_RAS])
def test_logs_cut_anywhere_are_read(shared: Path, name: str) -> None:
    """Whatever is left of a log, something is said, and at most one finding is worse than a warning."""
    folder = "ncclras_and_inspector" if name in {of_ras for of_ras, *_ in OF_RAS} else "nccl-logs"
    text = (shared / "samples" / folder / name).read_text(errors="replace")
    for length in range(0, len(text), max(1, len(text) // 40)):
        found = lint(text[:length])
        assert found
        assert sum(finding.status is Status.FAIL for finding in found) <= 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("05-ib-status12-vendor129-roce-ipv6.log", ["10.216.210.236", "cannot be told without times"]),
        ("07-ib-2.30-new-format-retry-exc.log", ["1.1.2.2 and 1.1.1.4 are in different /24 networks"]),
        ("12-async-port-error-then-error12.log", ["here on ...-51"]),
        (
            "16-torch-watchdog-2.7.log",
            ["rank 118 waited 30 min for ALLREDUCE number 2398459", "finished is 2398458"],
        ),
        (
            "17-torch-watchdog-different-seq.log",
            ["rank 7", "64088", "behind rank 0 (up to 96120)", "held up"],
        ),
        ("18-torch-heartbeat-480s.log", ["rank 6", "480 s"]),
        ("rccl_v2283_text_degraded_2node.txt.txt", ["misses ranks", "3 on 10.245.40.180"]),
        ("19-ras-mismatch.txt", ["2 are at operation 641, 30 at 640", "(12, 13) are the ones ahead"]),
    ],
)
def test_what_the_first_cause_says(shared: Path, name: str, says: list[str]) -> None:
    """Peers, networks, ranks and sequence numbers of the log."""
    what = recorded(shared, name)[0].what
    assert [words for words in says if words not in what] == []


@pytest.mark.parametrize(
    ("name", "group"),
    [("16-torch-watchdog-2.7.log", "0(default_pg)"), ("18-torch-heartbeat-480s.log", "0(default_pg)")],
)
def test_the_group_of_a_watchdog_is_whole(shared: Path, name: str, group: str) -> None:
    """Its name ends with its bracket."""
    with (shared / "samples" / "nccl-logs" / name).open() as file:
        told = {
            event.group for event in tokenize(file) if isinstance(event, (WatchdogStatus, HeartbeatStuck))
        }
    assert told == {group}


def test_wrong_data_comes_before_everything_else() -> None:
    """Also before a network error, and with the rows that show it; a failed end alone is enough."""
    head = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    row = "  1024  256  float  sum  -1  10.0  0.1  0.2  {}  10.0  0.1  0.2  0\n"
    error = completion("a", "10:10:00", "10.0.0.2")
    found = lint(head + row.format(0) + row.format(3) + error)
    assert (found[0].check, found[0].evidence["rows"], found[0].evidence["line"]) == (
        "nccl-wrong-data",
        [["1024", "3"]],
        3,
    )
    end = "# Out of bounds values : {} {}\n# Avg bus bandwidth    : 1.5 {}\n"
    assert lint(head + row.format(0) + end.format(2, "FAILED", ""))[0].check == "nccl-wrong-data"
    assert lint(head + row.format(0) + end.format(0, "OK", "FAILED"))[0].check == "nccl-test-below-minimum"
    assert lint(head + row.format(0) + end.format(0, "OK", ""))[0].status is Status.PASS


def test_a_test_without_an_end_is_no_pass() -> None:
    """Hung, killed or cut: UNKNOWN, with the last size; an error of the network before it is the cause."""
    text = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 2048 step: 2(factor)\n  1024  256  float  sum  -1  10.0  0.1  0.2  0  10.0  0.1  0.2  0\n"
    [alone] = lint(text)
    assert (alone.status, alone.check, exit_code([alone])) == (Status.UNKNOWN, "nccl-test-unfinished", 2)
    assert "after the row of 1,024 bytes" in alone.what
    assert lint(text + completion("a", "10:10:00", "10.0.0.2"))[0].check == "nccl-retry-exceeded"
    failed = "  2048 512 float sum -1vm: Test NCCL failure common.cu:5 'remote process exited / '\n .. vm pid 7: Test failure x\n"
    assert lint(text + failed)[0].what.endswith("(NCCL: remote process exited)")


def test_a_launcher_and_a_name_alone_are_no_test() -> None:
    """A job's log with a dead task and a script's word of all_reduce_perf has no verdict of nccl-tests."""
    text = "+ srun all_reduce_perf -g 8\nsrun: error: g1: task 3: Exited with exit code 1\n# FAILED\n"
    assert [one.check for one in lint(text)] == ["nccl-log"]


def test_of_several_runs_in_a_file_the_worst_counts() -> None:
    """A sound run after one with wrong data hides nothing; the line is the wrong row's."""
    head = "# nThread 1 nGpus 8 minBytes 1024 maxBytes 1024 step: 2(factor)\n"
    row = "  1024  256  float  sum  -1  10.0  0.1  0.2  {}  10.0  0.1  0.2  0\n"
    end = "# Out of bounds values : {}\n# Avg bus bandwidth    : 0.2\n"
    wrong, sound = head + row.format(7) + end.format("1 FAILED"), head + row.format(0) + end.format("0 OK")
    for text, line in ((wrong + sound, 2), (sound + wrong, 6)):
        [found] = lint(text)
        assert (found.check, found.evidence["rows"], found.evidence["line"]) == (
            "nccl-wrong-data",
            [["1024", "7"]],
            line,
        )


def test_the_topology_file_in_use_is_told() -> None:
    """A sound log names it (azurehpc-health-checks#142: 15.1 in place of 431 GB/s); one that cannot be read warns.

    Mistake: topology file at wrong path.
    """
    told = "a:1:2 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/topo.xml\n"
    [sound] = lint(told + process("a", "10.0.0.1"))
    assert (sound.status, "NCCL_TOPO_FILE=/opt/topo.xml is in use" in sound.what) == (Status.PASS, True)
    missing = (
        "a:1:2 [0] graph/xml.cc:7 NCCL WARN Could not open XML topology file /opt/topo.xml : No such file\n"
    )
    [found] = lint(told + missing)
    assert (found.status, found.check) == (Status.WARN, "nccl-topology-file")


def test_one_node_says_nothing_of_the_network() -> None:
    """A run whose ranks are all on one host uses no network, so sockets there are no fall-back.

    Mistake: Loopback that never leaves the node.
    """
    ranks = "# nThread 1 nGpus 2\n" + "".join(
        f"#  Rank  {r} Pid 7 on a device  {r} [0x02] GPU\n" for r in range(2)
    )
    end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 0\n"
    assert lint(ranks + SOCKET.format(host="a") + end)[0].status is Status.PASS
    two = ranks + "#  Rank  2 Pid 7 on b device  0 [0x02] GPU\n"
    assert lint(two + SOCKET.format(host="a") + end)[0].check == "nccl-socket-fallback"


W = "transport/net_ib.cc:1296 NCCL WARN "
START = "[2026-01-01 10:00:00] {host}:10:10 [0] NCCL INFO Bootstrap: Using eth0:{ip}<0>\n"
READY = "[2026-01-01 10:00:05] {host}:10:10 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n"


def completion(
    host: str, clock: str, peer: str, status: int = 12, vendor: int = 129, nic: str = "mlx5_0"
) -> str:
    return (
        f"[2026-01-01 {clock}] {host}:10:12 [0] {W}NET/IB: Got completion from peer {peer}<1234> with"
        f" status={status} opcode=0 len=0 vendor err {vendor} (Send) hca {nic}\n"
    )


def process(host: str, ip: str) -> str:
    return START.format(host=host, ip=ip) + READY.format(host=host, ip=ip)


@pytest.mark.parametrize(
    ("clock", "settings", "when"),
    [
        ("10:00:35", "", "at once"),
        ("10:10:00", "", "late"),
        ("10:00:35", "NCCL_IB_TIMEOUT set by environment to 14.", "late"),
        ("10:02:00", "NCCL_IB_TIMEOUT set by environment to 22.", "at once"),
    ],
)
def test_status_12_at_once_or_late(clock: str, settings: str, when: str) -> None:
    """By the time since connecting, against 4.096 us x 2^timeout x retries of the log's own settings."""
    told = f"[2026-01-01 10:00:01] a:10:10 [0] NCCL INFO {settings}\n" if settings else ""
    first = lint(process("a", "10.0.0.1") + told + completion("a", clock, "10.0.0.2"))[0]
    assert (first.check, first.evidence["when"]) == ("nccl-retry-exceeded", when)
    assert ("never worked" in first.what) == (when == "at once")


def test_the_default_timeout_is_the_versions() -> None:
    """Before 2.14 it was 14: an error half a minute after connecting was late then."""
    version = "a:10:10 [0] NCCL INFO NCCL version 2.12.10+cuda11.6\n"
    first = lint(version + process("a", "10.0.0.1") + completion("a", "10:00:35", "10.0.0.2"))[0]
    assert (first.evidence["when"], first.evidence["nominal_error_after_s"]) == ("late", 0.47)


def test_a_peer_that_several_hosts_name_is_to_blame() -> None:
    """Three hosts get no answer from one that says nothing itself: it is named, by its bootstrap address."""
    text = "".join(process(f"h{n}", f"10.0.0.{n}") for n in range(4))
    text += completion("h0", "10:09:59", "10.0.0.1")
    text += "".join(completion(f"h{n}", "10:10:00", "10.0.0.3") for n in range(3))
    first = lint(text)[0]
    assert str(first.where) == "host/h3"
    assert "which 3 hosts name" in first.what


def test_a_flush_is_never_the_first_cause() -> None:
    """5 and 249 follow from an earlier failure (nccl#1814), also where they come first in the file."""
    text = completion("a", "10:10:01", "10.0.0.2", status=5, vendor=249) * 3
    text += completion("a", "10:10:00", "10.0.0.2", status=12)
    found = lint(text)
    assert [finding.check for finding in found] == ["nccl-retry-exceeded", "nccl-flushed"]
    assert found[1].evidence["count"] == 3
    assert found[1].what.endswith("for another reason, 3 times")


def test_only_flushes_send_to_the_other_logs() -> None:
    """What came before is not in this file."""
    [first] = lint(completion("a", "10:10:01", "10.0.0.2", status=5, vendor=249))
    assert (first.check, first.status) == ("nccl-flushed", Status.FAIL)
    assert "other ranks" in first.fix


@pytest.mark.parametrize(
    ("status", "vendor", "check"),
    [
        (4, 81, "local-access"),
        (4, 83, "local-access"),
        (10, 136, "remote-access"),
        (13, 135, "receiver-not-ready"),
        (5, 249, "flushed"),
        (21, 0, "completion-error"),
    ],
)
def test_statuses_are_told_apart(status: int, vendor: int, check: str) -> None:
    """NCCL's HINT lines are not believed: only 12 is a matter of time-outs."""
    text = completion("a", "10:10:01", "10.0.0.2", status=status, vendor=vendor)
    hint = "a:10:12 [0] NCCL INFO HINT: NCCL_IB_TIMEOUT too short\n"
    assert lint(text + hint)[0].check == f"nccl-{check}"


PORT = "[2026-01-01 {clock}] {host}:10:11 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : {nic}:1 Got async event : port error\n"


def test_the_node_with_the_port_error_is_blamed_not_its_peer() -> None:
    """In another file, and later in the order of files (nccl#905)."""
    a = process("a", "10.0.0.1") + completion("a", "10:10:30", "10.0.0.2")
    b = process("b", "10.0.0.2") + PORT.format(clock="10:10:00", host="b", nic="mlx5_3")
    first = lint_files([("a.log", a), ("b.log", b)])[0]
    assert (first.check, str(first.where), first.evidence["file"]) == (
        "nccl-port-error",
        "host/b/nic/mlx5_3",
        "b.log",
    )


def test_a_port_error_after_the_failure_did_not_cause_it() -> None:
    """Ports also go down when a node is drained after the job."""
    a = process("a", "10.0.0.1") + completion("a", "10:10:30", "10.0.0.2")
    b = process("b", "10.0.0.2") + PORT.format(clock="10:20:00", host="b", nic="mlx5_3")
    found = lint_files([("a.log", a), ("b.log", b)])
    assert found[0].check == "nccl-retry-exceeded"
    assert sum(finding.status is Status.FAIL for finding in found) == 1


def test_a_cuda_failure_after_a_network_error_follows_from_it() -> None:
    """CUDA calls fail too while a communicator is torn down."""
    cuda = "a:10:10 [0] enqueue.cc:1 NCCL WARN Cuda failure 719 'unspecified launch failure'\n"
    error = completion("a", "10:10:30", "10.0.0.2").partition("] ")[2]
    assert lint(error + cuda)[0].check == "nccl-retry-exceeded"
    assert lint(cuda + error)[0].check == "nccl-cuda-failure"


def test_a_peer_that_died_closed_its_connection() -> None:
    """An operation that waits for it follows."""
    text = (
        "a:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer b<5>\n"
        "[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7,"
        " OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600100 milliseconds before timing out.\n"
    )
    found = lint(text)
    assert [finding.check for finding in found] == ["nccl-peer-closed", "nccl-watchdog"]
    assert found[1].evidence["follows"] == "nccl-peer-closed"


def waits(rank: int, sequence: int) -> str:
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout:"
        f" WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600050"
        " milliseconds before timing out.\n"
    )


def test_ranks_that_wait_for_the_same_operation() -> None:
    """Who is missing is who has no line."""
    first = lint("".join(waits(rank, 42) for rank in range(12) if rank != 5))[0]
    assert first.what.startswith(
        "log:1: rank 0 waited 10 min for ALLREDUCE number 42 of 4 elements; ranks 0, 1, 2, 3,"
    )
    assert "4, 6, 7, 8, ... wait for the same one" in first.what
    assert first.evidence["sequences"]["11"] == 42


def test_the_rank_that_is_behind() -> None:
    """The lowest number, whoever reports first."""
    first = lint(waits(0, 42) + waits(1, 40) + waits(2, 42))[0]
    assert first.what.startswith("log:2: rank 1 waited 10 min")
    assert "behind ranks 0, 2 (up to 42)" in first.what
    assert (first.evidence["line"], first.evidence["watchdog_late"]) == (2, False)


def test_progress_without_the_operation() -> None:
    """The line with the timeout may be cut."""
    line = (
        "[rank3]:[E ProcessGroupNCCL.cpp:2] [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by watchdog at work"
        " sequence id: 7 PG status: last enqueued work: 9, last completed work: 6\n"
    )
    assert "rank 3 at operation 7: 6 finished, 9 enqueued" in lint(line)[0].what


@pytest.mark.parametrize(
    ("local", "remote", "says"),
    [
        ("::ffff:10.0.1.1", "::ffff:10.0.1.2", ""),
        ("::ffff:10.0.1.1", "::ffff:10.0.2.2", "different /24 networks"),
        ("::ffff:10.0.1.1", "fe80::1", "different types"),
        ("::ffff:10.0.1.1", "fd00::1", "different types"),
        ("fd00::1", "fd00::2", ""),
        ("fd00::1", "fe80::2", "different types"),
        ("torn", "::ffff:10.0.2.2", ""),
    ],
)
def test_what_two_gids_tell(local: str, remote: str, says: str) -> None:
    """Another network of RoCE v2, or a link-local beside a routed one."""
    line = completion("a", "10:10:00", "10.0.0.2").rstrip() + f" localGid {local} remoteGids{remote}\n"
    what = lint(line)[0].what
    assert ("different" in what) == bool(says)
    assert says in what


@pytest.mark.parametrize(
    ("line", "check", "says"),
    [
        (
            "NET/IB : mlx5_0:1 async fatal event on QP (0x7): local work queue catastrophic error",
            "fatal-event",
            "catastrophic",
        ),
        (
            "NET/IB : mlx5_0:1 async fatal event on QP (0x7): local access violation work queue error",
            "local-access",
            "access",
        ),
        ("Cuda failure 2 'out of memory'", "cuda-failure", "(out of memory)"),
        (
            "Call to connect to 10.0.0.9<4> failed : Connection refused",
            "socket-error",
            "(Connection refused)",
        ),
    ],
)
def test_other_roots(line: str, check: str, says: str) -> None:
    """With the reason that the log gives."""
    first = lint(f"a:1:2 [0] x.cc:1 NCCL WARN {line}\n")[0]
    assert (first.check, first.status) == (f"nccl-{check}", Status.FAIL)
    assert says in first.what


def test_shared_memory_without_a_failure_is_a_warning() -> None:
    """NCCL prints it and goes on; only a failed launch makes it the cause."""
    line = "a:1:2 [0] NCCL INFO ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856\n"
    assert [str(finding.status) for finding in lint(line)] == ["WARN"]
    assert lint(line + completion("a", "10:10:00", "10.0.0.2"))[0].check == "nccl-retry-exceeded"


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("[2026-01-01 00:00:10]", 10.0),
        ("2026-01-01T00:00:10.5Z", 10.5),
        ("2026-01-01 09:00:00.043 +08:00 [2026-01-01 00:00:10]", 10.0),
        ("[2026-13-01 00:00:10]", None),
        ("[2026-02-30 00:00:10]", None),
        ("12:", None),
        ("", None),
    ],
)
def test_times_of_stamps(stamp: str, seconds: float | None) -> None:
    """The last time counts: NCCL's own stands nearest to its prefix; dates that are none are no time."""
    begin = time_of("2026-01-01 00:00:00")
    assert begin is not None
    found = time_of(stamp)
    assert (None if found is None else found - begin) == seconds


SOCKET = "{host}:10:10 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n{host}:10:10 [0] NCCL INFO Using network Socket\n"
NODES = "a:10:10 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes {nodes} localRanks 4 localRank 0 MNNVL 0\n"


def test_sockets_in_place_of_rdma() -> None:
    """A failure between hosts (aicr passes it); a matter of no network inside one; a setting is named."""
    first = lint(SOCKET.format(host="a") + NODES.format(nodes=2))[0]
    assert (first.check, first.status, str(first.where)) == ("nccl-socket-fallback", Status.FAIL, "host/a")
    assert exit_code(lint(SOCKET.format(host="a") + NODES.format(nodes=1))) == 0
    setting = "a:10:10 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    assert "NCCL_IB_DISABLE=1 says so" in lint(setting + SOCKET.format(host="a"))[0].what
    setting = "a:10:10 [0] NCCL INFO NCCL_NET set by environment to Socket\n"
    assert "NCCL_NET=Socket says so" in lint(setting + SOCKET.format(host="a"))[0].what
    absent = "a:10:10 [0] NCCL INFO NET/IB : No device found.\n"
    rdma = "b:10:10 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n"
    what = lint(absent + SOCKET.format(host="a") + rdma)[0].what
    assert "no device found" in what
    assert "b has RDMA" in what


@pytest.mark.parametrize("network", ["IB", "IBext_v8", "AWS Libfabric", "gIB"])
def test_what_was_chosen_beside_a_socket_line_decides(network: str) -> None:
    """NCCL lists its sockets and then takes RDMA or a plugin: no fall-back. Another host that takes sockets is one."""
    listed = SOCKET.format(host="a").splitlines(keepends=True)[0]
    text = f"{listed}a:10:10 [0] NCCL INFO Using network {network}\n"
    assert lint(text)[0].status is Status.PASS
    first = lint(text + SOCKET.format(host="b") + NODES.format(nodes=2))[0]
    assert (first.check, str(first.where)) == ("nccl-socket-fallback", "host/b")


def test_nics_of_two_link_layers_alone_are_a_warning() -> None:
    """Nothing failed yet."""
    using = "a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_bond_0:1/RoCE [RO]; OOB e:1.1.1.1<0>\n"
    [first] = lint(using)
    assert (first.check, first.status, str(first.where)) == (
        "nccl-mixed-link-layers",
        Status.WARN,
        "host/a/nic/mlx5_bond_0",
    )
    assert lint(using + completion("a", "10:10:30", "10.0.0.2"))[0].status is Status.FAIL


@pytest.mark.parametrize("text", ["", "hello\n", "Traceback (most recent call last):\n"])
def test_a_log_without_nccl_is_unknown(text: str) -> None:
    """Never a pass."""
    [finding] = lint(text)
    assert (finding.status, exit_code([finding])) == (Status.UNKNOWN, 2)


def test_a_healthy_log_passes() -> None:
    """Of a reader's example as well."""
    assert exit_code(lint(process("a", "10.0.0.1"))) == 0


def test_a_flood_is_counted_not_kept() -> None:
    """20,000 completions of one kind give one finding with their number."""
    found = lint(completion("a", "10:10:30", "10.0.0.2") * 20_000)
    assert [finding.evidence["count"] for finding in found] == [20_000]

"""Recorded NCCL logs: hand-checked counts of every kind of event, and some of their contents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from topology.readers import Source
from topology.readers.nccl_log import comm_events as c
from topology.readers.nccl_log import events as e
from topology.readers.nccl_log import tokenize
from topology.readers.nccl_log import trouble as t

SAMPLES: dict[str, dict[str, int]] = {
    # file: kind -> count, by hand and with grep -c, as noted; Other is what is left of the lines that are not blank
    "01-tuning-table-2.29.7-2ranks-socket.log": {
        "Version": 1,
        "EnvironmentSet": 1,
        "Plugin": 1,
        "TuningThreads": 3,  # grep -c 'Max NThreads'
        "TuningRow": 15,  # grep -c '|' is 24, less 3 'Algorithm', 3 'Protocol', 3 'Max NThreads'
        "AlgorithmChoice": 29,  # grep -c 'Bytes -> Algo'
        "Other": 9,
    },
    "02-ib-error12-azure-mixed-ib-roce.log": {
        "NetUsing": 1,
        "CompletionError": 1,  # wrapped over two lines
        "CallTrace": 3,  # grep -c ' -> 6'
        "Other": 1,
    },
    "03-net-ib-using-lines.log": {"NetUsing": 4},
    "04-5090-shm-init-2.25.1.log": {
        "Bootstrap": 1,
        "Version": 1,
        "Plugin": 3,  # grep -c '/Plugin'
        "NetAbsent": 1,
        "NetUsing": 1,
        "NetworkChosen": 1,
        "CommInit": 2,
        "NoPath": 2,
        "CommShape": 1,
        "RingOrder": 2,
        "Trees": 2,
        "ChannelCounts": 1,
        "InitTimings": 1,
        "Connection": 2,
        "Connected": 1,
        "CudaError": 1,
        "CallTrace": 1,
        "Other": 8,
    },
    "05-ib-status12-vendor129-roce-ipv6.log": {"CompletionError": 2, "CallTrace": 6},
    "07-ib-2.30-new-format-retry-exc.log": {"CqeError": 2, "CompletionError": 1},
    "09-ring-trees-2.5.7-roce-no-gdr.log": {
        "Bootstrap": 1,
        "Plugin": 1,
        "EnvironmentSet": 2,  # grep -c 'set by environment'
        "NetUsing": 1,
        "Version": 1,
        "RingOrder": 2,
        "Trees": 1,
        "Connection": 4,  # grep -c 'Ring 0'
        "Other": 3,
    },
    "10-channel-lines-ib-no-gdr-and-gid3.log": {"Connection": 4, "EnvironmentSet": 1, "Connected": 1},
    "11-channel-lines-gdrdma-ibext-p2pcumem.log": {"Connection": 6},
    "12-async-port-error-then-error12.log": {"AsyncEvent": 2, "CompletionError": 1},
    "13-async-fatal-2.27-local-access.log": {"FatalCommunicator": 1, "AsyncEvent": 1, "CompletionError": 1},
    "14-graph-system-topology.log": {
        "System": 1,
        "SystemNode": 16,
    },  # grep -c '+ ' is 14, two begin with CPU/
    "16-torch-watchdog-2.7.log": {"WatchdogTimeout": 1, "WatchdogStatus": 1, "Other": 1},
    "17-torch-watchdog-different-seq.log": {"WatchdogTimeout": 3},
    "18-torch-heartbeat-480s.log": {"HeartbeatStuck": 1, "Other": 1},
    "19-ras-mismatch.txt": {
        "Version": 1,
        "RasCommunicators": 1,
        "RasProblem": 1,
        "RasOperationCount": 2,
        "RasRank": 2,
        "Other": 15,
    },
}


def sample(shared: Path, name: str) -> list[Any]:
    return list(tokenize(Source.open(shared / "samples" / "nccl-logs" / name).text.splitlines()))


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_logs_have_the_counts_of_grep(shared: Path, name: str) -> None:
    """Each line that is not blank gives one event, but for those that a logger wrapped."""
    assert dict(Counter(type(event).__name__ for event in sample(shared, name))) == SAMPLES[name]


def test_all_recorded_logs_are_in_the_table(shared: Path) -> None:
    """A new sample needs its counts."""
    found = {path.name for path in (shared / "samples" / "nccl-logs").iterdir() if path.suffix != ".src"}
    assert found == set(SAMPLES)


def test_the_recorded_tuning_table_keeps_its_heads(shared: Path) -> None:
    """Values of rows far below their heads: AllReduce ring Simple 36.4 us and 2.4 GB/s, AllGather PAT 17.6 us."""
    rows = [
        event
        for event in sample(shared, "01-tuning-table-2.29.7-2ranks-socket.log")
        if isinstance(event, c.TuningRow)
    ]
    table = {(row.function, cell.algorithm, cell.protocol): cell for row in rows for cell in row.cells}
    assert table["AllReduce", "Ring", "Simple"] == c.TuningCell("Ring", "Simple", 36.4, 2.4)
    assert table["AllReduce", "Tree", "LL"] == c.TuningCell("Tree", "LL", 16.8, 0.5)
    assert table["AllGather", "PAT", "Simple"] == c.TuningCell("PAT", "Simple", 17.6, 3.6)
    assert len(table) == 5 * 7 * 3


def test_recorded_errors_by_version(shared: Path) -> None:
    """Three wordings of a completion with error; remoteGids and the address run together; one is wrapped, one cut."""

    def errors(name: str) -> list[tuple[Any, ...]]:
        return [
            (
                event.writer.host,
                event.peer,
                event.status,
                event.vendor_err,
                event.request,
                event.remote_gid,
                event.hca,
            )
            for event in sample(shared, name)
            if isinstance(event, t.CompletionError)
        ]

    assert errors("02-ib-error12-azure-mixed-ib-roce.log") == [
        ("node-2", "10.2.0.5", 12, 129, "Recv", "", "")
    ]
    assert errors("05-ib-status12-vendor129-roce-ipv6.log")[1] == (
        *("kp-ddp-worker-0", "10.216.210.236", 12, 129, "Recv"),
        *("fd00:1148:9000:5000:4:200:3:ff20", ""),
    )
    assert errors("07-ib-2.30-new-format-retry-exc.log") == [
        ("ubuntu2", "10.153.235.13", 12, 129, "", "::ffff:1.1.1.4", "mlx5_1")
    ]
    assert errors("12-async-port-error-then-error12.log") == [("...-51", "node48", 12, -1, "", "", "")]
    assert errors("13-async-fatal-2.27-local-access.log") == [
        ("h100-28", "172.16.12.34", 4, 83, "Send", "", "mlx5_ib0")
    ]


def test_stamps_before_the_prefix_are_kept(shared: Path) -> None:
    """Time of a collector and of NCCL, in different time zones."""
    first = sample(shared, "13-async-fatal-2.27-local-access.log")[0]
    assert (first.stamp, first.writer) == (
        "2025-11-09 15:39:31.043 +08:00 [2025-11-09 07:39:30]",
        e.Writer("h100-28", 238, 1313, 0),
    )

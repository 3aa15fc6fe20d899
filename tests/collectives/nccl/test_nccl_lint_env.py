"""`lint env`: the traps of NCCL's parsing, misspelt and old names, contradictions, timeouts, workarounds."""

from __future__ import annotations

import pytest

from collectives.nccl.environment import read_text
from collectives.nccl.job import Job
from collectives.nccl.lint_env import lint_environment
from collectives.nccl.variables import parse_version
from nettune.checks import Finding, Status, exit_code, worst_first


def lint(
    text: str, *, name: str = "settings", version: str = "2.30.7", dscp: int | None = None
) -> list[Finding]:
    """What did not pass, worst first."""
    found = lint_environment(Job(read_text(name, text), parse_version(version), dscp=dscp))
    return [finding for finding in worst_first(found) if finding.status is not Status.PASS]


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(str(finding.status), finding.check.removeprefix("nccl-env-")) for finding in findings]


@pytest.mark.parametrize(
    ("text", "status", "says", "fix"),
    [
        ("NCCL_IB_TIMEOUT=abc", "FAIL", "is 0 for NCCL", "from 1 to 31"),
        ("NCCL_IB_TIMEOUT=abc", "FAIL", "infinite timeout", "from 1 to 31"),
        ("NCCL_IB_TIMEOUT=22s", "WARN", "is 22 for NCCL", "Write NCCL_IB_TIMEOUT=22."),
        ("NCCL_IB_TIMEOUT=1e3", "FAIL", "is 1 for NCCL", "from 1 to 31"),
        (
            "NCCL_IB_TIMEOUT=022",
            "FAIL",
            "is 18 for NCCL: a leading 0 makes it octal",
            "Write NCCL_IB_TIMEOUT=22.",
        ),
        ("NCCL_IB_TIMEOUT=", "WARN", "takes the default 20", "Remove it"),
        ("NCCL_IB_TIMEOUT=276", "FAIL", "keeps 20", "from 1 to 31"),
        ("NCCL_IB_TIMEOUT=0", "FAIL", "infinite timeout", "from 1 to 31"),
        ("NCCL_IB_TIMEOUT=32", "FAIL", "5 bits", "from 1 to 31"),
        ("NCCL_IB_TIMEOUT=-1", "FAIL", "not checked", "from 1 to 31"),
        (
            "NCCL_IB_TIMEOUT=99999999999999999999",
            "FAIL",
            "beyond 64 bits: NCCL takes the default 20",
            "from 1 to 31",
        ),
        ("NCCL_BUFFSIZE=4M", "FAIL", "that is 4 bytes", "Write NCCL_BUFFSIZE=4194304."),
        ("NCCL_BUFFSIZE=2048", "FAIL", "2048 bytes, in steps of 256", "4194304"),
        ("NCCL_IB_RETRY_CNT=15", "FAIL", "keeps 7", "from 0 to 7"),
        ("NCCL_IB_RETRY_CNT=10", "FAIL", "keeps 2", "from 0 to 7"),
        ("NCCL_IB_DISABLE=true", "FAIL", "is 0 for NCCL", "Write NCCL_IB_DISABLE=1."),
        ("NCCL_IB_DISABLE=no", "WARN", "is 0 for NCCL", "Write NCCL_IB_DISABLE=0."),
        ("NCCL_CROSS_NIC=3", "WARN", "outside the accepted 0 to 2", "from 0 to 2"),
        ("NCCL_NTHREADS=100", "WARN", "no multiple of 32", "NCCL_NTHREADS=96"),
        ("NCCL_MAX_CTAS=128", "WARN", "cut to 64", "from 1 to 64"),
        ("NCCL_DEBUG=INFOO", "WARN", "logs nothing", "Write NCCL_DEBUG=INFO."),
        ("NCCL_SOCKET_FAMILY=ipv4", "WARN", "none of AF_INET", "AF_INET"),
        ("NCCL_NET_GDR_LEVEL=3", "WARN", "a number of old", "LOC, PIX"),
        ("NCCL_NET_GDR_LEVEL=FAR", "WARN", "none of LOC", "LOC, PIX"),
        ("NCCL_RAS_TIMEOUT_FACTOR=-1", "WARN", "no positive number", "above 0"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT=maybe", "WARN", "unverified", "=1 or 0"),
    ],
)
def test_traps_of_values(text: str, status: str, says: str, fix: str) -> None:
    """What NCCL silently makes of a value, by the severity of what follows, with what to write."""
    found = [finding for finding in lint(text) if finding.check == "nccl-env-value"]
    assert [str(finding.status) for finding in found] == [status]
    assert says in found[0].what
    assert fix in found[0].fix
    assert (found[0].evidence["file"], found[0].evidence["line"]) == ("settings", 1)
    assert found[0].what.startswith("settings:1: ")


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_IB_TIMEOUT=0x16",
        "NCCL_IB_TIMEOUT=22",
        "NCCL_IB_TC=-1",
        "NCCL_IB_TC=106",
        "NCCL_BUFFSIZE=8388608",
        "NCCL_DEBUG=info",
        "NCCL_IB_HCA==mlx5_0,mlx5_1",
        "NCCL_SOCKET_IFNAME=^docker,lo",
        "NCCL_SOCKET_NTHREADS=4\nNCCL_NSOCKS_PERTHREAD=4",
        "NCCL_CROSS_NIC=0",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
        "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=INIT,NET\nNCCL_DEBUG_FILE=/tmp/nccl.%h.%p",
        "NCCL_TESTS_SPLIT=MOD 8",
        "PATH=/bin",
    ],
)
def test_good_settings_pass(text: str) -> None:
    """Hexadecimal, sentinels, exact lists, any case: no complaint, and every rule says that it held."""
    found = lint_environment(Job(read_text("settings", text)))
    assert {finding.status for finding in found} == {Status.PASS}
    assert len({finding.check for finding in found}) == 10


@pytest.mark.parametrize(
    ("name", "text", "status", "check", "says"),
    [
        ("x", "NCCL_IB_TIMOUT=22", "FAIL", "name", "nearest is NCCL_IB_TIMEOUT"),
        ("x", "nccl_debug=INFO", "FAIL", "name", "nearest is NCCL_DEBUG"),
        ("x", "NCCL_QUICK_BROWN_FOX=1", "WARN", "name", "no version of NCCL"),
        ("nccl.conf", "NCCL_DEBUG = INFO", "FAIL", "name", "without trimming"),
        ("nccl.conf", "export NCCL_DEBUG=INFO", "FAIL", "name", "'export NCCL_DEBUG'"),
        ("nccl.conf", "NCCL_DEBUG", "FAIL", "reach", "there is no `=`"),
        ("nccl.conf", "NCCL_IB_SL=1\nNCCL_IB_SL=2", "WARN", "reach", "comes first"),
        ("nccl.conf", 'NCCL_NET="IB"', "FAIL", "value", "quotes"),
        ("nccl.conf", "NCCL_IB_HCA==mlx5_0 # rail", "FAIL", "value", "comment"),
        ("nccl.conf", "NCCL_NET=IB\r\n", "FAIL", "value", "carriage return"),
        ("x", 'NCCL_IB_SL="3"', "WARN", "value", "unless a shell takes off the quotes"),
        ("nccl.conf", 'NCCL_IB_SL="3"', "FAIL", "value", "the quotes are part"),
        ("job.sh", "#!/bin/sh\nNCCL_IB_TC=106\n./train", "FAIL", "reach", "never exported"),
        (
            "job.sh",
            "srun --export=ALL,NCCL_IB_HCA==mlx5_0,mlx5_1 ./t",
            "FAIL",
            "reach",
            "taken for a variable",
        ),
        ("job.sh", "export NCCL_HOSTID=$SLURM_NODEID", "UNKNOWN", "value", "expansion of the shell"),
    ],
)
def test_traps_of_files(name: str, text: str, status: str, check: str, says: str) -> None:
    """Names with blanks, quotes and comments that are part of values, shell variables that nobody exports."""
    found = lint(text, name=name)
    assert told(found)[:1] == [(status, check)]
    assert says in found[0].what
    assert found[0].fix


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("NCCL_MIN_NCHANNELS=8", "2.27", [("WARN", "age")]),
        ("NCCL_MIN_NCHANNELS=8", "2.16", []),
        ("NCCL_IB_OOO_RQ=1", "2.18", [("WARN", "age")]),
        ("NCCL_IB_OOO_RQ=1", "2.30", []),
        ("NCCL_IB_GID_INDEX=3", "2.21", [("WARN", "age")]),
        ("NCCL_IB_GID_INDEX=3", "2.20", []),
        ("NCCL_LL_THRESHOLD=0", "2.27", [("WARN", "age")]),
        ("NCCL_ASYNC_ERROR_HANDLING=1", "2.27", [("WARN", "age")]),
        ("NCCL_DEBUG=ATTN", "2.27", [("WARN", "value")]),
        ("NCCL_DEBUG=ATTN", "2.32", []),
    ],
)
def test_settings_of_other_versions(text: str, version: str, expected: list[tuple[str, str]]) -> None:
    """Deprecated, removed, not there yet."""
    assert told(lint(text, version=version)) == expected


@pytest.mark.parametrize(
    ("text", "version", "status", "says"),
    [
        ("NCCL_ALGO=Tree", "2.27", "FAIL", "Ring is not implied"),
        ("NCCL_ALGO=Tree", "2.20", None, ""),
        ("NCCL_ALGO=allreduce:tree", "2.27", None, ""),
        ("NCCL_ALGO=^NVLS", "2.27", None, ""),
        ("NCCL_ALGO=ring,foo", "2.27", "FAIL", "ncclInvalidUsage"),
        ("NCCL_ALGO=ring,foo", "2.20", "WARN", "falls back to Ring and LL"),
        ("NCCL_ALGO=ring;allreduce:tree", "2.20", "WARN", "lists by function came with NCCL 2.24"),
        ("NCCL_ALGO=ring,pat", "2.20", "WARN", "PAT came with NCCL 2.23"),
        ("NCCL_PROTO=LL128", "2.27", "FAIL", "corrupts data"),
        ("NCCL_PROTO=^LL128", "2.27", None, ""),
        ("NCCL_IB_HCA=mlx5_1", "2.27", "WARN", "mlx5_10"),
        ("NCCL_IB_HCA=^mlx5_1", "2.27", None, ""),
        ("NCCL_IB_HCA==mlx5_0, mlx5_1", "2.27", "FAIL", "blank"),
        ("NCCL_IB_HCA=mlx5_10,^mlx5_11", "2.27", "FAIL", "before it"),
        ("NCCL_IB_HCA==" + ",".join(f"m{i}" for i in range(33)), "2.27", "FAIL", "33 NICs"),
        ("NCCL_SOCKET_IFNAME=lo", "2.27", "FAIL", "no other host"),
        ("NCCL_NETDEVS_POLICY=MAX", "2.28", "WARN", "MAX:N"),
        ("NCCL_IB_ADDR_RANGE=10.0.0.0/40", "2.27", "FAIL", "CIDR"),
        ("NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=NET,FOO", "2.27", "WARN", "no subsystem"),
    ],
)
def test_lists(text: str, version: str, status: str | None, says: str) -> None:
    """Grammar of NCCL_ALGO before and since 2.24, of lists of devices, of CIDR."""
    found = [finding for finding in lint(text, version=version) if finding.check == "nccl-env-list"]
    assert [str(finding.status) for finding in found] == ([status] if status else [])
    assert all(says in finding.what for finding in found)


def test_the_traffic_class_is_the_whole_octet() -> None:
    """26 is DSCP 6; 104 and 106 are DSCP 26; with the lossless DSCP told, anything else is wrong, also nothing."""
    [finding] = lint("NCCL_IB_TC=26")
    assert "DSCP 26 would be 104" in finding.what
    assert lint("NCCL_IB_TC=104", dscp=26) == lint("NCCL_IB_TC=106", dscp=26) == []
    assert told(lint("NCCL_IB_TC=96", dscp=26)) == [("FAIL", "traffic-class")]
    [finding] = lint("PATH=/bin", dscp=26)
    assert (finding.status, finding.fix) == (Status.FAIL, "Write NCCL_IB_TC=106 (DSCP 26, ECN capable).")


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("NCCL_IB_DISABLE=1\nNCCL_IB_TC=106", "WARN", "turns RDMA off"),
        ("NCCL_NET=Socket\nNCCL_IB_TC=106", "WARN", "turns RDMA off"),
        ("NCCL_NET=IB\nNCCL_IB_DISABLE=1", "FAIL", "finds no network"),
        ("NCCL_IB_SPLIT_DATA_ON_QPS=1", "WARN", "no effect with one queue pair"),
        ("NCCL_IB_SPLIT_DATA_ON_QPS=1\nNCCL_IB_QPS_PER_CONNECTION=4", None, ""),
        ("NCCL_IB_QPS_PER_CONNECTION=64", "WARN", "limited number"),
        (
            "NCCL_IB_GID_INDEX=3\nNCCL_IB_ADDR_FAMILY=AF_INET6",
            "WARN",
            "only where NCCL_IB_GID_INDEX is not set",
        ),
        ("NCCL_IB_OOO_RQ=1\nNCCL_IB_ADAPTIVE_ROUTING=0", "FAIL", "needs adaptive routing"),
        ("NCCL_IB_AR_THRESHOLD=8388608", "WARN", "never used"),
        ("NCCL_MIN_CTAS=32\nNCCL_MAX_CTAS=16\nNCCL_MAX_P2P_NCHANNELS=16", "WARN", "both become 16"),
        ("NCCL_MAX_CTAS=16", "WARN", "does not bound send and receive"),
        ("NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=8", "WARN", "is 128: cut to 64"),
        ("NCCL_ALGO=ring\nNCCL_TUNER_PLUGIN=ofi", "WARN", "leaves the tuner no choice"),
        ("NCCL_DEBUG=WARN\nNCCL_DEBUG_SUBSYS=NET", "WARN", "nothing of it is logged"),
        ("NCCL_DEBUG=INFO\nNCCL_DEBUG_FILE=/tmp/log", "WARN", "overwrites"),
        ("TORCH_NCCL_DUMP_ON_TIMEOUT=1\nTORCH_FR_BUFFER_SIZE=0", "WARN", "nothing to dump"),
        ("NCCL_IB_RESILIENCY_PORT_RECOVERY=1", "WARN", "no port fails over"),
        ("NCCL_IB_RESILIENCY_PORT_RECOVERY=1\nNCCL_IB_RESILIENCY_PORT_FAILOVER=1", None, ""),
        ("TORCH_NCCL_BLOCKING_WAIT=1", "WARN", "there is no watchdog"),
        ("TORCH_NCCL_BLOCKING_WAIT=0", None, ""),
        ("NCCL_MIN_CTAS=8\nNCCL_MIN_NCHANNELS=4", "WARN", "the stricter one counts"),
        ("NCCL_DEBUG=INFO\nNCCL_DEBUG_FILE=~/log.%p", "FAIL", "does not expand ~"),
        ("TORCH_FR_BUFFER_SIZE=1\nTORCH_NCCL_TRACE_BUFFER_SIZE=2", "WARN", "two names of one setting"),
    ],
)
def test_contradictions(text: str, status: str | None, says: str) -> None:
    """Settings that have no effect, or fail, beside one another."""
    found = [finding for finding in lint(text) if finding.check == "nccl-env-conflict"]
    assert [str(finding.status) for finding in found] == ([status] if status else [])
    assert all(says in finding.what for finding in found)


@pytest.mark.parametrize(
    ("text", "status", "seconds"),
    [
        ("NCCL_IB_TIMEOUT=23", None, 0),
        ("NCCL_IB_TIMEOUT=24", "WARN", 481.036),
        ("NCCL_IB_TIMEOUT=25", "FAIL", 962.073),
        ("NCCL_IB_TIMEOUT=24\nTORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=540", None, 0),
        ("NCCL_IB_TIMEOUT=24\nNCCL_IB_RETRY_CNT=6", None, 0),
        ("NCCL_IB_TIMEOUT=14", "WARN", 0.470),
        ("NCCL_IB_RETRY_CNT=0", "FAIL", None),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600", "WARN", None),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "FAIL", None),
        ("TORCH_NCCL_ENABLE_MONITORING=0", "WARN", None),
    ],
)
def test_the_ladder_of_timeouts(text: str, status: str | None, seconds: float | None) -> None:
    """Network error < heartbeat 480 s < operation 600 s; 4.096 us x 2^t x r (nccl.md: t=24 481 s, t=25 962 s)."""
    found = [finding for finding in lint(text) if finding.check == "nccl-env-timeouts"]
    assert [str(finding.status) for finding in found] == ([status] if status else [])
    if status and seconds:
        assert found[0].evidence["error_after_s"] == pytest.approx(seconds, abs=0.001)


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("NCCL_NVLS_ENABLE=0", "WARN", "506 became 1350 us"),
        ("NCCL_NVLS_ENABLE=2", None, ""),
        ("NCCL_IB_DISABLE=1", "FAIL", "5.4 GB/s"),
        ("NCCL_P2P_DISABLE=1", "WARN", "host memory"),
        ("NCCL_PXN_DISABLE=1", "WARN", "nccl#1876"),
        ("NCCL_NET_GDR_LEVEL=LOC", "FAIL", "GPUDirect RDMA off"),
        ("NCCL_P2P_LEVEL=LOC", "FAIL", "host memory"),
        ("NCCL_PROTO=^LL", "WARN", "fixed"),
    ],
)
def test_stale_workarounds_have_their_cost(text: str, status: str | None, says: str) -> None:
    """What once helped is a warning, with the figure of a source; what makes RDMA useless is a failure."""
    found = [finding for finding in lint(text) if finding.check == "nccl-env-workaround"]
    assert [str(finding.status) for finding in found] == ([status] if status else [])
    assert all(says in finding.what and finding.evidence["source"] for finding in found)


def test_nothing_is_unknown_and_no_settings_pass() -> None:
    """An empty capture tells nothing; an environment without NCCL's variables is NCCL's own choice."""
    assert exit_code(lint_environment(Job(read_text("x", "")))) == 2
    assert exit_code(lint_environment(Job(read_text("x", "PATH=/bin\n")))) == 0


def test_many_unknown_names_are_summed_up() -> None:
    """Some are told one by one, the rest counted."""
    found = lint("\n".join(f"NCCL_QUICK_BROWN_{number}=1" for number in range(1000)))
    assert len(found) == 65
    assert "936 more names" in found[0].what or any("936 more names" in finding.what for finding in found)

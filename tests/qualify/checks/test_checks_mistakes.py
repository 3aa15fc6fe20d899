"""The list of other tools' mistakes, held against the tests that name them; and those that have no better place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from collectives.nccl_tests.outcome import Outcome, outcome
from collectives.nccl_tests.text import parse_text
from nettune.checks import Status
from nettune.qualify.checks import RULES, Context, judge
from nettune.qualify.checks.parsers.topo import gpu_links
from topology.capture import CaptureState

TESTS = Path(__file__).parents[2]
IB, PCI = "/sys/class/infiniband", "/sys/bus/pci/devices"
NAMED_IN = (
    "qualify/checks/test_checks_peers.py",
    "qualify/checks/test_checks_mistakes.py",
    "collectives/nccl/test_nccl_first_cause.py",
)
# Words of a docstring after `Mistake:` -> what the list of mistakes says.
MISTAKES = {
    "README/conf drift and GB/s vs Gb/s": "README/conf drift and GB/s vs Gb/s (AzNHC)",
    "HCA name typed wrong in a list": "HCA name typed wrong in a list (oci)",
    "Width/speed swapped in spec": "Width/speed swapped in spec (sichek)",
    "f-string without f": "f-string without f (imbue)",
    "Both nodes of a failed pair drained": "Both nodes of a failed pair drained (GCP)",
    "Odd node untested": "Odd node untested (GCP)",
    "Loop resets verdict": "Loop resets verdict (oci)",
    "tool error is exit 0": "tool error → exit 0 (soperator)",
    "Pass with no GPU NIC": "Pass with no GPU NIC (aicr)",
    "Average over small sizes": "Average over small sizes hides or fakes results (nccl-tests #150/#294)",
    "`$(NF-1)` column parse": "`$(NF-1)` column parse breaks when nccl-tests appended `#iters` (DCGM mock header) → parse by header names",
    "topology file at wrong path": "topology file at wrong path makes a healthy H200 look dead (AzNHC #142) → report the NCCL graph/topo in use",
    "Loopback that never leaves the node": "Loopback that never leaves the node (AzNHC PR#38)",
    "Rigid prolog timeouts": "Rigid prolog timeouts (ParallelCluster #6777)",
    "`nvidia-smi topo -m` traps": "`nvidia-smi topo -m` traps (verbatim samples): header wrapped in `ESC[4m…ESC[0m` even off-tty; tabs not aligned"
    " with header; double tab; glued cells `NODENODE`/`PIXPIX` from terminal wrap; header `mlx5_0` instead of `NIC0`;"
    " affinity lists with commas `0,2,4`; NIC rows without affinity cells; columns absent on old drivers",
    '`grep "(downgraded)"` misses old lspci': '`grep "(downgraded)"` misses old lspci',
    "`Rate: 40` on a Disabled port": "`Rate: 40` on a Disabled port is not a 40G link",
    "GIDs idx change in pods": "GIDs idx change in pods",
    "link_downed saturates at 255": "link_downed saturates at 255",
    "`15E-255` is zero, `N/A`, keys of mlxlink by MFT version": "`15E-255` is zero. `N/A`. mlxlink keys differ by MFT version"
    ' (e.g. "No issue was observed" vs "No issues found")',
}  # fmt: skip


def test_each_mistake_is_named_by_a_test(shared):
    """The list is covered to its last sentence, and each entry has a test whose docstring names it."""
    listed = (shared / "field" / "qualification.md").read_text().partition("## 5. Peer mistakes")[2]
    rest = " ".join(listed.partition("\n## ")[0].partition("\n")[2].split())
    for said in MISTAKES.values():
        assert said in rest
        rest = rest.replace(said, "", 1)
    assert not rest.strip(" .-")

    named = set()
    for file in NAMED_IN:
        for node in ast.walk(ast.parse((TESTS / file).read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                named |= set(re.findall(r"Mistake: (.+)\.", ast.get_docstring(node) or ""))
    assert named == MISTAKES.keys()


def test_width_and_speed_are_read_from_their_own_places(sound):
    """A link that is slow is told with its speed, one that is narrow with its lanes, each beside what was expected.

    Mistake: Width/speed swapped in spec.
    """
    told = {}
    for key, value in (("current_link_width", "8\n"), ("current_link_speed", "16.0 GT/s PCIe\n")):
        findings = judge([sound(0, files={f"{PCI}/0000:4d:00.0/{key}": value})])
        told[key] = next(f.evidence for f in findings if f.check == "pcie-link" and f.status is Status.FAIL)
    figures = ("width", "expected_width", "speed_gts", "expected_speed_gts")

    assert [told["current_link_width"][name] for name in figures] == [8, 16, 32.0, 32.0]
    assert [told["current_link_speed"][name] for name in figures] == [16, 16, 16.0, 32.0]


def test_no_text_of_a_finding_has_a_placeholder_in_it(sound, with_state):
    """No `{NAME}` is left in what a person reads, in any check and any status.

    Mistake: f-string without f.
    """
    sources = [*sound(0).commands, "/proc/self/limits"]
    broken = [
        with_state(sound(n), sources[n % len(sources)], CaptureState.DENIED)
        for n in range(0, len(sources), 3)
    ]
    down = {
        f"{IB}/mlx5_0/ports/1/state": "1: DOWN\n",
        "/sys/class/net/eth1/mtu": "1500\n",
        "/proc/modules": "x 1\n",
    }
    findings = judge(
        [sound(90, files=down), *broken], Context(job_env={"NCCL_IB_TC": "0", "NCCL_IB_HCA": "mlx5_9"})
    )
    texts = [text for f in findings for text in (f.what, f.fix, str(f.evidence.get("basis", "")))]
    texts += [rule.effect for rule in RULES.values()]
    loud = [f for f in findings if f.status in {Status.WARN, Status.FAIL}]
    assert all(f.evidence["basis"] and f.evidence["effect"] and f.fix for f in loud)

    assert len(texts) > 500
    assert [text for text in texts if re.search(r"\{\w+\}", text)] == []


HEAD = "#       size         count      type   redop    root     time   algbw   busbw{}  #wrong     time   algbw   busbw  #wrong{}\n"
ROW = "        1024           256     float     sum      -1    10.00    0.10    0.18{}       0    10.00    0.10    0.18       {}{}\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {}\n"


def test_an_average_decides_nothing(capture_of):
    """Averages run over all sizes: 0 on one GPU is no fault, 400 with one wrong element is no pass.

    Mistake: Average over small sizes.
    """
    sound = HEAD.format("", "") + ROW.format("", 0, "") + END.format(0)
    wrong = HEAD.format("", "") + ROW.format("", 1, "") + END.format(400)

    def status(text):
        findings = judge([capture_of(commands={"all_reduce_perf -g 8": text})])
        return {str(f.status) for f in findings if f.check == "wrong-data"}

    assert (status(sound), status(wrong)) == ({"PASS"}, {"FAIL"})


@pytest.mark.parametrize(
    ("middle", "end", "value", "tail"),
    [("", "", "", ""), ("", "  #iters", "", "      20"), ("  i_min  i_max  i_p99  i_cv%",) * 2 + ("  9.9 11.2 11.1 0.3",) * 2,
     ("", "           timestamp", "", "  2026-01-01 10:00:00")],
)  # fmt: skip
def test_columns_are_found_by_their_names(middle, end, value, tail):
    """Whatever a release appends or inserts, `#wrong` is the column that is called so.

    Mistake: `$(NF-1)` column parse.
    """
    head = HEAD.format(middle, end)
    row = "        1024           256     float     sum      -1    10.00    0.10    0.18{v}{m}    10.00    0.10    0.18{w}{m}"
    # Columns of a release come after #wrong; the header above has them before it in the first half.
    head = head.replace(f"busbw{middle}  #wrong", f"busbw  #wrong{middle}", 1)
    for wrong, verdict in ((0, Outcome.SOUND), (2, Outcome.WRONG)):
        line = row.format(v=f"       {wrong}", w="       0", m=value) + (tail if not value else "") + "\n"
        [run] = parse_text((head + line + END.format(1)).splitlines())
        assert outcome(run) is verdict


def test_a_slow_host_costs_only_itself(sound):
    """No check waits: what a host did not tell in time is UNKNOWN for that host, the others keep their verdicts.

    Mistake: Rigid prolog timeouts.
    """
    slow = sound(0, commands={"nvidia-smi -q": None, "nvidia-smi -L": None})
    findings = judge([slow, sound(1)])
    by_host = {f.where.node: str(f.status) for f in findings if f.check == "gpu-missing"}

    assert by_host == {"h0": "UNKNOWN", "h1": "PASS"}


def test_gid_indices_of_pods(capture_of):
    """Two pods whose tables begin at 4 and at 8: each has its v2 GID, and no index is expected of both.

    Mistake: GIDs idx change in pods.
    """

    def pod(number, first):
        port = f"{IB}/mlx5_0/ports/1"
        files = {
            f"{port}/state": "4: ACTIVE\n",
            f"{port}/link_layer": "Ethernet\n",
            f"{port}/rate": "100 Gb/sec\n",
        }
        rows = (
            ("fe80::1", "v1"),
            ("fe80::1", "v2"),
            (f"::ffff:10.0.0.{number}", "v1"),
            (f"::ffff:10.0.0.{number}", "v2"),
        )
        for index, (address, kind) in enumerate(rows, first):
            files |= {f"{port}/gids/{index}": address, f"{port}/gid_attrs/types/{index}": f"RoCE {kind}",
                      f"{port}/gid_attrs/ndevs/{index}": "net1"}  # fmt: skip
        return capture_of(files, host=f"pod{number}")

    pods = [pod(1, 4), pod(2, 8)]

    def failed(env):
        return {(f.check, str(f.where)) for f in judge(pods, Context(job_env=env)) if f.status is Status.FAIL}

    assert failed({}) == set()
    assert ("gid", "host/pod2/nic/mlx5_0") in failed({"NCCL_IB_GID_INDEX": "7"})
    assert ("gid", "host/pod1/nic/mlx5_0") not in failed({"NCCL_IB_GID_INDEX": "7"})


TWO = "GPU0\t X \tNV18\tPIX\t0-31\t0\nGPU1\tNV18\t X \tSYS\t0-31\t0\n"
TOPO_TRAPS = {
    "plain": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n" + TWO,
    "escapes": "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m\n" + TWO,
    "tabs beside the header": "\t\tGPU0\tGPU1\tNIC0\tCPU Affinity\n" + TWO.replace("GPU0\t", "GPU0 \t\t"),
    "double tab": "\tGPU0\tGPU1\tNIC0\t\tCPU Affinity\n" + TWO.replace("PIX", "PIX\t"),
    "mlx5_0 in the header": "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\n" + TWO,
    "lists with commas": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n" + TWO.replace("0-31", "0,2,4"),
    "NIC rows without affinity": "\tGPU0\tGPU1\tNIC0\tCPU Affinity\n" + TWO + "NIC0\tPIX\tSYS\t X \n",
    "no columns of affinity": "\tGPU0\tGPU1\n" + "GPU0\t X \tNV18\nGPU1\tNV18\t X \n",
    "blanks for tabs": "        GPU0    GPU1    NIC0\n GPU0    X      NV18    PIX\n GPU1   NV18     X      SYS\n",
}


@pytest.mark.parametrize("text", TOPO_TRAPS.values(), ids=TOPO_TRAPS)
def test_matrices_with_traps_are_read(text):
    """ANSI codes, tabs, old headers, lists and missing columns.

    Mistake: `nvidia-smi topo -m` traps.
    """
    assert gpu_links(text) == (2, {0: {1: "NV18"}, 1: {0: "NV18"}})


@pytest.mark.parametrize("cells", ["NV18NODE", "NV18NV18"])
def test_glued_cells_are_left_out(capture_of, cells):
    """A row whose cells ran into each other is not guessed at: the check is UNKNOWN."""
    text = "\tGPU0\tGPU1\tGPU2\n" + f"GPU0\t X \t{cells}\n" + "GPU1\tNV18\t X \tNV18\nGPU2\tNV18\tNV18\t X \n"
    findings = judge([capture_of(commands={"nvidia-smi topo -m": text})])

    assert {str(f.status) for f in findings if f.check == "nvlink-matrix"} == {"UNKNOWN"}

"""`nettune simulate` with a scenario: what a run keeps, prints and shows, settings side by side, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nettune.errors import InputError
from nettune.workflows.again import report_again
from nettune.workflows.run import RunResult
from nettune.workflows.simulating import simulate_file
from reports import text
from reports.jsonform import envelope
from topology.results import NetworkResult

SCENARIO = """\
name = "an incast"
[fabric]
leaves = 2
hosts_per_leaf = 4
spines = 2
[transport]
mtu_bytes = 1000
header_bytes = 48
[switch]
buffer_bytes = "4M"
[ecn]
preset = "paper"
[congestion]
preset = "paper"
[run]
seeds = 2
[[job]]
kind = "incast"
to = "h0"
size = "1M"
"""
COUNTERS = ("pfc_pauses", "pfc_paused_us", "ecn_marks", "packet_hops", "retransmissions")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scenario and the runs are."""
    path = tmp_path_factory.mktemp("simulating")
    (path / "scenario.toml").write_text(SCENARIO)
    return path


def simulated(folder: Path, *settings: str, compared: tuple[str, ...] = ()) -> RunResult:
    """A run of the scenario."""
    lines: list[str] = []
    result = simulate_file(folder / "scenario.toml", settings, compared, folder / "runs", lines.append)
    assert lines
    return result


@pytest.fixture(scope="module")
def compared(folder: Path) -> RunResult:
    """Two presets side by side."""
    return simulated(folder, compared=("congestion.preset=pfc-only,paper",))


def test_one_setting_stands_at_the_top_level(folder: Path) -> None:
    """Completion times and counters with their spread over seeds; the result is a NetworkResult."""
    data = json.loads(json.dumps(envelope("simulate", 0, simulated(folder).data)))
    assert set(data["fct_us"]) == {"mean", "p50", "p99", "max"}
    assert set(data["fct_us_spread"]) == set(data["fct_us"])
    assert data["flows"] == 7
    for name in COUNTERS:
        assert data["counter_spread"][name]["min"] <= data[name] <= data["counter_spread"][name]["max"]
    assert NetworkResult.from_json(data["result"]).method == "packet"
    assert data["jobs"]["job0"]["fct_us"] == data["fct_us"]
    assert data["status"] == "PASS"
    assert "samples" not in data


def test_settings_stand_side_by_side(compared: RunResult) -> None:
    """A row for each setting, the fastest first on the screen, one figure of queues each, pauses on the map."""
    assert [one["name"] for one in compared.data["variants"]] == ["preset pfc-only", "preset paper"]
    shown = text.render(compared.report)
    assert "preset paper" in shown
    assert "fastest setting" in shown
    assert [section.heading for section in compared.report.sections] == [
        "Simulation",
        "Queues and rates",
        "Pauses",
        "Fluid model",
    ]
    assert len(compared.report.figures) == 1 + 2 + 1


def test_congestion_control_holds_the_queue(compared: RunResult) -> None:
    """DCQCN pauses less than PFC alone."""
    alone, paper = compared.data["variants"]
    assert paper["pfc_paused_us"] < alone["pfc_paused_us"]
    assert paper["ecn_marks"] > 0
    assert alone["fluid"] is None
    assert paper["fluid"]["flows"] == 7


def test_the_report_can_be_made_again(compared: RunResult) -> None:
    """From the run's directory alone."""
    assert "preset paper" in report_again(compared.run_path, "text")


def test_the_same_seed_prints_the_same(folder: Path, compared: RunResult) -> None:
    """Figures of two runs are equal to the byte, alone or beside others."""
    again = simulated(folder, "congestion.preset=paper").data["variants"][0]
    assert json.dumps({**again, "name": "preset paper"}) == json.dumps(compared.data["variants"][1])


def test_combinations_are_all_tried(folder: Path) -> None:
    """Two compared keys give the product."""
    compared = ("ecn.kmin_bytes=5000,20000", "congestion.preset=paper,barre")
    result = simulated(folder, "run.seeds=1", "job.0.size=4K", compared=compared)
    names = [one["name"] for one in result.data["variants"]]
    assert names[0] == "kmin 5000, preset paper"
    assert len(set(names)) == 4


def test_what_does_not_end_fails(folder: Path) -> None:
    """Flows that are left when time is over: exit code 1, and the report says so."""
    result = simulated(folder, "run.limit_ms=0.005", "run.seeds=1")
    assert result.exit_code == 1
    assert "run.limit_ms" in text.render(result.report)
    assert result.data["result"] is None


def test_ecn_above_its_bound_warns(folder: Path) -> None:
    """Kmin at which PFC may pause first is told with the figure that would do."""
    result = simulated(folder, "ecn.preset=hpcc-runpy", "run.seeds=1", "job.0.size=4K")
    assert result.exit_code == 0
    assert any(finding["check"] == "ecn-before-pfc" for finding in result.data["findings"])


@pytest.mark.parametrize(
    ("compared", "message"),
    [
        ("x", "write it with two values or more"),
        ("congestion.preset=paper", "write it with two values or more"),
        ("congestion.preset=paper,", "write it with two values or more"),
        ("congestion.preset=paper,papre", "did you mean 'paper'"),
        ("run.seeds=" + ",".join(map(str, range(1, 100))), "99 combinations are more than 64"),
    ],
)
def test_wrong_comparisons_are_refused(folder: Path, compared: str, message: str) -> None:
    """One value, no value, an unknown preset, too many: one line, before anything is simulated."""
    with pytest.raises(InputError, match=message):
        simulated(folder, compared=(compared,))

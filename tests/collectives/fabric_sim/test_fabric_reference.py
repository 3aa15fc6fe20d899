"""Agreement with the ns-3 HPCC reference: same files, same settings, ten seeds against ten seeds."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nettune.workflows.simulated_files import simulate_files

SEEDS = 10


@pytest.fixture(scope="module")
def simbase(shared: Path) -> Path:
    """The folder of the reference's files."""
    return shared / "oracles" / "simbase"


def ours(
    simbase: Path, scenario: str, seeds: int = SEEDS, config: Path | None = None, fct: Path | None = None
):
    """What our simulator makes of a scenario's files."""
    folder = simbase / scenario
    paths = folder / "hpcc_paths.csv"
    return simulate_files(
        folder / "topo.csv",
        folder / "flows.csv",
        paths=paths if paths.exists() else None,
        hpcc_config=config or simbase / "hpcc_config.txt",
        seeds=seeds,
        fct_file=fct,
    ).data


@pytest.fixture(scope="module")
def ten_seeds(simbase: Path, tmp_path_factory: pytest.TempPathFactory):
    """Results and mean time of each flow of a scenario's ten seeds, made once."""

    @cache
    def of(scenario: str):
        fct = tmp_path_factory.mktemp("fct") / "fct.csv"
        found = ours(simbase, scenario, fct=fct)
        with fct.open(encoding="utf-8") as file:
            return found, [float(row["fct_us_mean"]) for row in csv.DictReader(file)]

    return of


def changed(simbase: Path, tmp_path: Path, **values: str) -> Path:
    """The reference's configuration with other values."""
    rows = (simbase / "hpcc_config.txt").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "config.txt"
    kept = [row for row in rows if row.split()[0] not in values]
    file.write_text("\n".join([*kept, *(f"{key} {value}" for key, value in values.items())]) + "\n")
    return file


def reference(simbase: Path, scenario: str, key: str) -> list[float]:
    """A figure of each of the reference's runs."""
    with (simbase / "seeds.csv").open(encoding="utf-8") as file:
        return [float(row[key]) for row in csv.DictReader(file) if row["scenario"] == scenario]


def one_run(simbase: Path, name: str) -> dict[str, float]:
    """A row of results.csv, which has one seed."""
    with (simbase / "results.csv").open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["run"] == name)
    return {key: float(value) for key, value in row.items() if key.startswith(("fct", "pfc", "ecn"))}


@pytest.mark.parametrize("scenario", ["a_incast16", "b_perm16", "c_a2a16"])
def test_completion_times_and_marks_agree(simbase, ten_seeds, scenario):
    """Mean and max (p99 for c) over seeds lie within the reference's spread and 2%; marks within 20% of its mean."""
    found, _ = ten_seeds(scenario)

    for key in ("mean", "max", *(("p99",) if scenario.startswith("c") else ())):
        runs = reference(simbase, scenario, f"fct_us_{key}")
        assert 0.98 * min(runs) <= found["fct_us"][key] <= 1.02 * max(runs), key
    marks = float(np.mean(reference(simbase, scenario, "ecn_marks")))
    assert found["ecn_marks"] == pytest.approx(marks, rel=0.2)
    assert found["pfc_pauses"] == 0


def test_traffic_without_marks_agrees_to_half_a_percent(simbase):
    """The ring has no marks and no draws: its times are the reference's."""
    found = ours(simbase, "e_ring64", seeds=1)
    for key in ("mean", "p50", "p99", "max"):
        assert found["fct_us"][key] == pytest.approx(
            reference(simbase, "e_ring64", f"fct_us_{key}")[0], rel=1e-4
        )
    assert found["ecn_marks"] == 0
    assert found["packet_hops"] == 1_280_000


@pytest.mark.parametrize("scenario", ["b_perm16", "c_a2a16"])
def test_times_of_flows_correlate(simbase, ten_seeds, scenario):
    """Which flow is slow is the same: correlation of seed means above 0.95."""
    _, mine = ten_seeds(scenario)
    with (simbase / scenario / "hpcc_fct_seed_mean.csv").open(encoding="utf-8") as file:
        theirs = [float(row["fct_ns_mean"]) for row in csv.DictReader(file)]
    assert np.corrcoef(mine, theirs)[0, 1] > 0.95


@pytest.mark.parametrize("mib", [2, 4])
def test_smaller_buffers_pause_as_often(simbase, mib, tmp_path):
    """With 2 and 4 MB, PFC pauses and marks are within 20% of the reference's one run."""
    theirs = one_run(simbase, f"hpcc_buf{mib}_a_incast16")
    found = ours(simbase, "a_incast16", 30, changed(simbase, tmp_path, BUFFER_SIZE=str(mib)))

    assert found["pfc_pauses"] == pytest.approx(theirs["pfc_pause_frames"], rel=0.2)
    assert found["ecn_marks"] == pytest.approx(theirs["ecn_marks"], rel=0.2)
    spread = found["fct_us_spread"]
    for key in ("mean", "max"):
        assert 0.98 * spread[key]["min"] <= theirs[f"fct_us_{key}"] <= 1.02 * spread[key]["max"]


def test_other_controls_agree(simbase, tmp_path):
    """DCQCN with 50/50/55 us and HPCC itself, each against one run of the reference."""
    slow = {"ALPHA_RESUME_INTERVAL": "50", "RATE_DECREASE_INTERVAL": "50", "RP_TIMER": "55"}
    found, theirs = (
        ours(simbase, "a_incast16", config=changed(simbase, tmp_path, **slow)),
        one_run(simbase, "hpcc_dcqcn_paper_a_incast16"),
    )
    for key in ("mean", "max"):
        assert found["fct_us"][key] == pytest.approx(theirs[f"fct_us_{key}"], rel=0.005)
    assert found["ecn_marks"] == pytest.approx(theirs["ecn_marks"], rel=0.01)

    hpcc = {"CC_MODE": "3", "RATE_AI": "40Mb/s", "HAS_WIN": "1", "VAR_WIN": "1", "FAST_REACT": "1"}
    found, theirs = (
        ours(simbase, "a_incast16", config=changed(simbase, tmp_path, **hpcc)),
        one_run(simbase, "hpcc_hpcc_a_incast16"),
    )
    for key in ("mean", "max"):
        assert found["fct_us"][key] == pytest.approx(theirs[f"fct_us_{key}"], rel=0.01)
    assert found["ecn_marks"] < 50

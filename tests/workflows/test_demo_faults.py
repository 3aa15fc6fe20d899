"""`nettune demo --fault`: named first, exit 1, and nothing is tuned on a fabric that is not fit."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from nettune.lab import LabSpec
from nettune.lab.faults.registry import FAULTS as KINDS
from nettune.workflows import demo_setup
from nettune.workflows.demo import run_demo
from nettune.workflows.run import RunResult


def smaller(name: str) -> LabSpec:
    """2 leaves x 2 hosts: found in a few seconds."""
    return LabSpec(
        name=name, leaves=2, spines=2, hosts_per_leaf=2, host_rate="100mbit", uplink_rate="100mbit"
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The demo's result with a fault; each is run once."""
    patch = pytest.MonkeyPatch()
    patch.setattr(demo_setup, "main_fabric", smaller)
    steps: list[str] = []
    kept: dict[str, tuple[RunResult, list[str]]] = {}

    def run(fault: str) -> tuple[RunResult, list[str]]:
        if fault not in kept:
            steps.clear()
            result = run_demo(tmp_path_factory.mktemp("fault"), steps.append, fault=fault)
            kept[fault] = result, list(steps)
        return kept[fault]

    yield run
    patch.undo()


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["mtu", "link-down"])
def test_fault_is_named_first(found, fault):
    """Exit 1; the first finding is a FAIL at the element that was spoilt, and says what to do."""
    result, _ = found(fault)
    first = result.data["findings"][0]

    assert result.exit_code == 1
    assert result.data["fault"]["kind"] == fault
    assert first["status"] == "FAIL"
    assert first["where"] in result.data["fault"]["where"]
    assert first["fix"]
    assert result.report.verdict is not None
    assert result.report.verdict.sentence.startswith(first["where"])


@pytest.mark.lab
@pytest.mark.slow
def test_demo_stops_after_a_failed_qualification(found):
    """No placement, no measurement, no training; the keys of the demo are there and null."""
    result, steps = found("mtu")

    assert set(result.data["seconds"]) == {"lab", "discover", "start of the ranks", "qualify"}
    assert [step for step in steps if step.startswith(("place", "communication", "train", "sweep"))] == []
    assert [result.data[key] for key in ("busbw_gbps", "mfu_delta_points", "mfu_delta_ci")] == [None] * 3
    assert sorted(path.name for path in result.run_path.iterdir()) == [
        "environment.json", "report.html", "result.json",
    ]  # fmt: skip


def test_unknown_fault_lists_the_known_ones(tmp_path):
    """Before anything is made."""
    with pytest.raises(InputError, match=r"'meteor' is not known; known: slow-link, .*miswire"):
        run_demo(tmp_path, lambda _: None, fault="meteor")

    assert list(tmp_path.iterdir()) == []


def test_demo_offers_every_fault_of_the_lab():
    """A kind that is added to the lab is added to the demo, or this test says so."""
    assert set(demo_setup.FAULTS) == set(KINDS)

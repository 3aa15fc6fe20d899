"""The packet simulator against the ns-3 reference: speed of all its scenarios, agreement of the large ones; 3 minutes.

CPU seconds are those of a whole `nettune simulate`, the second run, scaled by the reference's own calibration.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

GATES = {"b_perm16": 8, "c_a2a16": 8, "d_a2a128": 15, "e_ring64": 5}
"""How many times as fast as the reference."""


def command(simbase, scenario, *more):
    """A command line with the reference's files."""
    folder = simbase / scenario
    words = [sys.executable, "-m", "nettune", "simulate", "--output", "json", *more]
    for option, file in (("topo", folder / "topo.csv"), ("flows", folder / "flows.csv")):
        words += [f"--{option}", str(file)]
    return [
        *words,
        "--paths",
        str(folder / "hpcc_paths.csv"),
        "--hpcc-config",
        str(simbase / "hpcc_config.txt"),
    ]


def measured(words):
    """(user CPU seconds, peak MiB, JSON) of a process of its own."""
    # A small process in between: a child's peak counts what its parent had when it was forked.
    program = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True);"
        "usage = resource.getrusage(resource.RUSAGE_CHILDREN); print(usage.ru_utime, usage.ru_maxrss);"
        "sys.stdout.flush(); sys.stdout.buffer.write(done.stdout)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    usage, _, out = told.partition("\n")
    user, peak_kib = usage.split()
    return float(user), int(peak_kib) / 1024, json.loads(out)


@pytest.fixture(scope="module")
def simbase(shared):
    """The folder of the reference's files."""
    return shared / "oracles" / "simbase"


@pytest.mark.parametrize("scenario", GATES)
def test_speed(simbase, scenario, capsys):
    """At least as many times as fast as the gate says; for d in less than 100 MB beside the interpreter's."""
    with (simbase / "results.csv").open(encoding="utf-8") as file:
        theirs = next(
            float(row["user_s"]) for row in csv.DictReader(file) if row["run"] == f"hpcc_r2_{scenario}"
        )
    measured(command(simbase, scenario))
    told = subprocess.run(
        [sys.executable, str(simbase / "calibrate.py")], capture_output=True, text=True, check=True
    )
    scale = float(told.stdout.split()[-1])
    user, peak, found = min((measured(command(simbase, scenario)) for _ in range(3)), key=lambda one: one[0])
    bare = min(measured([sys.executable, "-c", "print(0)"])[1] for _ in range(3))

    times = theirs * scale / user
    with capsys.disabled():
        print(
            f"\n{scenario}: {user:.2f} s user at scale {scale:.2f}, reference {theirs} s: {times:.1f} times as fast"
            f" (asked {GATES[scenario]}); {found['packet_hops'] / user / 1e6:.2f} M data hops/s,"
            f" {peak - bare:.0f} MiB beside the interpreter"
        )
    assert times >= GATES[scenario]
    assert peak - bare < 100


@pytest.mark.parametrize("scenario", ["d_a2a128", "e_ring64"])
def test_agreement(simbase, scenario, capsys):
    """Mean, p99 and max over ten seeds within the reference's spread and 2%; marks within 20%."""
    found = measured(command(simbase, scenario, "--seeds", "10"))[2]
    with (simbase / "seeds.csv").open(encoding="utf-8") as file:
        runs = [row for row in csv.DictReader(file) if row["scenario"] == scenario]
    for key in ("mean", "p99", "max"):
        theirs = [float(row[f"fct_us_{key}"]) for row in runs]
        with capsys.disabled():
            print(
                f"\n{scenario} {key}: {found['fct_us'][key]:.2f} us, reference {min(theirs)} to {max(theirs)}"
            )
        assert 0.98 * min(theirs) <= found["fct_us"][key] <= 1.02 * max(theirs)
    marks = np.mean([float(row["ecn_marks"]) for row in runs])
    assert found["ecn_marks"] == pytest.approx(marks, rel=0.2)
    assert found["pfc_pauses"] == 0

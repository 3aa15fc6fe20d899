"""`nettune lint ecmp`: text, JSON keys, exit codes, and what is said of bad input."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.lab

CHECKS = ["ecmp-fields", "ecmp-flows", "ecmp-polarization", "ecmp-qps", "ecmp-source-ports", "ecmp-weights"]


@pytest.fixture
def flows(home):
    """Write a file of flows; returns its name."""

    def write(text):
        (home / "flows.csv").write_text(text, encoding="utf-8")
        return "flows.csv"

    return write


def test_the_rules_in_80_columns(inside, small, flows):
    """A rule that is broken tells its loss and a fix; those that hold are one line; nothing fails here."""
    done = inside("lint", "ecmp", "--lab", small, "--flows", flows("src,dst,sport\nnode1,node2,50000\n"))
    lines = done.stdout.splitlines()
    assert done.code == 0, done.stderr
    assert lines[:2] == ["Lint of the fabric's ECMP", "4 hosts, 4 switches, NICs of 200 Mbit/s"]
    assert "with 1 QP per connection" in done.stdout
    assert "The path of each flow that was given." in lines
    assert ["node1:eth0", "node2:eth0", "50000"] in [line.split()[:3] for line in lines]
    assert "fix: set NCCL_IB_QPS_PER_CONNECTION=" in done.stdout
    assert all(len(line) <= 80 for line in lines)


def test_json_has_a_finding_for_each_rule(inside, small, flows):
    """With flows every rule speaks; expected losses are shares of the bandwidth."""
    given = flows("src,dst,sport,bytes\n" + "node1,node2,50000,9\n" * 4 + "node10,node20,50000,9\n" * 4)
    done = inside(
        "lint", "ecmp", "--lab", small, "--qps", "16", "--split", "--flows", given, "--output", "json"
    )
    assert done.code == 0, done.stderr
    assert {"schema", "verb", "status", "exit_code", "findings", "report"} <= set(done.json)
    found = {finding["check"]: finding for finding in done.json["findings"]}
    assert sorted(found) == CHECKS
    assert found["ecmp-qps"]["evidence"]["qps_per_connection"] == 16
    told = found["ecmp-source-ports"]["evidence"]
    assert (told["flows"], told["distinct_tuples"], told["distinct_source_ports"]) == (8, 2, 1)
    assert 0 <= told["expected_loss"] < 1
    # Where each flow goes, and on which link most of them meet.
    assert [(flow["src"], flow["sport"], len(flow["links"])) for flow in done.json["flows"]] == [
        *[("node1:eth0", 50000, 4)] * 4,
        *[("node10:eth0", 50000, 4)] * 4,
    ]
    assert (
        found["ecmp-flows"]["evidence"]["link"]
        in done.json["flows"][0]["links"] + done.json["flows"][4]["links"]
    )


def test_a_saved_fabric_is_linted_without_its_lab(inside, ran, home):
    """The hashes that discovery read are in the file; without them three rules are UNKNOWN, not passed."""
    ran("discover")
    assert inside("lint", "ecmp", "--fabric", "fabric.json").code == 0
    good = json.loads((home / "fabric.json").read_text(encoding="utf-8"))
    good["routing"]["hashes"] = {}
    (home / "nohash.json").write_text(json.dumps(good), encoding="utf-8")
    done = inside("lint", "ecmp", "--fabric", "nohash.json", "--output", "json")
    unknown = {finding["check"] for finding in done.json["findings"] if finding["status"] == "UNKNOWN"}
    assert (done.code, unknown) == (0, {"ecmp-polarization", "ecmp-fields", "ecmp-source-ports"})


MISTAKES = {
    "both": (["--lab", "{lab}", "--fabric", "fabric.json"], "give --lab or --fabric, not both"),
    "no lab": (["--lab", "nope"], "no lab 'nope' is up"),
    "no file": (["--fabric", "nowhere.json"], "nowhere.json: cannot be read"),
    "no flows": (["--lab", "{lab}", "--flows", "nowhere.csv"], "nowhere.csv: cannot be read"),
    "bad flow": (["--lab", "{lab}", "--flows", "flows.csv"], "flows.csv:2: 'h9' is no NIC of the fabric"),
    "no QP": (["--qps", "0"], "greater than or equal to 1"),
    "too many QPs": (["--qps", "129"], "less than or equal to 128"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_one_line(inside, small, flows, case):
    """Exit 2, nothing on stdout."""
    flows("src,dst,sport\nh9,node2,50000\n")
    words, expected = MISTAKES[case]
    done = inside("lint", "ecmp", *(word.format(lab=small) for word in words))
    assert (done.code, done.stdout) == (2, "")
    assert expected in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr

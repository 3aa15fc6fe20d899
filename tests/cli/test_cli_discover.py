"""`nettune discover` on files: from a cabling file, a scheduler's tree and a plan to text, JSON, files and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from io import BytesIO, TextIOWrapper

import pytest

HOSTS, RAILS = 8, 2
HEADER = "node_a,port_a,node_b,port_b,speed_gbps,kind_a,kind_b\n"
COUNTS = {"hosts": 8, "switches": 6, "links": 24, "leaves": 4, "rails": 2, "planes": 0, "parts": 1, "gpus": 0}


def cables(moved: Mapping[str, str] | None = None, gbps: float = 400.0) -> str:
    """Two pods of four hosts, each rail on a leaf of its own: leaf0, leaf1 of the first pod, leaf2, leaf3; two spines."""
    rows = []
    for host in range(HOSTS):
        for rail in range(RAILS):
            leaf = f"leaf{host // 4 * RAILS + rail}"
            far = (moved or {}).get(f"h{host}:eth{rail}", f"{leaf}:Eth{host}")
            if far:
                rows.append(f"h{host},eth{rail},{far.replace(':', ',')},{gbps:g},host,switch")
    rows += [f"leaf{a},Up{b},spine{b},Down{a},{2 * gbps:g},switch,switch" for a in range(4) for b in range(2)]
    return HEADER + "\n".join(rows) + "\n"


@pytest.fixture
def given(home):
    """Write a file into the working directory; returns its name."""

    def write(name: str, text: str) -> str:
        (home / name).write_text(text, encoding="utf-8")
        return name

    return write


def test_a_sound_plan_is_counted_and_passes(inside, given):
    """Counts, format, tiers and what each source had; exit 0; the envelope first."""
    done = inside("discover", given("sound.csv", cables()), "--output", "json")
    assert done.code == 0, done.stderr
    assert done.json["schema"] == "nettune.discover/1"
    assert {key: done.json[key] for key in COUNTS} == COUNTS
    assert done.json["format"] == "cabling"
    assert done.json["oversubscription"] == {"1": {"min": 1.0, "median": 1.0, "max": 1.0}}
    assert [tier["switches"] for tier in done.json["tiers"]] == [4, 2]
    assert done.json["sources"] == [
        {"name": "sound.csv", "format": "cabling", "nodes": 14, "links": 24, "gpus": 0, "logical": False}
    ]
    assert (done.json["routing"], done.json["dropped"], done.json["logical"]) == (None, {}, False)
    assert len(done.json["fabric"]["links"]["port_a"]) == 24
    assert {finding["status"] for finding in done.json["findings"]} <= {"PASS", "UNKNOWN"}


def test_text_says_it_at_a_glance_within_80_columns(inside, given):
    """Tiers, rails, links, oversubscription; then where the files are; no line is wider than a terminal."""
    done = inside(
        "discover", given("sound.csv", cables()), "-o", "out/fabric.json", "--write", "tree=tree.txt"
    )
    lines = done.stdout.splitlines()
    assert done.code == 0, done.stderr
    assert lines[:2] == ["Discovery", "8 hosts, 6 switches, NICs of 400 Gbit/s"]
    for words in (
        "4 leaves with 4 NICs each, 2 spines",
        "16 of hosts (400 Gbit/s), 8 of switches (800 Gbit/s)",
        "1:1",
    ):
        assert words in done.stdout
    assert lines[-2:] == ["fabric  out/fabric.json", "tree    tree.txt"]
    assert max(map(len, lines)) <= 80


def test_a_miswired_nic_is_the_first_finding_and_fails(inside, given):
    """Without any plan the majority of its pod tells; the verdict is the first thing that the text says."""
    wrong = given("wrong.csv", cables({"h2:eth1": "leaf3:Eth9"}))
    done = inside("discover", wrong)
    assert done.code == 1
    assert done.stdout.splitlines()[2].startswith(
        "FAIL    host/h2/nic/eth1: rail 1 is cabled to leaf3; it should be"
    )
    first = inside("discover", wrong, "--output", "json").json["findings"][0]
    assert (first["where"], first["evidence"]["should_be_on"]) == ("host/h2/nic/eth1", "leaf1")


def test_the_plan_names_the_swap(inside, given):
    """With --expect two hosts' swapped cables are one finding; a fabric that is as planned passes."""
    found = given("found.csv", cables({"h1:eth0": "leaf0:Eth2", "h2:eth0": "leaf0:Eth1"}))
    plan = given("plan.csv", cables())
    done = inside("discover", found, "--expect", plan, "--output", "json")
    assert done.code == 1
    assert done.json["findings"][0]["what"] == (
        "h1:eth0 is on leaf0:Eth2, plan.csv says leaf0:Eth1; swapped with h2:eth0"
    )
    assert inside("discover", plan, "--expect", plan).code == 0


def test_a_schedulers_file_is_held_against_the_wiring(inside, given):
    """topology.conf beside cables adds none; a host under another leaf is a warning, and exit 0."""
    tree = given(
        "topology.conf",
        "SwitchName=leaf0 Nodes=h[0-2]\nSwitchName=leaf2 Nodes=h[3-7]\nSwitchName=top Switches=leaf[0,2]\n",
    )
    done = inside("discover", given("sound.csv", cables()), tree, "--output", "json")
    assert done.code == 0, done.stderr
    assert done.json["status"] == "WARN"
    assert {key: done.json[key] for key in COUNTS} == COUNTS
    told = [finding for finding in done.json["findings"] if finding["check"] == "scheduler-tree"]
    assert [finding["where"] for finding in told] == ["host/h3"]
    assert done.json["format"] == "cabling + slurm-conf"


def test_a_tree_alone_is_no_judgement(inside, given):
    """A scheduler's file has no real cables: it is counted, nothing of it passes or fails."""
    tree = given(
        "topology.conf", "SwitchName=a Nodes=h[0-3]\nSwitchName=b Nodes=h[4-7]\nSwitchName=top Switches=a,b\n"
    )
    done = inside("discover", tree, "--output", "json")
    assert (done.code, done.json["logical"], done.json["hosts"], done.json["leaves"]) == (0, True, 8, 2)
    assert {finding["status"] for finding in done.json["findings"]} == {"UNKNOWN"}
    assert "a scheduler's tree has no real cables" in inside("discover", tree).stdout.replace(
        "\n        ", " "
    )


def test_what_is_left_out_is_grouped_and_can_be_kept(inside, given):
    """Management NICs and their switch go with one line a reason; --keep brings them back."""
    extra = "".join(f"h{host},eno1,tor1,p{host},1,host,switch\n" for host in range(HOSTS))
    mixed = given("mixed.csv", cables() + extra)
    done = inside("discover", mixed)
    assert done.code == 0, done.stdout
    assert "8 NICs" in done.stdout
    assert "1 Gbit/s, most NICs have 400 Gbit/s" in done.stdout
    assert "a switch of NICs that were left out" in done.stdout
    assert inside("discover", mixed, "--output", "json").json["switches"] == COUNTS["switches"]
    kept = inside("discover", mixed, "--keep", "slow", "--output", "json")
    assert (kept.json["switches"], kept.json["dropped"]) == (7, {})


def test_its_own_file_is_read_again_and_placed_on(inside, given, home):
    """-o gives what `discover` and `place` read: the same counts, and a placement over all shortest paths."""
    assert inside("discover", given("sound.csv", cables()), "-o", "again.json").code == 0
    again = inside("discover", "again.json", "--expect", "sound.csv", "--output", "json")
    assert again.code == 0, again.stderr
    assert {key: again.json[key] for key in COUNTS} == COUNTS
    assert json.loads((home / "again.json").read_text(encoding="utf-8"))["routing"] is None
    assert inside("place", "job4.toml", "--fabric", "again.json").code == 0


def test_standard_input_is_a_file_too(inside, monkeypatch):
    """`-` reads what another command prints."""
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(cables().encode())))
    done = inside("discover", "-", "--format", "cabling", "--output", "json")
    assert (done.code, done.json["hosts"]) == (0, 8)


def test_a_report_is_the_same_again(inside, given, home):
    """The run directory alone makes the same report; the drawing and the tables are in it."""
    folder = inside("discover", given("sound.csv", cables()), "--output", "json").json["run_dir"]
    first = (home / folder / "report.html").read_bytes()
    assert b"<svg" in first
    assert "Sources, the most trusted first." in first.decode()
    assert inside("report", folder).code == 0
    assert (home / folder / "report.html").read_bytes() == first


def test_this_machine_is_discovered(inside):
    """--live asks this machine alone: one host, whatever its network is."""
    done = inside("discover", "--live", "--output", "json")
    assert done.code in {0, 2}, done.stderr
    assert done.json["hosts"] == 1


def test_a_host_that_ssh_does_not_reach_is_named(inside):
    """--hosts asks over ssh; the error is one line that names the host."""
    done = inside("discover", "--hosts", "nowhere.invalid")
    assert done.code == 2
    assert done.stderr.splitlines()[-1].startswith("error: nowhere.invalid ")


def test_bad_content_names_file_and_line(inside, given):
    """An error of a reader reaches the user as it is."""
    done = inside("discover", given("bad.csv", cables() + "h9,eth0\n"))
    assert done.code == 2
    assert done.stderr.splitlines()[-1].startswith("error: bad.csv:26: ")


@pytest.mark.lab
def test_a_lab_is_held_against_a_plan(inside, small, given):
    """A lab's live state with --expect of its own fabric passes; --lab and a file are merged."""
    assert inside("discover", "--lab", small, "-o", "lab.json").code == 0
    assert inside("discover", "--lab", small, "--expect", "lab.json").code == 0
    merged = inside("discover", "lab.json", "--lab", small, "--output", "json")
    assert merged.code == 0, merged.stderr
    assert (merged.json["hosts"], merged.json["switches"], len(merged.json["sources"])) == (4, 4, 2)

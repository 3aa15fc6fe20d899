"""What `nettune discover` writes beside its run, what it reads again, and what it keeps from standing in for a result."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from nettune.launch.base import Entry
from nettune.launch.local import LocalLauncher
from nettune.workflows.discovering import discover_hosts
from topology.discovery.collect import CollectError

PLAN = """\
node_a,port_a,node_b,port_b,speed_gbps,kind_a,kind_b
h1,eth0,leaf0,swp1,100,host,switch
h2,eth0,leaf0,swp2,100,host,switch
leaf0,swp9,spine0,swp1,100,switch,switch
"""
TREE = "SwitchName=a Nodes=h[0-3]\nSwitchName=b Nodes=h[4-7]\nSwitchName=top Switches=a,b\n"


@pytest.fixture
def plan(home: Path) -> str:
    """A small plan in the working directory."""
    (home / "small.csv").write_text(PLAN, encoding="utf-8")
    return "small.csv"


def last_line(stderr: str) -> str:
    return stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [("-o", "{}"), ("--write", "svg={}")])
def test_a_pipe_is_not_replaced_by_a_file(inside, plan, home, words):
    """A file is renamed into its place: where a pipe or a device is, it would be gone. Refused before any work."""
    os.mkfifo(home / "pipe")
    try:
        done = inside("discover", plan, *(word.format("pipe") for word in words))
        assert (done.code, last_line(done.stderr)) == (
            2,
            "error: pipe is no regular file; give the name of a file to write",
        )
        assert (home / "pipe").is_fifo()
        assert "discover ..." not in done.stderr
    finally:
        (home / "pipe").unlink()


def test_a_link_is_followed_and_a_loop_of_links_is_told(inside, plan, home):
    """What a symbolic link leads to is written; the link stays one."""
    (home / "link.svg").symlink_to("real.svg")
    assert inside("discover", plan, "--write", "svg=link.svg").code == 0
    assert (home / "link.svg").is_symlink()
    assert (home / "real.svg").read_text(encoding="utf-8").startswith("<svg")
    (home / "one").symlink_to("other")
    (home / "other").symlink_to("one")
    assert "its links form a loop" in last_line(inside("discover", plan, "-o", "one").stderr)


def test_folders_take_exports_and_nothing_is_written_twice(inside, plan, home):
    """Into a folder go files under their own names; one path for two files and a folder for -o are mistakes."""
    (home / "made").mkdir()
    done = inside("discover", plan, "--write", "svg=made", "--write", "dot=made")
    assert done.code == 0, done.stderr
    assert sorted(path.name for path in (home / "made").iterdir()) == ["fabric.dot", "fabric.svg"]
    assert done.stdout.splitlines()[-2:] == ["svg     made/fabric.svg", "dot     made/fabric.dot"]
    for words, why in (
        (("--write", "svg=x", "--write", "dot=x"), "x is given for two files"),
        (("-o", "made"), "made is a folder"),
        (("--write", "nccl-xml=made/fabric.svg"), "is a file, nccl-xml writes 2; give a folder"),
    ):
        done = inside("discover", plan, *words)
        assert done.code == 2
        assert why in last_line(done.stderr)


def test_standard_input_is_read_once(inside, plan):
    """The second `-` would be empty."""
    for words in (("-", "-"), ("-", "--expect", "-")):
        done = inside("discover", *words)
        assert (done.code, last_line(done.stderr)) == (
            2,
            "error: standard input (-) is given twice; it can be read once",
        )


def test_a_schedulers_tree_has_no_oversubscription(inside, home):
    """One line to the switch above stands for any number of cables, and what is under a leaf are hosts."""
    (home / "tree.conf").write_text(TREE, encoding="utf-8")
    done = inside("discover", "tree.conf")
    assert "2 leaves with 4 hosts each, 1 spine" in done.stdout
    assert "oversubscription" not in done.stdout
    found = inside("discover", "tree.conf", "--output", "json").json
    assert found["oversubscription"] == {}
    assert {tier["oversubscription"] for tier in found["tiers"]} == {None}


def test_a_node_of_unknown_kind_is_told(inside, home):
    """Ports called 1 and 2 tell neither a host nor a switch: the guess is said to be one."""
    (home / "unsure.csv").write_text("node_a,port_a,node_b,port_b\nx,1,y,2\n", encoding="utf-8")
    found = inside("discover", "unsure.csv", "--output", "json").json["findings"]
    (told,) = [finding for finding in found if finding["check"] == "node-kinds"]
    assert told["what"] == "no source tells whether x, y are hosts or switches: they are taken for hosts"


def test_lines_of_a_log_are_counted(inside, home):
    """A log alone has no cable to judge: what it tells is counted, and its trouble is the first finding."""
    line = "n1:1:2 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got async fatal event: port error\n"
    (home / "run.log").write_text(
        "n1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n" + line, encoding="utf-8"
    )
    done = inside("discover", "run.log", "--output", "json")
    assert done.json["events"]["Bootstrap"] == 1
    assert "bootstrap" in inside("discover", "run.log").stdout
    assert not {"link-state", "link-mtu", "link-speed"} & {one["check"] for one in done.json["findings"]}


@pytest.mark.lab
def test_routes_of_a_lab_survive_its_file_and_a_schedulers_tree(inside, small, home):
    """fabric.json read again, and a lab beside topology.conf, are judged with the routes that the lab told."""
    words = ("--write", "slurm-tree=small.conf")
    assert inside("discover", "--lab", small, "-o", "lab.json", *words).code == 0
    routing = json.loads((home / "lab.json").read_text(encoding="utf-8"))["routing"]
    assert routing is not None
    for sources in (("lab.json",), ("--lab", small, "small.conf"), ("lab.json", "small.conf")):
        done = inside("discover", *sources, "--output", "json")
        assert done.code == 0, done.stderr
        assert done.json["routing"] == routing
        assert "next-hops" in {finding["check"] for finding in done.json["findings"]}


class SomeSilent(LocalLauncher):
    """Every host is this machine, except those that do not answer."""

    def __init__(self, hosts: Sequence[str], silent: Sequence[str]) -> None:
        super().__init__(hosts)
        self._silent = silent

    def argv(self, host: str, command: Sequence[str]) -> list[str]:
        return ["false"] if host in self._silent else super().argv(host, command)

    def root_argv(self, command: Sequence[str]) -> list[str] | None:
        return None

    def entry(self, host: str) -> Entry:
        return super().entry(host)


def test_hosts_that_do_not_answer_are_findings_beside_the_others():
    """One of two hosts is unreachable: the other is discovered, and the verdict is no pass; none at all is an error."""
    found = discover_hosts(["a1", "a2"], SomeSilent(["a1", "a2"], ["a2"]))
    assert list(found.fabric.hosts) == ["a1"]
    (told,) = [finding for finding in found.findings if finding.check == "capture"]
    assert (told.status, told.where, told.required) == ("UNKNOWN", "host/a2", True)
    assert told.what.startswith("gave no capture: exit status 1")
    with pytest.raises(CollectError):
        discover_hosts(["a1"], SomeSilent(["a1"], ["a1"]))

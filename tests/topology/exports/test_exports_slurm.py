"""Slurm's files, also as the real slurmctld reads them."""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nettune.errors import InputError
from nettune.hosts import expand_hosts
from topology.builder import FabricBuilder
from topology.exports import export
from topology.exports.slurm import slurm_blocks, slurm_tree
from topology.fabric import NodeKind
from topology.leafgroups import leaf_groups

PLUGINS = {"slurm-tree": "tree", "slurm-block": "block"}


def odd(pods, rail_fabric):
    """A host with one NIC on another pod's leaf, a host without cables, a part that nothing joins."""
    builder = FabricBuilder()
    for node in ("leaf0", "leaf1", "leaf2", "leaf3", "spine0", "far-leaf"):
        builder.node(node, NodeKind.SWITCH)
    wiring = {"h0": (0, 1), "h1": (0, 1), "h2": (0, 3), "h3": (2, 3), "h4": (2, 3), "h5": ()}
    for host, leaves in wiring.items():
        builder.node(host, NodeKind.HOST)
        for rail, leaf in enumerate(leaves):
            builder.port(host, f"r{rail}", rail=rail)
            builder.port(f"leaf{leaf}", f"d{host}")
            builder.link((host, f"r{rail}"), (f"leaf{leaf}", f"d{host}"))
    for leaf in range(4):
        builder.port(f"leaf{leaf}", "u")
        builder.port("spine0", f"d{leaf}")
        builder.link((f"leaf{leaf}", "u"), ("spine0", f"d{leaf}"))
    for host in ("x1", "x2"):
        builder.node(host, NodeKind.HOST)
        builder.port(host, "r0")
        builder.port("far-leaf", host)
        builder.link((host, "r0"), ("far-leaf", host))
    return builder.build()


FABRICS = {
    "two rails": lambda pods, rails: rails(32, rails=2, per_leaf=8, spines=2),
    "eight rails": lambda pods, rails: rails(64, rails=8, per_leaf=16, spines=4),
    "three tiers": lambda pods, rails: pods(3, 2, 4, rails=2),
    "accelerator domains": lambda pods, rails: pods(2, 2, 4, rails=2, domain=2),
    "names with two numbers": lambda pods, rails: pods(
        2, 2, 4, host_name="rack{rack:02}-n{host:03}-ib.cluster"
    ),
    "one leaf": lambda pods, rails: rails(4, rails=1, per_leaf=4, spines=1),
    "odd": odd,
}


@pytest.fixture(params=FABRICS)
def fabric(request, pods, rail_fabric):
    """Each of the fabrics."""
    return FABRICS[request.param](pods, rail_fabric)


def slurmctld(folder: Path, plugin: str, topology: str, hosts: list[str]) -> list[str]:
    """What slurmctld says while it reads a topology; it is ended when it has."""
    program = shutil.which("slurmctld") or shutil.which("slurmctld", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("slurmctld is not installed (Debian: slurm-wlm)")
    (folder / "state").mkdir()
    (folder / "topology.conf").write_text(topology, encoding="utf-8")
    nodes = "".join(
        f"NodeName={host} NodeAddr=127.0.1.{1 + row % 250} CPUs=1\n" for row, host in enumerate(hosts)
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "ClusterName": "test",
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": port,
        "SlurmUser": getpass.getuser(),
        "AuthType": "auth/none",
        "CredType": "cred/none",
        "StateSaveLocation": folder / "state",
        "SlurmctldPidFile": folder / "pid",
        "MailProg": "/bin/true",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "SelectType": "select/cons_tres",
        "TopologyPlugin": f"topology/{plugin}",
    }
    conf = "".join(f"{key}={value}\n" for key, value in settings.items())
    (folder / "slurm.conf").write_text(
        f"{conf}{nodes}PartitionName=all Nodes=ALL Default=YES\n", encoding="utf-8"
    )
    lines: list[str] = []
    command = [program, "-D", "-c", "-vvv", "-f", str(folder / "slurm.conf")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        watchdog = threading.Timer(5, process.kill)
        watchdog.start()
        logged = False
        for line in process.stdout:
            about = "_log_switches" in line or "_log_blocks" in line
            if logged and not about:
                break
            logged |= about
            lines.append(line.rstrip("\n"))
        watchdog.cancel()
        process.kill()
    if any(re.search(rf"(cannot|not) find.*topology/{plugin}", line) for line in lines):
        pytest.skip(f"this slurmctld has no topology/{plugin}")
    assert logged, lines
    return lines


def complaints(lines: list[str]) -> Iterator[str]:
    """Warnings and errors about the topology."""
    for line in lines:
        if re.search(r"(error|warning|fatal):", line) and re.search(
            r"topo|switch|block|node", line, re.IGNORECASE
        ):
            yield line


def members(lines: list[str], word: str) -> dict[str, frozenset[str]]:
    """Name -> hosts of what slurmctld understood: its leaf switches or blocks."""
    found = {}
    for line in lines:
        match = re.search(rf"{word} name:(\S+) nodes:(\S+)", line)
        if match and "Aggregated" not in line:
            found[match[1]] = frozenset(expand_hosts(match[2]))
    return found


def test_slurmctld_takes_the_tree_without_a_word(fabric, tmp_path):
    """The real Slurm reads the same leaf groups out of topology.conf, and warns of nothing."""
    lines = slurmctld(tmp_path, "tree", export(fabric, "slurm-tree")["topology.conf"], list(fabric.hosts))

    assert list(complaints(lines)) == []
    understood = members(lines, "level:0")
    tree = slurm_tree(fabric)
    assert understood == {switch.name: frozenset(switch.nodes) for switch in tree.switches if switch.nodes}
    assert sorted(host for hosts in understood.values() for host in hosts) == sorted(fabric.hosts)


def test_slurmctld_takes_the_blocks_without_a_word(fabric, tmp_path):
    """The real Slurm reads the same blocks, and warns of nothing but hosts that have no place at all."""
    lines = slurmctld(tmp_path, "block", export(fabric, "slurm-block")["topology.conf"], list(fabric.hosts))

    unplaced = [fabric.nodes.name[row] for row in leaf_groups(fabric).unattached]
    left = [
        line for line in complaints(lines) if not re.search(r"blocks lack access to 1 nodes: (\S+)", line)
    ]
    assert left == []
    assert len(list(complaints(lines))) == len(unplaced)
    assert members(lines, "Block") == {name: frozenset(hosts) for name, hosts in slurm_blocks(fabric).blocks}


def test_slurmctld_does_warn_of_a_rail_fabric_written_naively(rail_fabric, tmp_path):
    """A host under each of its leaves is what slurmctld complains of: the tests above can fail."""
    naive = "SwitchName=a Nodes=h[0-3]\nSwitchName=b Nodes=h[0-3]\nSwitchName=root Switches=a,b\n"

    lines = slurmctld(tmp_path, "tree", naive, ["h0", "h1", "h2", "h3"])

    assert any("Multiple leaf switches contain nodes" in line for line in complaints(lines))


def test_a_rail_fabric_becomes_one_leaf_a_group(rail_fabric):
    """Eight leaves that serve the same 16 hosts are one SwitchName; a comment says which leaves it stands for."""
    text = export(rail_fabric(64, rails=8, per_leaf=16, spines=4), "slurm-tree")["topology.conf"]

    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "SwitchName=group0 Nodes=h[0-15]",
        "SwitchName=group1 Nodes=h[16-31]",
        "SwitchName=group2 Nodes=h[32-47]",
        "SwitchName=group3 Nodes=h[48-63]",
        "SwitchName=root Switches=group[0-3]",
    ]
    assert "# group1 is leaf[8-15]" in text.splitlines()


def test_parts_that_no_cable_joins_get_a_root_that_says_so(pods, rail_fabric):
    """Slurm wants a root; a host without cables stands alone, so that it is near nobody."""
    lines = export(odd(pods, rail_fabric), "slurm-tree")["topology.conf"].splitlines()

    assert "SwitchName=group0 Nodes=h[0-2]" in lines
    assert "SwitchName=group1 Nodes=h[3-4]" in lines
    assert "SwitchName=alone-h5 Nodes=h5" in lines
    assert "SwitchName=root Switches=alone-h5,far-leaf,spine0" in lines
    assert any("no cable joins the 3 parts" in line for line in lines)


def test_made_up_names_are_nobody_elses():
    """A host or switch that is called as a made-up switch would be keeps its name; the made-up one gets another."""
    builder = FabricBuilder()
    for host, leaf in {"h0": "root", "alone-h2": "leaf"}.items():
        builder.node(leaf, NodeKind.SWITCH)
        builder.node(host, NodeKind.HOST)
        builder.port(leaf, "p")
        builder.port(host, "p")
        builder.link((leaf, "p"), (host, "p"))
    builder.node("h2", NodeKind.HOST)

    names = [switch.name for switch in slurm_tree(builder.build()).switches]

    assert names == ["leaf", "root", "alone-h2x", "rootx"]


def test_domains_are_blocks(pods):
    """Accelerator domains are blocks; sizes are powers of two of the smallest."""
    text = export(pods(2, 2, 4, domain=4), "slurm-block")["topology.conf"]

    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "BlockName=nvl0 Nodes=h[000-003]",
        "BlockName=nvl1 Nodes=h[004-007]",
        "BlockName=nvl2 Nodes=h[008-011]",
        "BlockName=nvl3 Nodes=h[012-015]",
        "BlockSizes=4,8,16",
    ]


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 7, 8, 33])
def test_block_sizes_are_what_slurm_takes(pods, blocks):
    """Each is the first times a power of two, none is beyond all hosts, and there are at most 16."""
    found = slurm_blocks(pods(1, blocks, 3))

    assert found.sizes[0] == min(len(hosts) for _, hosts in found.blocks)
    assert all(size == found.sizes[0] << level for level, size in enumerate(found.sizes))
    assert found.sizes[-1] <= 3 * blocks < 2 * found.sizes[-1]


@pytest.mark.parametrize(
    "host", ["a b", "a,b", "a[1-2]", "DEFAULT", "a#b", "a=b", "é", "a\nNodeName=x", "n" * 65]
)
@pytest.mark.parametrize("form", ["slurm-tree", "slurm-block", "slurm-yaml"])
def test_a_host_that_slurm_cannot_name_is_refused(host, form):
    """Hosts' names must be Slurm's own, so that nothing can be put in their place."""
    builder = FabricBuilder()
    builder.node(host, NodeKind.HOST)
    builder.node("leaf", NodeKind.SWITCH)
    builder.port(host, "p")
    builder.port("leaf", "p")
    builder.link((host, "p"), ("leaf", "p"))

    with pytest.raises(InputError, match="Slurm cannot name host"):
        export(builder.build(), form)


def test_odd_names_of_switches_are_cleaned_and_told():
    """Switches may be named anew; a name can neither end its comment nor join the next line to it."""
    builder = FabricBuilder()
    names = ["MF0;leaf-1_U1", "MF0;leaf-2_U1", "x\nSwitchName=evil Nodes=h0", "tail\\"]
    for number, leaf in enumerate(names):
        builder.node(leaf, NodeKind.SWITCH)
        builder.node(f"h{number}", NodeKind.HOST)
        builder.port(leaf, "p")
        builder.port(f"h{number}", "p")
        builder.link((leaf, "p"), (f"h{number}", "p"))

    lines = export(builder.build(), "slurm-tree")["topology.conf"].splitlines()

    assert "SwitchName=MF0_leaf-1_U1 Nodes=h0" in lines
    assert "# MF0_leaf-1_U1 stands for MF0;leaf-1_U1" in lines
    assert all(
        re.fullmatch(r"#.*[^\\]|SwitchName=[\w.-]+ (Nodes|Switches)=[\w.,\[\]-]+", line) for line in lines
    )
    assert sum(line.startswith("SwitchName=") for line in lines) == len(names) + 1


def test_without_switches_there_is_nothing_to_tell():
    """Hosts alone are no topology; the error says so."""
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)

    for form in ("slurm-tree", "slurm-block", "slurm-yaml", "kueue"):
        with pytest.raises(InputError, match="no host of the fabric is cabled to a switch"):
            export(builder.build(), form)

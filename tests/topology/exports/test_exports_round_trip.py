"""What a format keeps comes back through its reader: all of fabric.json, the documented part of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.exports import EXPORTS, export
from topology.exports.slurm import slurm_blocks, slurm_tree
from topology.fabric import Fabric
from topology.leafgroups import leaf_groups
from topology.readers import Source, detect, read, readers

READERS = {
    "fabric-json": "fabric-json",
    "slurm-tree": "slurm-conf",
    "slurm-block": "slurm-conf",
    "slurm-yaml": "slurm-yaml",
    "kueue": "kubernetes",
    "nccl-xml": "nccl-topology",
}


def read_back(form: str, name: str, text: str) -> Fabric:
    """The fabric that the format's reader, which must be the one that is detected, makes of a file."""
    source = Source(name, text)
    assert detect(source).name == READERS[form]
    return read(source).to_fabric()


def near(fabric: Fabric) -> list[set[frozenset[str]]]:
    """Level by level the sets of hosts that are together."""
    names = fabric.nodes.name
    return [
        {frozenset(names[row] for row in cluster.hosts) for cluster in level}
        for level in leaf_groups(fabric).levels
    ]


@given(st.data())
def test_fabric_json_is_lossless(any_fabric, data):
    """Every column comes back."""
    fabric = any_fabric(data)

    again = read_back("fabric-json", "fabric.json", export(fabric, "fabric-json")["fabric.json"])

    assert without_sources(again) == without_sources(fabric)


def without_sources(fabric: Fabric):
    """Tables by name, without what only says who told."""
    found = fabric.to_json()
    del found["provenance"]
    return {
        name: {k: v for k, v in t.items() if k != "source"} if isinstance(t, dict) else t
        for name, t in found.items()
    }


@given(st.data(), st.sampled_from(["slurm-tree", "slurm-yaml"]))
def test_slurms_tree_keeps_who_is_near_whom(any_fabric, data, form):
    """Leaf groups and all that joins them come back as the same sets of hosts."""
    fabric = any_fabric(data)
    if not leaf_groups(fabric).levels:
        return
    tree = slurm_tree(fabric)
    [(name, text)] = export(fabric, form).items()

    again = read_back(form, name, text)

    assert sorted(again.hosts) == sorted(fabric.hosts)
    leaves = {frozenset(switch.nodes) for switch in tree.switches if switch.nodes}
    assert near(again)[0] == leaves
    names = {switch.name for switch in tree.switches}
    assert set(again.switches) == names
    levels = near(fabric)
    if not leaf_groups(fabric).unattached and len(levels[-1]) == 1:
        assert set().union(*near(again)) == set().union(*levels)


@given(st.data())
def test_slurms_blocks_keep_the_blocks(any_fabric, data):
    """Accelerator domains, and leaf groups of the other hosts, come back as the same sets of hosts."""
    fabric = any_fabric(data)
    try:
        wanted = slurm_blocks(fabric)
    except InputError:
        return

    again = read_back("slurm-block", "topology.conf", export(fabric, "slurm-block")["topology.conf"])

    found: dict[int, set[str]] = {}
    for host in again.hosts:
        row = again.node_row(host)
        found.setdefault(int(again.nodes.nvl_domain[row]), set()).add(host)
    blocks = {frozenset(hosts) for _, hosts in wanted.blocks}
    assert (
        near(again)[0] == blocks
        if again.switches
        else {frozenset(hosts) for hosts in found.values()} == blocks
    )


@given(st.data())
def test_kueue_keeps_the_levels(any_fabric, data):
    """The Topology and the labels in one stream come back as the same leaf groups."""
    fabric = any_fabric(data)
    groups = leaf_groups(fabric)
    if not groups.levels:
        return
    files = export(fabric, "kueue")

    again = read_back(
        "kueue", "nodes.yaml", f"{files['kueue-topology.yaml']}---\n{files['node-labels.json']}"
    )

    if "accelerator" not in files["kueue-topology.yaml"]:
        assert near(again)[0] == near(fabric)[0]
    labelled = {fabric.nodes.name[row] for row in groups.paths}
    assert labelled <= set(again.hosts)


@given(st.data())
def test_nccl_keeps_gpus_and_nics(any_fabric, data):
    """GPUs with their nearest NIC, NICs with speed, rail and plane come back, host by host."""
    fabric = any_fabric(data)
    try:
        files = export(fabric, "nccl-xml")
    except InputError:
        return
    for name, text in files.items():
        host = name.removesuffix(".xml")
        again = read_back("nccl-xml", name, text)

        node, other = fabric.node_row(host), again.node_row(host)
        assert nics_of(again, other) == nics_of(fabric, node)
        wanted = gpus_of(fabric, node)
        assert {index: nic for index, nic in gpus_of(again, other).items() if wanted[index]} == {
            index: nic for index, nic in wanted.items() if nic
        }
        assert set(gpus_of(again, other)) == set(wanted)


def nics_of(fabric: Fabric, node: int) -> dict[str, tuple[int, ...]]:
    """NIC -> speed in Mbit/s, rail, plane."""
    ports = fabric.ports
    rows = [row for row in range(len(ports.name)) if ports.node[row] == node]
    return {
        ports.name[row]: (
            round(float(ports.speed_gbps[row]) * 1000),
            int(ports.rail[row]),
            int(ports.plane[row]),
        )
        for row in rows
    }


def gpus_of(fabric: Fabric, node: int) -> dict[int, str]:
    """GPU -> its nearest NIC, empty for none."""
    gpus = fabric.gpus
    rows = [row for row in range(len(gpus.host)) if gpus.host[row] == node]
    return {
        int(gpus.index[row]): fabric.ports.name[int(gpus.nic[row])] if gpus.nic[row] >= 0 else ""
        for row in rows
    }


def test_every_export_with_a_reader_is_tested():
    """The formats without one are drawings."""
    assert set(EXPORTS) - set(READERS) == {"dot", "tree", "svg"}
    assert set(READERS.values()) <= set(readers())


def test_an_unknown_format_is_refused(clos):
    """The error lists what there is."""
    with pytest.raises(InputError, match="format 'pdf' is not known; known: fabric-json, slurm-tree"):
        export(clos(), "pdf")

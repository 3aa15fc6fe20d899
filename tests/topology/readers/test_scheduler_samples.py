r"""Recorded files of schedulers, clouds and network tools: counts that were taken without the readers.

How: switches of topology.conf with `grep -ci ^SwitchName`, blocks and rings likewise; hosts by adding up the ranges of
`Nodes=` (`sed 's/.*\[\(.*\)-\(.*\)\]/\2-\1+1/' | bc`), of a model also its single names. In a tree, cables = hosts +
switches - roots. Model: switches = lines `^    - name` below `switches:` plus the root; domains = `grep '/domain:' | sort
-u`. NetQ: cables = `grep -c '"id": ".*:.*-\*-'`, devices by `device_type`. Batfish: 16 `node1`, each cable in both
directions; `grep hostname | sort -u`. containerlab: `grep -c endpoints`, hosts are `kind: linux`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nettune.errors import InputError
from topology.readers import Source, detect, read

if TYPE_CHECKING:
    from pathlib import Path

READ = {
    # file: (format, hosts, switches, cables, accelerators, accelerator domains, highest tier, findings)
    "ec2-instance-topology/ec2-userguide-capacityblock-null-string.json": ("ec2", 2, 4, 5, 0, 0, 3, 1),
    "slurm-topology-conf/slurm-backfill-topology.conf": ("slurm-conf", 32, 0, 0, 0, 8, 0, 0),
    "slurm-topology-conf/slurm-man-block-topology.conf": ("slurm-conf", 128, 0, 0, 0, 4, 0, 0),
    "slurm-topology-conf/slurm-man-ring-topology.conf": ("slurm-conf", 16, 0, 16, 0, 0, 0, 0),
    "slurm-topology-conf/slurm-man-tree-topology.conf": ("slurm-conf", 18, 4, 21, 0, 0, 2, 0),
    "slurm-topology-conf/slurm-testcase1-topology.conf": ("slurm-conf", 10_000, 529, 10_528, 0, 0, 4, 0),
    "slurm-topology-conf/slurm-testcase2-topology.conf": ("slurm-conf", 10_000, 528, 10_527, 0, 0, 4, 0),
    "slurm-topology-conf/slurm-testcase3-topology.conf": ("slurm-conf", 400, 23, 422, 0, 0, 3, 0),
    "slurm-topology-conf/slurm-testcase6-topology.conf": ("slurm-conf", 40, 7, 44, 0, 0, 2, 1),
    "slurm-topology-conf/topograph-expected.slinky-dra-block.conf": ("slurm-conf", 96, 0, 0, 0, 12, 0, 0),
    "slurm-topology-yaml/slurm-man-topology.yaml": ("slurm-yaml", 4, 3, 6, 0, 0, 2, 1),
    "topograph-model/topograph-dual-xclr-irregular.yaml": ("topograph-model", 255, 34, 288, 0, 2, 3, 0),
    "topograph-model/topograph-dual-xclr-regular.yaml": ("topograph-model", 96, 19, 114, 0, 2, 3, 0),
    "topograph-model/topograph-large.yaml": ("topograph-model", 96, 19, 114, 0, 12, 3, 0),
    "topograph-model/topograph-medium.yaml": ("topograph-model", 8, 7, 14, 0, 4, 3, 0),
    "topograph-model/topograph-nvl72.yaml": ("topograph-model", 72, 7, 78, 0, 4, 3, 0),
    "netq/topograph-topologyGraph.json": ("netq", 8, 3, 79, 0, 0, 2, 0),
    "../netq/topograph_topologyGraph.txt": ("netq", 8, 3, 79, 0, 0, 2, 0),
    "netq/topograph-computeNodes.json": ("nmx", 2, 0, 0, 8, 1, 0, 0),
    "batfish-layer1/layer1_topology.json": ("batfish", 0, 6, 8, 0, 0, -1, 0),
    "containerlab/br01-br01.clab.yml": ("containerlab", 0, 4, 3, 0, 0, -1, 0),
    "containerlab/clos01-clos01.clab.yml": ("containerlab", 2, 3, 4, 0, 0, 2, 0),
    "containerlab/clos02-clos02.clab.yml": ("containerlab", 4, 10, 16, 0, 0, 3, 0),
    "containerlab/clos02-setup.clos02.clab.yml": ("containerlab", 4, 10, 16, 0, 0, 3, 0),
    "containerlab/sonic01-sonic01.clab.yml": ("containerlab", 0, 2, 1, 0, 0, -1, 0),
}

REFUSED = {
    "containerlab/templated01-templated01.clab.gotmpl": "12: is a template",
    "k8s-topology/kueue-sample-gpu-queues.yaml": "holds no nodes but ClusterQueue, LocalQueue, ResourceFlavor, Topology",
    "k8s-topology/kueue-sample-job-required.yaml": "holds no nodes but Job",
    "topograph-payload/topograph-example-netq.json": "names no nodes",
    "topograph-payload/topograph-gcp-sim-block.json": "names no nodes",
    "topograph-payload/topograph-test-block.json": "names no nodes",
    "topograph-payload/topograph-test-tree.json": "names no nodes",
    "topograph-payload/topograph-toposim-block.json": "names no nodes",
    # settings of Volcano's discovery, no description of a network
    "k8s-topology/volcano-hypernode-discovery.yaml": "not recognised",
    # no reader yet
    "netloc-scotch/hwloc-netloc-arch.scotch": "not recognised",
    "netloc-scotch/hwloc-netloc-resources.txt": "not recognised",
    "ufm/volcano-ufm-ports.json": "not recognised",
}


@pytest.mark.parametrize("name", READ)
def test_sample_is_read(shared: Path, name: str) -> None:
    """Detected by its content alone, and everything that the file has is there."""
    source = Source.open(shared / "samples/topo" / name)
    said = read(source)
    fabric = said.to_fabric()
    assert READ[name] == (
        detect(source).name,
        len(fabric.hosts),
        len(fabric.switches),
        len(fabric.links.port_a),
        len(fabric.gpus.host),
        len({node.nvl_domain for node in said.nodes.values()} - {""}),
        int(fabric.nodes.tier.max()),
        len(said.findings),
    )


@pytest.mark.parametrize("name", REFUSED)
def test_sample_is_refused(shared: Path, name: str) -> None:
    """What does not describe a network, or is a template, is refused with that reason."""
    with pytest.raises(InputError, match=REFUSED[name]):
        read(Source.open(shared / "samples/topo" / name))


def test_every_sample_is_in_a_table(shared: Path) -> None:
    """No recorded file of these folders is left out."""
    root = shared / "samples/topo"
    folders = {name.split("/")[0] for name in (*READ, *REFUSED)} - {".."}
    files = {
        f"{folder}/{path.name}"
        for folder in folders
        for path in (root / folder).iterdir()
        if path.suffix != ".src"
    }
    assert files == {name for name in (*READ, *REFUSED) if not name.startswith("..")}


def test_names_of_the_netq_sample(shared: Path) -> None:
    """Devices carry their names, not NetQ's ids, and real ports."""
    fabric = read(Source.open(shared / "samples/topo/netq/topograph-topologyGraph.json")).to_fabric()
    assert sorted(fabric.hosts) == [f"dgx-0{index}" for index in range(1, 9)]
    assert sorted(fabric.switches) == ["net-unit-l1", "net-unit-l2", "net-unit-s1"]
    row = fabric.link_of_port[fabric.port_row("dgx-05", "ens4f0np0")]
    assert fabric.link_element(int(row)) == "link/dgx-05:ens4f0np0--net-unit-l2:swp17s0"


def test_ec2_sample_tells_that_it_is_cut(shared: Path) -> None:
    """The documentation's answer has a NextToken, and the text "null" is no accelerator domain."""
    name = "ec2-instance-topology/ec2-userguide-capacityblock-null-string.json"
    said = read(Source.open(shared / "samples/topo" / name))
    assert "NextToken" in said.findings[0].what

"""Kubernetes nodes and the labels that place them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nettune.errors import InputError
from topology.readers import Said, Source, read

AWS = "topology.k8s.aws/network-node-layer-"
GKE = "cloud.google.com/gce-topology-"
OKE = "oci.oraclecloud.com/rdma."
TIER = "fabric.topograph.run/tier-"
OLD = "network.topology.nvidia.com/"


def node(
    name: str, labels: dict[str, str] | None = None, /, *, capacity: dict[str, str] | None = None
) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}}  # fmt: skip


def kube(*items: dict[str, Any], kind: str = "List") -> Said:
    return read(
        Source("nodes.json", json.dumps({"apiVersion": "v1", "kind": kind, "items": items}, indent=1))
    )


def cables(said: Said) -> set[tuple[str, str]]:
    return {(a, b) for (a, _), (b, _) in said.links}


@pytest.mark.parametrize(
    "labels",
    [
        {AWS + "1": "core", AWS + "2": "spine", AWS + "3": "leaf"},
        {TIER + "0": "leaf", TIER + "1": "spine", TIER + "2": "core"},
        {OLD + "core": "core", OLD + "leaf": "leaf", OLD + "spine": "spine"},
        {OKE + "hpc_island_id": "core", OKE + "local_block_id": "leaf", OKE + "network_block_id": "spine"},
    ],
)
def test_families(labels: dict[str, str]) -> None:
    """EKS counts from the top, topograph from the host, others have names; each leads to the same tree."""
    said = kube(node("n", labels))
    assert cables(said) == {("leaf", "n"), ("leaf", "spine"), ("core", "spine")}
    assert [said.nodes[name].tier for name in ("n", "leaf", "spine", "core")] == [0, 1, 2, 3]


def test_more_layers() -> None:
    """Numbers are compared as numbers, and there may be more than ten."""
    said = kube(node("n", {f"{AWS}{layer}": f"s{layer}" for layer in range(1, 12)}))
    assert said.nodes["s11"].tier == 1
    assert said.nodes["s1"].tier == 11


def test_gke() -> None:
    """Sub-block under block; on A4X a sub-block is also the NVLink domain."""
    labels = {GKE + "block": "b", GKE + "subblock": "s", GKE + "host": "h"}
    said = kube(
        node("n1", labels), node("n2", {**labels, "node.kubernetes.io/instance-type": "a4x-highgpu-4g"})
    )
    assert cables(said) == {("n1", "s"), ("n2", "s"), ("b", "s")}
    assert [said.nodes[name].nvl_domain for name in ("n1", "n2")] == ["", "s"]


def test_family_of_most_nodes() -> None:
    """One tree needs one kind of names: that of most nodes, the others have no place."""
    said = kube(node("a", {AWS + "1": "x"}), node("b", {AWS + "1": "x"}), node("c", {TIER + "0": "y"}))
    assert cables(said) == {("a", "x"), ("b", "x")}
    assert said.findings[0].evidence["names"] == ["c"]


def test_kueue_levels() -> None:
    """A Kueue Topology in the same file names the labels, from the top down to the host."""
    levels = [
        {"nodeLabel": key} for key in ("example.com/block", "example.com/rack", "kubernetes.io/hostname")
    ]
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "default"}, "spec": {"levels": levels}}  # fmt: skip
    labels = {
        "example.com/block": "b",
        "example.com/rack": "r",
        "kubernetes.io/hostname": "n",
        AWS + "1": "x",
    }
    assert cables(kube(topology, node("n", labels))) == {("n", "r"), ("b", "r")}


@pytest.mark.parametrize(
    "key",
    ["nvidia.com/gpu.clique", "accelerator.topograph.run/domain", OLD + "accelerator", "topology.k8s.aws/ultraserver-id",
     "oci.oraclecloud.com/host.gpu_memory_fabric_id", "topology.k8s.aws/capacity-block-id"],
)  # fmt: skip
def test_domains(key: str) -> None:
    """Each label of an accelerator domain; empty and none-like values are none."""
    said = kube(node("a", {key: "d.1"}), node("b", {key: ""}), node("c", {key: "none"}))
    assert [said.nodes[name].nvl_domain for name in "abc"] == ["d.1", "", ""]


def test_gpus() -> None:
    """GPUs of the capacity; with time slicing only gpu.count is true."""
    said = kube(
        node("a", capacity={"nvidia.com/gpu": "8"}),
        node(
            "b",
            {"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "10"},
            capacity={"nvidia.com/gpu": "40"},
        ),
        node("c", {"nvidia.com/gpu.replicas": "10"}, capacity={"nvidia.com/gpu": "80"}),
        node("d", capacity={"amd.com/gpu": "8"}),
        node("e"),
    )
    assert [sum(host == name for host, _ in said.gpus) for name in "abcde"] == [8, 4, 0, 8, 0]
    with pytest.raises(InputError, match="at most"):
        kube(node("a", capacity={"nvidia.com/gpu": "4000"}))


def test_control_plane() -> None:
    """Nodes of the control plane without GPUs and without place are left out, with the reason."""
    role = {"node-role.kubernetes.io/control-plane": ""}
    said = kube(node("a", {AWS + "1": "x"}), node("c", role), node("d", {**role, AWS + "1": "x"}))
    assert said.dropped == {"host/c": "a node of the Kubernetes control plane"}
    assert said.to_fabric().hosts == ("a", "d")


def test_shapes() -> None:
    """A List, a NodeList of the API (items without a kind), one node, and YAML of several documents."""
    bare = {"metadata": {"name": "n", "labels": {AWS + "1": "x"}}}
    assert cables(kube(bare, kind="NodeList")) == {("n", "x")}
    assert cables(read(Source("f", json.dumps({"apiVersion": "v1", "kind": "Node", **bare})))) == {("n", "x")}
    document = f"apiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  annotations: {{t: '{{{{ .x }}}}'}}\n  labels:\n    {AWS}1: x\n"
    assert cables(read(Source("f", f"{document % 'n1'}---\n{document % '0012'}"))) == {
        ("n1", "x"),
        ("0012", "x"),
    }


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("apiVersion: batch/v1\nkind: Job\n", 1, "holds no nodes but Job"),
        ('{"apiVersion": "v1", "kind": "List", "items": []}', 1, "holds no nodes but nothing"),
        ('{"apiVersion": "v1", "kind": "Node",\n"metadata": {}}', 1, "no metadata.name"),
        ('{"apiVersion": "v1", "kind": "Node", "metadata":\n[]}', 2, "must be a mapping"),
        ("apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels: x\n", 4, "must be a mapping"),
        ("apiVersion: v1\nkind: {{ .Kind }}\n", 2, "template"),
    ],
)
def test_refused(text: str, line: int, words: str) -> None:
    """Other objects, nodes without a name and templates are errors with the line."""
    with pytest.raises(InputError, match=words) as caught:
        read(Source("f", text))
    assert caught.value.line == line

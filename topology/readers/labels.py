"""Labels that place a Kubernetes node (or an instance of topograph) in a network.

Sources: `docs/reference/node-labels.md` of NVIDIA/topograph; EKS, GKE and OKE document their own.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from topology.readers.hierarchy import known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Family = tuple[tuple[str, ...], str, bool]
"""Keys with the closest first; or a prefix of numbered keys and whether the lowest number is the closest."""

FAMILIES: tuple[Family, ...] = (
    ((), "fabric.topograph.run/tier-", True),
    (tuple(f"network.topology.nvidia.com/{level}" for level in ("leaf", "spine", "core")), "", True),
    ((), "topology.k8s.aws/network-node-layer-", False),
    (tuple(f"cloud.google.com/gce-topology-{level}" for level in ("subblock", "block")), "", True),
    (
        tuple(
            f"oci.oraclecloud.com/rdma.{level}"
            for level in ("local_block_id", "network_block_id", "hpc_island_id")
        ),
        "",
        True,
    ),
    (tuple(f"oci.oraclecloud.com/host.{level}" for level in ("rack_id", "network_block_id")), "", True),
)

_DOMAINS = (
    "nvidia.com/gpu.clique",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/ultraserver-id",
    "oci.oraclecloud.com/host.gpu_memory_fabric_id",
    "topology.k8s.aws/capacity-block-id",
)
_ANY_DOMAIN = re.compile(r"accelerator\.[^/]+/domain")
_GKE_NVL72 = re.compile(r"a4x")


def levels(keys: Sequence[str]) -> Family:
    """The family of keys that a Kueue Topology names, from the root down; the host itself is no level."""
    return tuple(key for key in reversed(keys) if key != "kubernetes.io/hostname"), "", True


def choose(nodes: Iterable[Mapping[str, str]], families: Sequence[Family] = FAMILIES) -> Family | None:
    """The family that most nodes have labels of, the earlier one where equal: one tree needs one kind of names."""
    counts: Counter[int] = Counter()
    for labels in nodes:
        counts.update(index for index, family in enumerate(families) if any(layers(labels, family)))
    best = max(counts, key=lambda index: (counts[index], -index), default=None)
    return None if best is None else families[best]


def layers(labels: Mapping[str, str], family: Family) -> list[str]:
    """A node's layers, the closest first."""
    keys, prefix, lowest_first = family
    if not prefix:
        return [known(labels.get(key)) for key in keys]
    numbered = sorted(
        (int(key[len(prefix) :]), key)
        for key in labels
        if key.startswith(prefix) and re.fullmatch(r"[0-9]{1,4}", key[len(prefix) :])
    )
    return [known(labels[key]) for _, key in (numbered if lowest_first else reversed(numbered))]


def domain(labels: Mapping[str, str]) -> str:
    """A node's accelerator domain (NVLink between hosts); empty when none is told."""
    for key in _DOMAINS:
        if known(labels.get(key)):
            return known(labels[key])
    for key in labels:
        if _ANY_DOMAIN.fullmatch(key):
            return known(labels[key])
    if _GKE_NVL72.match(labels.get("node.kubernetes.io/instance-type", "")):
        return known(labels.get("cloud.google.com/gce-topology-subblock"))
    return ""

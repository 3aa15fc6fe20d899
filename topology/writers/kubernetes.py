"""Kubernetes: an indexed Job on the map's nodes, each pod numbered by the node that it is on, and order for Kueue.

An indexed Job cannot say which index goes to which node. So the pods run torchrun.sh, which finds its node rank by the
node's name. Kueue sorts the domains that it assigns by their level values as strings (tas_flavor_snapshot.go,
buildAssignment) and gives them to indices in that order: a level of zero-padded positions above the host name makes the
completion index the node rank, for programs that go by it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.writers.rankmap import RankMap
from topology.writers.torchrun import host_script

if TYPE_CHECKING:
    from topology.fabric import Fabric
    from topology.placement.mapping import Placement

POSITION_LABEL = "placement.nettune/position"
HOSTNAME_LABEL = "kubernetes.io/hostname"

_MOST_BYTES = 1 << 20  # of a ConfigMap
# A node's name is a DNS subdomain, and also the value of its hostname label.
_NODE = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def files(placement: Placement, fabric: Fabric) -> dict[str, str]:
    """`kubernetes-job.yaml`, and for Kueue `kubernetes-kueue.yaml` and `kubernetes-positions.json`.

    Raises:
        InputError: ranks of one host that do not follow one another, hosts with unequal numbers of ranks, a name that is
            none of a node, a map that fits in no ConfigMap.
    """
    ranks = RankMap.of(placement, fabric)
    ranks.check_names("Kubernetes", _NODE)
    counts = ranks.host_by_host("a Kubernetes Job")
    if len(set(counts.values())) > 1:
        raise InputError(
            f"pods of a Kubernetes Job are alike, and hosts have {min(counts.values())} to {max(counts.values())} ranks"
        )
    launch = host_script(placement, fabric)
    if len(launch.encode()) > _MOST_BYTES - 4096:
        raise InputError(f"{len(counts)} nodes do not fit in a ConfigMap, which holds 1 MiB")
    return {
        "kubernetes-job.yaml": _job(list(counts), ranks.size // len(counts), launch),
        "kubernetes-kueue.yaml": _TOPOLOGY,
        "kubernetes-positions.json": _positions(list(counts)),
    }


def _job(nodes: list[str], per_node: int, launch: str) -> str:
    return f"""\
# Put your image and training script into the container, then: kubectl apply -f kubernetes-job.yaml
# Each pod runs torchrun.sh of the ConfigMap, which numbers it by the node that it is on, whatever its index.
apiVersion: v1
kind: ConfigMap
metadata:
  name: nettune-placement
data:
  torchrun.sh: {json.dumps(launch)}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: nettune-job
  labels:
    kueue.x-k8s.io/queue-name: "default"
spec:
  completionMode: Indexed
  completions: {len(nodes)}
  parallelism: {len(nodes)}
  backoffLimit: 0
  template:
    metadata:
      labels:
        app: nettune-job
      annotations:
        kueue.x-k8s.io/podset-unconstrained-topology: "true"
    spec:
      restartPolicy: Never
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - key: {HOSTNAME_LABEL}
                operator: In
                values: {json.dumps(nodes)}
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: {HOSTNAME_LABEL}
            labelSelector:
              matchLabels:
                app: nettune-job
      containers:
      - name: train
        image: "IMAGE"
        command: ["sh", "/nettune/torchrun.sh", "train.py"]
        env:
        - name: NODE_NAME
          valueFrom:
            fieldRef:
              fieldPath: spec.nodeName
        resources:
          limits:
            nvidia.com/gpu: {per_node}
        volumeMounts:
        - name: placement
          mountPath: /nettune
      volumes:
      - name: placement
        configMap:
          name: nettune-placement
"""


_TOPOLOGY = f"""\
# Only where Kueue admits the job: completion index i then goes to position i of the map. First
#   kubectl apply --server-side -f kubernetes-positions.json
# then this file; then name it in spec.topologyName of the ResourceFlavor.
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata:
  name: "nettune-placement"
spec:
  levels:
  - nodeLabel: "{POSITION_LABEL}"
  - nodeLabel: "{HOSTNAME_LABEL}"
"""


def _positions(nodes: list[str]) -> str:
    width = len(str(len(nodes) - 1))
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": {POSITION_LABEL: f"{place:0{width}}"}},
        }
        for place, node in enumerate(nodes)
    ]
    body = ",\n".join(f"  {json.dumps(item)}" for item in items)
    return f'{{"apiVersion": "v1", "kind": "List", "items": [\n{body}\n]}}\n'

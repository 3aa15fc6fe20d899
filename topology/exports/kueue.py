"""Kueue's `Topology` object and the node labels it is about. Keeps: each host's cluster at every level, and its domain.

Grammar: kueue apis/kueue/v1beta2/topology_types.go (1 to 16 unique levels, from the top down, `kubernetes.io/hostname`
last); Kubernetes: a label's value has at most 63 letters, digits, `-`, `_`, `.`, with a letter or digit at both ends.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nettune.errors import InputError
from topology.exports.names import cleaned, counts, folded, renamed_notes, shown
from topology.leafgroups import leaf_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from topology.fabric import Fabric
    from topology.leafgroups import LeafGroups

TIER_LABEL = "topology.nettune/tier-{}"
"""Key of a node's label: tier 1 is its leaf group, 2 what joins leaf groups, and so on."""

DOMAIN_LABEL = "accelerator.nettune/domain"
HOSTNAME_LABEL = "kubernetes.io/hostname"

_LONGEST_VALUE = 63
_MOST_LEVELS = 16
# A node's name is a DNS subdomain, and also the value of its hostname label.
_NODE = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def export(fabric: Fabric) -> dict[str, str]:
    """`kueue-topology.yaml` (kubectl apply) and `node-labels.json` (kubectl apply --server-side).

    Raises:
        InputError: a host's name that is no name of a Kubernetes node, no host on a switch, more than 16 levels.
    """
    for host in fabric.hosts:
        if not _NODE.fullmatch(host):
            raise InputError(
                f"Kubernetes cannot name node {host!r}: lower-case letters, digits, '-' and '.', at most 63"
            )
    groups = leaf_groups(fabric)
    if not groups.levels:
        raise InputError("no host of the fabric is cabled to a switch: there is no topology to tell Kueue")
    keys, notes = _levels(fabric, groups)
    if len(keys) > _MOST_LEVELS:
        raise InputError(f"the fabric has {len(keys)} levels; Kueue takes {_MOST_LEVELS}")
    labels, renamed = _labels(fabric, groups)
    lines = [f"# {shown(note)}" for note in (f"{counts(fabric)}; written by nettune.", *notes, *renamed)]
    lines += [
        "apiVersion: kueue.x-k8s.io/v1beta2",
        "kind: Topology",
        "metadata:",
        '  name: "nettune"',
        "spec:",
    ]
    lines += ["  levels:", *(f"  - nodeLabel: {json.dumps(key)}" for key in keys)]
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host, "labels": of_host}}
        for host, of_host in labels.items()
    ]
    body = ",\n".join(f"  {json.dumps(node)}" for node in nodes)
    return {
        "kueue-topology.yaml": "\n".join(lines) + "\n",
        "node-labels.json": f'{{"apiVersion": "v1", "kind": "List", "items": [\n{body}\n]}}\n',
    }


def _levels(fabric: Fabric, groups: LeafGroups) -> tuple[list[str], list[str]]:
    """(label keys from the top down, notes)."""
    heights = [height for height, level in enumerate(groups.levels) if len(level) > 1 or height == 0]
    keys = [TIER_LABEL.format(height + 1) for height in reversed(heights)]
    notes = ["apply node-labels.json first: kubectl apply --server-side -f node-labels.json"]
    domain = fabric.nodes.nvl_domain
    if any(domain >= 0):
        place = _place_of_domains(fabric, groups, heights)
        if place is None:
            notes.append(
                f"{DOMAIN_LABEL} is no level: domains and leaf groups cut each other, or hosts have none"
            )
        else:
            keys.insert(len(keys) - place, DOMAIN_LABEL)
    if groups.unattached:
        names = [fabric.nodes.name[row] for row in groups.unattached]
        notes.append(f"no cable to a switch, so without labels: {folded(names)}")
    return [*keys, HOSTNAME_LABEL], notes


def _place_of_domains(fabric: Fabric, groups: LeafGroups, heights: Sequence[int]) -> int | None:
    """How many levels are inside an accelerator domain; None where domains are not nested with the levels."""
    domain = fabric.nodes.nvl_domain.tolist()
    if any(domain[host] < 0 for host in groups.paths):
        return None
    inside = 0
    for height in heights:
        within = all(len({domain[host] for host in cluster.hosts}) == 1 for cluster in groups.levels[height])
        around = len({(domain[host], path[height]) for host, path in groups.paths.items()}) == len(
            {domain[host] for host in groups.paths}
        )
        if not within and not around:
            return None
        inside += within
    return inside


def _labels(fabric: Fabric, groups: LeafGroups) -> tuple[dict[str, dict[str, str]], list[str]]:
    """(labels of each host that has any, notes about names that had to change)."""
    values = cleaned((cluster.name for level in groups.levels for cluster in level), _LONGEST_VALUE)
    found: dict[str, dict[str, str]] = {}
    domain = fabric.nodes.nvl_domain.tolist()
    for row, path in groups.paths.items():
        labels = found[fabric.nodes.name[row]] = {
            TIER_LABEL.format(height + 1): values[groups.levels[height][index].name]
            for height, index in enumerate(path)
        }
        if domain[row] >= 0:
            labels[DOMAIN_LABEL] = f"nvl{domain[row]}"
    for row in groups.unattached:
        if domain[row] >= 0:
            found[fabric.nodes.name[row]] = {DOMAIN_LABEL: f"nvl{domain[row]}"}
    return found, renamed_notes(values)

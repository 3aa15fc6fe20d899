"""Kubernetes nodes with the labels that place them: `kubectl get nodes -o json` (or yaml)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.readers import jsontext, labels, yamltext
from topology.readers.fields import Fields, Path
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_JSON = re.compile(r'"apiVersion"\s*:')
_YAML = re.compile(r"^(?:- )?apiVersion[ \t]*:", re.MULTILINE)
_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def _recognises(source: Source) -> bool:
    return jsontext.looks_like(source, _JSON) or _YAML.search(source.head) is not None


def _read(source: Source) -> Said:
    """Nodes under the switches or blocks that their labels name.

    The labels are those of the Kueue Topology in the same file where there is one, else of the first known family
    (topograph, EKS, GKE, OKE) that most nodes have. Nodes of the control plane are left out.
    """
    is_json = jsontext.looks_like(source, _JSON)
    documents = jsontext.load_all(source) if is_json else yamltext.load_all(source, templates=True)
    fields = Fields(source, () if is_json else documents)
    objects = [
        found for number, document in enumerate(documents) for found in _objects(fields, document, (number,))
    ]
    nodes = [_Node(fields, item, path) for path, item in objects if item.get("kind") == "Node"]
    if not nodes:
        kinds = sorted({str(item["kind"])[:40] for _, item in objects if isinstance(item.get("kind"), str)})
        raise fields.error(
            f"holds no nodes but {', '.join(kinds[:8]) or 'nothing'}; give `kubectl get nodes -o json`", (0,)
        )
    kueue = [_levels(fields, item, path) for path, item in objects if item.get("kind") == "Topology"]
    families = [labels.levels(keys) for keys in kueue] or labels.FAMILIES
    family = labels.choose((node.labels for node in nodes), families)
    tree = Hierarchy(source, READER.name)
    for node in nodes:
        place = [] if family is None else labels.layers(node.labels, family)
        if any(key in node.labels for key in _CONTROL) and not any(place) and not node.gpus:
            tree.leave_out(node.name, "a node of the Kubernetes control plane")
            continue
        tree.chain(node.name, place, node.line, nvl_domain=labels.domain(node.labels))
        tree.gpus(tree.host(node.name), node.gpus, node.line)
    return tree.finish(places=True)


class _Node:
    """What is read of a Node: name, labels, number of GPUs."""

    def __init__(self, fields: Fields, item: dict[str, Any], path: Path) -> None:
        at = (*path, "metadata")
        metadata = fields.mapping(item.get("metadata"), at)
        self.name = known(fields.text(metadata, "name", at))
        if not self.name:
            raise fields.error("a Node has no metadata.name", path, item)
        self.line = getattr(item, "line", None)
        found = fields.mapping(metadata.get("labels"), (*at, "labels"))
        self.labels = {key: value for key, value in found.items() if isinstance(value, str)}
        status = fields.mapping(item.get("status"), (*path, "status"))
        capacity = fields.mapping(status.get("capacity"), (*path, "status", "capacity"))
        self.gpus = self._gpus(capacity)

    def _gpus(self, capacity: dict[str, Any]) -> int:
        """GPUs of the host. With time slicing, the capacity counts replicas; gpu.count never does."""
        count = self.labels.get("nvidia.com/gpu.count", "")
        if not count and self.labels.get("nvidia.com/gpu.replicas", "1") in {"0", "1"}:
            count = str(capacity.get("nvidia.com/gpu") or capacity.get("amd.com/gpu") or "")[:20]
        return int(count) if re.fullmatch(r"[0-9]{1,9}", count) else 0


def _objects(fields: Fields, document: Any, path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The objects of a document: of a List, a NodeList, a bare list, or the one."""
    if isinstance(document, list):
        return fields.entries(document, path)
    item = fields.mapping(document, path)
    kind = item.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List"):
        return [(path, item)]
    found = fields.entries(item.get("items"), (*path, "items"))
    if kind == "NodeList":
        # the API's own list leaves the kind out of its items
        return [(at, {"kind": "Node", **entry}) for at, entry in found]
    return found


def _levels(fields: Fields, item: dict[str, Any], path: Path) -> list[str]:
    at = (*path, "spec")
    entries = fields.entries(fields.mapping(item.get("spec"), at).get("levels"), (*at, "levels"))
    return [fields.text(level, "nodeLabel", where) for where, level in entries]


READER = Reader(
    name="kubernetes",
    what="kubectl get nodes -o json or yaml: labels of topograph, EKS, GKE, OKE or a Kueue Topology",
    recognises=_recognises,
    read=_read,
)

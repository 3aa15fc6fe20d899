"""Oracle Cloud: compute hosts (`oci compute compute-host list`, ListComputeHosts) or hosts' own metadata by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from topology.readers.fields import Fields, Path
from topology.readers.hierarchy import Hierarchy, known
from topology.readers.jsontext import load_all, looks_like
from topology.readers.registry import Reader

if TYPE_CHECKING:
    from topology.readers.said import Said
    from topology.readers.source import Source

_KEYS = re.compile(
    r'"(?:localBlockId|local-block-id|networkBlockId|network-block-id|hpcIslandId|hpc-island-id|rdmaTopologyData|customerLocalBlock)"\s*:'
)
_LAYERS = ("localBlockId", "networkBlockId", "hpcIslandId")
_OWN_LAYERS = ("customerLocalBlock", "customerNetworkBlock", "customerHPCIslandId")


def _recognises(source: Source) -> bool:
    return looks_like(source, _KEYS)


def _read(source: Source) -> Said:
    """Hosts under local block, network block and HPC island; a GPU memory fabric is an NVLink domain.

    The API writes `localBlockId`, the command line `local-block-id`. A compute host that runs no instance is left out:
    nothing can be placed on it. Metadata (`/opc/v2/host/`) does not name its host, so it is read as
    `{HOST NAME: metadata}`.
    """
    fields, tree = Fields(source), Hierarchy(source, READER.name)
    for number, page in enumerate(load_all(source)):
        hosts = _hosts(fields, page, (number,))
        if hosts is None:
            _read_metadata(fields, tree, fields.mapping(page, (number,)), (number,))
            continue
        for path, raw in hosts:
            host = {_camel(key): value for key, value in raw.items()}
            name = known(fields.text(host, "instanceId", path))
            if not name:
                unused = known(fields.text(host, "displayName", path)) or known(fields.text(host, "id", path))
                if not unused:
                    raise fields.error("a compute host has neither instanceId nor id", path)
                tree.leave_out(unused, "no instance runs on this compute host")
                continue
            domain = known(fields.text(host, "gpuMemoryFabricId", path))
            tree.chain(name, [fields.text(host, layer, path) for layer in _LAYERS], nvl_domain=domain)
    return tree.finish(places=True)


def _hosts(fields: Fields, page: Any, path: Path) -> list[tuple[Path, dict[str, Any]]] | None:
    if isinstance(page, list):
        return fields.entries(page, path)
    answer = fields.mapping(page, path)
    if isinstance(answer.get("data"), (dict, list)):
        path, page = (*path, "data"), answer["data"]
        if isinstance(page, list):
            return fields.entries(page, path)
        answer = page
    if "items" in answer:
        return fields.entries(answer["items"], (*path, "items"))
    return None


def _read_metadata(fields: Fields, tree: Hierarchy, hosts: dict[str, Any], path: Path) -> None:
    if "rdmaTopologyData" in hosts or "customerLocalBlock" in hosts or "networkBlockId" in hosts:
        raise fields.error('metadata of one host without its name; write {"HOST": metadata, ...}', path)
    for name, value in hosts.items():
        at = (*path, name)
        host = fields.mapping(value, at)
        data = fields.mapping(host.get("rdmaTopologyData", host), at)
        layers = [fields.text(data, layer, at) for layer in _OWN_LAYERS]
        if not any(map(known, layers)):
            layers = [fields.text(host, "rackId", at), fields.text(host, "networkBlockId", at)]
        domain = known(fields.text(data, "customerGpuMemoryFabric", at))
        if not known(name):
            raise fields.error("a host has no name", at)
        tree.chain(name, layers, nvl_domain=domain)


def _camel(key: str) -> str:
    first, *rest = key.split("-")
    return first + "".join(part.capitalize() for part in rest)


READER = Reader(
    name="oci",
    what="oci compute compute-host list, or host metadata by name",
    recognises=_recognises,
    read=_read,
)

"""Turn what hosts and routers say of themselves into a `Fabric`, a `Routing` and findings about the structure."""

from __future__ import annotations

from topology.discovery.analysis import analyse
from topology.discovery.collect import CollectError, collect
from topology.discovery.l3 import Discovery, build
from topology.discovery.live import discover

__all__ = ["CollectError", "Discovery", "analyse", "build", "collect", "discover"]

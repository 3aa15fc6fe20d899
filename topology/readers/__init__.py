"""Files and outputs of tools that describe a cluster, each understood by one module, all into one `Said`."""

from __future__ import annotations

from topology.readers.registry import Reader, detect, read, readers
from topology.readers.said import Said
from topology.readers.source import Source

__all__ = ["Reader", "Said", "Source", "detect", "read", "readers"]

"""The tables of variables: networks, algorithms and buffers, the rest of NCCL, PyTorch and plugins."""

from __future__ import annotations

from collectives.nccl.tables import algorithms, networks, others, undocumented

TABLES = (networks.VARIABLES, algorithms.VARIABLES, others.VARIABLES, undocumented.VARIABLES)

__all__ = ["TABLES"]

"""NCCL's own tuning model, Volta to Blackwell: what it expects of each algorithm and protocol, and what it chooses.

Everything that `coverage` does not name is UNVERIFIED, and says so in the `verified` and `why` of each result.
"""

from __future__ import annotations

from collectives.cost.nccl_model.choice import Cell, Choice, Price, choose, table
from collectives.cost.nccl_model.communicator import Communicator, Graph

__all__ = ["Cell", "Choice", "Communicator", "Graph", "Price", "choose", "table"]

"""`fabric.json`: everything that a `Fabric` holds, for programs and for nettune itself; lossless."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.fabric import Fabric


def export(fabric: Fabric) -> dict[str, str]:
    """`fabric.json` in the form of `Fabric.to_json`; one line a column, so that a diff of two can be read."""
    tables = []
    for name, table in fabric.to_json().items():
        if isinstance(table, dict):
            columns = ",\n".join(
                f"  {json.dumps(key)}: {json.dumps(column)}" for key, column in table.items()
            )
            tables.append(f" {json.dumps(name)}: {{\n{columns}\n }}")
        else:
            tables.append(f" {json.dumps(name)}: {json.dumps(table)}")
    return {"fabric.json": "{\n" + ",\n".join(tables) + "\n}\n"}

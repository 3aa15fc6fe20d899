"""`nvidia-smi topo -m`: which GPUs have NVLink to which.

The whole matrix is read by `topology.readers`; here a row that is glued, cut or shifted is left out, because one bad
row must not hide the others.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_CELL = re.compile(r"X|NV\d{1,3}|C2C|PIX|PXB|PHB|NODE|SYS|SOC")


def gpu_links(text: str) -> tuple[int, dict[int, dict[int, str]]]:
    """(GPUs in the head, GPU -> other GPU -> kind of link (`NV18`, `SYS`) of the rows that are whole)."""
    gpus: list[int] = []
    found: dict[int, dict[int, str]] = {}
    for line in _ESCAPE.sub("", text[: 1 << 20]).splitlines():
        words = line.split()
        if words[:1] == ["GPU0"] and not any(_CELL.fullmatch(word) for word in words[1:2]):
            gpus = [int(word[3:]) for word in words if re.fullmatch(r"GPU\d{1,3}", word)]
            continue
        if not (gpus and words and re.fullmatch(r"GPU\d{1,3}", words[0])):
            continue
        own, cells = int(words[0][3:]), words[1 : len(gpus) + 1]
        whole = len(cells) == len(gpus) and all(_CELL.fullmatch(cell) for cell in cells)
        if whole and own in gpus and cells[gpus.index(own)] == "X":
            found[own] = {gpu: cell for gpu, cell in zip(gpus, cells, strict=True) if gpu != own}
    return len(gpus), found

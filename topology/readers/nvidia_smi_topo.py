"""`nvidia-smi topo -m`: the matrix of how GPUs and NICs of one host reach each other, with the legend of the NICs.

Columns are separated by tabs; pastes have blanks, escapes of colour around the head (`ESC[4m`), a shell prompt, no
legend. Behind the devices stand `CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID`; rows of NICs have none of them. A cell is
X (self), NV# (bonded NVLinks), PIX, PXB, PHB, NODE, SYS by distance; old drivers wrote PSB and SOC. Rows that are missing
give a finding, a row that is cut within its devices or has a cell that is none is an error that names the cell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from topology.columns import NodeKind
from topology.readers.registry import Reader
from topology.readers.said import Said
from topology.readers.single_host import DeviceLink, default_host, nearest
from topology.readers.textlines import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.readers.source import Source

NAME = "nvidia-smi-topo"

MAX_DEVICES = 600
"""Most columns: a host with 16 GPUs and 72 NICs has 88."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_GPU = re.compile(r"GPU(\d{1,4})")
_HEAD_CELL = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|\S+")
_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV\d{1,3}|C2C")
_P2P = {"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}
_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s+(\S+)\s*$")
_SAME = {"PSB": "PIX", "SOC": "SYS", "X": "PIX"}
"""Words of old drivers by today's: PSB is under one PCIe switch, SOC between sockets."""


def _plain(source: Source) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines, without escapes."""
    for number, line in enumerate(lines_of(source.text), 1):
        yield number, _ESCAPE.sub("", line).rstrip()


def _is_head(words: list[str]) -> bool:
    return bool(words) and _GPU.fullmatch(words[0]) is not None and "X" not in words


def _recognises(source: Source) -> bool:
    head = False
    for line in source.head.split("\n"):
        words = _ESCAPE.sub("", line[:4096]).split()
        if head and words and _GPU.fullmatch(words[0]) and "X" in words:
            return True
        head = _is_head(words)
    return False


def _read(source: Source) -> Said:
    lines = _plain(source)
    head_line, head = next(((number, line) for number, line in lines if _is_head(line.split())), (0, ""))
    if not head_line:
        raise source.error("has no head of a matrix (GPU0 GPU1 ...); give the output of `nvidia-smi topo -m`")
    cells = _HEAD_CELL.findall(head)
    devices = [cell for cell in cells if not cell.endswith((" Affinity", " ID"))]
    extra = [cell for cell in cells if cell.endswith((" Affinity", " ID"))]
    if len(devices) > MAX_DEVICES or len(set(devices)) < len(devices):
        raise source.error("names a device twice or too many in the head of the matrix", head_line)
    rows: dict[str, tuple[int, list[str], list[str]]] = {}
    names: dict[str, str] = {}
    for number, line in lines:
        words = line.split()
        if words and words[0] in devices and len(words) > 1:
            if words[0] in rows:
                raise source.error(f"has a second row of {words[0]}", number)
            rows[words[0]] = (number, *_row(source, number, line, devices, extra))
        elif legend := _LEGEND.match(line):
            names[legend[1]] = legend[2]
    if not rows:
        raise source.error("has a head of a matrix and no rows: cut short?", head_line)
    return _said(source, devices, extra, rows, names)


def _row(
    source: Source, number: int, line: str, devices: list[str], extra: list[str]
) -> tuple[list[str], list[str]]:
    """(cells, what stands behind them) of a row.

    Raises:
        InputError: fewer cells than devices, a cell that is none.
    """
    name, *words = line.split()
    cells = words[: len(devices)]
    for device, cell in zip(devices, cells, strict=False):
        if _CELL.fullmatch(cell):
            continue
        if cell in _P2P:
            raise source.error(
                f"row {name} has {cell!r}: this is `nvidia-smi topo -p2p`; give `nvidia-smi topo -m`", number
            )
        raise source.error(
            f"row {name}, column {device}: {cell[:20]!r} is no kind of link{_glued(cell)}", number
        )
    if len(cells) < len(devices):
        raise source.error(f"row {name} has {len(cells)} of {len(devices)} cells: cut short?", number)
    if cells[devices.index(name)] != "X":
        raise source.error(f"row {name} has {cells[devices.index(name)]!r} where X stands for itself", number)
    behind = words[len(devices) :]
    if "\t" in line and len(behind) != len(extra):
        # an empty cell between tabs keeps its place: affinities that the driver does not know
        parts = [part.strip() for part in line.split("\t")][1 + len(devices) :]
        behind = parts if len(parts) >= len(extra) else behind
    return cells, behind


def _glued(cell: str) -> str:
    """Words for a cell that is several in one: `SYSSYS`."""
    parts = re.findall(r"SYS|NODE|PHB|PXB|PIX|NV\d+|X", cell)
    return f": {len(parts)} cells run together" if len(parts) > 1 and "".join(parts) == cell else ""


def _said(
    source: Source,
    devices: list[str],
    extra: list[str],
    rows: dict[str, tuple[int, list[str], list[str]]],
    names: dict[str, str],
) -> Said:
    said = Said(source.name, NAME)
    host = default_host(source)
    said.node(host, NodeKind.HOST)
    gpus = [device for device in devices if _GPU.fullmatch(device)]
    nics = {device: names.get(device, device) for device in devices if device not in gpus}
    if len(set(nics.values())) < len(nics) or any("--" in nic for nic in nics.values()):
        raise source.error("its legend gives NICs the same name, or one that none can have")
    for nic in nics.values():
        said.port(host, nic)
    distances = {}
    for gpu in gpus:
        if gpu in rows:
            kinds = dict(zip(devices, rows[gpu][1], strict=True))
            distances[int(gpu[3:])] = {
                name: _SAME.get(kinds[nic], kinds[nic])
                for nic, name in nics.items()
                if not kinds[nic].startswith(("NV", "C2C"))
            }
    near = nearest(distances)
    for gpu in gpus:
        index = int(gpu[3:])
        numa = _numa(extra, rows[gpu][2]) if gpu in rows else -1
        said.gpu(host, index, nics=near.get(index, ()), numa=numa)
    _say_links(said, host, devices, rows, nics)
    missing = [device for device in devices if device not in rows]
    cut = [gpu for gpu in gpus if gpu in rows and len(rows[gpu][2]) < len(extra)]
    if missing or cut:
        said.findings.append(_incomplete(host, missing, cut))
    return said


def _numa(extra: list[str], behind: list[str]) -> int:
    """NUMA node of a GPU by its row; -1 where it is N/A, a range, or the row is cut (its last cell may be, too)."""
    if "NUMA Affinity" not in extra or len(behind) < len(extra):
        return -1
    if len(behind) > len(extra):
        behind = [cell for cell in behind if cell] or behind
    position = extra.index("NUMA Affinity")
    cell = behind[position] if position < len(behind) else ""
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 5 else -1


def _say_links(
    said: Said,
    host: str,
    devices: list[str],
    rows: dict[str, tuple[int, list[str], list[str]]],
    nics: dict[str, str],
) -> None:
    """Each pair once, as its first row tells it; where the second row tells otherwise, a finding."""
    place = {device: position for position, device in enumerate(devices)}
    for a in devices:
        for b in devices[place[a] + 1 :]:
            told = [rows[x][1][place[y]] for x, y in ((a, b), (b, a)) if x in rows]
            if not told:
                continue
            kind = told[0]
            count = int(kind[2:]) if kind.startswith("NV") else 0
            said.events.append(DeviceLink(host, nics.get(a, a), nics.get(b, b), kind, count))
            if told[0] != told[-1]:
                said.findings.append(
                    Finding(
                        check=NAME,
                        status=Status.WARN,
                        where=ElementId.host(host),
                        what=f"{a} reaches {b} by {told[0]}, but {b} reaches {a} by {told[-1]}; the first is kept",
                        evidence={"a": a, "b": b, "kept": told[0], "other": told[-1]},
                        fix="take the output of `nvidia-smi topo -m` again",
                    )
                )


def _incomplete(host: str, missing: list[str], cut: list[str]) -> Finding:
    parts = [f"rows of {', '.join(missing[:8])}{' ...' if len(missing) > 8 else ''} are missing"] * bool(
        missing
    )
    parts += [f"the row of {', '.join(cut)} ends before its affinity"] * bool(cut)
    return Finding(
        check=NAME,
        status=Status.UNKNOWN,
        where=ElementId.host(host),
        what=f"the matrix is not whole: {'; '.join(parts)}",
        evidence={"missing": missing, "cut": cut},
        required=False,
        fix="give the whole output of `nvidia-smi topo -m`",
    )


READER = Reader(NAME, "nvidia-smi topo -m: GPUs and NICs of a host", _recognises, _read)

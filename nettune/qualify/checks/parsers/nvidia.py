"""nvidia-smi: -L, -q, nvlink -s and -e."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nettune.qualify.checks.parsers.numbers import whole

ABSENT_WORDS = frozenset({"N/A", "[N/A]", "", "[Not Supported]", "Not Supported", "[Unknown Error]"})


@dataclass(frozen=True)
class Gpu:
    """One GPU of `nvidia-smi -q`.

    Attributes:
        pci: `0000:01:00.0`.
        values: `ECC Errors/Volatile/SRAM Correctable` -> text; the path of headings, by indentation.
    """

    pci: str
    values: dict[str, str] = field(default_factory=dict)

    def value(self, path: str) -> str:
        """Text of an entry; empty for `N/A` and for what is not there."""
        text = self.values.get(path, "")
        return "" if text in ABSENT_WORDS else text

    def number(self, path: str) -> int | None:
        """The whole number at the beginning of an entry (`192 bank(s)`)."""
        words = self.value(path).split()
        return whole(words[0]) if words else None


def listed(text: str) -> list[str]:
    """UUIDs of `nvidia-smi -L`, in order of their index."""
    return re.findall(r"^GPU \d{1,3}: [^\n]{0,120}\(UUID: ([^)\s]{1,80})\)", text, re.MULTILINE)


def names(text: str) -> list[str]:
    """Products of `nvidia-smi -L` or `nvlink -s`, in order of their index."""
    return re.findall(r"^GPU \d{1,3}: ([^\n]{1,120}?) \(UUID: ", text, re.MULTILINE)


def query(text: str) -> tuple[int | None, list[Gpu]]:
    """(attached GPUs as told, GPUs that are described) of `nvidia-smi -q`; (None, []) for another output."""
    attached = re.search(r"^Attached GPUs\s*:\s*(\d{1,4})\s*$", text, re.MULTILINE)
    gpus: list[Gpu] = []
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        if match := re.match(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$", line):
            gpus.append(Gpu(match[1].lower()[-12:]))
            stack = []
            continue
        if not gpus or not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        key, colon, value = (
            line.strip().partition(" : ") if " : " in line else (line.strip().rstrip(":"), "", "")
        )
        path = "/".join([*(name for _, name in stack), key.strip()])
        if colon:
            gpus[-1].values.setdefault(path, value.strip())
        if len(stack) < 20:
            stack.append((indent, key.strip()))
    return (int(attached[1]) if attached else None), gpus


def nvlinks(text: str) -> dict[int, dict[int, float | None]]:
    """GPU -> link -> GB/s of `nvidia-smi nvlink -s`; None for an inactive link."""
    found: dict[int, dict[int, float | None]] = {}
    gpu = -1
    for line in text.splitlines():
        if match := re.match(r"GPU (\d{1,3}):", line):
            gpu = int(match[1])
            found[gpu] = {}
        elif gpu >= 0 and (
            match := re.match(r"\s+Link (\d{1,3}):\s*(?:([\d.]{1,8}) GB/s|(<inactive>))", line)
        ):
            try:
                found[gpu][int(match[1])] = float(match[2]) if match[2] else None
            except ValueError:
                continue
    return found


def nvlink_errors(text: str) -> dict[tuple[int, int, str], int]:
    """(GPU, link, counter) -> value of `nvidia-smi nvlink -e`."""
    found: dict[tuple[int, int, str], int] = {}
    gpu = -1
    for line in text.splitlines():
        if match := re.match(r"GPU (\d{1,3}):", line):
            gpu = int(match[1])
        elif match := re.match(r"\s+Link (\d{1,3}):\s*([^:]{1,60}):\s*(\d{1,20})\s*$", line):
            found[gpu, int(match[1]), match[2].strip()] = int(match[3])
    return found

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


_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")


def query(text: str) -> tuple[int | None, list[Gpu]]:
    """(attached GPUs as told, GPUs that are described) of `nvidia-smi -q`; (None, []) for another output."""
    attached = re.search(r"^Attached GPUs\s*:\s*(\d{1,4})\s*$", text, re.MULTILINE)
    gpus: list[Gpu] = []
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        if match := _GPU.match(line):
            gpus.append(Gpu(match[1].lower()[-12:]))
            stack = []
            continue
        stripped = line.strip()
        if not gpus or not stripped:
            continue
        indent = len(line) - len(line.lstrip())
        while stack and stack[-1][0] >= indent:
            stack.pop()
        key, colon, value = stripped.partition(" : ")
        key = key.rstrip() if colon else stripped.rstrip(":").rstrip()
        path = f"{stack[-1][1]}/{key}" if stack else key
        if colon:
            gpus[-1].values.setdefault(path, value.strip())
        if len(stack) < 20:
            stack.append((indent, path))
    return (int(attached[1]) if attached else None), gpus


_NVLINK_GPU = re.compile(r"GPU (\d{1,3}):")
_NVLINK = re.compile(r"\s+Link (\d{1,3}):\s*(?:([\d.]{1,8}) GB/s|(<inactive>))")
_NVLINK_ERROR = re.compile(r"\s+Link (\d{1,3}):\s*([^:]{1,60}):\s*(\d{1,20})\s*$")


def nvlinks(text: str) -> dict[int, dict[int, float | None]]:
    """GPU -> link -> GB/s of `nvidia-smi nvlink -s`; None for an inactive link."""
    found: dict[int, dict[int, float | None]] = {}
    gpu = -1
    for line in text.splitlines():
        if match := _NVLINK_GPU.match(line):
            gpu = int(match[1])
            found[gpu] = {}
        elif gpu >= 0 and (match := _NVLINK.match(line)):
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
        if match := _NVLINK_GPU.match(line):
            gpu = int(match[1])
        elif match := _NVLINK_ERROR.match(line):
            found[gpu, int(match[1]), match[2].strip()] = int(match[3])
    return found

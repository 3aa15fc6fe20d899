"""Kernel messages: `dmesg --time-format iso`, decoded (`kern  :warn  : TIME text`) and the raw form of /dev/kmsg."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

_LINE = re.compile(
    r"^(?:\w+\s*:\w+\s*: )?(?:(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d+(?:[+-]\d\d:?\d\d)?) "
    r"|\[\s*(?P<since>\d{1,12}\.\d{1,9})\] |(?P<kmsg>\d{1,9},\d{1,20},(?P<us>\d{1,20}),[^;]{0,40};))?(?P<text>.*)$"
)
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9A-Fa-f:.]{7,16})\): (?P<number>\d{1,4})\b")
_SXID = re.compile(r"SXid \(PCI:(?P<pci>[0-9A-Fa-f:.]{7,16})\): (?P<number>\d{1,6})\b")


@dataclass(frozen=True)
class Message:
    """One message; `at` in seconds since 1970 or since the start of the machine, None where not told."""

    text: str
    at: float | None


def messages(text: str) -> Iterator[Message]:
    """Messages in order."""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or not line.strip():
            continue
        yield Message(match["text"], _time(match))


def _time(match: re.Match[str]) -> float | None:
    try:
        if match["iso"]:
            return datetime.fromisoformat(match["iso"].replace(",", ".")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    if match["since"]:
        return float(match["since"])
    return int(match["us"]) / 1e6 if match["us"] else None


@dataclass(frozen=True)
class Xid:
    """One Xid (of a GPU) or SXid (of an NVSwitch) with its PCI address."""

    pci: str
    number: int
    switch: bool = False


def xids(text: str) -> list[Xid]:
    """All of a text, in order."""
    found = [
        (match.start(), Xid(_address(match["pci"]), int(match["number"]))) for match in _XID.finditer(text)
    ]
    found += [
        (match.start(), Xid(_address(match["pci"]), int(match["number"]), switch=True))
        for match in _SXID.finditer(text)
    ]
    return [xid for _, xid in sorted(found, key=lambda pair: pair[0])]


def _address(text: str) -> str:
    """`0000:38:00` and `0000:38:00.0` -> `0000:38:00.0`."""
    return text.lower() if "." in text else f"{text.lower()}.0"


@dataclass(frozen=True)
class LimitedLink:
    """The kernel's remark that a device's PCIe link is below its capability; Gbit/s."""

    pci: str
    available: float
    capable: float
    at: str


_LIMITED = re.compile(
    r"(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?P<have>[\d.]{1,10}) Gb/s available PCIe bandwidth, "
    r"limited by (?P<at>[^\n(]{1,80}?) \(capable of (?P<could>[\d.]{1,10}) Gb/s"
)


def limited_links(text: str) -> list[LimitedLink]:
    """All `available PCIe bandwidth, limited by` lines; the last of each device counts."""
    found = {}
    for match in _LIMITED.finditer(text):
        try:
            found[match["pci"]] = LimitedLink(
                match["pci"], float(match["have"]), float(match["could"]), match["at"]
            )
        except ValueError:
            continue
    return list(found.values())


def link_downs(text: str) -> dict[str, list[float]]:
    """Interface -> times of `Link down` messages; interfaces of messages without a time get none."""
    found: dict[str, list[float]] = {}
    for message in messages(text):
        match = re.search(
            r"(?P<name>[\w.@-]{1,32}): (?:NIC )?(?:Link (?:is )?[Dd]own|Lost carrier)\b", message.text
        )
        if match:
            found.setdefault(match["name"], [])
            if message.at is not None:
                found[match["name"]].append(message.at)
    return found

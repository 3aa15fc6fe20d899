"""ethtool: statistics (-S), pause (-a), the link, module thresholds (-m); bonding in /proc."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nettune.qualify.checks.parsers.numbers import real, whole


def statistics(text: str) -> dict[str, int]:
    """Counters of `ethtool -S`, of `grep . hw_counters/*` and of `name value` lists; what is no number is left out."""
    counters = {}
    for line in text.splitlines():
        name, colon, value = line.rpartition(":")  # queues are named `[0]: rx_ucast_packets`
        if not colon:
            name, _, value = line.strip().partition(" ")
        if (
            name.strip()
            and re.fullmatch(r"[\d,]{1,40}", value.strip())
            and (number := whole(value)) is not None
        ):
            counters[name.strip()[:100]] = number
    return counters


def pause(text: str) -> tuple[bool | None, bool | None]:
    """(receives, sends) link-wide pause frames by `ethtool -a`; None where not told."""
    found = {
        match[1]: match[2] == "on"
        for match in re.finditer(r"^\s*(RX|TX):\s+(on|off)\s*$", text, re.MULTILINE)
    }
    return found.get("RX"), found.get("TX")


def speed_gbps(text: str) -> float:
    """`Speed: 400000Mb/s` of `ethtool IF`; 0 where unknown."""
    match = re.search(r"^\s*Speed:\s*(\d{1,9})Mb/s", text, re.MULTILINE)
    return int(match[1]) / 1000 if match else 0.0


@dataclass(frozen=True)
class Reading:
    """One measured value with the limits that the module itself states.

    Attributes:
        name: `Rx Power Current [dBm]`, lane numbers included.
        low, high: alarm limits; None where not told.
    """

    name: str
    value: float
    low: float | None
    high: float | None


_DBM = re.compile(r"/\s*(-?[\d.]{1,12}|-inf)\s*dBm")


def module_readings(text: str) -> list[Reading]:
    """Temperatures and powers of `ethtool -m` beside the module's alarm thresholds."""
    values: dict[str, str] = {}
    for line in text.splitlines()[:400]:
        key, colon, value = line.partition(":")
        if colon:
            values.setdefault(key.strip(), value.strip())
    readings = []
    limits = (
        (r"Module temperature", "Module temperature", "temperature"),
        (
            r"(?:Receiver signal average optical power|Rcvr signal avg optical power).*",
            "Laser rx power",
            "dBm",
        ),
        (r"(?:Laser output power|Transmit avg optical power).*", "Laser output power", "dBm"),
    )
    for pattern, stem, unit in limits:
        low, high = (
            _reading(values.get(f"{stem} {side} alarm threshold", ""), unit) for side in ("low", "high")
        )
        for key, text_value in values.items():
            number = _reading(text_value, unit)
            if re.fullmatch(pattern, key) and "threshold" not in key and number is not None:
                readings.append(Reading(key, number, low, high))
    return readings


def _reading(text: str, unit: str) -> float | None:
    if unit != "dBm":
        return real(text)
    match = _DBM.search(text)
    if match is None:
        return None
    return -40.0 if match[1] == "-inf" else real(match[1])


@dataclass(frozen=True)
class Bond:
    """One bond: interface -> MII status of each slave."""

    name: str
    status: str
    slaves: dict[str, str]


def bond(name: str, text: str) -> Bond:
    """/proc/net/bonding/NAME."""
    status, current = "", ""
    slaves: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "Slave Interface":
            current = value
            slaves[current] = ""
        elif key == "MII Status":
            if current:
                slaves[current] = slaves[current] or value
            else:
                status = value
    return Bond(name, status, slaves)

"""Sizes, rates and durations as people write them, to numbers with the unit in their name and back.

Message sizes are binary (`4K` = 4096 bytes), as in nccl-tests; link rates are decimal (1 Gbit/s = 1e9 bit/s).
"""

from __future__ import annotations

import math
import re

from nettune.errors import InputError

_NUMBER = r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ/]*)\s*"
_SIZES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_RATES_GBPS = {"bit": 1e-9, "kbit": 1e-6, "mbit": 1e-3, "gbit": 1.0, "tbit": 1e3}
_RATES_GBPS |= {"bps": 1e-9, "kbps": 1e-6, "mbps": 1e-3, "gbps": 1.0, "tbps": 1e3}
_DURATIONS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = re.fullmatch(_NUMBER, text, re.ASCII if "µ" not in text else 0)
    value = float(match[1]) if match else math.inf
    if match is None or not math.isfinite(value):
        raise InputError(f"{text!r} is no {what}; write it like {example}")
    return value, match[2].lower()


def parse_size(text: str) -> int:
    """Bytes of `8`, `4K`, `128M`, `8G` (binary, as in nccl-tests; `4KiB` is accepted too).

    Raises:
        InputError: not a whole, positive number of bytes.
    """
    value, unit = _split(text, "size", "8, 4K, 128M or 8G")
    unit = (
        unit.removesuffix("ib") if unit.endswith("ib") else unit.removesuffix("b") if len(unit) == 2 else unit
    )
    if unit not in _SIZES:
        raise InputError(f"{text!r} has no known unit of size; use K, M or G (binary)")
    size = value * _SIZES[unit]
    if size != int(size) or size <= 0:
        raise InputError(f"{text!r} is not a positive whole number of bytes")
    return int(size)


def parse_rate(text: str) -> float:
    """Gbit/s of `100mbit`, `25 Gbit/s`, `400gbps`.

    Raises:
        InputError: no number, no unit of rate (a bare number is refused), zero.
    """
    value, unit = _split(text, "rate", "100mbit or 25gbit")
    unit = unit.removesuffix("/s")
    if unit not in _RATES_GBPS:
        raise InputError(f"{text!r} has no known unit of rate; use mbit or gbit (bit per second)")
    if value <= 0:
        raise InputError(f"{text!r} is not a positive rate")
    return value * _RATES_GBPS[unit]


def parse_duration(text: str) -> float:
    """Seconds of `250us`, `50ms`, `2s`, `10m`, `1h`.

    Raises:
        InputError: no number, or no unit of time.
    """
    value, unit = _split(text, "duration", "50ms, 2s or 10m")
    if unit not in _DURATIONS_S:
        raise InputError(f"{text!r} has no known unit of time; use us, ms, s, m or h")
    return value * _DURATIONS_S[unit]


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    factor, unit = next(((f, u) for f, u in steps if abs(value) >= f), steps[-1])
    return f"{value / factor:.4g} {unit}"


def format_size(size_bytes: float) -> str:
    """`4 MiB` of 4194304."""
    return _scaled(size_bytes, [(2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")])


def format_rate(rate_gbps: float) -> str:
    """`100 Mbit/s` of 0.1."""
    return _scaled(
        rate_gbps * 1e9, [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")]
    )


def format_duration(seconds: float) -> str:
    """`250 us`, `1.2 ms`, `3.5 s`, `2.1 min`."""
    return _scaled(seconds, [(60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")])

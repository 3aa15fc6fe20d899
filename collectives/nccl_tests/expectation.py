"""What busbw a run is held against, and why: a number of the user's, or the rate of the NICs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from collectives.nccl_tests.result import Run
from nettune.errors import InputError
from nettune.units import format_rate, parse_rate
from nettune.wording import counted

_OF_LINE_RATE = 0.9
"""Part of the line rate that is asked for, as NVIDIA's ngc_multinode_perf does."""
_GIVEN = "given with --expect"
_RING = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"}
"""Operations whose busbw is bound by what one host sends to the next."""


@dataclass(frozen=True)
class Expectation:
    """A least busbw at the largest size.

    Attributes:
        busbw_gbytes_per_s: 1e9 bytes per second; None where it comes from the NICs.
        nics: NICs of a host.
        nic_gbps: rate of each, 1e9 bit per second.
    """

    busbw_gbytes_per_s: float | None = None
    nics: int = 0
    nic_gbps: float = 0.0

    @classmethod
    def parse(cls, words: str) -> Expectation:
        """`440` or `440GB/s` (busbw), `360gbit` (the same as a rate), `8x400gbit` (NICs of a host).

        Raises:
            InputError: neither.
        """
        text = words.strip()
        number = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*(?:GB/s)?", text)
        if number is not None and float(number[1]) > 0:
            return cls(busbw_gbytes_per_s=float(number[1]))
        nics = re.fullmatch(r"(\d{1,3})\s*x\s*(\d.*)", text)
        if nics is not None and int(nics[1]) > 0:
            return cls(nics=int(nics[1]), nic_gbps=parse_rate(nics[2]))
        if number is None and re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?\s*[a-z]?bit(?:/s)?", text, re.IGNORECASE):
            return cls(busbw_gbytes_per_s=parse_rate(text) / 8)
        raise InputError(
            f"--expect {words!r:.60} is no bandwidth; write GB/s like 440, a rate like 360gbit, or the NICs of a host"
            " like 8x400gbit"
        )

    @property
    def rate_gbps(self) -> tuple[float, str]:
        """(least rate of a single flow in 1e9 bit per second, where it comes from), for perftest."""
        if self.busbw_gbytes_per_s is not None:
            return 8 * self.busbw_gbytes_per_s, _GIVEN
        return _OF_LINE_RATE * self.nics * self.nic_gbps, self._of_nics

    def limit(self, run: Run) -> tuple[float | None, str]:
        """(least busbw in 1e9 bytes per second, where it comes from); None and the reason where none can be told."""
        if self.busbw_gbytes_per_s is not None:
            return self.busbw_gbytes_per_s, _GIVEN
        if run.op not in _RING:
            return None, f"line rate bounds rings only, not {run.op or 'an unknown operation'}"
        if len(run.hosts) < 2:
            return None, "the rate of NICs says nothing of one host"
        return _OF_LINE_RATE * self.nics * self.nic_gbps / 8, self._of_nics

    @property
    def _of_nics(self) -> str:
        return f"{_OF_LINE_RATE:g} of {counted(self.nics, 'NIC')} of {format_rate(self.nic_gbps)}"

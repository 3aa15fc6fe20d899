"""`NetworkResult`: what a step or a collective does to the network, predicted or measured, in one form.

Placement, simulators, projection, sweeps and the kernel's own counters all return it, so that predicted against
measured is one difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.errors import InputError
from nettune.schemas import check_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESULT_SCHEMA = "nettune.network-result/1"
METHODS = ("bound", "max-link", "max-min", "fluid", "packet", "measured")


@dataclass(frozen=True)
class PhaseResult:
    """One phase.

    Attributes:
        name: the phase's name.
        time_us: (p5, p50, p95) over port draws or over initialisations.
        link_bytes: (2L,) mean bytes on each directed link.
        counters: pfc_frames, ecn_marks, retransmissions, ... where the method knows them.
    """

    name: str
    time_us: tuple[float, float, float]
    link_bytes: Floats
    counters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.time_us[0] <= self.time_us[1] <= self.time_us[2]:
            raise InputError(f"phase {self.name!r}: time_us must be 0 <= p5 <= p50 <= p95")


@dataclass(frozen=True)
class NetworkResult:
    """All phases of a step, and the step.

    Attributes:
        method: one of `METHODS`.
        phases: results in the order of the traffic.
        time_us: (p5, p50, p95) of the step's communication, phases in their order and overlap.
    """

    method: str
    phases: tuple[PhaseResult, ...]
    time_us: tuple[float, float, float]

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"method {self.method!r} is not one of {', '.join(METHODS)}")
        if len({len(phase.link_bytes) for phase in self.phases}) > 1:
            raise InputError("the phases of a network result have different numbers of links")

    @property
    def link_bytes(self) -> Floats:
        """(2L,) mean bytes of the whole step on each directed link."""
        total: Floats = np.sum([phase.link_bytes for phase in self.phases], axis=0)
        return total

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`; links without bytes are left out."""
        return {
            "schema": RESULT_SCHEMA,
            "method": self.method,
            "time_us": list(self.time_us),
            "directed_links": len(self.phases[0].link_bytes) if self.phases else 0,
            "phases": [
                {
                    "name": phase.name,
                    "time_us": list(phase.time_us),
                    "link_bytes": {
                        str(row): float(phase.link_bytes[row]) for row in np.flatnonzero(phase.link_bytes)
                    },
                    "counters": dict(phase.counters),
                }
                for phase in self.phases
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NetworkResult:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, missing keys, values of a wrong type.
        """
        check_schema(data, RESULT_SCHEMA)
        try:
            phases = []
            for entry in data["phases"]:
                link_bytes = np.zeros(int(data["directed_links"]))
                for row, value in entry["link_bytes"].items():
                    link_bytes[int(row)] = float(value)
                p5, p50, p95 = map(float, entry["time_us"])
                phases.append(
                    PhaseResult(str(entry["name"]), (p5, p50, p95), link_bytes, dict(entry["counters"]))
                )
            p5, p50, p95 = map(float, data["time_us"])
            return cls(str(data["method"]), tuple(phases), (p5, p50, p95))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"not a network result: {type(error).__name__}: {error}") from error

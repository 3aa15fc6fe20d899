"""Every limit that a verdict uses, in one table, each with the reason for its value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """One limit.

    Attributes:
        value: the number.
        unit: what it counts; a share is of the nominal value.
        why: where the value comes from.
    """

    value: float
    unit: str
    why: str


THRESHOLDS: dict[str, Threshold] = {
    "paced-share": Threshold(
        0.92,
        "share of nominal",
        "on the wire; the rest is room for the acknowledgements of the opposite flow",
    ),
    "link-rate-fail": Threshold(
        0.90, "share of nominal", "one TCP flow alone fills a sound link to 0.97 or more, headers counted"
    ),
    "link-rate-warn": Threshold(
        0.94, "share of nominal", "half-way between a sound link and the limit of FAIL"
    ),
    "link-loss-fail": Threshold(
        2e-4,
        "share of packets",
        "lower limit of the 95% interval; at this rate a reno flow of 100 us round trip ends below 10 Gbit/s",
    ),
    "cpu-fail": Threshold(
        1.5, "ratio", "the host gets less than two thirds of a CPU while others get a whole one"
    ),
    "cpu-warn": Threshold(
        1.3, "ratio", "between the spread of sound hosts on a shared machine and the limit of FAIL"
    ),
    "suspect": Threshold(1.5, "log odds", "about 4 to 1 against a sound fabric: worth a second look"),
    "certain": Threshold(4.6, "log odds", "100 to 1 against a sound fabric: a verdict"),
    "contended": Threshold(
        0.90,
        "share of offered",
        "a median flow below it in a round of disjoint flows says that the machine is busy",
    ),
}


def limit(name: str) -> float:
    """Value of a threshold."""
    return THRESHOLDS[name].value

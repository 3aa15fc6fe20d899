"""Growth of counters between two captures: saturation, wrap, reset and reboot are told apart."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from nettune.qualify.checks.parsers import ethernet, rdma
from nettune.qualify.checks.parsers.numbers import whole
from nettune.qualify.checks.roles import DataPort
from nettune.qualify.checks.view import HostView

_NEAR_END = 1 / 16
"""A wide counter that fell wrapped only if it was so close to its end before."""


class State(enum.StrEnum):
    """What became of a counter."""

    SAME = "same"
    GROWN = "grown"
    SATURATED = "saturated"
    RESET = "reset"


@dataclass(frozen=True)
class Growth:
    """State, and by how much it grew."""

    state: State
    by: int = 0


def growth(past: int, now: int, bits: int = 0) -> Growth:
    """Growth of a counter.

    Args:
        past: its earlier value.
        now: its later value.
        bits: width where it stops at its end; 0 for a wide counter, which wraps at 32 or 64 bits. A value beyond the
            end shows that the driver counts wider.
    """
    if bits and now == (1 << bits) - 1 == max(past, now):
        return Growth(State.SATURATED) if past == now else Growth(State.GROWN, now - past)
    if now > past:
        return Growth(State.GROWN, now - past)
    if now == past:
        return Growth(State.SAME)
    if not bits:
        for width in (32, 64):
            end = 1 << width
            if end * (1 - _NEAR_END) <= past < end and now < end * _NEAR_END:
                return Growth(State.GROWN, now + end - past)
    return Growth(State.RESET)


def seconds_between(earlier: HostView, later: HostView) -> float | None:
    """Seconds between two captures; negative when the machine started anew in between, None where not told."""
    if earlier.uptime is not None and later.uptime is not None:
        return later.uptime - earlier.uptime
    if earlier.seconds is not None and later.seconds is not None and later.seconds >= earlier.seconds:
        return later.seconds - earlier.seconds
    return None


def hardware_counters(view: HostView, ports: Sequence[DataPort]) -> dict[str, dict[str, int]]:
    """Port -> counter -> value of the data ports: /sys, `rdma statistic`, and `ethtool -S` of the interface.

    A host without RDMA devices gives the counters of its physical interfaces.
    """
    found: dict[str, dict[str, int]] = {}
    statistic = rdma.rdma_statistic(view.text("rdma -j statistic") or "")
    for one in ports:
        values = dict(statistic.get((one.device.name, one.port.number), {}))
        folders = tuple(f"ports/{one.port.number}/{folder}/" for folder in ("counters", "hw_counters"))
        for path, text in view.rdma_files.get(one.device.name, {}).items():
            if path.startswith(folders) and (number := whole(text)) is not None:
                values[path.rpartition("/")[2]] = number
        if one.port.netdev:
            values |= ethernet.statistics(view.text(f"ethtool -S {one.port.netdev}") or "")
        found[one.name] = values
    if not ports:
        start = "ethtool -S "
        for command in view.capture.commands:
            if command.startswith(start) and (printed := view.text(command)):
                found[command[len(start) :]] = ethernet.statistics(printed)
    return found

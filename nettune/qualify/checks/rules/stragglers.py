"""Signs of a straggler (32): hosts that will compute slower than their peers, by what they say before any step.

Step times and GEMM rates are measured, no capture has them; `nettune qualify` probes hosts for that. What a capture has
are the causes: a capped clock or power limit, a GPU, CPU or memory that is already busy, less memory than the others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Rule, Verdicts
from nettune.qualify.checks.parsers.numbers import real, whole
from nettune.qualify.checks.parsers.nvidia import Gpu
from nettune.qualify.checks.view import HostView

QUERY, LOAD, MEMORY, CPUS = "nvidia-smi -q", "/proc/loadavg", "/proc/meminfo", "nproc"
_CLOCKS = ("Max Clocks/SM", "Max Customer Boost Clocks/Graphics", "Applications Clocks/Graphics")
_POWER = (
    "GPU Power Readings/Current Power Limit",
    "Power Readings/Enforced Power Limit",
    "Power Readings/Power Limit",
)
_MAD_TO_SIGMA = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""


def _signs(fleet: Fleet, say: Verdicts) -> None:
    for view in fleet.hosts:
        _capped(fleet, say, view)
    _busy(fleet, say)
    for view in fleet.hosts:
        told = [
            name
            for name, value in (("GPUs", view.smi[1]), ("CPUs", _load(view)), ("memory", _memory(view)))
            if value
        ]
        if told and not say.has_spoken(view.host):
            say.ok(view.where, f"no sign of a straggler in {', '.join(told)}")


def _products(fleet: Fleet) -> dict[str, list[tuple[HostView, int, Gpu]]]:
    found: dict[str, list[tuple[HostView, int, Gpu]]] = defaultdict(list)
    for view in fleet.hosts:
        for index, gpu in enumerate(view.smi[1]):
            found[gpu.value("Product Name")].append((view, index, gpu))
    return found


def expected(fleet: Fleet, kind: str) -> dict[str, tuple[float, int, int]]:
    """Product -> (what most of its GPUs may use, how many of how many may), of a kind: `clock` or `power`."""

    def most() -> dict[str, tuple[float, int, int]]:
        found = {}
        for product, gpus in _products(fleet).items():
            votes = {
                f"{view.host} gpu{index}": value for view, index, gpu in gpus if (value := _limit(gpu, kind))
            }
            winner = fleet.majority(votes)
            if winner is not None:
                found[product] = winner[0], winner[1], len(votes)
        return found

    return fleet.once(("straggler", kind), most)


def _limit(gpu: Gpu, kind: str) -> float:
    """The lowest cap in MHz, or the power limit in W; 0 where not told."""
    if kind == "clock":
        told = [value for key in _CLOCKS if (value := real(gpu.value(key)))]
        return min(told, default=0.0)
    return next((value for key in _POWER if (value := real(gpu.value(key)))), 0.0)


def _capped(fleet: Fleet, say: Verdicts, view: HostView) -> None:
    for index, gpu in enumerate(view.smi[1]):
        where = ElementId.gpu(view.host, index)
        product = gpu.value("Product Name")
        for kind, unit, limits in (
            ("clock", "MHz", ("slow-fail", "slow-warn")),
            ("power", "W", ("", "slow-warn")),
        ):
            have = _limit(gpu, kind)
            if not have or product not in expected(fleet, kind):
                continue
            wanted, votes, of = expected(fleet, kind)[product]
            share = have / wanted
            hard = bool(limits[0]) and share < 1 - fleet.limit(limits[0])
            if hard or share < 1 - fleet.limit(limits[1]):
                speak = say.fail if hard else say.warn
                speak(
                    where,
                    f"its {kind} is capped at {have:g} {unit} where {wanted:g} are usual",
                    basis=f"{votes} of {of} GPUs of this product may use {wanted:g} {unit}",
                    fix="nvidia-smi -rgc and -rac"
                    if kind == "clock"
                    else "nvidia-smi -pl, or see the host's power supplies",
                    limits=[limits[0] if hard else limits[1]],
                    share=round(share, 4),
                )


def _busy(fleet: Fleet, say: Verdicts) -> None:
    views = {view.host: view for view in fleet.hosts}
    loads = {host: load for host, view in views.items() if (load := _load(view)) is not None}
    for host, load in _far_above(fleet, loads, "busy-cpu"):
        say.warn(
            views[host].where,
            f"its CPUs are busy before the job: {load:.0%} of them, elsewhere {median(loads.values()):.0%}",
            basis=f"{LOAD} over {CPUS}; median and median absolute deviation of {len(loads)} hosts",
            fix="see what runs there: a job that was left behind, a scan, a backup",
            limits=["outlier", "busy-cpu"],
        )
    uses = {
        f"{view.host} {index}": value / 100
        for view in fleet.hosts
        for index, gpu in enumerate(view.smi[1])
        if (value := gpu.number("Utilization/Gpu")) is not None
    }
    for name, share in _far_above(fleet, uses, "busy-gpu"):
        host, _, index = name.partition(" ")
        say.warn(
            ElementId.gpu(host, int(index)),
            f"is busy before the job: {share:.0%}",
            basis=f"nvidia-smi -q; median and median absolute deviation of {len(uses)} GPUs",
            fix="see `nvidia-smi` for the process that was left behind",
            limits=["outlier", "busy-gpu"],
        )
    sizes = {host: size for host, view in views.items() if (size := _memory(view))}
    usual = median(sizes.values()) if len(sizes) >= fleet.limit("majority-voters") else 0
    for host, size in sizes.items():
        if size < usual * (1 - fleet.limit("less-memory")):
            say.warn(
                views[host].where,
                f"has {size >> 20} GiB of memory where {int(usual) >> 20} are usual",
                basis=f"MemTotal; median of {len(sizes)} hosts",
                fix="see the firmware's log for a memory module that was switched off",
                limits=["less-memory"],
            )


def _far_above(fleet: Fleet, values: Mapping[str, float], least: str) -> list[tuple[str, float]]:
    """Those above the limit `least` and, by the median absolute deviation, far from the others."""
    if len(values) < fleet.limit("majority-voters"):
        return []
    middle = median(values.values())
    spread = median(abs(value - middle) for value in values.values())
    far = fleet.limit("outlier") * spread / _MAD_TO_SIGMA
    return [
        (name, value) for name, value in values.items() if value > fleet.limit(least) and value - middle > far
    ]


def _load(view: HostView) -> float | None:
    """Share of the CPUs that was busy in the last minute."""
    words, cpus = (view.text(LOAD) or "").split(), whole(view.text(CPUS) or "")
    load = real(words[0]) if words else None
    return None if load is None or not cpus or cpus < 0 or load < 0 else load / cpus


def _memory(view: HostView) -> int | None:
    """KiB."""
    match = re.search(r"^MemTotal:\s+(\d{1,15}) kB", view.text(MEMORY) or "", re.MULTILINE)
    return int(match[1]) if match else None


RULES = (
    Rule(
        "straggler-signs",
        (32, 31),
        (QUERY, LOAD, CPUS, MEMORY),
        "every step of the job waits for its slowest rank",
        _signs,
    ),
)

"""Hosts whose processor is slow: against the fleet's median, then once more against a sound host tested in turn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.thresholds import limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nettune.launch.caller import Caller

_FIRST_S, _SECOND_S = 0.08, 0.15
_MOST_WALL = 8.0
"""A test may take this many times its processor time, then it is cut short: 12% of a CPU is slow enough to know."""
_REPEATS = 5
_CLEARLY = 1.5
"""Two turns are enough for a host that is so far beyond the limit; others get more before they are accused."""
_MOST_SUSPECTS = 4
_GRACE_S = 2.0
"""Second tests may begin so much later than first ones: without them nobody is accused."""
_LEAST_HOSTS = 3


@dataclass(frozen=True)
class CpuResult:
    """One host's test.

    Attributes:
        host: its name.
        speed: checksummed blocks of 64 KiB a second of wall time, the best of its tests.
        share: processor time over wall time in that test.
        slowness: speed of the fleet's median (second pass: of the control host's worst) over its own; at least what
            the limit of its control group alone explains.
        retested: whether a second pass decided.
        throttled_share: part of the time for which its control group stopped it; None unknown.
    """

    host: str
    speed: float
    share: float
    slowness: float
    retested: bool
    throttled_share: float | None


def measure_cpus(
    agents: Caller, rank_of_host: Mapping[str, int], deadline: float, *, at_once: int
) -> list[CpuResult]:
    """Test all hosts, `at_once` at the same time (1 on a machine that emulates them), and suspects again.

    Args:
        agents: the hosts' agents.
        rank_of_host: agent of each host.
        deadline: of the monotonic clock; no new test starts after it.
        at_once: hosts that compute at the same time.
    """
    hosts = list(rank_of_host)
    first: dict[str, Mapping[str, Any]] = {}
    for start in range(0, len(hosts), at_once):
        if time.monotonic() > deadline:
            break
        group = hosts[start : start + at_once]
        first |= dict(
            zip(group, _burn(agents, [rank_of_host[host] for host in group], _FIRST_S), strict=True)
        )
    if not first:
        return []
    median = float(np.median([_speed(answer) for answer in first.values()]))
    results = {
        host: CpuResult(host, _speed(a), _share(a), _slowness(median, a), False, _throttled_share([a]))
        for host, a in first.items()
    }
    suspects = sorted(
        (r for r in results.values() if r.slowness > limit("cpu-warn")), key=lambda r: -r.slowness
    )
    sound = [r.host for r in sorted(results.values(), key=lambda r: r.slowness) if r not in suspects]
    for suspect in suspects[:_MOST_SUSPECTS]:
        if sound and time.monotonic() < deadline + _GRACE_S:
            results[suspect.host] = _again(agents, rank_of_host, suspect.host, sound[0])
    return list(results.values())


def _again(agents: Caller, rank_of_host: Mapping[str, int], host: str, control: str) -> CpuResult:
    """Host and control in turn; the host's best against the control's worst, so that a busy machine accuses nobody."""
    own, other = [], []
    slowness = 0.0
    for turn in range(_REPEATS):
        own += _burn(agents, [rank_of_host[host]], _SECOND_S)
        other += _burn(agents, [rank_of_host[control]], _SECOND_S)
        slowness = max(min(map(_speed, other)) / max(map(_speed, own)), _limited(own))
        if slowness <= limit("cpu-warn") or (turn and slowness > _CLEARLY * limit("cpu-fail")):
            break
    best = max(own, key=_speed)
    return CpuResult(
        host, _speed(best), _share(best), slowness, retested=True, throttled_share=_throttled_share(own)
    )


def _burn(agents: Caller, ranks: Sequence[int], cpu_s: float) -> list[Any]:
    kwargs = {"cpu_s": cpu_s, "most_s": cpu_s * _MOST_WALL}
    return agents.call("nettune.qualify.cpu:burn", kwargs, ranks=ranks, timeout_s=cpu_s * _MOST_WALL + 20.0)


def _slowness(reference: float, answer: Mapping[str, Any]) -> float:
    return max(reference / _speed(answer), _limited([answer]))


def _limited(answers: Sequence[Mapping[str, Any]]) -> float:
    """Slowness that the control group's own limit explains: it shows whatever else the machine does."""
    stopped = sum(float(answer["throttled_s"] or 0.0) for answer in answers)
    return 1 + stopped / max(sum(float(answer["cpu_s"]) for answer in answers), 1e-9)


def _throttled_share(answers: Sequence[Mapping[str, Any]]) -> float | None:
    """Part of the time for which the control group's limit stopped the host; None where that is not known."""
    stopped = [answer["throttled_s"] for answer in answers]
    if None in stopped:
        return None
    return float(sum(stopped)) / max(sum(float(answer["wall_s"]) for answer in answers), 1e-9)


def _speed(answer: Mapping[str, Any]) -> float:
    return float(answer["blocks"]) / max(float(answer["wall_s"]), 1e-9)


def _share(answer: Mapping[str, Any]) -> float:
    return float(answer["cpu_s"]) / max(float(answer["wall_s"]), 1e-9)


def cpu_findings(results: Sequence[CpuResult], hosts: Sequence[str]) -> list[Finding]:
    """A finding for each slow host; one PASS for the others; UNKNOWN for hosts that were not tested."""
    check = "host-cpu"
    findings = []
    missing = [host for host in hosts if host not in {result.host for result in results}]
    if missing or len(results) < _LEAST_HOSTS:
        what = (
            f"{len(missing)} hosts were not tested"
            if missing
            else f"{len(results)} hosts give no median to compare with"
        )
        where = ElementId.host(missing[0]) if len(missing) == 1 else ElementId.fabric()
        findings.append(
            Finding(
                check=check,
                status=Status.UNKNOWN,
                where=where,
                what=what,
                evidence={"hosts": missing},
                required=bool(missing),
                fix="allow more time",
            )
        )
        if not missing:
            return findings
    # A first look on a busy machine is worth a word only where it goes beyond the limit of FAIL.
    slow = [r for r in results if r.slowness > limit("cpu-warn" if r.retested else "cpu-fail")]
    for result in slow:
        failed = result.retested and result.slowness >= limit("cpu-fail")
        findings.append(
            Finding(
                check=check,
                status=Status.FAIL if failed else Status.WARN,
                where=ElementId.host(result.host),
                what=f"computes {result.slowness:.1f} times slower than {'a sound host tested in turn' if result.retested else 'the median host'}:"
                f" gets {result.share:.0%} of a CPU",
                evidence={
                    "slowness": result.slowness,
                    "cpu_share": result.share,
                    "throttled_share": result.throttled_share,
                },
                # Odds grow with the distance to the limit; a re-test in turn leaves little room for chance.
                probability=min(0.999, 1 - 0.5 * (limit("cpu-fail") / result.slowness) ** 8)
                if failed
                else 0.5,
                fix="look for a CPU limit, another load or a throttled clock on this host",
            )
        )
    if len(slow) < len(results):
        worst = max(result.slowness for result in results if result not in slow)
        findings.append(
            Finding(
                check=check,
                status=Status.PASS,
                where=ElementId.fabric(),
                what=f"{len(results) - len(slow)} hosts compute alike: the slowest takes {worst:.2f} times the median's time",
                evidence={"limit": limit("cpu-warn")},
            )
        )
    return findings

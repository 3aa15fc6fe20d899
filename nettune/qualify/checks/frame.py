"""The frame of all checks on captures: `Rule`, the `Fleet` that it reads, and `Verdicts` that it speaks through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.qualify.checks.roles import DataPort, data_ports
from nettune.qualify.checks.settings import Settings
from nettune.qualify.checks.view import HostView
from topology.capture import HostCapture

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")

NO_EARLIER = "no earlier capture"


@dataclass(frozen=True)
class Context:
    """What stands beside the captures.

    Attributes:
        settings: profile, limits, expected counts.
        before: earlier captures of the same hosts, host -> capture: counters are judged by their growth since.
        baseline: captures of the same hosts from when they were sound.
        job_env: NCCL_* variables of the job; None where they are not known.
        switches: switch -> its SONiC config_db.
    """

    settings: Settings = field(default_factory=Settings)
    before: Mapping[str, HostCapture] = field(default_factory=dict)
    baseline: Mapping[str, HostCapture] = field(default_factory=dict)
    job_env: Mapping[str, str] | None = None
    switches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Fleet:
    """The hosts that are judged together."""

    hosts: Sequence[HostView]
    context: Context
    _made: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, captures: Sequence[HostCapture], context: Context) -> Fleet:
        """Views of captures."""
        return cls([HostView(capture) for capture in captures], context)

    @cached_property
    def before(self) -> dict[str, HostView]:
        """The same hosts earlier."""
        return {host: HostView(capture) for host, capture in self.context.before.items()}

    @cached_property
    def baseline(self) -> dict[str, HostView]:
        """The same hosts when they were sound."""
        return {host: HostView(capture) for host, capture in self.context.baseline.items()}

    @cached_property
    def data_ports(self) -> dict[str, list[DataPort]]:
        """Host -> the ports that carry the job's traffic, as `roles` derives them."""
        named = self.context.settings.data_nics
        return {view.host: data_ports(view, named) for view in self.hosts}

    def once(self, key: tuple[str, ...], make: Callable[[], R]) -> R:
        """What `make` returns, made once for all rules that ask with this key."""
        if key not in self._made:
            self._made[key] = make()
        made: R = self._made[key]
        return made

    def limit(self, name: str) -> float:
        """Value of a limit."""
        return self.context.settings.limit(name).value

    def majority(self, votes: Mapping[str, T]) -> tuple[T, int] | None:
        """(the value of most voters, how many have it); None without enough voters or at a tie.

        One that was seen on three of four is expected of the fourth. Ports of one host are no independent voters: with
        several hosts, the value of most ports must also be on most hosts.

        Args:
            votes: `HOST` or `HOST PORT` -> value.
        """
        if len(votes) < self.limit("majority-voters"):
            return None
        value, count = Counter(votes.values()).most_common(1)[0]
        hosts = {voter.partition(" ")[0] for voter in votes}
        having = {voter.partition(" ")[0] for voter, vote in votes.items() if vote == value}
        share = self.limit("majority-share")
        enough = count > share * len(votes) and len(having) > share * len(hosts)
        return (value, count) if enough else None


@dataclass
class Verdicts:
    """Where a rule says what it found; every WARN and FAIL names the basis of what was expected."""

    rule: Rule
    settings: Settings
    findings: list[Finding] = field(default_factory=list)
    _nodes: set[str | None] = field(default_factory=set)

    def _say(
        self,
        status: Status,
        where: ElementId,
        what: str,
        fix: str,
        limits: Iterable[str],
        evidence: dict[str, Any],
    ) -> None:
        numbers = [
            {
                "name": name,
                "value": (limit := self.settings.limit(name)).value,
                "unit": limit.unit,
                "why": limit.why,
            }
            for name in limits
        ]
        if numbers:
            evidence["limits"] = numbers
        if status in {Status.WARN, Status.FAIL}:
            evidence["effect"] = self.rule.effect
        if status is Status.FAIL and self.settings.modes.get(self.rule.name) == "warn":
            status = Status.WARN
        self._nodes.add(where.node)
        self.findings.append(
            Finding(
                check=self.rule.name,
                status=status,
                where=where,
                what=what,
                evidence=evidence,
                required=self.settings.required(self.rule.name, core=self.rule.core),
                fix=fix,
            )
        )

    def ok(self, where: ElementId, what: str, *, limits: Iterable[str] = (), **evidence: Any) -> None:
        """The rule was applied and held."""
        self._say(Status.PASS, where, what, "", limits, evidence)

    def warn(
        self,
        where: ElementId,
        what: str,
        *,
        basis: str,
        fix: str,
        limits: Iterable[str] = (),
        **evidence: Any,
    ) -> None:
        """Something to look at."""
        self._say(Status.WARN, where, what, fix, limits, {"basis": basis, **evidence})

    def fail(
        self,
        where: ElementId,
        what: str,
        *,
        basis: str,
        fix: str,
        limits: Iterable[str] = (),
        **evidence: Any,
    ) -> None:
        """A fault."""
        self._say(Status.FAIL, where, what, fix, limits, {"basis": basis, **evidence})

    def unknown(self, where: ElementId, what: str, *, fix: str, **evidence: Any) -> None:
        """It could not be judged."""
        self._say(Status.UNKNOWN, where, what, fix, (), evidence)

    def no_earlier(self, view: HostView) -> None:
        """UNKNOWN because growth needs two captures; `judge` says it once for all rules."""
        fix = "collect twice, some minutes apart, and give the first bundle with --before"
        self.unknown(view.where, NO_EARLIER, fix=fix)

    def missing(self, view: HostView, *sources: str) -> None:
        """UNKNOWN because sources could not be read."""
        reasons = [view.why(source) for source in sources]
        self.unknown(
            view.where, "; ".join(reasons), fix="install the tool, or collect as root", sources=reasons
        )

    def has_spoken(self, host: str) -> bool:
        """Whether something was said of a host or a part of it."""
        return host in self._nodes


@dataclass(frozen=True)
class Rule:
    """One check (`nettune.checks.Check` with a context).

    Attributes:
        name: of its findings.
        rows: the faults of the catalogue that it covers.
        reads: sources in a capture.
        effect: what the fault does to a job.
        judge: looks at the fleet and speaks; raises nothing, whatever the captures hold.
        core: an UNKNOWN keeps the verdict from being a pass, in the profile `training`.
    """

    name: str
    rows: tuple[int, ...]
    reads: tuple[str, ...]
    effect: str
    judge: Callable[[Fleet, Verdicts], None]
    core: bool = False

    def run(self, captures: Sequence[HostCapture], context: Context) -> list[Finding]:
        """Findings about captures."""
        return self.over(Fleet.of(captures, context))

    def over(self, fleet: Fleet) -> list[Finding]:
        """Findings about a fleet, whose parsed captures several rules share."""
        verdicts = Verdicts(self, fleet.context.settings)
        self.judge(fleet, verdicts)
        return _folded(verdicts.findings)


def _folded(findings: list[Finding]) -> list[Finding]:
    """One UNKNOWN for all ports of a host that are unknown for the same reason."""
    kept: dict[tuple[Any, ...], list[Finding]] = {}
    for place, finding in enumerate(findings):
        key = (finding.where.node, finding.what) if finding.status is Status.UNKNOWN else (place,)
        kept.setdefault(key, []).append(finding)
    return [
        same[0]
        if len(same) == 1 or same[0].where.node is None
        else replace(
            same[0],
            where=_whole(same[0].where),
            evidence={**same[0].evidence, "elements": sorted({str(one.where) for one in same})},
        )
        for same in kept.values()
    ]


def _whole(where: ElementId) -> ElementId:
    """The host or switch that an element belongs to."""
    node = where.node or ""
    return ElementId.switch(node) if where.kind in {"switch", "port"} else ElementId.host(node)

"""The two passes: all planned rounds, then suspects and odd transfers once more, until they are told apart or cleared."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nettune.elements import ElementId
from nettune.qualify.coverage import rates
from nettune.qualify.flows import FlowState
from nettune.qualify.infer import Suspect, confirmation, infer
from nettune.qualify.kinds import Kind
from nettune.qualify.likelihood import busy_rounds
from nettune.qualify.observe import Odd, observations, odd_ones, oddities, shown_gbps
from nettune.qualify.retest import RETEST_S, Retest, plan_retest, rounds_of
from nettune.qualify.thresholds import limit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from nettune.qualify.candidates import Candidate
    from nettune.qualify.flows import FlowResult, Key, ProbeFlow
    from nettune.qualify.plan import ProbePlan, Round
    from topology.fabric import Fabric

_FLOW_S, _LEAST_FLOW_S = 0.25, 0.1
_SECOND_PACE = 0.97
_ROUND_OVERHEAD_S = 0.03
_FIRST_PASS_SHARE, _FIRST_PASS_END = 0.4, 0.7
_BUSY_ROUNDS = 4
_LOOKS = 8
_RETESTS = 2
_ODD_TESTS = 2
"""Tests alone that an odd transfer gets before it counts as repeated for certain; one that is sound clears it."""
_ODD_AT_ONCE = 6
_ATTEMPTS = 3
_CONFIRMED = 2.0
_CONTROL_RATIO = 0.96
_LIKELY_RIVAL = 0.1
_FALLBACKS = 4
_FILLINGS, _MOST_SETS = 2, 8


class Rounds(Protocol):
    """What runs rounds of transfers: `nettune.qualify.session.Session`."""

    fabric: Fabric
    results: list[FlowResult]

    def run(
        self, flows: Sequence[ProbeFlow], duration_s: float, *, stage: int = 1, pace: float
    ) -> list[FlowResult]:
        """One round."""
        ...


@dataclass(frozen=True)
class Weighed:
    """A suspect with what the re-test said.

    Attributes:
        suspect: the suspect.
        confirmation: log likelihood ratio of the fault over the re-test's flows; None without any.
        repeated: whether a way over it was as bad in every test alone, of which there were two.
        refuted: whether it is said to be slow, and each of its links was seen to carry its rate.
    """

    suspect: Suspect
    confirmation: float | None
    repeated: bool = False
    refuted: bool = False

    @property
    def confirmed(self) -> bool:
        """Whether the re-test bears it out."""
        return self.confirmation is not None and self.confirmation > _CONFIRMED


@dataclass(frozen=True)
class Looked:
    """What the second pass leaves: suspects, ways that were odd again and again, and odd ones that got no second test."""

    weighed: tuple[Weighed, ...]
    repeats: tuple[Odd, ...]
    untested: tuple[Odd, ...]


def first_pass(
    session: Rounds, plan: ProbePlan, budget_s: float, begun: float, say: Callable[[str], None]
) -> None:
    """All rounds; then those once more in which even the best flow was slow, because the machine was busy."""
    left = budget_s * _FIRST_PASS_SHARE
    flow_s = max(_LEAST_FLOW_S, min(_FLOW_S, left / max(len(plan.rounds), 1) - _ROUND_OVERHEAD_S))
    say(f"qualify: {plan.flows} transfers in {len(plan.rounds)} rounds of {flow_s:.2f} s")
    deadline = begun + budget_s * _FIRST_PASS_END
    busy = []
    for flows in plan.rounds:
        if time.monotonic() > deadline:
            return
        results = session.run(flows, flow_s, pace=limit("paced-share"))
        best = max((r.ratio for r in observations(results) if r.ratio == r.ratio), default=1.0)
        if busy_rounds(results) or (len(flows) > 1 and best < limit("contended")):
            busy.append(flows)
    for flows in busy[:_BUSY_ROUNDS]:
        if time.monotonic() < deadline:
            session.run(flows, flow_s, pace=limit("paced-share"))


def second_pass(
    session: Rounds,
    plan: ProbePlan,
    candidates: Sequence[Candidate],
    hints: Mapping[ElementId, float],
    slow_hosts: Collection[str],
    deadline: float,
    say: Callable[[str], None],
) -> Looked:
    """Infer, test the suspects and what else was odd again, infer again; until all is told or the time is up."""
    fabric = session.fabric
    speeds = fabric.directed_gbps
    done: set[Key] = set()
    retests, fillings = 0, _FILLINGS
    for _ in range(_LOOKS):
        found = infer(session.results, candidates, speeds, at_least=limit("suspect"), hints=hints)
        told = retests and all(s.log_odds >= limit("certain") and s.probability > 0.9 for s in found)
        plans = []
        if found and not told and retests < _RETESTS:
            plans.append(plan_retest(found, candidates, plan, speeds, done))
            retests += 1
            named = found
        else:
            named = [one.suspect for one in _weighed(session, found, hints) if one.confirmed]
        odd = [one for one in _wanting(_odd(session, slow_hosts)) if not _explained(one, named, candidates)]
        # First what nothing else excuses.
        odd = sorted(odd, key=lambda one: _excused(one, session))[:_ODD_AT_ONCE]
        plans.append(rounds_of(odd, fabric.directed_count))
        if not any(one.rounds for one in plans) and fillings > 0:
            plans.append(_fillings(session, plan, candidates, named, slow_hosts))
            fillings -= 1
        rounds = [(flows, one.duration_s) for one in plans for flows in one.rounds]
        if not rounds or time.monotonic() > deadline:
            break
        names = [str(s.candidate.element) for s in found[:3]] or [
            f"{sum(len(r[0]) for r in rounds)} transfers"
        ]
        say(f"qualify: {', '.join(names)} once more")
        for flows, duration_s in rounds:
            _again(session, flows, duration_s, _names(found), candidates, deadline)
    found = infer(session.results, candidates, speeds, at_least=limit("suspect"), hints=hints)
    return _looked(session, candidates, _weighed(session, found, hints), _odd(session, slow_hosts))


def _again(
    session: Rounds,
    flows: Sequence[ProbeFlow],
    duration_s: float,
    named: Collection[ElementId],
    candidates: Sequence[Candidate],
    deadline: float,
) -> None:
    """A round of the second pass, beside a transfer that ran well; once more while that one is slow and others are odd."""
    control = _control(session.results, flows, named, candidates)
    for _ in range(_ATTEMPTS):
        if time.monotonic() > deadline:
            return
        begin = len(session.results)
        everything = (*flows, control) if control else flows
        answers = session.run(everything, duration_s, stage=2, pace=_SECOND_PACE)
        if control is None or (answers[-1].state is FlowState.OK and answers[-1].ratio >= _CONTROL_RATIO):
            return
        session.results[begin:] = [dataclasses.replace(answer, disturbed=True) for answer in answers]
        if not any(oddities(row) for row in observations(answers[:-1])):
            return


def _control(
    results: Sequence[FlowResult],
    flows: Sequence[ProbeFlow],
    named: Collection[ElementId],
    candidates: Sequence[Candidate],
) -> ProbeFlow | None:
    """The fastest flow that ran well in the first pass and shares no cable with these flows and with named elements."""
    taken = {link // 2 for flow in flows for link in flow.links}
    taken |= {link // 2 for one in candidates if one.element in named for link in one.links}
    sound = [
        result.flow
        for result in results
        if result.stage == 1
        and result.flow.fills < 0
        and result.ratio >= _CONTROL_RATIO
        and not oddities(result)
        and taken.isdisjoint(link // 2 for link in result.flow.links)
    ]
    return max(sound, key=lambda flow: flow.nominal_gbps, default=None)


def _fillings(
    session: Rounds,
    plan: ProbePlan,
    candidates: Sequence[Candidate],
    suspects: Sequence[Suspect],
    slow_hosts: Collection[str],
) -> Retest:
    """Sets for links that have not carried their rate yet, clear of the suspects, because of which they may not have."""
    fabric = session.fabric
    names = _names(suspects) | {ElementId.host(host) for host in slow_hosts}
    clear_of = {link for candidate in candidates if candidate.element in names for link in candidate.links}
    clear_of |= {
        2 * int(fabric.link_of_port[nic]) + way
        for host in slow_hosts
        for nic in fabric.nics(host)
        for way in (0, 1)
    }
    accused = names | {fabric.link_element(link // 2) for link in clear_of}
    short = rates(fabric, session.results, plan, accused).short
    rounds: list[Round] = []
    filled: set[int] = set()
    for link in short:
        if link in filled or len(rounds) == _MOST_SETS:
            continue
        filling = plan.filler.fill(link, avoid=frozenset(clear_of), like=frozenset(short))
        if filling is not None:
            rounds.append(filling.flows)
            filled |= filling.full(fabric.directed_gbps)
    return Retest(tuple(rounds), RETEST_S)


def _looked(
    session: Rounds, candidates: Sequence[Candidate], weighed: list[Weighed], odd: Sequence[Odd]
) -> Looked:
    """Every repeated oddity gets a suspect: where the odds name none, the likeliest element of its own way."""
    speeds = session.fabric.directed_gbps
    repeats = [one for one in odd if one.repeated]
    weighed = [
        Weighed(one.suspect, one.confirmation, any(_proves(odd, one.suspect) for odd in repeats))
        for one in weighed
    ]
    for _ in range(_FALLBACKS):
        left = [one for one in repeats if not _explained(one, [w.suspect for w in weighed], candidates)]
        if not left:
            break
        own = [candidate for candidate in candidates if left[0].flow.crosses(candidate.links) >= 0.5]
        kinds = left[0].kinds | ({Kind.DEAD} if Kind.FLAP in left[0].kinds else frozenset())
        for suspect in infer(session.results, own, speeds, at_least=-np.inf, most=1, kinds=kinds):
            again = _confirmed(session, suspect)
            firm = any(_proves(one, suspect) for one in repeats)
            weighed.append(Weighed(suspect, again, firm, _refuted(session, suspect)))
    named = [one.suspect for one in weighed]
    untested = [
        one
        for one in odd
        if not one.tests and not _explained(one, named, candidates) and not _excused(one, session)
    ]
    return Looked(tuple(weighed), tuple(repeats), tuple(untested))


def _excused(odd: Odd, session: Rounds) -> bool:
    """Whether it was slow or paused and nothing else, and each link on its way was seen to carry its rate."""
    if odd.kinds - {Kind.RATE} and odd.firm:
        return False
    speeds = session.fabric.directed_gbps
    links = sorted(odd.flow.links)
    enough = limit("link-rate-fail") * np.minimum(speeds[links], odd.flow.nominal_gbps)
    return bool(np.all(shown_gbps(session.results, speeds)[links] >= enough))


def _proves(odd: Odd, suspect: Suspect) -> bool:
    kinds = odd.kinds | ({Kind.DEAD} if Kind.FLAP in odd.kinds else frozenset())
    return (
        odd.firm
        and odd.tests >= _ODD_TESTS
        and suspect.kind in kinds
        and odd.flow.crosses(suspect.candidate.links) >= 0.5
    )


def _odd(session: Rounds, slow_hosts: Collection[str]) -> list[Odd]:
    """Odd transfers, without those of a slow host, which explains them."""
    fabric = session.fabric
    slow = {fabric.node_row(host) for host in slow_hosts}
    node = fabric.ports.node

    def ends(flow: ProbeFlow) -> set[int]:
        return {int(node[port]) for one in (flow.parts or (flow,)) for port in (one.src_port, one.dst_port)}

    return [one for one in odd_ones(session.results) if not ends(one.flow) & slow]


def _wanting(odd: Sequence[Odd]) -> list[Odd]:
    """Those that need another test alone."""
    return [one for one in odd if one.tests < _ODD_TESTS]


def _explained(odd: Odd, suspects: Sequence[Suspect], candidates: Sequence[Candidate]) -> bool:
    """Whether a suspect or a likely rival of one lies on its way."""
    names = _names(suspects)
    return any(
        odd.flow.crosses(candidate.links) >= 0.5
        for candidate in candidates
        if candidate.element in names and candidate.one_way is None
    )


def _names(suspects: Sequence[Suspect]) -> set[ElementId]:
    """Suspects and their likely rivals."""
    names = {suspect.candidate.element for suspect in suspects}
    return names | {element for suspect in suspects for element, p in suspect.rivals if p >= _LIKELY_RIVAL}


def _confirmed(session: Rounds, suspect: Suspect) -> float | None:
    """What the re-tests over a suspect say; None without any."""
    second = [
        result
        for result in session.results
        if result.stage > 1 and result.flow.crosses(suspect.candidate.links) >= 0.5
    ]
    # All flows of a set are needed for its sum.
    sets = {(result.round, result.flow.fills) for result in second if result.flow.fills >= 0}
    second += [
        result
        for result in session.results
        if (result.round, result.flow.fills) in sets and result not in second
    ]
    return confirmation(suspect, second, session.fabric.directed_gbps) if second else None


def _refuted(session: Rounds, suspect: Suspect) -> bool:
    """Whether a suspect is said to be slow, and each of its links was seen to carry its rate."""
    if suspect.kind is not Kind.RATE:
        return False
    speeds = session.fabric.directed_gbps
    links = sorted(suspect.candidate.links)
    shown = shown_gbps(session.results, speeds)
    return bool(np.all(shown[links] >= limit("link-rate-fail") * speeds[links]))


def _weighed(session: Rounds, found: Sequence[Suspect], hints: Mapping[ElementId, float]) -> list[Weighed]:
    weighed = []
    for suspect in found:
        hint = hints.get(suspect.candidate.element, 0.0) if suspect.kind is Kind.FLAP else 0.0
        again = _confirmed(session, suspect)
        agrees = again + hint if again is not None else hint or None
        # What neither the odds nor a second look bears out was a busy machine; so was a slow link that was fast once.
        if _refuted(session, suspect):
            continue
        if suspect.log_odds >= limit("certain") or agrees is None or agrees > 0:
            weighed.append(Weighed(suspect, agrees))
    return weighed

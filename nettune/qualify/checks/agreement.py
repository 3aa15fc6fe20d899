"""`compare`: one setting on many ports, each difference told with both of its ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TypeVar

from nettune.elements import ElementId
from nettune.qualify.checks.frame import Fleet, Verdicts
from nettune.wording import some

T = TypeVar("T")

_SHOWN = 120
_MOST_GROUPS = 4


def compare(
    fleet: Fleet,
    say: Verdicts,
    what: str,
    votes: Mapping[str, T],
    where: Mapping[str, ElementId],
    *,
    fix: str,
    shown: Callable[[T], str] = str,
    tolerable: bool = False,
) -> set[str]:
    """Speak of the ports whose setting is not that of the majority; returns the hosts that no majority judges.

    Without a majority nobody is blamed: the disagreement is a fault of the fabric, or of the host if it is of one.

    Args:
        fleet: who decides what a majority is.
        say: where it is told.
        what: the setting.
        votes: `HOST PORT` -> value.
        where: `HOST PORT` -> element.
        fix: what to do.
        shown: text of a value.
        tolerable: a difference is only a warning.
    """
    holders: dict[T, list[str]] = defaultdict(list)
    for voter, value in votes.items():
        holders[value].append(voter)
    if len(holders) < 2:
        return set()
    speak = say.warn if tolerable else say.fail
    most = fleet.majority(votes)
    if most is None:
        groups = sorted(holders.items(), key=lambda group: (-len(group[1]), group[1]))
        told = [f"{shown(value)[:_SHOWN]} on {some(voters, 2)}" for value, voters in groups[:_MOST_GROUPS]]
        hosts = {voter.partition(" ")[0] for voter in votes}
        speak(
            ElementId.host(min(hosts)) if len(hosts) == 1 else ElementId.fabric(),
            f"{what} differs: {'; '.join(told)}",
            basis="both ends of a connection must agree; no value has a majority, so none is taken for right",
            fix=fix,
            setting=what,
        )
        return hosts
    expected, count = most
    for voter, value in votes.items():
        if value == expected:
            continue
        host = voter.partition(" ")[0]
        other = next(
            (one for one in holders[expected] if one.partition(" ")[0] != host), holders[expected][0]
        )
        speak(
            where[voter],
            f"{what} is {shown(value)[:_SHOWN]} here and {shown(expected)[:_SHOWN]} on {other}",
            basis=f"{count} of {len(votes)} ports have {shown(expected)[:_SHOWN]}; both ends of a connection must agree",
            fix=fix,
            setting=what,
            other_end=other,
        )
    return set()

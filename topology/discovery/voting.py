"""Mis-cabled rails by majority vote, without a plan: hosts that share a leaf per rail form a pod, deviants are judged by it.

A host's signature is the leaf of each of its rails. Signatures that no more frequent one contradicts (another leaf on
one rail, the same leaf on another) are pods. A host with any other signature belongs to the pod with which it agrees
on most rails; its rails that disagree are mis-cabled. With two rails two pods may claim it equally: then the pod that
is short of hosts has it, or the pod among whose host names it stands; else nothing is claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topology.discovery.rows import natural

Signature = tuple[int | None, ...]
"""Leaf (node row) of each rail; None where the host has no cabled NIC on that rail."""

MIN_VOTERS = 3


@dataclass(frozen=True)
class Verdict:
    """One host whose rails do not look like its neighbours'.

    Attributes:
        host: its name.
        wrong: rail -> leaf where it should be; empty when nothing can be claimed.
        votes: hosts of its pod that are cabled as expected.
        why: how its pod was told, or why nothing can be claimed.
    """

    host: str
    wrong: Mapping[int, int]
    votes: int
    why: str


def vote(signatures: Mapping[str, Signature]) -> list[Verdict]:
    """Verdicts about hosts that deviate, in the order given."""
    complete = Counter(signature for signature in signatures.values() if None not in signature)
    pods, tied = _pods(complete)
    home: dict[str, Signature] = {}
    deviants: dict[str, list[Signature]] = {}
    for host, signature in signatures.items():
        fitting = [pod for pod in pods if _disagreement(signature, pod) == 0]
        if fitting:
            home[host] = fitting[0]
        elif any(leaf is not None for leaf in signature):
            deviants[host] = _claimants(signature, pods)
    members = {pod: [host for host, of in home.items() if of == pod] for pod in pods}
    verdicts = []
    for host, claimants in deviants.items():
        if signatures[host] in tied:
            verdicts.append(Verdict(host, {}, 0, "as many hosts are cabled one way as the other"))
            continue
        pod, why = _judge(host, claimants, members, len(deviants))
        if pod is None:
            verdicts.append(Verdict(host, {}, 0, why))
        elif len(members[pod]) + 1 < MIN_VOTERS:
            few = f"its pod has {len(members[pod]) + 1} hosts; a vote needs {MIN_VOTERS}"
            verdicts.append(Verdict(host, {}, len(members[pod]), few))
        else:
            wrong = {
                rail: expected
                for rail, (leaf, expected) in enumerate(zip(signatures[host], pod, strict=True))
                if leaf is not None and expected is not None and leaf != expected
            }
            verdicts.append(Verdict(host, wrong, len(members[pod]), why))
    return verdicts


def _pods(counts: Counter[Signature]) -> tuple[list[Signature], set[Signature]]:
    """(signatures that stand for a pod, those that contradict an equally frequent one)."""
    at: dict[tuple[int, int | None], list[Signature]] = {}
    for signature in counts:
        for place in enumerate(signature):
            at.setdefault(place, []).append(signature)
    pods, tied = [], set()
    for signature, count in counts.items():
        rivals = {other for place in enumerate(signature) for other in at[place] if other != signature}
        strongest = max((counts[other] for other in rivals), default=0)
        if count > strongest:
            pods.append(signature)
        elif count == strongest and count > 1:
            tied.add(signature)
    return pods, tied


def _disagreement(signature: Signature, pod: Signature) -> int:
    return sum(leaf is not None and leaf != expected for leaf, expected in zip(signature, pod, strict=True))


def _claimants(signature: Signature, pods: Sequence[Signature]) -> list[Signature]:
    """Pods that agree on most rails; where none agrees on any, those that own most of the host's leaves (swapped rails)."""

    def agreement(pod: Signature) -> tuple[int, int]:
        on_rail = sum(leaf is not None and leaf == own for leaf, own in zip(signature, pod, strict=True))
        return on_rail, 0 if on_rail else len(set(signature) & set(pod))

    best = max((agreement(pod) for pod in pods), default=(0, 0))
    return [pod for pod in pods if agreement(pod) == best] if best > (0, 0) else []


def _judge(
    host: str, claimants: Sequence[Signature], members: Mapping[Signature, Sequence[str]], deviants: int
) -> tuple[Signature | None, str]:
    if not claimants:
        return None, "no pod has any of its leaves"
    if len(claimants) == 1:
        return claimants[0], "the only pod that it agrees with"
    total = sum(len(hosts) for hosts in members.values()) + deviants
    if total % len(members) == 0:
        short = [pod for pod in claimants if len(members[pod]) < total // len(members)]
        if len(short) == 1:
            return short[0], f"the pod that is short of its {total // len(members)} hosts"
    around = [pod for pod in claimants if _stands_among(host, members[pod])]
    if len(around) == 1:
        return around[0], "the pod among whose host names it stands"
    return None, f"{len(claimants)} pods claim it equally: either of its rails may be the wrong one"


def _stands_among(host: str, hosts: Sequence[str]) -> bool:
    keys = sorted(natural(one) for one in hosts)
    return bool(keys) and keys[0] < natural(host) < keys[-1]

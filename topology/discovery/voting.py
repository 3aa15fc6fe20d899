"""Mis-cabled rails by majority vote, without a plan: hosts whose rails end on the same leaves form a pod.

A host's signature is the leaf of each of its rails. Pods do not share leaves, so of signatures that share one the most
frequent stands for a pod and the others deviate. Hosts that all lack the same rail are a pod too, where no host with all
rails shares a leaf with them. A deviating host belongs to the pod with which it agrees on most
rails; its rails that disagree are mis-cabled, if most of the pod's hosts say so. With two rails two pods may claim a
host equally: then the pod that is short of hosts has it, or the pod among whose host names it stands; else nothing is
claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topology.naming import natural_key

Signature = tuple[int | None, ...]
"""Leaf (node row) of each rail; None where the host has no cabled NIC on that rail."""

MIN_VOTERS = 3


@dataclass(frozen=True)
class Verdict:
    """One host whose rails do not look like its pod's.

    Attributes:
        host: its name.
        wrong: rail -> leaf where it should be; empty when nothing can be claimed.
        votes: (hosts that are cabled as expected, hosts of the pod).
        why: how its pod was told, or why nothing can be claimed.
    """

    host: str
    wrong: Mapping[int, int] = field(default_factory=dict)
    votes: tuple[int, int] = (0, 0)
    why: str = ""


def vote(signatures: Mapping[str, Signature]) -> list[Verdict]:
    """Verdicts about hosts that deviate, in the order given; empty when all hosts look like their pod."""
    signatures = {host: one for host, one in signatures.items() if any(leaf is not None for leaf in one)}
    counts = Counter(signatures.values())
    pods, tied = _pods(Counter({one: count for one, count in counts.items() if None not in one}))
    pods += _incomplete_pods(counts)
    members: dict[Signature, list[str]] = {pod: [] for pod in pods}
    deviants: list[str] = []
    for host, signature in signatures.items():
        fitting = [signature] if signature in members else []
        if not fitting and None in signature:
            fitting = [pod for pod in pods if _disagreement(signature, pod) == 0]
        if fitting:
            members[fitting[0]].append(host)
        else:
            deviants.append(host)
    judged = {
        host: _judge(host, _claimants(signatures[host], pods), members, len(deviants)) for host in deviants
    }
    sizes = Counter(pod for pod, _ in judged.values() if pod is not None)
    verdicts = []
    for host, (pod, why) in judged.items():
        if pod is None or signatures[host] in tied:
            verdicts.append(
                Verdict(host, why="as many hosts are cabled otherwise" if signatures[host] in tied else why)
            )
            continue
        votes = len(members[pod]), len(members[pod]) + sizes[pod]
        if votes[1] < MIN_VOTERS:
            verdicts.append(
                Verdict(host, votes=votes, why=f"its pod has {votes[1]} hosts; a vote needs {MIN_VOTERS}")
            )
        elif 2 * votes[0] <= votes[1]:
            verdicts.append(Verdict(host, votes=votes, why="as many hosts of its pod deviate as agree"))
        else:
            wrong = {
                rail: expected
                for rail, (leaf, expected) in enumerate(zip(signatures[host], pod, strict=True))
                if leaf is not None and expected is not None and leaf != expected
            }
            verdicts.append(Verdict(host, wrong, votes, why))
    return verdicts


def _pods(counts: Counter[Signature]) -> tuple[list[Signature], set[Signature]]:
    """(signatures that stand for a pod, those that share a leaf with an equally frequent one)."""
    pods: list[Signature] = []
    tied: set[Signature] = set()
    taken: set[int | None] = set()
    for level in sorted(set(counts.values()), reverse=True):
        left = [
            signature for signature, count in counts.items() if count == level and not taken & set(signature)
        ]
        users = Counter(leaf for signature in left for leaf in set(signature))
        for signature in left:
            if any(users[leaf] > 1 for leaf in signature):
                tied.add(signature)
            else:
                pods.append(signature)
            taken |= set(signature)
    return pods, tied


def _incomplete_pods(counts: Counter[Signature]) -> list[Signature]:
    """Signatures of at least three hosts that lack the same rails, the most frequent of those that share a leaf."""
    taken = {leaf for one in counts if None not in one for leaf in one}
    found: list[Signature] = []
    for signature, count in counts.most_common():
        leaves = {leaf for leaf in signature if leaf is not None}
        if count >= MIN_VOTERS and None in signature and leaves and not leaves & taken:
            found.append(signature)
            taken |= leaves
    return found


def _disagreement(signature: Signature, pod: Signature) -> int:
    return sum(leaf is not None and leaf != expected for leaf, expected in zip(signature, pod, strict=True))


def _claimants(signature: Signature, pods: Sequence[Signature]) -> list[Signature]:
    """Pods that agree on most rails; where none agrees on any, those that own most of its leaves (swapped rails)."""

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
    keys = sorted(natural_key(one) for one in hosts)
    return bool(keys) and keys[0] < natural_key(host) < keys[-1]

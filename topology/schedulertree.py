"""A scheduler's or a cloud's tree held against real cables: hosts that it has under another leaf than they are wired to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nettune.checks import Finding, Status, held, unknown
from nettune.elements import ElementId
from nettune.wording import some
from topology.columns import NodeKind
from topology.matching import match

if TYPE_CHECKING:
    from topology.readers.said import Said

CHECK = "scheduler-tree"
_MIN_HOSTS = 3


def against_cables(said: Said, trees: Sequence[Said], status: Status = Status.WARN) -> Said:
    """Hold trees against what cables say; accelerator domains that only a tree knows are taken over.

    Args:
        said: with real cables; it gets the findings.
        trees: logical sources.
        status: of a contradiction: a plan's is a failure, between sources it is a warning.
    """
    for tree in trees:
        names = match([said, tree]).nodes[1]
        for name, node in tree.nodes.items():
            if node.kind is NodeKind.HOST and node.nvl_domain and names[name] in said.nodes:
                said.node(names[name], nvl_domain=node.nvl_domain, sources=node.sources)
        said.findings += [*tree.findings, *_compared(said, tree, names, status)]
        said.format += f" + {tree.format}"
        said.source += f" + {tree.source}"
    return said


def _compared(said: Said, tree: Said, names: Mapping[str, str], status: Status) -> list[Finding]:
    wired = _leaves_of_hosts(said)
    groups: dict[str, list[str]] = {}
    for host, above in _leaves_of_hosts(tree).items():
        for leaf in above:
            groups.setdefault(names[leaf], []).append(names[host])
    findings = [*_absent(said, tree, names)]
    usual = {leaf: _usual(leaf, hosts, said, wired) for leaf, hosts in groups.items()}
    compared = 0
    for leaf, hosts in groups.items():
        expected = usual[leaf]
        own = [host for host in hosts if wired.get(host)]
        if not expected:
            continue
        elsewhere = {
            name for other, names_of in usual.items() if other != leaf for name in names_of - expected
        }
        compared += len(own)
        for host in own:
            # A group that spans several leaves is coarser than the wiring, which is no contradiction: only a leaf that
            # stands for another group is one.
            if not wired[host] & expected and (leaf in said.nodes or wired[host] & elsewhere):
                is_on, should = ", ".join(sorted(wired[host])), ", ".join(sorted(expected))
                findings.append(
                    Finding(
                        check=CHECK,
                        status=status,
                        where=ElementId.host(host),
                        what=f"{tree.source} has it under {leaf}{'' if leaf in expected else f' with hosts of {should}'}, "
                        f"it is cabled to {is_on}",
                        evidence={"file": tree.source, "under": leaf, "cabled_to": sorted(wired[host])},
                        fix=f"correct {tree.source}, or move the cables back",
                    )
                )
    if not groups:  # blocks or rings: nothing is under a leaf
        return findings
    if not compared:
        what = f"no leaf of {tree.source} can be told in the wiring by its name or by most of its hosts"
        findings.append(unknown(CHECK, ElementId.fabric(), what))
    elif not any(finding.check == CHECK for finding in findings):
        what = f"{compared} hosts are under the leaves of {tree.source} that they are cabled to"
        findings.append(held(CHECK, what))
    return findings


def _leaves_of_hosts(said: Said) -> dict[str, set[str]]:
    """Host -> switches that it has a cable to."""
    found: dict[str, set[str]] = {}
    for a, b in said.links:
        for (near, _), (far, _) in ((a, b), (b, a)):
            if said.nodes[near].kind is not NodeKind.SWITCH and said.nodes[far].kind is NodeKind.SWITCH:
                found.setdefault(near, set()).add(far)
    return found


def _usual(leaf: str, hosts: Sequence[str], said: Said, wired: Mapping[str, set[str]]) -> set[str]:
    """The leaves that a group of the tree stands for: the one of its name, or those of most of its hosts."""
    if leaf in said.nodes and said.nodes[leaf].kind is NodeKind.SWITCH:
        return {leaf}
    counts = Counter(frozenset(wired[host]) for host in hosts if wired.get(host))
    if sum(counts.values()) < _MIN_HOSTS:
        return set()
    leaves, votes = counts.most_common(1)[0]
    return set(leaves) if 2 * votes > sum(counts.values()) else set()


def _absent(said: Said, tree: Said, names: Mapping[str, str]) -> list[Finding]:
    """Hosts that only one of the two has."""
    hosts = {name for name, node in said.nodes.items() if node.kind is not NodeKind.SWITCH}
    listed = {names[name] for name, node in tree.nodes.items() if node.kind is NodeKind.HOST}
    listed = {name for name in listed if f"host/{name}" not in said.dropped}
    cases = (
        (listed - hosts, f"of {tree.source}", "not in the wiring", "capture them too, or take them out of the file"),
        (hosts - listed, "of the wiring", f"not in {tree.source}", "no job is placed on them; add them if one shall be"),
    )  # fmt: skip
    findings = []
    for missing, whose, lack, fix in cases:
        if missing:
            ordered = sorted(missing)
            findings.append(
                Finding(
                    check="scheduler-hosts",
                    status=Status.WARN,
                    where=ElementId.host(ordered[0]) if len(ordered) == 1 else ElementId.fabric(),
                    what=f"{len(ordered)} {'host' if len(ordered) == 1 else 'hosts'} {whose} "
                    f"{'is' if len(ordered) == 1 else 'are'} {lack}: {some(ordered)}",
                    evidence={"hosts": ordered},
                    fix=fix,
                )
            )
    return findings

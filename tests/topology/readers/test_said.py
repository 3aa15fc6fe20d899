from __future__ import annotations

from collections.abc import Callable

import pytest

from nettune.errors import InputError
from topology.columns import NodeKind
from topology.naming import element_name
from topology.readers import Said
from topology.readers.ethernet import port_name
from topology.readers.said import MAX_CONFLICTS


def test_the_same_contradiction_is_told_once() -> None:
    """A source that repeats itself, or contradicts the same fact again, adds no second finding."""
    said = Said("a", "x")
    for _ in range(3):
        said.port("leaf0", "1", speed_gbps=100)
        said.port("leaf0", "1", speed_gbps=200)
    assert [finding.evidence["other"] for finding in said.findings] == ["200"]
    said.port("leaf0", "1", speed_gbps=400)
    assert [finding.evidence["other"] for finding in said.findings] == ["200", "400"]


def test_contradictions_are_bounded() -> None:
    """Hostile sources cannot fill memory with findings: the last one says that more were not listed."""
    said = Said("a", "x")
    said.node("leaf0", NodeKind.SWITCH, guid="0")
    for number in range(1, 3 * MAX_CONFLICTS):
        said.node("leaf0", guid=str(number))
    assert len(said.findings) == MAX_CONFLICTS + 1
    assert str(said.findings[-1].where) == "fabric"


def test_domains_keep_their_numbers_where_all_are_numbers() -> None:
    """Names of accelerator domains that are numbers are those numbers; else they are counted as they come."""
    for names, numbers in ((["7", "3", "7", ""], [7, 3, 7, -1]), (["7", "03", "", "b"], [0, 1, -1, 2])):
        said = Said("a", "x")
        for row, name in enumerate(names):
            said.node(f"h{row}", NodeKind.HOST, nvl_domain=name)
        assert said.to_fabric().nodes.nvl_domain.tolist() == numbers


@pytest.mark.parametrize(
    "say",
    [
        lambda said: said.node("a b"),
        lambda said: said.node("a/b"),
        lambda said: said.node(""),
        lambda said: said.node("a--b"),
        lambda said: said.node("\ud800"),
        lambda said: said.port("a", "--"),
        lambda said: said.port("a", "x y"),
        lambda said: said.link(("a", ""), ("b", "1")),
        lambda said: said.gpu("a", 10**30),
        lambda said: said.gpu("a", -1),
        lambda said: said.port("a", "1", lag=10**30),
        lambda said: said.port("a", "1", speed_gbps=float("inf")),
        lambda said: said.port("a", "1", speed_gbps=float("nan")),
    ],
)
def test_what_no_fabric_can_hold_is_refused_at_once(say: Callable[[Said], object]) -> None:
    """Names that no element can have and numbers beyond all measure do not wait for `to_fabric`."""
    with pytest.raises(InputError):
        say(Said("a", "x"))


@pytest.mark.parametrize("text", ["h\x1b[31m", "h\x9b31m", "h\x07", "h\u202egnp", "h\x00"])
def test_what_a_terminal_obeys_is_no_name(text: str) -> None:
    """Escape sequences, other controls and marks that turn the writing: refused, and cleaned out of free text."""
    said = Said("a", "x")
    with pytest.raises(InputError):
        said.node(text, NodeKind.HOST)
    with pytest.raises(InputError):
        said.port("leaf0", text)
    assert element_name(text).isprintable()
    assert port_name(text).isprintable()


def test_a_name_without_an_end_is_refused() -> None:
    """Five thousand digits are no name: they would not even sort as a number."""
    said = Said("a", "x")
    with pytest.raises(InputError):
        said.node("1" * 5000, NodeKind.HOST)
    with pytest.raises(InputError):
        said.port("leaf0", "1" * 5000)
    said.node("n" * 1000, NodeKind.HOST)


def test_contradictions_are_told_in_words() -> None:
    """Kinds, speeds and lists as a person writes them, at the accelerator that they are about."""
    said = Said("b", "x")
    for kind, gbps, nic in ((NodeKind.HOST, 400.0, "mlx5_0"), (NodeKind.SWITCH, 200.0, "mlx5_1")):
        said.node("h0", kind)
        said.port("h0", "eth0", speed_gbps=gbps)
        said.gpu("h0", 3, nics=(nic, "mlx5_9"))
    assert [(str(one.where), one.what.partition(" in ")[0]) for one in said.findings] == [
        ("host/h0", "kind is host"),
        ("host/h0/nic/eth0", "speed"),
        ("host/h0/gpu/3", "list of nearest NICs is mlx5_0, mlx5_9"),
    ]
    assert "but switch in b" in said.findings[0].what
    assert said.findings[1].evidence == {"attribute": "speed_gbps", "kept": "400", "other": "200"}

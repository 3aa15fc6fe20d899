from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.columns import NodeKind
from topology.readers import Said, Source, detect, read

EXAMPLE = Path(__file__).parent / "examples/cabling.csv"
HEADER = "node_a,port_a,node_b,port_b"


def said(text: str) -> Said:
    return read(Source("plan.csv", text), "cabling")


def test_example() -> None:
    """By hand: 4 hosts with 2 rails each, 2 leaves, 2 spines, 8 + 8 cables."""
    result = read(Source.open(EXAMPLE))
    fabric = result.to_fabric()
    assert (result.format, len(fabric.hosts), len(fabric.switches), len(fabric.links.port_a)) == (
        "cabling",
        4,
        4,
        16,
    )
    assert {(port, said.rail) for (node, port), said in result.ports.items() if node == "g3"} == {
        ("mlx5_0", 0),
        ("mlx5_1", 1),
    }
    assert {said.rail for (node, _), said in result.ports.items() if node.startswith("leaf")} == {-1}
    assert sorted(set(fabric.ports.speed_gbps.tolist())) == [400, 800]
    assert fabric.nodes.tier.tolist() == [0, 1, 1, 0, 0, 0, 2, 2]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_order_of_columns_and_comments(delimiter: str) -> None:
    """Comma, semicolon or tab; columns in any order and case; comments, empty lines and blanks do not count."""
    lines = [
        "# of pod 1, as ordered; 2026",
        "",
        delimiter.join(["Port_B", "node_b", "node_a", " port_a", "rail"]),
        delimiter.join(["Ethernet1/1", "leaf1", '"g1"', " ens1f0 ", ""]),
        "   # spare",
        delimiter.join(["Ethernet2/1", "leaf1", "g2", "ens1f0", "3"]),
    ]
    source = Source("plan", "\n".join(lines))
    assert detect(source).name == "cabling"
    result = read(source)
    assert list(result.links) == [
        (("g1", "ens1f0"), ("leaf1", "Ethernet1/1")),
        (("g2", "ens1f0"), ("leaf1", "Ethernet2/1")),
    ]
    assert [result.ports[host, "ens1f0"].rail for host in ("g1", "g2")] == [-1, 3]
    assert result.ports["leaf1", "Ethernet2/1"].rail == 3 or result.nodes["leaf1"].kind is NodeKind.SWITCH


def test_kinds_where_the_plan_gives_none() -> None:
    """Names of ports tell what they can; a kind on one line counts for all lines."""
    nodes = said(f"{HEADER},kind_a\ng1,ens1f0,leaf1,swp1,\ng2,x,y,z,\ny,q,g3,r,switch\n").nodes
    assert {name: node.kind for name, node in nodes.items()} == {
        "g1": NodeKind.HOST,
        "leaf1": NodeKind.SWITCH,
        "g2": None,
        "y": NodeKind.SWITCH,
        "g3": None,
    }


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("# only comments\n", 1, "has no line that names the columns"),
        ("node_a,port_a,node_b\n", 1, "column port_b is missing"),
        (f"{HEADER},length\n", 1, "column 'length' is not known"),
        (f"{HEADER},port_a\n", 1, "column port_a appears twice"),
        (f"{HEADER}\n", 1, "names columns, but no cable"),
        (f"{HEADER}\n\na,1,b\n", 3, "has 3 columns, the first line names 4"),
        (f"{HEADER}\na,1,b,2,5\n", 2, "has 5 columns, the first line names 4"),
        (f'{HEADER}\n"a"x,1,b,2\n', 2, "is no row of a table"),
        (f"{HEADER}\n,1,b,2\n", 2, "node_a '' and port_a '1' must both name something"),
        (f"{HEADER}\na,1,b,--\n", 2, "node_b 'b' and port_b '--' must both name something"),
        (f"{HEADER}\na,1,b,2\n# x\nb,2,a,1\n", 4, "b:2 is cabled on line 2 already"),
        (f"{HEADER}\na,1,b,2\na,1,c,2\n", 3, "a:1 is cabled on line 2 already"),
        (f"{HEADER}\na,1,a,1\n", 2, "a:1 is cabled to itself"),
        (f"{HEADER},speed_gbps\na,1,b,2,fast\n", 2, "speed_gbps 'fast' is no number"),
        (f"{HEADER},speed_gbps\na,1,b,2,nan\n", 2, "speed_gbps 'nan' is no number"),
        (f"{HEADER},speed_gbps\na,1,b,2,-1\n", 2, "speed_gbps '-1' is no number"),
        (f"{HEADER},speed_gbps\na,1,b,2,1e9\n", 2, "speed_gbps '1e9' is no number"),
        (f"{HEADER},rail\na,1,b,2,r1\n", 2, "rail 'r1' is no number"),
        (f"{HEADER},kind_a\na,1,b,2,leaf\n", 2, "kind_a 'leaf' is neither host nor switch"),
        (f"{HEADER},kind_a,kind_b\na,1,b,2,host,\na,2,c,1,switch,\n", 3, "a is a host on line 2"),
        (f"{HEADER}\n{'a' * 20000},1,b,2\n", 2, "has more than 10000 characters"),
    ],
)
def test_errors_name_the_line(text: str, line: int, why: str) -> None:
    """Whatever a plan does wrong is told with file and line, duplicates with the first line too."""
    with pytest.raises(InputError) as caught:
        said(text)
    assert str(caught.value).startswith(f"plan.csv:{line}: {why}")


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,3}(-[a-z0-9]+)?", fullmatch=True)


@given(st.sets(st.tuples(NAMES, NAMES), min_size=2, max_size=24), st.randoms())
def test_every_cable_of_a_plan_is_read(ends: set[tuple[str, str]], random: object) -> None:
    """A plan of any cables reads back as exactly these."""
    order = sorted(ends)
    random.shuffle(order)  # type: ignore[attr-defined]
    pairs = [tuple(sorted(pair)) for pair in zip(order[::2], order[1::2], strict=False)]
    text = "\n".join([HEADER, *(",".join([*a, *b]) for a, b in pairs)])
    assert list(said(text).links) == pairs

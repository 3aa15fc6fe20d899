from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.columns import LinkState, NodeKind
from topology.fabric import Fabric
from topology.readers import Said, Source, detect, read
from topology.routing import Routing

EXAMPLE = Path(__file__).parent / "examples/fabric-json.json"


def back(fabric: Fabric) -> Fabric:
    source = Source("fabric.json", json.dumps(fabric.to_json()))
    assert detect(source).name == "fabric-json"
    return read(source).to_fabric()


def told(fabric: Fabric) -> dict[str, Any]:
    """Everything in a fabric; instead of rows of the provenance, the lines that they point at."""
    lines = [*fabric.provenance, "fabric.json"]
    data = fabric.to_json()
    del data["provenance"]
    for table in ("nodes", "ports", "links", "gpus"):
        data[table]["source"] = [lines[row] for row in data[table]["source"]]
    return data


def test_what_discover_writes_is_kept() -> None:
    """Fabric and routing of the example come back; next hops still leave through the right cables."""
    result = read(Source.open(EXAMPLE))
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    fabric = result.to_fabric()
    assert told(fabric) == told(Fabric.from_json(data["fabric"]))
    (routing,) = result.events
    assert Routing.from_json(routing.to_json(), fabric).to_json() == data["routing"]
    assert result.far(("g0", "mlx5_0")) == ("leaf0", "swp1")


def test_sorted_keys_and_no_routing() -> None:
    """A fabric alone, with its keys sorted so that the schema comes late, is recognised too."""
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))["fabric"]
    source = Source("f", json.dumps(data, sort_keys=True))
    assert detect(source).name == "fabric-json"
    assert not read(source).events


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    builder = FabricBuilder()
    numbers = st.integers(-1, 7)
    sources = draw(st.lists(st.sampled_from(["a", "b.json", "c + d", "a + b.json"]), unique=True))
    source = st.integers(-1, len(sources) - 1)
    nodes = draw(st.lists(st.from_regex(r"[a-z0-9._-]*[a-z0-9.]", fullmatch=True), unique=True, max_size=8))
    nodes = [name for name in nodes if "--" not in name]
    ends: list[tuple[str, str]] = []
    for name in nodes:
        kind, domain = draw(st.sampled_from(NodeKind)), draw(numbers)
        builder.node(
            name,
            kind,
            tier=draw(st.integers(0, 4)),
            nvl_domain=domain,
            guid=draw(st.text(max_size=3)),
            source=draw(source),
        )
        for port in draw(st.sets(st.sampled_from(["eth0", "mlx5_0", "Ethernet1/1", "1:2", "x"]))):
            builder.port(
                name,
                port,
                speed_gbps=draw(st.floats(0, 1e4)),
                rail=draw(numbers),
                plane=draw(numbers),
                lag=draw(numbers),
                address=draw(st.sampled_from(["", "10.0.0.1"])),
                mtu=draw(st.integers(0, 9000)),
                guid=draw(st.sampled_from(["", "aa:bb"])),
                source=draw(source),
            )
            ends.append((name, port))
        for index in draw(st.sets(st.integers(0, 3))):
            nic = draw(st.sampled_from([None, *(port for node, port in ends if node == name)]))
            builder.gpu(name, index, numa=draw(numbers), nic=nic, source=draw(source))
    ends = draw(st.permutations(ends))
    for a, b in zip(ends[::2], ends[1::2], strict=False):
        builder.link(
            a,
            b,
            state=draw(st.sampled_from(LinkState)),
            delay_ns=draw(st.floats(0, 1e6)),
            source=draw(source),
        )
    return builder.build(sources)


@given(fabrics())
def test_round_trip(fabric: Fabric) -> None:
    """Any fabric is read back the same: rows and their order, which end of a cable is first, who told of what."""
    assert told(back(fabric)) == told(fabric)


def test_from_fabric_and_merging_by_name() -> None:
    """What a fabric said takes part in contradictions like any other source."""
    builder = FabricBuilder()
    builder.node("b", NodeKind.SWITCH)
    builder.node("a", NodeKind.HOST)
    builder.port("b", "1", speed_gbps=100)
    builder.port("a", "1")
    builder.link(("b", "1"), ("a", "1"))
    said = Said.from_fabric(builder.build(), "f.json", "fabric-json")
    said.source = "other"
    said.port("b", "1", speed_gbps=200)
    said.link(("a", "1"), ("c", "9"))
    assert [finding.evidence["attribute"] for finding in said.findings] == ["speed_gbps", "cable"]
    assert said.to_fabric().directed_name(0) == "b:1 > a:1"


def spoiled(**columns: Any) -> str:
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))["fabric"]
    for path, value in columns.items():
        table, column = path.split("_", 1)
        data[table][column] = value(data[table][column])
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"schema": "nettune.fabric/9"}', "schema 'nettune.fabric/9' is not nettune.fabric/1"),
        ('{"fabric": {"schema": "nettune.fabric/1"}}', "not a fabric: KeyError"),
        ('{"fabric": [], "schema": "nettune.fabric/1"}', "is no object with a fabric"),
        (spoiled(nodes_name=lambda names: ["a b", *names[1:]]), "'a b' cannot be the name of a node"),
        (spoiled(ports_name=lambda names: ["a--b", *names[1:]]), "'a--b' cannot be the name of a port"),
        (spoiled(nodes_kind=lambda kinds: [7, *kinds[1:]]), "g0 is of kind 7"),
        (spoiled(nodes_kind=lambda kinds: kinds[1:]), "fabric: the columns of nodes differ in length"),
        (spoiled(ports_speed_gbps=lambda speeds: [1e999, *speeds[1:]]), "Infinity is no JSON number"),
        (spoiled(ports_mtu=lambda sizes: [10**30, *sizes[1:]]), "not a fabric: OverflowError"),
        (spoiled(links_port_a=lambda rows: [99, *rows[1:]]), "fabric: links points outside the table"),
        (
            spoiled(gpus_nic=lambda rows: [rows[1], *rows[1:]]),
            "accelerator 0 of g0 appears twice, or its NIC",
        ),
        (
            spoiled(gpus_host=lambda rows: [rows[1], *rows[1:]]),
            "accelerator 0 of g1 appears twice, or its NIC",
        ),
    ],
)
def test_errors(text: str, why: str) -> None:
    """Other versions and columns that are no fabric's are refused."""
    with pytest.raises(InputError) as caught:
        read(Source("f.json", text), "fabric-json")
    assert str(caught.value).removeprefix("f.json").lstrip(":1 ").startswith(why)


def test_a_routing_that_does_not_fit_is_refused() -> None:
    """A next hop must leave through the switch that has it."""
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    data["routing"]["table"][0][2] = [0]
    with pytest.raises(InputError, match=r"^f\.json: routing: a next hop of leaf1 does not leave through it"):
        read(Source("f.json", json.dumps(data)))


def test_speeds_are_finite() -> None:
    """A speed that is no number is refused, also where JSON could spell it (1e999)."""
    data = json.loads(EXAMPLE.read_text(encoding="utf-8"))["fabric"]
    fabric = Fabric.from_json(data)
    ports = replace(fabric.ports, speed_gbps=np.full(len(fabric.ports.name), 123.5))
    text = json.dumps(replace(fabric, ports=ports).to_json()).replace("123.5", "1e999")
    with pytest.raises(InputError, match=r"^f\.json: a speed or a delay is no finite number"):
        read(Source("f.json", text))

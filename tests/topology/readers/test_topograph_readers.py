"""topograph's model, graph and request."""

from __future__ import annotations

import json

import pytest

from nettune.errors import InputError
from topology.readers import Said, Source, detect, read

MODEL = """\
switches:
  core: {switches: [leaf1, leaf2]}
blocks:
- switch: leaf1
  nodes: ["n[01-02]", n04]
  annotations: {accelerator.topology.test/domain: nvl1, accelerator.topology.test/sub-domain: r1}
- switch: leaf2
  nodes: ["[1101-1102]"]
"""


def model(text: str) -> Said:
    return read(Source("model.yaml", text))


def cables(said: Said) -> set[tuple[str, str]]:
    return {(a, b) for (a, _), (b, _) in said.links}


def test_model() -> None:
    """Switches, blocks of nodes and the accelerator domain of each; the part of a domain is not the domain."""
    said = model(MODEL)
    assert cables(said) == {
        ("core", "leaf1"), ("core", "leaf2"), ("leaf1", "n01"), ("leaf1", "n02"), ("leaf1", "n04"),
        ("1101", "leaf2"), ("1102", "leaf2"),
    }  # fmt: skip
    assert (said.nodes["n04"].nvl_domain, said.nodes["1101"].nvl_domain) == ("nvl1", "")
    assert said.nodes["core"].tier == 2


def test_model_with_capacity_blocks() -> None:
    """The form of docs/modeling.md: nodes under switches, domains by capacity block or by node."""
    said = model(
        "switches:\n  core: {switches: [leaf]}\n  leaf: {nodes: ['n[1-2]', n3]}\n"
        "nodes:\n  n3: {attributes: {nvlink: nvl2}}\n"
        "capacity_blocks:\n  cb1: {nodes: ['n[1-2]'], attributes: {nvlink: nvl1}}\n  cb2: {}\n"
    )
    assert [said.nodes[f"n{index}"].nvl_domain for index in (1, 2, 3)] == ["nvl1", "nvl1", "nvl2"]
    assert cables(said) == {("core", "leaf"), ("leaf", "n1"), ("leaf", "n2"), ("leaf", "n3")}


def test_oldest_model() -> None:
    """Lists with names, and capacity blocks under switches."""
    said = model(
        "switches:\n- {name: core, switches: [leaf]}\n- {name: leaf, capacity_blocks: [cb1]}\n"
        "capacity_blocks:\n- {name: cb1, type: H100, nvlink: nvl1, nodes: [n1, n2]}\n"
    )
    assert cables(said) == {("core", "leaf"), ("leaf", "n1"), ("leaf", "n2")}
    assert said.nodes["n1"].nvl_domain == "nvl1"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (MODEL + "- switch: leaf2\n  nodes: [n01]\n", 9, "under 'leaf1' and under 'leaf2'"),
        ("switches:\n  a: {switches: [c]}\n  b: {switches: [c]}\n", 3, "'c' is under 'a' and under 'b'"),
        ("switches:\n  a: {switches: [b]}\n  b: {switches: [a]}\n", None, "no tree"),
        ("switches:\n  a: {nodes: [a]}\n", 2, "of a host and of a switch"),
        ("switches:\n  a: {switches: b}\n", 2, "must be a list"),
        ("switches:\n  a: {nodes: ['n[1-']}\n", 2, "not closed"),
        ("switches:\n  a: {}\nmesh: {}\n", 1, "'mesh' is no section"),
        ("switches:\n  a: {}\nblocks:\n- switch: {}\n", 4, "must be a text"),
        ("switches:\n  a: {}\nblocks:\n- x\n", 1, "must be a mapping"),
        ("switches:\n  a: {}\nblocks:\n- switch: {{ x }}\n", 4, "template"),
        ("switches:\n- {switches: [a]}\n", 2, "has no name"),
    ],
)
def test_bad_model(text: str, line: int | None, words: str) -> None:
    """A switch has one parent and a node one switch; other shapes are errors with the line."""
    with pytest.raises(InputError, match=words) as caught:
        model(text)
    assert caught.value.line == line


def test_graph() -> None:
    """Layers are the closest first; the domain is a label, in older versions an attribute."""
    instances = [
        {
            "id": "i1",
            "network_layers": ["leaf", "spine", "core"],
            "labels": {"accelerator.topograph.run/domain": "d1"},
        },
        {"id": "i2", "network_layers": ["leaf", "", "core"], "attributes": {"nvlink": "d2"}},
        {"id": "i3", "network_layers": []},
    ]
    said = read(Source("graph.json", json.dumps({"instances": instances})))
    assert cables(said) == {
        ("i1", "leaf"),
        ("leaf", "spine"),
        ("core", "spine"),
        ("i2", "leaf"),
        ("core", "leaf"),
    }
    assert [said.nodes[f"i{index}"].nvl_domain for index in (1, 2, 3)] == ["d1", "d2", ""]
    assert [finding.status for finding in said.findings] == ["WARN", "UNKNOWN"]


def test_bad_graph() -> None:
    """Layers must be a list; an instance needs an id."""
    with pytest.raises(InputError, match="must be a list") as caught:
        read(Source("f", '{"instances": [\n{"id": "i", "network_layers":\n"leaf"}]}'))
    assert caught.value.line == 3
    with pytest.raises(InputError, match="no id"):
        read(Source("f", '{"instances": [{"network_layers": []}]}'))


def test_request() -> None:
    """A request names hosts at most: their place is UNKNOWN; one without nodes is refused; secrets stay out of errors."""
    request = {"provider": {"name": "aws", "creds": {"secret": "hunter2"}}, "engine": {"name": "slurm"}}
    nodes = [{"region": "r", "instances": {"i-1": "node1", "i-2": "node2"}}]
    said = read(Source("f", json.dumps({**request, "nodes": nodes})))
    assert said.to_fabric().hosts == ("node1", "node2")
    assert [finding.status for finding in said.findings] == ["UNKNOWN"]
    source = Source("f", json.dumps(request))
    assert detect(source).name == "topograph-payload"
    with pytest.raises(InputError, match="names no nodes") as caught:
        read(source)
    assert "hunter2" not in str(caught.value)

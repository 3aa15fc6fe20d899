"""NCCL graph XML: rings and trees by channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.errors import InputError
from topology.readers import Source, read
from topology.readers.nccl_graph import READER, Device, Graph

EXAMPLE = Path(__file__).parent / "examples" / "nccl-graph.xml"


def test_the_recorded_file_has_the_counts_of_grep(shared: Path) -> None:
    """`grep -c '<graph '` 3, '<channel>' 10 (2 + 4 + 4), '<gpu ' 40, '<net ' 0; ids 0, 1, 2 with patterns 4, 1, 3."""
    said = read(Source.open(shared / "samples" / "topo" / "nccl-graph-xml" / "azhpc-images-ncv4-graph.xml"))
    assert said.format == "nccl-graph"
    graphs: list[Graph] = said.events
    assert [(graph.kind, graph.pattern, len(graph.channels)) for graph in graphs] == [
        ("ring", 4, 2),
        ("tree", 1, 4),
        ("collnet-chain", 3, 4),
    ]
    assert sum(len(channel) for graph in graphs for channel in graph.channels) == 40
    assert [device.dev for device in graphs[0].channels[1]] == [0, 3, 2, 1]
    assert {(graph.type_intra, graph.type_inter) for graph in graphs} == {("SYS", "PIX")}
    assert sorted(said.gpus) == [("azhpc-images-ncv4-graph", index) for index in range(4)]
    assert said.findings == []


def test_the_example_in_full() -> None:
    """`dev` is base 16, rank decimal, latencyinter may be missing; NICs have numbers only and become no ports."""
    said = READER.read(Source("g.xml", EXAMPLE.read_text()))
    ring, nvls = said.events
    assert ring.channels[0] == (
        Device("net", 10),
        Device("gpu", 0, rank=0),
        Device("gpu", 1, rank=1),
        Device("net", 10),
    )
    assert (nvls.kind, nvls.latency_inter_us, nvls.same_channels) == ("nvls", 0.0, True)
    assert (len(said.gpus), len(said.ports)) == (2, 0)


def graphs(body: str) -> str:
    return f'<graphs version="1">\n{body}\n</graphs>'


def test_the_top_byte_of_dev_is_the_host_of_a_fused_topology() -> None:
    """NCCL_TOPO_ID: (system << 56) + number."""
    text = graphs('<graph id="0"><channel><gpu dev="3"/><gpu dev="100000000000003"/></channel></graph>')
    said = READER.read(Source("g.xml", text))
    assert said.events[0].channels == ((Device("gpu", 3), Device("gpu", 3, system=1)),)
    assert sorted(said.gpus) == [("g", 3), ("g-1", 3)]


def test_missing_channels_are_a_finding() -> None:
    """`nchannels` tells what should be there."""
    said = READER.read(Source("g.xml", graphs('<graph id="0" nchannels="4"><channel/></graph>')))
    assert [finding.what for finding in said.findings] == ["the ring graph tells 4 channels and has 1"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<graphs version="2"/>', "g.xml:1: <graphs> is no NCCL graph file of version 1"),
        (graphs("<graph/>"), "g.xml:2: <graph> has no id"),
        (graphs("<ring/>"), "g.xml:2: <ring> does not belong"),
        (graphs('<graph id="0"><channel><gpu/></channel></graph>'), "g.xml:2: <gpu> has no dev"),
        (graphs('<graph id="0"><channel><gpu dev="g"/></channel></graph>'), "g.xml:2: dev='g' of <gpu>"),
        (
            graphs('<graph id="0"><channel><gpu dev="-1"/></channel></graph>'),
            "g.xml:2: dev of <gpu> is no 64-bit",
        ),
        (graphs('<graph id="0" speedintra="fast"/>'), "g.xml:2: speedintra='fast'"),
        ('<graphs version="1">\n<graph id="0">', "g.xml:2: ends too early inside <graph> of line 2"),
    ],
)
def test_what_does_not_follow_the_grammar_is_an_error_with_its_line(text: str, reason: str) -> None:
    """One line that names file, line and element."""
    with pytest.raises(InputError) as caught:
        READER.read(Source("g.xml", text))
    assert str(caught.value).startswith(reason)

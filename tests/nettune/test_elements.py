"""The grammar of element names."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.elements import ElementId
from nettune.errors import InputError

NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
PORTS = st.from_regex(r"[A-Za-z0-9/._:]{1,12}", fullmatch=True)


@pytest.mark.parametrize(
    ("element", "text", "kind", "node"),
    [
        (ElementId.fabric(), "fabric", "fabric", None),
        (ElementId.host("g17"), "host/g17", "host", "g17"),
        (ElementId.nic("g17", "mlx5_3"), "host/g17/nic/mlx5_3", "nic", "g17"),
        (ElementId.gpu("g17", 7), "host/g17/gpu/7", "gpu", "g17"),
        (ElementId.switch("leaf3"), "switch/leaf3", "switch", "leaf3"),
        (ElementId.port("leaf3", "Ethernet1/1"), "switch/leaf3/port/Ethernet1/1", "port", "leaf3"),
        (ElementId.link("spine1", "Eth3", "leaf3", "Eth48"), "link/leaf3:Eth48--spine1:Eth3", "link", None),
    ],
)
def test_every_kind_has_one_spelling(element, text, kind, node):
    """Constructors write the grammar, and the text reads back as the same element."""
    assert element == text
    assert ElementId(text) == element
    assert (element.kind, element.node) == (kind, node)


@pytest.mark.parametrize(
    "text",
    ["", "host/", "host/a/b", "host/a/gpu/x", "switch", "link/a:b", "link/b:x--a:y", "host/a b", "rack/3"],
)
def test_other_texts_are_refused(text):
    """What follows no rule of the grammar is an InputError."""
    with pytest.raises(InputError):
        ElementId(text)


@given(NAMES, PORTS, NAMES, PORTS)
def test_a_link_is_the_same_from_both_ends(node_a, port_a, node_b, port_b):
    """The order of the ends does not matter, and the ends read back."""
    link = ElementId.link(node_a, port_a, node_b, port_b)

    assert link == ElementId.link(node_b, port_b, node_a, port_a)
    assert link.kind == "link"
    assert set(link.ends or ()) == {(node_a, port_a), (node_b, port_b)}


@given(st.text(max_size=30))
def test_garbage_is_refused_or_stable(text):
    """Any text is an element that spells itself, or an InputError."""
    with contextlib.suppress(InputError):
        assert ElementId(text) == text

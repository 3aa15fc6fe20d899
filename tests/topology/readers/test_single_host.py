"""Names, PCI addresses and distances that the formats of one host share."""

from __future__ import annotations

import pytest

from nettune.errors import InputError
from topology.readers import Source
from topology.readers.single_host import default_host, nearest, nearest_in_tree, pci_address, pci_order
from topology.readers.textlines import lines_of


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("captures/g17.xml", "g17"),
        ("g17", "g17"),
        ("node 3:a.txt", "node_3_a"),
        ("<stdin>", "stdin"),
        ("-", "host"),
        ("", "host"),
        (".xml", "xml"),
    ],
)
def test_a_host_without_a_name_has_its_files(name: str, host: str) -> None:
    """What cannot be in a name is replaced; standard input has none."""
    assert default_host(Source(name, "")) == host


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:1B:00.0", "0000:1b:00.0"),
        ("1b:00.0", "0000:1b:00.0"),
        ("00000001:00:00.0", "0001:00:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("ffff:ff:01.0", "ffff:ff:01.0"),
        (" eth0 ", "eth0"),
    ],
)
def test_addresses_have_one_form(text: str, address: str) -> None:
    """Four digits of domain or more, lower case."""
    assert pci_address(text) == address


def test_addresses_sort_by_domain_first() -> None:
    """As numbers; what is no address comes last."""
    order = ["0002:00:00.0", "000b:00:00.0", "10000:00:00.0", "x"]
    assert sorted(["x", "10000:00:00.0", "000b:00:00.0", "0002:00:00.0"], key=pci_order) == order


def test_each_accelerator_begins_with_another_of_equally_near_nics() -> None:
    """Those that share the same NICs take turns; others do not move them."""
    assert nearest(
        {
            0: {"a": "PIX", "b": "PIX", "c": "SYS"},
            1: {"a": "SYS", "b": "SYS", "c": "NODE"},
            2: {"a": "PIX", "b": "PIX", "c": "SYS"},
            3: {"a": "PIX", "b": "PIX", "c": "SYS"},
            4: {},
        }
    ) == {0: ("a", "b"), 1: ("c",), 2: ("b", "a"), 3: ("a", "b"), 4: ()}


def test_more_pairs_than_any_host_has_are_refused() -> None:
    """A hostile file would take time by the square of its length."""
    devices = dict.fromkeys(range(400), (0,))
    nics = {f"n{index}": (0,) for index in range(400)}
    with pytest.raises(InputError, match=r"^x: has 400 accelerators and 400 NICs on one host"):
        nearest_in_tree(Source("x", ""), devices, nics, 1)


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "\n\n", "a\n\nb\n"])
def test_lines_are_those_of_split(text: str) -> None:
    """Without the empty piece behind the last line end."""
    expected = text.split("\n")
    assert list(lines_of(text)) == (expected[:-1] if not expected[-1] else expected)

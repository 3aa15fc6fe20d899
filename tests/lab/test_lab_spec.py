"""lab.toml: what is refused and in which words, and that nothing makes the reader stumble."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.lab import LabSpec, load_spec
from nettune.lab.spec import make_spec


def write(tmp_path, text):
    file = tmp_path / "lab.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("leaves = 2\nleafs = 2\n", 2, "unknown key 'leafs'; known keys: name, leaves"),
        ("[lab]\nleaves = 2\n", 1, "unknown key 'lab'"),
        ('\nhost_rate = "100"\n', 2, "host_rate: '100' has no known unit of rate"),
        ('host_rate = "100MB"\n', 1, "no known unit of rate"),
        ('uplink_rate = "-5mbit"\n', 1, "uplink_rate: '-5mbit' is no rate"),
        ('uplink_rate = "0mbit"\n', 1, "is not a positive rate"),
        ("host_rate = 100\n", 1, "host_rate: must be words in quotes"),
        ('host_rate = "900gbit"\n', 1, "outside 1mbit to 100gbit"),
        ("hosts_per_leaf = 127\n", 1, "its address prefix holds 126"),
        ("rails = 2\nhosts_per_leaf = 64\n", 2, "gives a leaf 128 host links"),
        ("spines = 65\n", 1, "spines: input should be less than or equal to 64, not 65"),
        ("leaves = 250\nspines = 64\n", 1, "more than 8192 uplinks"),
        ("leaves = 0\n", 1, "leaves: must be at least 1"),
        ("leaves = 2.5\n", 1, "leaves: must be a whole number"),
        ("leaves = true\n", 1, "leaves: must be a whole number"),
        ("spines = 0\n", 1, "spines = 0 leaves the leaves apart"),
        ('rail_wiring = "per-rail"\nrails = 3\n', 2, "no multiple of rails = 3"),
        ('rail_wiring = "twisted"\n', 1, "rail_wiring: input should be 'same-leaf' or 'per-rail'"),
        ('name = "Has Blank"\n', 1, "is no lab name"),
        ('name = "../x"\n', 1, "is no lab name"),
        ('host_names = "node"\n', 1, "needs one {n} (from 1) or {n0} (from 0)"),
        ('host_names = ["a", "b"]\n', 1, "lists 2 names for 8 hosts"),
        ('host_names = "leaf{n0}"\n', 1, "'leaf0' is no host name"),
        ('host_names = "a/b{n}"\n', 1, "'a/b1' is no host name"),
        ("hash_seed = 0\n", 1, "hash_seed"),
        ("mtu = 100000\n", 1, "mtu"),
        ('congestion_control = "re no"\n', 1, "is no congestion control"),
        ('port_range = "40000"\n', 1, "is no range of 16 or more ports"),
        ('port_range = "40000-40014"\n', 1, "is no range of 16 or more ports"),
        ('port_range = "1000-2000"\n', 1, "is no range of 16 or more ports"),
        ('port_range = "65000-65536"\n', 1, "is no range of 16 or more ports"),
        ("leaves = 2\nspines = = 3\n", 2, "is no TOML"),
        ('name = "open\n', 1, "is no TOML"),
    ],
)
def test_bad_specification_names_file_line_and_key(tmp_path, text, line, words):
    """Each mistake is one line with its place."""
    file = write(tmp_path, text)

    with pytest.raises(InputError) as caught:
        load_spec(file)

    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_binary_file_are_one_line(tmp_path):
    """A path that cannot be read, or is no text, is named."""
    with pytest.raises(InputError, match=r"lab\.toml: cannot be read: No such file"):
        load_spec(tmp_path / "lab.toml")
    (tmp_path / "lab.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"is no UTF-8 text"):
        load_spec(tmp_path / "lab.toml")


def test_repeated_host_names_are_refused():
    """Two hosts of one name could not be told apart."""
    with pytest.raises(InputError, match="repeats a name"):
        make_spec({"leaves": 1, "spines": 0, "host_names": ["a", "a"]})


def test_whole_example_is_read(tmp_path):
    """All keys at once, as in the module's example."""
    spec = load_spec(
        write(
            tmp_path,
            'name = "two-rail"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\nrails = 2\n'
            'rail_wiring = "per-rail"\nhost_rate = "100mbit"\nuplink_rate = "0.2 Gbit/s"\n'
            'parallel_uplinks = 2\nhash_seed = 7\nhost_names = "node{n}"\nmtu = 1500\n'
            'congestion_control = "cubic"\nport_range = "65520-65535"\n',
        )
    )

    assert spec.hosts == [f"node{n}" for n in range(1, 7)]
    assert spec.host_rate_gbps == pytest.approx(0.1)
    assert spec.uplink_rate_gbps == pytest.approx(0.2)
    assert LabSpec.model_validate(spec.model_dump()) == spec


def outcome(make, argument):
    try:
        return make(argument), ""
    except InputError as error:
        return None, str(error)


values = st.recursive(
    st.integers(-(2**40), 2**40) | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from(sorted(LabSpec.model_fields)) | st.text(max_size=8)


@given(st.dictionaries(keys, values, max_size=6))
def test_any_values_give_a_specification_or_one_line(mapping):
    """No value of any type ends in anything but a LabSpec or an InputError."""
    spec, refusal = outcome(make_spec, mapping)

    if spec is not None:
        assert len(spec.hosts) == spec.host_count
    assert "\n" not in refusal


@given(st.text(max_size=200) | st.lists(keys.map("{} = 1".format) | st.text(max_size=30)).map("\n".join))
def test_any_text_gives_a_specification_or_one_line(tmp_path_factory, text):
    """No file content ends in a traceback."""
    file = tmp_path_factory.mktemp("fuzz") / "lab.toml"
    file.write_text(text, encoding="utf-8", newline="", errors="surrogatepass")
    spec, refusal = outcome(load_spec, file)

    assert spec is not None or refusal.startswith(str(file))


def test_deep_nesting_is_one_line(tmp_path):
    """A file that would overflow the parser's stack is refused like any other."""
    with pytest.raises(InputError):
        load_spec(write(tmp_path, "leaves = " + "[" * 100_000))

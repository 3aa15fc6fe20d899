"""The table of variables: consistent, defaults by version, nearest names, what belongs to NCCL."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectives.nccl.parsing import strtoll
from collectives.nccl.tables import TABLES
from collectives.nccl.variables import (
    Kind,
    is_foreign,
    is_meant_for_nccl,
    nearest,
    parse_version,
    value_in_force,
    variables,
)
from nettune.errors import InputError


def test_no_variable_is_in_two_tables() -> None:
    """One name, one row."""
    counts = Counter(variable.name for table in TABLES for variable in table)
    assert [name for name, count in counts.items() if count > 1] == []


def test_rows_are_consistent() -> None:
    """Versions parse; defaults are numbers where values are, inside the range or a negative mark; words hold their default."""
    for variable in variables().values():
        for version in (variable.since, variable.removed, *(first for first, _ in variable.history)):
            assert not version or parse_version(version)
        if variable.kind is Kind.INTEGER and variable.default:
            number = strtoll(variable.default)
            assert number.rest == "", variable.name
            low, high = variable.low, variable.high
            inside = (low is None or number.value >= low) and (high is None or number.value <= high)
            assert inside or number.value < 0, variable.name
        if variable.kind is Kind.WORD and variable.default:
            assert variable.default in variable.words
        if variable.history:
            assert variable.history[-1][1] == variable.default
        if variable.instead.startswith(("NCCL_", "TORCH_")):
            assert variable.instead.partition("=")[0] in variables()


@pytest.mark.parametrize(
    ("name", "version", "default"),
    [
        ("NCCL_IB_TIMEOUT", "2.12", "14"),
        ("NCCL_IB_TIMEOUT", "2.14", "18"),
        ("NCCL_IB_TIMEOUT", "2.22.3", "18"),
        ("NCCL_IB_TIMEOUT", "2.23", "20"),
        ("NCCL_IB_SPLIT_DATA_ON_QPS", "2.19.3", "1"),
        ("NCCL_IB_SPLIT_DATA_ON_QPS", "2.20.3", "0"),
        ("NCCL_PXN_C2C", "2.27", "0"),
        ("NCCL_PXN_C2C", "2.28", "1"),
        ("NCCL_BUFFSIZE", "2.5", "4194304"),
        ("NCCL_NO_SUCH", "2.5", ""),
    ],
)
def test_defaults_changed_with_versions(name: str, version: str, default: str) -> None:
    """As docs/userguide/source/env.rst tells."""
    assert value_in_force(name, parse_version(version)) == default


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NCCL_IB_TIMOUT", "NCCL_IB_TIMEOUT"),
        ("NCLL_IB_HCA", "NCCL_IB_HCA"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("NCCL_IB_RETRY_COUNT", "NCCL_IB_RETRY_CNT"),
        ("NCCL_SOCKET_IFACE", "NCCL_SOCKET_IFNAME"),
        ("export NCCL_DEBUG", "NCCL_DEBUG"),
        ("NCCL_ALGOS", "NCCL_ALGO"),
        ("NCCL_IB_QPS_PER_CONN", "NCCL_IB_QPS_PER_CONNECTION"),
        ("NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        ("NCCL_QUICK_BROWN_FOX", ""),
    ],
)
def test_misspelt_names_have_a_near_one(name: str, near: str) -> None:
    """Letters left out or doubled, case, the family forgotten."""
    assert is_meant_for_nccl(name)
    assert nearest(name) == near


@pytest.mark.parametrize(
    "name", ["PATH", "HCCL_IB_TIMEOUT", "NVCC_FLAGS", "CCL_ATL_TRANSPORT", "AWS_SECRET_ACCESS_KEY"]
)
def test_other_libraries_are_left_alone(name: str) -> None:
    """Neither oneCCL nor HCCL nor a compiler is misspelt NCCL, and secrets are not read."""
    assert not is_meant_for_nccl(name)


@pytest.mark.parametrize(
    "name", ["NCCL_TESTS_SPLIT", "NCCL_VERSION", "NCCL_FASTRAK_IFNAME", "NCCL_TUNER_CONFIG_FILE"]
)
def test_plugins_and_builds_are_foreign(name: str) -> None:
    """NCCL reads none of them, and they are no mistake."""
    assert is_foreign(name)
    assert name not in variables()


@given(st.text(max_size=300))
def test_any_name_is_answered(name: str) -> None:
    """No name is a traceback."""
    is_meant_for_nccl(name)
    assert nearest(name[:40]) in {"", *variables()}


@pytest.mark.parametrize("text", ["", "2", "two", "2.27.x", "2.27; rm", "1" * 50])
def test_what_is_no_version_is_an_error(text: str) -> None:
    """One line that says how to write it."""
    with pytest.raises(InputError, match=r"write it like 2\.27"):
        parse_version(text)


def test_versions_as_tools_print_them() -> None:
    """With and without patch, package and CUDA."""
    assert [parse_version(text) for text in ("2.27", "v2.27.5", "2.27.5-1", "2.29.7+cuda12.9")] == [
        (2, 27),
        (2, 27, 5),
        (2, 27, 5),
        (2, 29, 7),
    ]


def test_all_variables_of_the_field_notes_are_known(shared: Path) -> None:
    """Every NCCL_ name that begins a row of the notes' tables."""
    text = (shared / "field" / "nccl.md").read_text()
    named = {
        line.split("|")[1].strip().split(" ")[0].split("/")[0]
        for line in text.splitlines()
        if line.startswith("|NCCL_")
    }
    assert len(named) > 30
    assert {name for name in named if name not in variables()} <= {"NCCL_MIN"}  # NCCL_MIN/MAX_CTAS

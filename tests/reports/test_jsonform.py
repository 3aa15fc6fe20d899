"""The JSON envelope: its keys, its status, and no NaN in it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.stats import Interval
from reports.jsonform import ENVELOPE_KEYS, dumps, envelope, error_envelope, plain


def finding(status):
    return Finding(
        check="mtu", status=status, where=ElementId.host("h1"), what="x", evidence={"mtu": math.nan}
    )


def test_the_keys_of_the_envelope():
    """Schema, verb, status and exit code come first, the verb's own keys beside them."""
    data = {
        "busbw_gbps": {"nettune": Interval(0.0928, 0.091, 0.0934)},
        "mfu_delta_points": 7.9,
        "run_dir": Path("runs/x"),
    }
    result = envelope("demo", 0, data)
    assert tuple(result) == (*ENVELOPE_KEYS, "busbw_gbps", "mfu_delta_points", "run_dir")
    assert result["schema"] == "nettune.demo/1"
    assert result["busbw_gbps"]["nettune"] == {"median": 0.0928, "lo": 0.091, "hi": 0.0934}
    assert result["run_dir"] == "runs/x"
    assert json.loads(dumps(result)) == result


@pytest.mark.parametrize(
    ("exit_code", "statuses", "status"),
    [(0, [], "PASS"), (0, [Status.PASS], "PASS"), (0, [Status.PASS, Status.WARN], "WARN"), (1, [Status.FAIL], "FAIL"),
     (1, [Status.WARN], "FAIL"), (2, [Status.UNKNOWN], "UNKNOWN")],
)  # fmt: skip
def test_the_status_follows_the_exit_code(exit_code, statuses, status):
    """0 is PASS, or WARN when a finding warns; 1 is FAIL; 2 is UNKNOWN."""
    result = envelope("qualify", exit_code, {"findings": [finding(entry) for entry in statuses]})
    assert (result["status"], result["exit_code"]) == (status, exit_code)


def test_findings_have_their_own_keys():
    """Each finding in the envelope has at least status, where and what, and its NaN is null."""
    (entry,) = envelope("demo", 1, {"findings": [finding(Status.FAIL)]})["findings"]
    assert {"status": "FAIL", "where": "host/h1", "what": "x"}.items() <= entry.items()
    assert entry["evidence"] == {"mtu": None}


def test_an_error_is_one_line():
    """A verb that could not run prints the same envelope with the error, status ERROR and exit code 2."""
    result = error_envelope("lab", InputError("no such\n  host", "lab.toml", 3))
    assert result == {
        "schema": "nettune.lab/1", "verb": "lab", "status": "ERROR", "exit_code": 2, "error": "lab.toml:3: no such host",
    }  # fmt: skip
    assert error_envelope("lab", KeyboardInterrupt())["error"] == "KeyboardInterrupt"


def test_the_envelope_guards_its_keys():
    """A verb cannot overwrite the envelope, nor end with a code that has no meaning."""
    with pytest.raises(ValueError, match="status belong"):
        envelope("demo", 0, {"status": "fine"})
    with pytest.raises(ValueError, match="exit code 3"):
        envelope("demo", 3, {})


def test_values_of_all_kinds_become_plain():
    """Arrays, sets of numbers, dataclasses, enums, paths and element names have a JSON form; bytes have none."""

    @dataclass
    class Point:
        x: float
        tags: tuple[str, ...]

    value = {
        "array": np.array([[1.0, math.nan], [math.inf, 2.0]]),
        "scalar": np.float32(0.5),
        "integer": np.int64(3),
        "truth": np.bool_(True),
        "point": Point(-math.inf, ("a",)),
        "status": Status.WARN,
        "where": ElementId.host("h1"),
        4194304: None,
    }
    assert plain(value) == {
        "array": [[1.0, None], [None, 2.0]],
        "scalar": 0.5,
        "integer": 3,
        "truth": True,
        "point": {"x": None, "tags": ["a"]},
        "status": "WARN",
        "where": "host/h1",
        "4194304": None,
    }
    with pytest.raises(TypeError, match="bytes has no JSON form"):
        plain({"raw": b"x"})


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda key: key not in ENVELOPE_KEYS), NESTED, max_size=4))
def test_any_result_is_strict_json(data):
    """Whatever a verb returns, its text parses under the strict rules of JSON, and back to the same."""

    def refuse(word):
        raise AssertionError(word)

    result = envelope("demo", 0, data)
    assert json.loads(dumps(result), parse_constant=refuse) == result

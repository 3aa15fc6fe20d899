"""Findings and the exit code that they amount to."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.elements import ElementId
from nettune.errors import InputError


def finding(
    status: Status, *, required: bool = True, probability: float | None = None, host: str = "h0"
) -> Finding:
    """A finding with this status."""
    return Finding(
        check="link-rate",
        status=status,
        where=ElementId.host(host),
        what="x",
        required=required,
        probability=probability,
    )


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([], 0),
        ([Status.PASS, Status.WARN], 0),
        ([Status.UNKNOWN, Status.PASS], 2),
        ([Status.UNKNOWN, Status.FAIL], 1),
        ([Status.FAIL, Status.PASS], 1),
    ],
)
def test_fail_wins_over_unknown_over_pass(statuses, code):
    """1 for any FAIL, else 2 for a required UNKNOWN, else 0."""
    for order in itertools.permutations(statuses):
        assert exit_code([finding(status) for status in order]) == code


def test_an_unknown_that_is_not_required_passes():
    """An optional check that could not run does not keep a fabric from its pass."""
    assert exit_code([finding(Status.UNKNOWN, required=False)]) == 0


@given(st.permutations([Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS]), st.floats(0, 0.99))
def test_the_first_is_the_worst(statuses, probability):
    """FAIL, a required UNKNOWN, WARN, an UNKNOWN that is not required, PASS; then the most probable."""
    optional = finding(Status.UNKNOWN, required=False)
    likely = finding(Status.FAIL, probability=1.0, host="h1")

    ordered = worst_first(
        [optional, *(finding(status, probability=probability) for status in statuses), likely]
    )

    assert [f.status for f in ordered] == [
        Status.FAIL, Status.FAIL, Status.UNKNOWN, Status.WARN, Status.UNKNOWN, Status.PASS,
    ]  # fmt: skip
    assert ordered[0] is likely
    assert ordered[4] is optional


@pytest.mark.parametrize(
    "damage", [{"schema": "x"}, {"status": "MAYBE"}, {"where": "moon"}, {"extra": 1}, {"probability": 2}]
)
def test_other_json_is_no_finding(damage):
    """Another schema, status, element, key or probability is an InputError; the form itself reads back."""
    one = finding(Status.WARN, probability=0.5)

    assert Finding.from_json(json.loads(json.dumps(one.to_json()))) == one
    with pytest.raises(InputError):
        Finding.from_json(one.to_json() | damage)


def test_the_json_form_is_plain():
    """Every value is JSON, and the schema is stated."""
    data = json.loads(json.dumps(finding(Status.FAIL, probability=0.5).to_json()))

    assert data["schema"] == "nettune.finding/1"
    assert (data["status"], data["where"], data["probability"]) == ("FAIL", "host/h0", 0.5)


def test_a_probability_is_between_0_and_1():
    """Anything else is a programming error."""
    with pytest.raises(ValueError, match="outside"):
        finding(Status.FAIL, probability=1.5)

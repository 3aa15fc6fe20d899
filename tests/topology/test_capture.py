"""Captures and their JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.capture import Captured, CaptureState, HostCapture

CAPTURED = st.builds(Captured, st.sampled_from(list(CaptureState)), st.text(), st.text())
CAPTURES = st.builds(
    HostCapture,
    st.text(min_size=1),
    st.sampled_from(["host", "switch"]),
    st.dictionaries(st.text(), CAPTURED),
    st.dictionaries(st.text(), CAPTURED),
)


@given(CAPTURES)
def test_a_capture_survives_json(capture):
    """to_json and from_json are inverse, through text."""
    assert HostCapture.from_json(json.loads(json.dumps(capture.to_json()))) == capture


def test_only_what_was_read_whole_is_text():
    """Absence, refusal and errors give no text, so that no check takes them for a pass."""
    for state in CaptureState:
        capture = HostCapture("h", "host", files={"/x": Captured(state, "content")})
        assert capture.text("/x") == ("content" if state is CaptureState.OK else None)


@pytest.mark.parametrize(
    ("captured", "message"),
    [
        (Captured(CaptureState.DENIED, note="no permission"), "h: `ip`: denied: no permission"),
        (Captured(CaptureState.OK, "{"), "h: `ip` printed no JSON"),
    ],
)
def test_json_output_that_is_missing_or_cut_names_the_host(captured, message):
    """The error says which host, which command and why."""
    with pytest.raises(InputError, match=message):
        HostCapture("h", "host", commands={"ip": captured}).json_of("ip")


@pytest.mark.parametrize(
    "damage", [{"schema": "x"}, {"role": "toaster"}, {"files": 3}, {"commands": {"a": {"state": "?"}}}]
)
def test_other_json_is_no_capture(damage):
    """Wrong schema, role or shape are InputErrors."""
    with pytest.raises(InputError):
        HostCapture.from_json(HostCapture("h", "host").to_json() | damage)

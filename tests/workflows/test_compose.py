"""Reports out of stored results: a section a step, and no surprise from results that are damaged."""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nettune.checks import Status
from nettune.errors import InputError
from nettune.workflows.compose import compose
from nettune.workflows.picture import picture
from reports import html, markdown, text
from reports.document import Report

# top-level keys of a step -> heading of its section
STEPS = {
    ("qualify", "findings"): "Qualification",
    ("placements",): "Placement",
    ("comparison", "sizes", "busbw_gbps", "speedup"): "Communication under each order of ranks",
    ("second",): "A fabric and a job for which depth-first is not best",
    ("sweep",): "Sweep of one knob",
    ("train", "mfu_delta_points", "mfu_delta_ci"): "Training",
}
ALWAYS = ("verb", "command", "created", "version", "machine", "seconds", "fabric", "link_rate_gbps")
JUNK: list[Any] = [
    None, True, -1, 0, 10**30, 1e308, math.nan, math.inf, "", "x", "\x1b[31m<script>", [], {}, [[]], [None], {"a": 1},
    [1, "a"], {"schema": "nettune.fabric/1"},
]  # fmt: skip


def only(stored: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The results of one step, as a verb of its own would leave them."""
    return {key: stored[key] for key in (*ALWAYS, *keys) if key in stored}


def headings(report: Report) -> list[str]:
    return [section.heading for section in report.sections]


def test_demo_has_a_section_for_each_step(stored):
    """In the order of the story, with the method last."""
    report = compose(stored)

    assert headings(report) == [*STEPS.values(), "Method"]
    assert [figure.label for figure in report.summary] == [
        "busbw, 64 KiB",
        "MFU",
        "step time",
        "sweep",
        "PP x DP job",
    ]
    assert report.verdict is not None
    assert report.verdict.status is Status.PASS
    assert "not shown here: a rail" in markdown.render(report).lower()


@pytest.mark.parametrize("keys", STEPS)
def test_a_step_alone_gives_its_section_alone(stored, keys):
    """A verb's report shows what the verb did and claims nothing else."""
    report = compose(only(stored, keys))

    assert headings(report) == [STEPS[keys], "Method"]
    said = html.render(report)
    assert "was tested by real transfers" in said if "qualify" in keys else "real transfers" not in said


def test_structure_is_not_called_tested(stored):
    """Findings of discovery, without transfers, have a section that says so, and no verdict of fitness."""
    report = compose(only(stored, ("findings",)) | {"verb": "discover"})

    assert headings(report) == ["Structure", "Method"]
    assert report.verdict is None


@pytest.mark.parametrize(
    ("bounds", "claimed"), [([0.2, 0.6], True), ([-0.1, 0.9], False), ([0.0, 0.9], False), (None, False)]
)
def test_gain_is_claimed_only_above_zero(stored, bounds, claimed):
    """The verdict's sentence follows the interval, not the median."""
    data = stored | {"mfu_delta_points": 0.4, "mfu_delta_ci": bounds}

    verdict = compose(data).verdict

    assert verdict is not None
    assert ("buys +0.4 MFU points" in verdict.sentence) == claimed


def test_first_finding_is_the_verdict(stored):
    """A FAIL stands first whatever the order in the file, and names its element."""
    failed = stored["findings"][0] | {"status": "FAIL", "where": "host/h2", "what": "is slow"}
    report = compose(stored | {"findings": [*stored["findings"], failed]})

    assert report.verdict is not None
    assert (report.verdict.status, report.verdict.sentence) == (Status.FAIL, "host/h2: is slow")


def test_fault_and_loopback_have_titles_of_their_own(stored):
    """No report of a fault says that anything was tuned, none from loopback speaks of an emulated fabric."""
    fault = {"kind": "mtu", "what": "smaller MTU", "where": ["host/h1"]}
    with_fault = compose(only(stored, ("findings", "qualify")) | {"fault": fault})
    loopback = compose({key: stored[key] for key in ("verb", "sweep")} | {"mode": "loopback"})

    assert "a fault" in with_fault.title
    assert "tuned" not in with_fault.title + loopback.title
    assert "smaller MTU" in markdown.render(with_fault)
    assert "loopback" in loopback.subtitle


def test_every_form_is_drawn_from_the_same_results(stored):
    """HTML, Markdown, text in 80 columns and the picture; composing twice gives the same bytes."""
    first, again = html.render(compose(stored)), html.render(compose(copy.deepcopy(stored)))

    assert first == again
    assert max(map(len, text.render(compose(stored)).splitlines())) <= 80
    assert picture(stored).lstrip().startswith("<?xml")


def places(value: Any, depth: int = 7) -> list[tuple[Any, ...]]:
    """Paths of all values inside a JSON value; of long lists the first entry and the last."""
    if depth == 0 or not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else sorted({0, len(value) - 1}) if value else []
    return [
        path for key in keys for path in ((key,), *((key, *rest) for rest in places(value[key], depth - 1)))
    ]


@pytest.mark.filterwarnings("ignore")  # a chart of absurd figures may warn; it must not fail
@settings(max_examples=settings.default.max_examples // 4, phases=[Phase.generate])  # a chart costs 0.2 s
@given(draw=st.data())
@pytest.mark.parametrize("keys", STEPS)
def test_damaged_results_give_an_input_error_or_a_report(stored, keys, draw):
    """Any key removed, any value replaced by other JSON: never another exception, in no form."""
    data = copy.deepcopy(only(stored, keys))
    *way, last = draw.draw(st.sampled_from(places(data)))
    target: Any = data
    for key in way:
        target = target[key]
    if draw.draw(st.booleans()):
        del target[last]
    else:
        target[last] = draw.draw(st.sampled_from(JUNK))

    try:
        report = compose(data)
    except InputError:
        pass  # one line by its making
    else:
        assert html.render(report).rstrip().endswith("</html>")
        assert markdown.render(report).startswith("# ")
        assert text.render(report)
    if "placements" in keys:
        with contextlib.suppress(InputError):
            assert picture(data).rstrip().endswith("</svg>")

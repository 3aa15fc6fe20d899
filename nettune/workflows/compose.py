"""A run's data as a report: first what it bought, then the evidence, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from nettune.checks import Finding, Status, exit_code, worst_first
from nettune.errors import InputError
from nettune.stats import Interval
from nettune.units import format_rate, format_size
from nettune.workflows import benched, placed, probed, structure
from nettune.workflows import sections as part
from nettune.workflows.sections import ci, interval
from reports.document import KeyFigure, Report, Section, Text, Verdict
from topology.fabric import Fabric
from topology.placement.place import AGAINST, OURS

Data = Mapping[str, Any]

_REPLICATION = (
    "The unit of replication is the initialisation of the communicator; every interval is a 95% bootstrap that draws"
    " initialisations first."
)
_BUSBW = "busbw is nccl-tests': bytes that the busiest rank sends, over the time of the slowest rank."
_BASELINES = (
    "Lexicographic is what torchrun's dynamic rendezvous does with host names; random is another permutation in each"
    " initialisation, and now and then one whose ports collide nowhere; depth-first lists hosts leaf by leaf, which is"
    " as good as any order for one ring."
)
_MEASURED = {"comparison", "placements", "sweep", "train"}
"""Results of which the notes on method speak."""
_WHOLE = {"lint": "linted", "outputs": "parsed", "judged": "judged", "simulation": "simulated"}
"""Key of results that are a report of their own -> the module that makes it, loaded only then."""
_TITLES = {
    "demo": "nettune demo: an emulated fabric, qualified, placed, tuned and trained on",
    "discover": "Discovery",
    "qualify": "Qualification",
    "place": "Placement",
    "bench": "Communication measured",
    "train": "Training",
    "sweep": "Sweep",
    "discover-paths": "Paths of source ports",
    "lint": "Lint of the fabric's ECMP",
}


def compose(data: Data) -> Report:
    """The report of a run, from its `result.json`: a section for each step that left results.

    Raises:
        InputError: a fabric, placement or finding in it cannot be read, or a key of a step is missing.
    """
    with readable():
        findings = worst_first(Finding.from_json(entry) for entry in data.get("findings", []))
        for key, module in _WHOLE.items():
            if key in data:
                report: Report = import_module(f"nettune.workflows.{module}").report(
                    data, findings, _meta(data)
                )
                return report
        fabric = Fabric.from_json(data["fabric"]) if "fabric" in data else None
        return Report(
            title=_title(data),
            subtitle=_subtitle(data, fabric),
            summary=_summary(data),
            sections=[section for section in _sections(data, fabric, findings) if section.parts],
            meta=_meta(data),
            verdict=_verdict(data, findings),
        )


@contextmanager
def readable() -> Iterator[None]:
    """What does not fit in stored results, made by another version or damaged, becomes an InputError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise InputError(
            f"results of another version, or damaged: {type(error).__name__}: {error}"
        ) from error


def _sections(data: Data, fabric: Fabric | None, findings: list[Finding]) -> Iterator[Section]:
    if "probed" in data:
        yield probed.section(data["probed"], findings, data.get("steering"))
    elif fabric is not None and "sources" in data:
        yield structure.section(data, fabric, findings)
    elif data["verb"] == "lint":
        yield probed.lint_section(findings, data.get("flows", ()))
    elif fabric is not None and ("qualify" in data or findings):
        yield part.qualification(data, fabric, findings)
    if "drains" in data:
        from nettune.workflows import judged

        yield judged.section(data["drains"], data["files"])
    if fabric is not None and "placements" in data:
        yield placed.section(data, fabric)
    if "comparison" in data:
        yield part.comparison(data)
    if "fit" in data:
        yield benched.fit_section(data["fit"])
    if "bench" in data:
        yield benched.section(data["bench"])
    if "second" in data:
        yield part.second(data["second"])
    if "sweep" in data:
        yield part.sweep(data["sweep"])
    if "train" in data:
        yield part.training(data["train"])
    yield _method(data)


def _title(data: Data) -> str:
    verb = data["verb"]
    if data.get("fault"):
        return f"nettune {verb}: a fault in an emulated fabric, and what was found"
    if data.get("mode") == "loopback":
        return f"nettune {verb}: what can be measured where no fabric can be emulated"
    return _TITLES.get(verb, f"nettune {verb}")


def _subtitle(data: Data, fabric: Fabric | None) -> str:
    if "launcher" in data:
        return f"{data.get('bench', {}).get('ranks', 'no')} ranks started by {data['launcher']}"
    if fabric is None:
        return "ranks on this machine's loopback, no fabric between them"
    rate = data["link_rate_gbps"]
    nics = f", NICs of {format_rate(rate)}" if rate else ""
    return f"{len(fabric.hosts)} hosts, {len(fabric.switches)} switches{nics}"


def _verdict(data: Data, findings: Sequence[Finding]) -> Verdict | None:
    code = exit_code(findings)
    if code != 0:
        first = findings[0]
        return Verdict(Status.FAIL if code == 1 else Status.UNKNOWN, f"{first.where}: {first.what}")
    points, bounds = data.get("mfu_delta_points"), data.get("mfu_delta_ci")
    if points is None or bounds is None:
        gain = ""
    elif bounds[0] > 0:
        gain = f"the order of ranks buys {points:+.1f} MFU points over {data['train']['from']}"
    else:
        gain = f"no gain in MFU is shown ({bounds[0]:+.1f} to {bounds[1]:+.1f} points)"
    fit = "the fabric is fit" if "qualify" in data else ""
    said = "; ".join(sentence for sentence in (fit, gain) if sentence)
    shown = bool(fit) or (bounds is not None and bounds[0] > 0)
    return Verdict(Status.PASS if shown else Status.WARN, said) if said else None


def _summary(data: Data) -> list[KeyFigure]:
    figures: list[KeyFigure] = structure.figures(data) if "sources" in data else []
    if "probed" in data:
        figures += probed.figures(data["probed"], data["learned"], data.get("steering"))
    busbw, rate = data.get("busbw_gbps") or {}, data.get("link_rate_gbps")
    if OURS in busbw:
        ours = interval(busbw[OURS])
        details = [f"{ours.median / rate:.0%} of link rate"] if rate else []
        if AGAINST in data.get("speedup", {}):
            gain = Interval(**data["speedup"][AGAINST])
            details.append(f"{gain.median:.1f}x {AGAINST}'s ({gain.lo:.1f} to {gain.hi:.1f})")
        label = f"busbw, {format_size(data['busbw_bytes'])}" if "busbw_bytes" in data else "busbw"
        figures.append(KeyFigure(label, format_rate(ours.median), ", ".join(details)))
    if "bench" in data:
        figures += benched.figures(data["bench"])
    train = data.get("train", {})
    if "change" in train:
        points, ratio = ci(train["change"]["mfu_delta_points"]), ci(train["change"]["step_time_ratio"])
        ends = [train["orders"][train[end]] for end in ("from", "to")]
        mfu, step = ([one[key]["median"] for one in ends] for key in ("mfu_percent", "step_s"))
        figures += [
            KeyFigure(
                "MFU",
                f"{points.median:+.1f} points",
                f"({points.lo:+.1f} to {points.hi:+.1f}), {mfu[0]:.1f}% to {mfu[1]:.1f}%",
                Status.PASS if points.lo > 0 else None,
            ),
            KeyFigure(
                "step time",
                f"{ratio.median - 1:+.0%}",
                f"({ratio.lo - 1:+.0%} to {ratio.hi - 1:+.0%}), {step[0] * 1e3:.0f} to {step[1] * 1e3:.0f} ms",
            ),
        ]
    if "job" in data:
        figures += placed.figures(data)
    if "sweep" in data:
        figures.append(_swept(data["sweep"], brief="train" in data))
    if "second" in data:
        gain = Interval(**data["second"]["speedup"]["depth-first"])
        detail = f"than depth-first ({gain.lo:.1f} to {gain.hi:.1f})"
        figures.append(KeyFigure("PP x DP job", f"{gain.median:.1f}x faster", detail))
    return figures


def _swept(swept: Data, *, brief: bool) -> KeyFigure:
    if not brief:
        return KeyFigure(swept["knob"], f"{swept['kept']:g}", swept["reason"])
    kept = next(trial for trial in swept["trials"] if trial["value"] == swept["kept"])
    gain = kept["gain_s"]
    why = "no value shown faster" if gain is None else f"saves {gain[1] * 1e3:.0f} to {gain[2] * 1e3:.0f} ms"
    return KeyFigure("sweep", f"{swept['kept']:g} kept", f"{swept['knob']}; {why}")


def _method(data: Data) -> Section:
    measured = not _MEASURED.isdisjoint(data)
    notes = [_REPLICATION, _BUSBW, _BASELINES] if measured else []
    notes += [f"Not shown here: {reason}" for reason in data.get("not_shown", [])]
    spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in data.get("seconds", {}).items())
    return Section(
        "Method", parts=[Text(items=[*notes, f"Time spent: {spent}." if spent else "Time spent: unknown."])]
    )


def _meta(data: Data) -> dict[str, str]:
    machine = data.get("machine", {})
    known = {
        "command": data.get("command", f"nettune {data['verb']}"),
        "seed": data.get("seed", "not recorded"),
        "made": data.get("created", ""),
        "nettune": data.get("version", ""),
        "machine": f"{machine.get('cores')} cores, Linux {machine.get('kernel')}, Python {machine.get('python')}",
    }
    return {key: str(value) for key, value in {**known, **machine.get("environment", {})}.items()}

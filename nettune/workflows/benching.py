"""`nettune bench` with settings: algorithms, steering, two settings against each other, constants of a cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collectives.bench import Method
from collectives.benchresult import ratio, to_json
from collectives.communicator import MODULES
from collectives.fitting import fitted, latencies, pairs_by_class
from collectives.measuring import ITEM_BYTES, Case, Measured, Place, measure, placement_of
from collectives.schedules import Op
from collectives.setting import BUILTIN, Setting
from collectives.sizes import sizes_of
from nettune.checks import Finding, Status, exit_code
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.launch.caller import Caller
from nettune.launch.failures import AgentError
from nettune.launch.gathered import gathered
from nettune.launch.launched import Launched
from nettune.units import format_size, parse_rate
from nettune.workflows import steps
from nettune.workflows.cluster import Cluster
from nettune.workflows.given import on_lab, read_fabric
from nettune.workflows.run import Progress, Run, RunResult, open_run
from topology.placement.place import GIVEN, METHODS

OPS = {str(op): op for op in Op if op is not Op.P2P} | {"alltoall": Op.ALL_TO_ALL, "sendrecv": Op.P2P}

_START_S = 60.0
"""Imports of many ranks on a busy host."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for.

    Attributes:
        settings: as written; empty means the library's own algorithm.
        ab: two settings to be compared, or none.
        op: operation.
        dtype: nccl-tests' name of the type.
        sizes: smallest and largest size as written, and the factor between sizes.
        cap: most that a NIC may send, as written; empty for no limit.
        fit: whether alpha and beta are fitted.
    """

    settings: tuple[str, ...] = ()
    ab: tuple[str, str] | None = None
    op: str = "all_reduce"
    dtype: str = "float"
    sizes: tuple[str, str, int] = ("64K", "4M", 4)
    cap: str = ""
    fit: bool = False


def settings_of(asked: Asked, orders: Sequence[str] = tuple(METHODS)) -> list[Setting]:
    """Settings to measure, each once; a steered one with its unsteered twin before it. The first order is the default.

    Raises:
        InputError: as `Setting.parse`; an order that does not exist, two settings that are one.
    """
    if asked.ab is not None and asked.ab[0] == asked.ab[1]:
        raise InputError(f"--ab: {asked.ab[0]!r} twice; give two settings")
    found: dict[str, Setting] = {}
    for text in (*(asked.settings or ((BUILTIN,) if asked.ab is None else ())), *(asked.ab or ())):
        setting = Setting.parse(text)
        setting = replace(setting, order=setting.order or orders[0])
        if setting.order not in orders:
            raise InputError(f"setting {text!r}: no order {setting.order!r}; known: {', '.join(orders)}")
        if setting.steer:
            found.setdefault(setting.unsteered.name, setting.unsteered)
        found[setting.name] = setting
    return list(found.values())


def case_of(asked: Asked, ranks: int) -> Case:
    """The operation and its sizes on so many ranks.

    Raises:
        InputError: an operation or type that does not exist, a bad size or rate.
    """
    if asked.op not in OPS:
        raise InputError(f"--op {asked.op!r} is not known; known: {', '.join(OPS)}")
    if asked.dtype not in ITEM_BYTES:
        raise InputError(f"-d {asked.dtype!r} is not known; known: {', '.join(ITEM_BYTES)}")
    op = OPS[asked.op]
    parts = ranks if op in {Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL} else 1
    sizes = sizes_of(*asked.sizes, ITEM_BYTES[asked.dtype] * parts)
    return Case(op, tuple(sizes), asked.dtype, parse_rate(asked.cap) if asked.cap else None)


def bench_settings(
    lab_name: str, asked: Asked, method: Method, runs: Path, progress: Progress, *, seed: int = 0
) -> RunResult:
    """Settings on a lab.

    Raises:
        InputError: no such lab, or what is asked for is not possible there.
    """
    settings = settings_of(asked)
    case_of(asked, 2)  # what is wrong with the words is said before anything starts
    _require(method.backend)
    with on_lab("bench", lab_name, runs, progress, seed) as (run, cluster):
        case = case_of(asked, len(cluster.hosts))
        places = _places(run, cluster, settings, case)
        method = replace(method, iface=cluster.iface)
        with cluster.agents(steps.TORCH) as agents:
            return finished(run, agents, settings, places, case, method, asked)


def bench_launched(
    me: Launched,
    asked: Asked,
    method: Method,
    runs: Path,
    progress: Progress,
    *,
    fabric: Path | None = None,
    seed: int = 0,
) -> RunResult | int:
    """Settings on the ranks that a launcher has started, where it put them; an exit code in all processes but one.

    Raises:
        InputError: as `bench_settings`; a fabric file that does not fit.
        NettuneError: ranks did not come.
    """
    settings = settings_of(asked, (GIVEN,))
    case = case_of(asked, me.ranks)
    routing = read_fabric(fabric)[0] if fabric is not None and not me.rank else None
    preload = (MODULES[method.backend],) if method.backend in MODULES else ()
    found = gathered(me, preload, timeout_s=method.timeout_s + _START_S)
    if isinstance(found, int):
        return found
    agents, seats = found
    with agents, open_run("bench", runs, progress, seed=seed) as run:
        _require(method.backend)
        run.data["launcher"] = me.launcher
        return finished(run, agents, settings, {GIVEN: Place(seats, routing)}, case, method, asked)


def _require(backend: str) -> None:
    """One line at once, where a rank would say it in its own words after everything has started."""
    if backend == "nccl":
        from collectives.backends.devices import require

        require(backend)


def finished(
    run: Run,
    agents: Caller,
    settings: Sequence[Setting],
    places: dict[str, Place],
    case: Case,
    method: Method,
    asked: Asked,
) -> RunResult:
    """Fit, measure, and end the run; what was measured before a rank failed is kept, and the exit code is then 2."""
    results: list[Measured] = []
    findings: list[Finding] = []
    try:
        latency = None
        if asked.fit:
            place = places[settings[0].order]
            with run.step("fit of alpha and beta"):
                model = fitted(
                    agents, place.seats(0), _classes(place), method, seed=run.seed, progress=run.progress
                )
            latency = latencies(model)
            run.data["fit"] = model.to_json()
        if asked.settings or asked.ab or not asked.fit:
            with run.step("settings"):
                measure(
                    agents, settings, places, case, method,
                    latency=latency, record=run.dir.record, progress=run.progress, results=results,
                )  # fmt: skip
    except AgentError as error:
        where = ElementId.host(_blamed(error))
        findings.append(
            Finding(
                check="bench-ranks", status=Status.UNKNOWN, where=where, what=str(error),
                fix="look at this host; what was measured before is in the results",
            )
        )  # fmt: skip
    if any(one.taken for one in results):
        run.data["bench"] = to_json(
            results, case, backend=method.backend, warmup=method.warmup, seed=run.seed
        )
        findings += [*_findings(results, places), *_unsteady(run.data["bench"], places)]
        if asked.ab is not None:
            run.data["bench"]["ab"] = _against(results, asked.ab, case)
        run.data["bench"]["faster"] = _steered(results, case)
    run.data["findings"] = [*run.data.get("findings", []), *(finding.to_json() for finding in findings)]
    return run.finish(exit_code(findings))


def _blamed(error: AgentError) -> str:
    """Host of the rank that the others waited for."""
    for kinds in ({"died", "hung"}, {"stopped"}, {"raised"}):
        for state in error.states:
            if state.state in kinds:
                return state.host
    return "unknown"


def _places(run: Run, cluster: Cluster, settings: Sequence[Setting], case: Case) -> dict[str, Place]:
    names = tuple(dict.fromkeys(setting.order for setting in settings))
    routing = cluster.discovery.routing
    orders = steps.placed(run, routing, steps.all_reduce(cluster, max(case.sizes_bytes)), names)
    run.data.pop("placements")
    return {name: Place(order, routing, cluster.counters) for name, order in orders.items()}


def _classes(place: Place) -> dict[str, list[tuple[int, int]]]:
    seats = place.seats(0)
    if place.routing is None:
        return pairs_by_class(None, (), len(seats))
    return pairs_by_class(place.routing, placement_of(place.routing, seats).nic.tolist(), len(seats))


def _findings(results: Sequence[Measured], places: dict[str, Place]) -> list[Finding]:
    found = []
    for one in results:
        host = _first_host(places[one.setting.order])
        wrong = sum(taken.wrong for taken in one.taken)
        if wrong:
            what = f"setting {one.setting.name}: {wrong} values of the results are wrong"
            found.append(
                Finding(
                    check="bench-values", status=Status.FAIL, where=host, what=what,
                    fix="trust no figure of this setting; test the hosts' memory and NICs",
                )
            )  # fmt: skip
        if one.contaminated:
            what = f"setting {one.setting.name}: {one.contaminated[0]}"
            found.append(
                Finding(
                    check="bench-background", status=Status.UNKNOWN, where=host, what=what,
                    evidence={"initialisations": one.contaminated},
                    fix="measure again when the fabric is quiet, or with --cap beside running jobs",
                )
            )  # fmt: skip
    return found


def _unsteady(bench: Mapping[str, Any], places: Mapping[str, Place]) -> list[Finding]:
    return [
        Finding(
            check="bench-steady", status=Status.WARN, where=_first_host(places[setting["order"]]),
            what=f"{setting['name']}, {format_size(case['size_bytes'])}: {what}", fix=fix,
        )
        for setting in bench["settings"]
        for case in setting["cases"]
        for what, fix in case["doubts"]
    ]  # fmt: skip


def _first_host(place: Place) -> ElementId:
    seat = place.seats(0)[0]
    return ElementId.host(seat if isinstance(seat, str) else seat[0])


def _against(results: Sequence[Measured], ab: tuple[str, str], case: Case) -> list[dict[str, Any]]:
    """How many times faster B is than A at each size."""
    by_name = {one.setting.name: one for one in results}
    return [
        {
            "from": ab[0],
            "to": ab[1],
            "size_bytes": size,
            "speedup": None if found is None else found._asdict(),
        }
        for size in case.sizes_bytes
        for found in [ratio(by_name[ab[0]], by_name[ab[1]], size)]
    ]


def _steered(results: Sequence[Measured], case: Case) -> list[dict[str, Any]]:
    """How many times faster each setting is than the first one at the largest size."""
    size, base = max(case.sizes_bytes), results[0]
    found = []
    for one in results[1:]:
        gain = ratio(base, one, size)
        if gain is not None:
            found.append(
                {
                    "from": base.setting.name,
                    "to": one.setting.name,
                    "size_bytes": size,
                    "speedup": gain._asdict(),
                }
            )
    return found

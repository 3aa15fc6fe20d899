"""`nettune simulate --topo --flows`: the CSV form, several seeds, and what they came to."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collectives.fabric_sim.network import Network, SwitchSettings, Transport
from collectives.fabric_sim.options import Options
from collectives.fabric_sim.result import Result
from collectives.fabric_sim.simbase import read_flows, read_network
from collectives.fabric_sim.simulate import Simulation
from nettune.errors import InputError
from nettune.units import format_duration
from nettune.wording import counted

MAX_SEEDS = 10_000
_MEASURES = ("mean", "p50", "p99", "max")


@dataclass(frozen=True)
class Simulated:
    """What the verb prints."""

    exit_code: int
    data: dict[str, Any]
    text: str


def simulate_files(
    topo: Path,
    flows_file: Path,
    *,
    paths: Path | None = None,
    hpcc_config: Path | None = None,
    seeds: int = 1,
    seed: int = 0,
    whole_ns: bool | None = None,
    fct_file: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Simulated:
    """Simulate flows on a topology with seeds `seed` + 1 to `seed` + `seeds`.

    Without a configuration: DCQCN and ECN as `run.py` of HPCC's simulator sets them for the first host's rate, 32 MiB of
    buffer, acknowledgements with strict priority, exact times.

    Args:
        topo: hosts, switches, cables.
        flows_file: who sends what to whom, when.
        paths: switches that each pair's packets cross; without it, shortest paths are drawn by a hash.
        hpcc_config: settings of HPCC's simulator.
        seeds: how many runs.
        seed: what the seeds count on from.
        whole_ns: cut times to whole nanoseconds; None: as the configuration's simulator does, where one is given.
        fct_file: takes each flow's completion times as CSV.
        progress: takes a line about each step.

    Raises:
        InputError: a file that is not what it should be, or a simulation that cannot be.
    """
    if not 1 <= seeds <= MAX_SEEDS:
        raise InputError(f"--seeds must be 1 to {MAX_SEEDS}, not {seeds}")
    gc.disable()  # nothing below makes cycles, and a large list of flows is walked again and again otherwise
    try:
        simulation, network, flows = _prepared(topo, flows_file, paths, hpcc_config, whole_ns)
    finally:
        gc.enable()
    results = []
    for number in range(seed + 1, seed + seeds + 1):

        def tell(left: int, ps: int, number: int = number) -> None:
            progress(f"seed {number}: {left} flows left at {format_duration(ps / 1e12)}")

        results.append(simulation.run(number, tell))
    stuck = next((f"seed {result.seed}: {why}" for result in results if (why := result.stuck())), None)
    left = max(result.total["unfinished"] for result in results)
    if stuck is None and left:  # no run here has a limit but the clock's own
        stuck = f"{counted(left, 'flow')} left when the simulator's clock ended"
    if fct_file is not None:
        _write_times(fct_file, flows, results)
    data = _data(network, len(flows), results)
    if stuck:
        data["findings"] = [{"check": "progress", "status": "FAIL", "what": stuck}]
    return Simulated(1 if stuck else 0, data, _text(data, stuck))


def _prepared(
    topo: Path, flows_file: Path, paths: Path | None, hpcc_config: Path | None, whole_ns: bool | None
) -> tuple[Simulation, Network, Sequence[Any]]:
    config = None
    if hpcc_config is not None:
        from collectives.fabric_sim.hpccconfig import read_hpcc_config

        config = read_hpcc_config(hpcc_config)
        settings = config.settings
    else:
        from collectives.congestion.presets import ECN_PRESETS, hpcc_runpy

        settings = SwitchSettings(ecn=ECN_PRESETS["hpcc-runpy"])
    network = read_network(topo, settings)
    if config is not None and config.loss:
        network = replace(network, cables=[replace(cable, loss=config.loss) for cable in network.cables])
    flows = read_flows(flows_file, network, paths)
    transport = Transport() if config is None else config.transport
    if whole_ns is not None:
        transport = replace(transport, whole_ns=whole_ns)
    control = hpcc_runpy(network.host_gbps()) if config is None else config.control
    options = Options()
    if config is not None and (config.windowed or control.kind == "hpcc"):
        rtt = config.base_rtt_us(network, [flow.paths[0] for flow in flows])
        window = int(rtt * network.host_gbps() * 125)
        options = Options(
            window_bytes=window, base_rtt_us=rtt, window_follows_rate=config.window_follows_rate
        )
    return Simulation(network, flows, [control], transport=transport, options=options), network, flows


def _percentile(ordered: Sequence[float], part: float) -> float:
    """As the reference's own evaluation: the value at this part of the sorted list."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _times(result: Result) -> dict[str, float] | None:
    ordered = sorted(result.fct_us)
    if not ordered:
        return None
    return {
        "mean": sum(ordered) / len(ordered),
        "p50": _percentile(ordered, 0.5),
        "p99": _percentile(ordered, 0.99),
        "max": ordered[-1],
    }


def _data(network: Network, flows: int, results: Sequence[Result]) -> dict[str, Any]:
    runs: list[dict[str, Any]] = []
    for result in results:
        total = result.total
        runs.append({
            "seed": result.seed,
            "fct_us": _times(result),
            "pfc_pauses": total["pauses"],
            "pfc_paused_us": total["paused_ps"] / 1e6,
            "ecn_marks": total["marks"],
            "cnps": total["cnps"],
            "packet_hops": total["data_hops"],
            "control_hops": total["control_hops"],
            "retransmissions": total["retransmissions"],
            "timeouts": total["timeouts"],
            "drops": total["drops"] + total["losses"],
            "unfinished": total["unfinished"] + total["failed"],
            "simulated_us": total["now"] / 1e6,
        })  # fmt: skip
    times = [run["fct_us"] for run in runs if run["fct_us"]]
    counters = [key for key in runs[0] if key not in {"seed", "fct_us"}]
    return {
        "hosts": network.hosts,
        "switches": len(network.names) - network.hosts,
        "flows": flows,
        "seeds": len(runs),
        "fct_us": {key: _mean([one[key] for one in times]) for key in _MEASURES} if times else None,
        "fct_us_spread": {
            key: {"min": min(one[key] for one in times), "max": max(one[key] for one in times)}
            for key in _MEASURES
        }
        if times
        else None,
        **{key: _mean([run[key] for run in runs]) for key in counters},
        "runs": runs,
    }


def _mean(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return int(mean) if all(isinstance(value, int) for value in values) and mean == int(mean) else mean


def _write_times(file: Path, flows: Sequence[Any], results: Sequence[Result]) -> None:
    from nettune.records import write_atomic

    rows = ["src,dst,bytes,start_s,fct_us_mean,fct_us_min,fct_us_max"]
    for row, flow in enumerate(flows):
        times = [
            result.finish_ps[row] / 1e6 - flow.start_us for result in results if result.finish_ps[row] >= 0
        ]
        shown = (
            [f"{value:.6f}" for value in (_mean(times), min(times), max(times))] if times else ["", "", ""]
        )
        rows.append(f"{flow.src},{flow.dst},{flow.size_bytes},{flow.start_us / 1e6:.12g},{','.join(shown)}")
    write_atomic(file, "\n".join(rows) + "\n")


def _text(data: dict[str, Any], stuck: str | None) -> str:
    lines = [
        ", ".join(
            counted(data[key], key[:-2] if key == "switches" else key[:-1])
            for key in ("flows", "hosts", "switches", "seeds")
        )
    ]
    if stuck:
        from textwrap import wrap

        lines += wrap(f"FAIL  {stuck}", 80, subsequent_indent="      ")
    if data["fct_us"]:
        for key in _MEASURES:
            spread = data["fct_us_spread"][key]
            within = (
                "" if spread["min"] == spread["max"] else f"  ({spread['min']:.1f} to {spread['max']:.1f})"
            )
            lines.append(f"completion {key:<5} {data['fct_us'][key]:10.1f} us{within}")
    for key, what in (
        ("pfc_pauses", "PFC pauses"),
        ("pfc_paused_us", "paused, us"),
        ("ecn_marks", "ECN marks"),
        ("retransmissions", "retransmissions"),
        ("drops", "packets lost"),
        ("packet_hops", "packet hops"),
    ):
        lines.append(f"{what:<16} {data[key]:10.10g}")
    return "\n".join(lines)

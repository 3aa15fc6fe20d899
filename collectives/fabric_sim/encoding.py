"""A simulation as the arrays of the core (`core.COUNTS`, `core.ARRAYS`), checked: nothing wrong gets past here."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectives.congestion.buffers import headroom_bytes
from collectives.congestion.parameters import CongestionControl, EcnCurve, Hpcc
from collectives.fabric_sim.controls import PARAMETERS, encoded
from collectives.fabric_sim.flows import MAX_PACKETS, Flow, PathCheck
from collectives.fabric_sim.network import PS_PER_US, Network, SwitchSettings, Transport
from collectives.fabric_sim.options import Options
from nettune.errors import InputError

CLASSES = 8
_FOREVER = 2**62


def encode(
    network: Network,
    flows: Sequence[Flow],
    controls: Sequence[CongestionControl],
    transport: Transport,
    options: Options,
) -> tuple[dict[str, int], dict[str, array[Any]]]:
    """The numbers (with seed 0) and the arrays of the core.

    Raises:
        InputError: no flows, or a flow, path, class, watched row or setting that cannot be.
    """
    if not flows:
        raise InputError("nothing to simulate: no flows")
    classes = _classes(flows)
    for what, rows, most in (
        ("link", options.watch_links, network.link_count),
        ("flow", options.watch_flows, len(flows)),
    ):
        if wrong := [row for row in rows if not 0 <= row < most]:
            raise InputError(f"there is no {what} {wrong[0]} to watch; there are {most}")
    arrays = {
        **_link_arrays(network, transport),
        **_node_arrays(network, transport, len(classes)),
        **_flow_arrays(network, flows, controls, transport, options, classes),
        **_control_arrays(controls),
        "change_at": array("q", [_ps(change.at_us) for change in network.changes for _ in range(2)]),
        "change_link": array("i", [2 * change.cable + way for change in network.changes for way in range(2)]),
        "change_up": array("i", [change.up for change in network.changes for _ in range(2)]),
        "watch_link": array("i", options.watch_links),
        "watch_flow": array("i", options.watch_flows),
    }
    counts = {
        "links": network.link_count,
        "nodes": len(network.names),
        "classes": len(classes),
        "flows": len(flows),
        "path_links": len(arrays["path_link"]),
        "controls": len(controls),
        "changes": 2 * len(network.changes),
        "watched_links": len(options.watch_links),
        "watched_flows": len(options.watch_flows),
        "seed": 0,
        **_transport_counts(transport),
        "sample_period": _ps(options.sample_us or 0),
        "until": _FOREVER if options.until_us is None else _ps(options.until_us),
        "memory_bytes": options.memory_bytes or _available_memory() // 2,
        "window_follows_rate": options.window_follows_rate,
    }
    return counts, arrays


def _ps(us: float) -> int:
    if not 0 <= us < 1e12:
        raise InputError(f"a time must be 0 to 1e12 us, not {us:g}")
    return round(us * PS_PER_US)


def _classes(flows: Sequence[Flow]) -> dict[int, int]:
    used = sorted({flow.cls for flow in flows if flow.size_bytes}) or [0]
    if not 0 <= used[0] <= used[-1] < CLASSES:
        raise InputError(f"a class must be 0 to {CLASSES - 1}, not {used[0] if used[0] < 0 else used[-1]}")
    return {cls: row for row, cls in enumerate(used)}


def _available_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return 4 * 2**30


def _transport_counts(transport: Transport) -> dict[str, int]:
    timeout = transport.timeout_ps
    return {
        "mtu": transport.mtu_bytes,
        "header_bytes": transport.header_bytes,
        "ack_bytes": transport.ack_bytes,
        "cnp_bytes": transport.cnp_bytes,
        "pfc_bytes": transport.pfc_bytes,
        "ack_every": transport.ack_every,
        "acks_with_data": transport.acks_with_data,
        "tick": 1000 if transport.whole_ns else 1,
        "selective_repeat": transport.selective_repeat,
        "reorder": transport.reorder_packets,
        "nack_interval": _ps(transport.nack_interval_us),
        "timeout": timeout,
        "retry_count": transport.retry_count,
        "first_timeout": timeout
        if transport.adaptive_us is None
        else min(timeout, _ps(transport.adaptive_us)),
        "same_timeouts": transport.same_timeouts,
        "spray": transport.spray,
        "flowlet_gap": _ps(transport.flowlet_us or 0),
    }


def _link_arrays(network: Network, transport: Transport) -> dict[str, array[Any]]:
    settings = network.settings
    host_gbps = network.host_gbps()
    curves: dict[float, EcnCurve | None] = {}
    ends = [network.link_ends(link) for link in range(network.link_count)]
    cables = [network.cables[link // 2] for link in range(network.link_count)]
    for cable in network.cables:
        if cable.gbps not in curves:
            curves[cable.gbps] = settings.ecn(cable.gbps) if settings.ecn else None
    curve = [curves[cable.gbps] for cable in cables]
    return {
        "from_": array("i", [start for start, _ in ends]),
        "to": array("i", [end for _, end in ends]),
        "reverse": array("i", [link ^ 1 for link in range(network.link_count)]),
        "rate": array("q", [round(cable.gbps * 1e9) for cable in cables]),
        "delay": array("q", [round(cable.delay_ns * 1000) for cable in cables]),
        "loss": array("d", [cable.loss for cable in cables]),
        "kmin": array("d", [c.kmin_bytes if c else 0 for c in curve]),
        "kmax": array("d", [c.kmax_bytes if c else 0 for c in curve]),
        "pmax": array("d", [c.pmax if c else -1 for c in curve]),
        "headroom": array(
            "q", [_headroom(settings, cable.gbps, cable.delay_ns, transport) for cable in cables]
        ),
        "static_xoff": array("q", [-1 if settings.xoff_bytes is None else settings.xoff_bytes] * len(cables)),
        "alpha": array("d", [_alpha(settings, cable.gbps, host_gbps) for cable in cables]),
    }


def _headroom(settings: SwitchSettings, gbps: float, delay_ns: float, transport: Transport) -> int:
    if not settings.pfc:
        return 0
    if isinstance(settings.headroom_bytes, int):
        return settings.headroom_bytes
    if settings.headroom_bytes is not None:
        return settings.headroom_bytes(gbps, delay_ns)
    return round(headroom_bytes(gbps, delay_ns / 1000, transport.wire_bytes)) + 1


def _alpha(settings: SwitchSettings, gbps: float, host_gbps: float) -> float:
    alpha = settings.alpha
    while settings.alpha_follows_rate and gbps > host_gbps and alpha < 1:
        alpha *= 2
        gbps /= 2
    return alpha


def _node_arrays(network: Network, transport: Transport, classes: int) -> dict[str, array[Any]]:
    """Shared bytes of a switch: what headroom and reserves leave."""
    settings, nodes = network.settings, len(network.names)
    kept = [0] * nodes
    for cable in network.cables:
        each = settings.reserve_bytes + _headroom(settings, cable.gbps, cable.delay_ns, transport)
        kept[cable.a] += each * classes
        kept[cable.b] += each * classes
    shared = [0 if node < network.hosts else settings.buffer_bytes - kept[node] for node in range(nodes)]
    if min(shared) < 0:
        node = shared.index(min(shared))
        raise InputError(
            f"switch {network.names[node]}: headroom and reserves of its ports take {kept[node]} bytes, its buffer has"
            f" {settings.buffer_bytes}: give it more buffer, or its ports less headroom"
        )
    return {
        "is_switch": array("b", [node >= network.hosts for node in range(nodes)]),
        "shared": array("q", shared),
        "reserve": array("q", [settings.reserve_bytes] * nodes),
        "xon_offset": array("q", [settings.xon_offset_bytes] * nodes),
        "lossless": array("q", [(1 << classes) - 1 if settings.pfc else 0] * nodes),
    }


def _flow_arrays(
    network: Network,
    flows: Sequence[Flow],
    controls: Sequence[CongestionControl],
    transport: Transport,
    options: Options,
    classes: dict[int, int],
) -> dict[str, array[Any]]:
    paths = array("i")
    first, count, length, ack_first = (array("i") for _ in range(4))
    base_rtt = array("q")
    check = PathCheck(network)
    delays = _link_delays(network, transport)
    after_start, after = array("i", [0]), array("i")
    for row, flow in enumerate(flows):
        _check_flow(network, row, flow, len(flows), len(controls), transport)
        after.extend(flow.after)
        after_start.append(len(after))
        first.append(len(paths))
        count.append(len(flow.paths))
        if not flow.size_bytes:
            length.append(0)
            ack_first.append(len(paths))
            base_rtt.append(0)
            continue
        for path in flow.paths:
            check(path, flow.src, flow.dst)
        check(flow.ack_path, flow.dst, flow.src)
        length.append(len(flow.paths[0]))
        for path in flow.paths:
            if len(path) != len(flow.paths[0]):
                raise InputError(f"flow {row}: its paths differ in length")
            paths.extend(path)
        ack_first.append(len(paths))
        paths.extend(flow.ack_path)
        data, ack = delays
        base_rtt.append(
            sum([data[link] for link in flow.paths[0]]) + sum([ack[link] for link in flow.ack_path])
        )
    if options.base_rtt_us is not None:
        base_rtt = array("q", [_ps(options.base_rtt_us)] * len(flows))
    window = _windows(network, flows, controls, base_rtt, options)
    return {
        "cls": array("i", [classes[flow.cls] if flow.size_bytes else 0 for flow in flows]),
        "control": array("i", [flow.control for flow in flows]),
        "pair": _pairs(flows),
        "bytes": array("q", [flow.size_bytes for flow in flows]),
        "start": array("q", [_ps(flow.start_us) for flow in flows]),
        "gap": array("q", [_ps(flow.gap_us) for flow in flows]),
        "base_rtt": base_rtt,
        "window": window,
        "data_first": first,
        "data_count": count,
        "data_length": length,
        "ack_first": ack_first,
        "path_link": paths,
        "after_start": after_start,
        "after": after,
    }


def _check_flow(
    network: Network, row: int, flow: Flow, flows: int, controls: int, transport: Transport
) -> None:
    where = f"flow {row}"
    if any(not 0 <= other < flows or other == row for other in flow.after):
        raise InputError(f"{where} waits for a flow that is not there, or for itself")
    if not 0 <= flow.control < controls:
        raise InputError(f"{where} names congestion control {flow.control}; there are {controls}")
    if not flow.size_bytes:
        return
    for node in (flow.src, flow.dst):
        if not 0 <= node < network.hosts:
            raise InputError(f"{where} is to nowhere: {node} is no host (hosts are 0 to {network.hosts - 1})")
    if flow.src == flow.dst:
        raise InputError(f"{where} goes from {network.names[flow.src]} to itself, which crosses no network")
    if not 0 < flow.size_bytes <= MAX_PACKETS * transport.mtu_bytes:
        raise InputError(f"{where}: a message of {flow.size_bytes} bytes; up to 2^31 packets can be sent")
    if not flow.paths:
        raise InputError(f"{where} has no path")


def _pairs(flows: Sequence[Flow]) -> array[int]:
    """The first flow of each one's queue pair."""
    firsts: dict[int, int] = {}
    pairs = array("i", range(len(flows)))
    for row, flow in enumerate(flows):
        if flow.connection is None or not flow.size_bytes:
            continue
        pairs[row] = firsts.setdefault(flow.connection, row)
        first = flows[pairs[row]]
        if any(getattr(flow, key) != getattr(first, key) for key in ("src", "dst", "cls", "control")):
            raise InputError(
                f"flow {row} shares connection {flow.connection} with flow {pairs[row]},"
                " which has other ends, another class or another control"
            )
    return pairs


def _link_delays(network: Network, transport: Transport) -> tuple[list[int], list[int]]:
    """Time of a full packet and of an acknowledgement on each directed link, in ps, through empty queues."""

    def times(size: int) -> list[int]:
        return [
            round((cable.delay_ns + 8 * size / cable.gbps) * 1000)
            for cable in network.cables
            for _ in range(2)
        ]

    return times(transport.wire_bytes), times(transport.ack_bytes)


def _windows(
    network: Network,
    flows: Sequence[Flow],
    controls: Sequence[CongestionControl],
    base_rtt: array[int],
    options: Options,
) -> array[int]:
    """Window of each flow; 0: none."""
    if options.window_bytes is not None or not any(isinstance(control, Hpcc) for control in controls):
        return array("q", [options.window_bytes or 0] * len(flows))
    window = max(base_rtt) * network.host_gbps() / 8000
    return array("q", [int(window) if isinstance(controls[flow.control], Hpcc) else 0 for flow in flows])


def _control_arrays(controls: Sequence[CongestionControl]) -> dict[str, array[Any]]:
    algorithm, parameter = array("i"), array("d")
    for control in controls:
        number, values = encoded(control)
        algorithm.append(number)
        parameter.extend([*values, *[0.0] * (PARAMETERS - len(values))])
    return {"algorithm": algorithm, "parameter": parameter}

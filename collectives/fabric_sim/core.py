"""The compiled core as Python sees it: structs of pointers into arrays (core/fabric.hpp), and the calls."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from collectives.fabric_sim.build import shared_object
from nettune.errors import UnavailableError

COUNTS = [
    "links",
    "nodes",
    "classes",
    "flows",
    "path_links",
    "controls",
    "changes",
    "watched_links",
    "watched_flows",
    "seed",
    "mtu",
    "header_bytes",
    "ack_bytes",
    "cnp_bytes",
    "pfc_bytes",
    "ack_every",
    "acks_with_data",
    "tick",
    "sample_period",
    "until",
    "selective_repeat",
    "reorder",
    "nack_interval",
    "timeout",
    "retry_count",
    "first_timeout",
    "same_timeouts",
    "spray",
    "flowlet_gap",
    "memory_bytes",
    "window_follows_rate",
]
"""The numbers of `Input`, in its order."""

ARRAYS = {
    **dict.fromkeys(["from_", "to", "reverse"], "i"),
    **dict.fromkeys(["rate", "delay"], "q"),
    **dict.fromkeys(["loss", "kmin", "kmax", "pmax"], "d"),
    **dict.fromkeys(["headroom", "static_xoff"], "q"),
    "alpha": "d",
    "is_switch": "b",
    **dict.fromkeys(["shared", "reserve", "xon_offset", "lossless"], "q"),
    **dict.fromkeys(["cls", "control", "pair"], "i"),
    **dict.fromkeys(["bytes", "start", "gap", "base_rtt", "window"], "q"),
    **dict.fromkeys(
        [
            "data_first",
            "data_count",
            "data_length",
            "ack_first",
            "path_link",
            "after_start",
            "after",
        ],
        "i",
    ),
    "algorithm": "i",
    "parameter": "d",
    "change_at": "q",
    **dict.fromkeys(["change_link", "change_up", "watch_link", "watch_flow"], "i"),
}
"""The arrays of `Input` with their type codes, in its order."""

TOTALS = [
    "now",
    "unfinished",
    "failed",
    "data_hops",
    "control_hops",
    "events",
    "marks",
    "cnps",
    "pauses",
    "paused_ps",
    "retransmissions",
    "timeouts",
    "nacks",
    "drops",
    "losses",
    "samples",
    "deadlock_edges",
]
"""The numbers of `Output`, in its order."""

RESULTS = {
    **dict.fromkeys(["finish", "delivered", "flow_retransmissions"], ("q", "flows")),
    **dict.fromkeys(
        ["link_bytes", "link_data_bytes", "link_peak", "link_marks", "link_drops"], ("q", "links")
    ),
    **dict.fromkeys(["link_pauses", "link_paused"], ("q", "classes")),
    "link_is_paused": ("b", "classes"),
}
"""The arrays of `Output`: type code, and what they have one of ("classes": links x classes)."""


class Status(IntEnum):
    """How a run stands."""

    RUNNING = 0
    DONE = 1
    STUCK = 2
    TIME_OVER = 3
    OUT_OF_MEMORY = 4


class _Input(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in COUNTS),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    ]


class _Output(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in TOTALS),
        *((name, ctypes.c_void_p) for name in RESULTS),
    ]


class Outcome:
    """What the core reports.

    Attributes:
        status: how the run ended.
        total: name of `TOTALS` -> number.
        column: name of `RESULTS` -> array.
        samples: rows of (time in ps, bytes waiting at each watched link, bit/s of each watched flow), flat.
        waits: pairs (link, link): the first is paused and waits for the second.
    """

    def __init__(
        self,
        status: Status,
        total: dict[str, int],
        column: dict[str, array[Any]],
        samples: array[float],
        waits: array[int],
    ) -> None:
        self.status = status
        self.total = total
        self.column = column
        self.samples = samples
        self.waits = waits


def run(
    counts: Mapping[str, int],
    arrays: Mapping[str, array[Any]],
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Simulate.

    Args:
        counts: a value for each of `COUNTS`.
        arrays: an array of the right type for each of `ARRAYS`.
        progress: told now and then how many flows are left, and the simulated time in ps.
    """
    core = _core()
    given = _Input(**counts, **{name: _address(arrays[name], code) for name, code in ARRAYS.items()})
    links, flows, classes = counts["links"], counts["flows"], counts["classes"]
    sizes = {"flows": flows, "links": links, "classes": links * classes}
    column = {
        name: array(code, bytes(array(code).itemsize * sizes[of])) for name, (code, of) in RESULTS.items()
    }
    output = _Output(**{name: _address(column[name], code) for name, (code, _) in RESULTS.items()})
    simulation = core.fabric_create(ctypes.byref(given))
    if not simulation:
        return Outcome(Status.OUT_OF_MEMORY, dict.fromkeys(TOTALS, 0), column, array("d"), array("i"))
    try:
        status = Status.RUNNING
        while status is Status.RUNNING:
            # Between two calls Python sees Ctrl-C.
            status = Status(core.fabric_run(simulation, 4_000_000))
            if progress is not None and status is Status.RUNNING:
                core.fabric_report(simulation, ctypes.byref(output))
                progress(output.unfinished, output.now)
        core.fabric_report(simulation, ctypes.byref(output))
        width = 1 + counts["watched_links"] + counts["watched_flows"]
        samples = array("d", bytes(8 * output.samples * width))
        waits = array("i", bytes(8 * output.deadlock_edges))
        core.fabric_lists(simulation, _address(samples, "d"), _address(waits, "i"))
    finally:
        core.fabric_free(simulation)
    return Outcome(status, {name: getattr(output, name) for name in TOTALS}, column, samples, waits)


def _address(values: array[Any], code: str) -> int:
    assert values.typecode == code
    return values.buffer_info()[0]


_loaded: list[ctypes.CDLL] = []


def _core() -> ctypes.CDLL:
    if not _loaded:
        path = shared_object()
        try:
            core = ctypes.CDLL(str(path))
        except OSError as error:
            raise UnavailableError(
                f"{path} cannot be loaded ({error}): delete it, it is made again"
            ) from error
        core.fabric_layout.restype = ctypes.c_int64
        core.fabric_create.restype = ctypes.c_void_p
        core.fabric_create.argtypes = [ctypes.c_void_p]
        core.fabric_run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        core.fabric_report.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        core.fabric_lists.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        core.fabric_free.argtypes = [ctypes.c_void_p]
        assert core.fabric_layout() == ctypes.sizeof(_Input) * 100_000 + ctypes.sizeof(_Output)
        _loaded.append(core)
    return _loaded[0]

"""Measurements with the setting of NCCL that they were taken under; nothing is assumed that no output tells.

Where an output tells the setting, by trust: what the caller says; NCCL's own `AllReduce: 1048576 Bytes -> Algo RING proto
SIMPLE channel{Lo..Hi}={0..15}` (NCCL_DEBUG_SUBSYS=TUNING); NCCL_ALGO and NCCL_PROTO in its log or in a JSON file's
environment, and `16 coll channels` of its log for the channels, which is what a ring or a tree has at most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from collectives.nccl.parsing import read_selection
from collectives.nccl.tables.algorithms import ALGORITHMS, PROTOCOLS
from collectives.nccl_tests.result import Run
from nettune.errors import InputError
from topology.readers.nccl_log import comm_events, events, tokenize

FUNCTIONS = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
}
"""Operations for which NCCL has a choice of algorithms."""
_SCATTERS = {"all_gather", "reduce_scatter"}
_SIMPLE_ONLY = {"CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"}
MOST_CHANNELS = 64


@dataclass(frozen=True, order=True)
class Setting:
    """How an operation is done.

    Attributes:
        algorithm: NCCL's name, `Ring`.
        protocol: NCCL's name; empty where it was left to NCCL.
        channels: 0 where no output tells them.
    """

    algorithm: str
    protocol: str = ""
    channels: int = 0

    def __str__(self) -> str:
        """`ring/simple/16`."""
        parts = [self.algorithm.lower(), self.protocol.lower(), str(self.channels or "")]
        return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class Measured:
    """One size under one setting.

    Attributes:
        times_us: one for each initialisation.
    """

    op: str
    ranks: int
    nodes: int
    size_bytes: int
    setting: Setting
    times_us: tuple[float, ...]


def read_setting(words: str) -> Setting:
    """`ring`, `ring/simple`, `ring/simple/16`.

    Raises:
        InputError: an algorithm, protocol or number of channels that NCCL does not have.
    """
    algorithm, protocol, channels = [*words.split("/"), "", ""][:3]
    known = {_key(name): name for name in ALGORITHMS}
    protocols = {_key(name): name for name in PROTOCOLS}
    if _key(algorithm) not in known or (protocol and _key(protocol) not in protocols) or words.count("/") > 2:
        raise InputError(
            f"setting {words!r:.60} is not known; write ALGORITHM[/PROTOCOL[/CHANNELS]] of {', '.join(ALGORITHMS)} and"
            f" {', '.join(PROTOCOLS)}"
        )
    if channels and not (
        channels.isascii() and channels.isdigit() and 1 <= int(channels[:4]) <= MOST_CHANNELS
    ):
        raise InputError(f"setting {words!r:.60}: channels are 1 to {MOST_CHANNELS}")
    return Setting(known[_key(algorithm)], protocols.get(_key(protocol), ""), int(channels or 0))


def possible(op: str, setting: Setting) -> str:
    """Why NCCL cannot do an operation so; empty where it can (src/graph/tuning.cc: combinations marked IGNORE)."""
    name, protocol = setting.algorithm, setting.protocol
    if op not in FUNCTIONS:
        return f"NCCL has no choice of algorithms for {op or 'an unknown operation'}"
    rooted = op in {"broadcast", "reduce"} and name != "Ring"
    scattered = op in _SCATTERS and name not in {"Ring", "PAT", "NVLS", "CollNetDirect"}
    if rooted or scattered or (op == "all_reduce" and name == "PAT"):
        return f"NCCL has no {name} for {op}: it would be ignored silently"
    if name in _SIMPLE_ONLY and protocol not in {"", "Simple"}:
        return f"{name} has the protocol Simple only"
    return ""


def measured_of(run: Run, name: str, told: Setting | None = None) -> list[Measured]:
    """The sizes of a run, each with its setting.

    Args:
        run: complete, of an operation that is known.
        name: of its file, for errors.
        told: the setting, where the caller knows it.

    Raises:
        InputError: no setting can be told, NCCL cannot do it so, or the job is not known.
    """
    if not run.rows or not run.ranks or run.op not in FUNCTIONS:
        why = possible(run.op, Setting("Ring")) or "the head with the ranks, or every row, is missing"
        raise InputError(f"cannot be tuned by: {why}", name)
    choices, general = _choices(run), told or _general(run)
    # Repeats of a size in one run (-N, -o all) are one initialisation: they count by their median.
    times: dict[tuple[int, Setting], list[float]] = {}
    for row in run.rows:
        setting = told or choices.get(row.size_bytes) or general
        if setting is None:
            raise InputError(
                "does not tell NCCL's algorithm: run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING and"
                " NCCL_ALGO set, or name it: --parse FILE@ring/simple/16",
                name,
            )
        if reason := possible(run.op, setting):
            raise InputError(reason, name)
        time_us = row.out_of_place.time_us
        if row.size_bytes > 0 and math.isfinite(time_us) and time_us > 0:
            times.setdefault((row.size_bytes, setting), []).append(time_us)
    return [
        Measured(run.op, run.ranks, len(run.hosts), size, setting, (median(values),))
        for (size, setting), values in times.items()
    ]


def merged(measured: Iterable[Measured]) -> list[Measured]:
    """The same with one entry for each size and setting, and the times of all initialisations in it."""
    times: dict[tuple[str, int, int, int, Setting], list[float]] = {}
    for one in measured:
        times.setdefault((one.op, one.ranks, one.nodes, one.size_bytes, one.setting), []).extend(one.times_us)
    return [Measured(*key, tuple(values)) for key, values in times.items()]


def _key(name: str) -> str:
    return name.lower().replace("_", "")


def _choices(run: Run) -> dict[int, Setting]:
    """What NCCL says that it chose for each size."""
    found: dict[int, Setting] = {}
    for event in tokenize(run.log):
        if not isinstance(event, comm_events.AlgorithmChoice) or event.function != FUNCTIONS[run.op]:
            continue
        names = _named(event.algorithm, ALGORITHMS), _named(event.protocol, PROTOCOLS)
        if names[0]:
            channels = event.last_channel - event.first_channel + 1 if event.last_channel >= 0 else 0
            found[event.bytes] = Setting(
                names[0], names[1], channels if 1 <= channels <= MOST_CHANNELS else 0
            )
    return found


def _named(text: str, names: tuple[str, ...]) -> str:
    """A name of NCCL's, also by its number in older logs."""
    if text.isdigit():
        return names[int(text)] if int(text[:3]) < len(names) else ""
    return next((name for name in names if _key(name) == _key(text)), "")


def _general(run: Run) -> Setting | None:
    """The setting of the whole run, by NCCL_ALGO and NCCL_PROTO."""
    variables, channels = dict(run.environment), 0
    for event in tokenize(run.log):
        if isinstance(event, events.EnvironmentSet):
            variables.setdefault(event.name, event.value)
        elif isinstance(event, comm_events.ChannelCounts):
            channels = channels or event.coll
    algorithm = _single(variables.get("NCCL_ALGO", ""), ALGORITHMS, run.op)
    if not algorithm:
        return None
    protocol = _single(variables.get("NCCL_PROTO", ""), PROTOCOLS, run.op)
    limited = _limit(variables)
    # NVLS and CollNet have channels of their own, which `coll channels` does not count.
    counted = channels if algorithm in {"Ring", "Tree", "PAT"} else 0
    return Setting(algorithm, protocol, limited or (counted if counted <= MOST_CHANNELS else 0))


def _single(value: str, known: tuple[str, ...], op: str) -> str:
    """The one name that a list leaves for an operation; empty where it leaves several."""
    if not value:
        return ""
    general, own = "", ""
    for function, chosen, excluded in read_selection(value, known).chosen:
        left = [name for name in known if (name in chosen) != excluded]
        name = left[0] if len(left) == 1 else ""
        if not function:
            general = name
        elif function == FUNCTIONS[op]:
            own = name
    return own or general


def _limit(variables: Mapping[str, str]) -> int:
    """Channels that the least and the most allowed leave no choice of."""
    for names in (("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"), ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")):
        values = [variables.get(name, "") for name in names]
        if (
            values[0] == values[1]
            and re.fullmatch(r"[1-9]\d?", values[0])
            and int(values[0]) <= MOST_CHANNELS
        ):
            return int(values[0])
    return 0

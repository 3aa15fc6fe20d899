"""`tuner_files`: the choices as files for NCCL, each refused with its reason where it cannot say them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from collectives.nccl.rules_lists import STRICT_SINCE
from collectives.nccl.variables import NEWEST, Version, parse_version, version_name
from collectives.tuner import plugin_csv
from collectives.tuner.choose import NOISE, WHOLE, Choice
from collectives.tuner.measured import FUNCTIONS
from collectives.tuner.plugin_csv import PluginRow
from nettune.errors import InputError
from nettune.units import format_size
from nettune.wording import counted, some

CONF, CSV = "nccl.conf", "nccl_tuner.conf"


def tuner_files(
    choices: Sequence[Choice], version: Version = NEWEST, size_bytes: int | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """(name to text, name to the reason why it was not written).

    `nccl_tuner.conf`, the table of NCCL's example tuner plugin, says every size; `nccl.conf` has one algorithm for each
    operation. They exclude each other: NCCL_ALGO takes away what a plugin chooses.

    Args:
        choices: of `choose`.
        version: of NCCL that reads them.
        size_bytes: message size of the job, for nccl.conf; None for all sizes.
    """
    files: dict[str, str] = {}
    refused: dict[str, str] = {}
    try:
        files[CONF] = nccl_conf(choices, version, size_bytes)
    except InputError as error:
        refused[CONF] = str(error)
    try:
        files[CSV] = plugin_table(choices)
    except InputError as error:
        refused[CSV] = str(error)
    return files, refused


def plugin_table(choices: Sequence[Choice]) -> str:
    """The table of the example plugin, with channels in every row.

    Raises:
        InputError: a choice without protocol or channels: the plugin would take simple, and 1 channel.
    """
    rows = []
    lines = [
        "# NCCL_TUNER_PLUGIN=example NCCL_TUNER_CONFIG_FILE=<this file>; unset NCCL_ALGO and NCCL_PROTO: they come first.",
        "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks; the first row that matches decides.",
    ]
    absent = [plugin_csv.COLLECTIVES[op] for op in FUNCTIONS if op not in {choice.op for choice in choices}]
    if absent:
        lines.append(
            f"# The plugin runs operations without a row on 1 channel: {' '.join(absent)}. Measure them too."
        )
    for choice in choices:
        setting = choice.setting
        if not setting.protocol or not setting.channels:
            lacking = "protocol" if not setting.protocol else "channels"
            raise InputError(
                f"the {lacking} of {setting} is not told by any output, and the plugin would take"
                f" {'simple' if not setting.protocol else '1'}: run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,"
                " or name it: --parse FILE@ring/simple/16"
            )
        rows.append(
            PluginRow(
                plugin_csv.COLLECTIVES[choice.op], choice.first_bytes, choice.last_bytes,
                plugin_csv.ALGORITHMS[setting.algorithm], plugin_csv.PROTOCOLS[setting.protocol],
                setting.channels, choice.nodes or plugin_csv.ANY, choice.ranks,
            )
        )  # fmt: skip
        lines += [f"# {reason(choice)}"[: plugin_csv.LONGEST_LINE - 1], rows[-1].to_line()]
    text = "\n".join(lines) + "\n"
    if plugin_csv.read_rows(text) != rows:  # pragma: no cover (what is written is what is read)
        raise InputError("the table does not read back as it was written")
    return text


def reason(choice: Choice) -> str:
    """What a choice rests on, in one line."""
    sizes = choice.measured_bytes
    span = (
        format_size(sizes[0]) if len(sizes) == 1 else f"{format_size(sizes[0])} to {format_size(sizes[-1])}"
    )
    beyond = ", extended to all larger ones" if choice.last_bytes == WHOLE else ""
    others = "; ".join(f"{other} takes {ratio:.2f} times as long" for other, ratio in choice.slower[:2])
    return f"measured {span}{beyond}: {others}"


def nccl_conf(choices: Sequence[Choice], version: Version = NEWEST, size_bytes: int | None = None) -> str:
    """NCCL_ALGO, and NCCL_PROTO where it is one too, for /etc/nccl.conf or NCCL_CONF_FILE.

    Raises:
        InputError: no algorithm is good at all sizes, or this version of NCCL cannot say it.
    """
    if size_bytes is not None:
        choices = [one for one in choices if one.first_bytes <= size_bytes <= one.last_bytes]
    ops = list(dict.fromkeys(choice.op for choice in choices))
    algorithms = {op: _one_algorithm(choices, op) for op in ops}
    strict = version >= parse_version(STRICT_SINCE)
    if not strict and len(set(algorithms.values())) > 1:
        told = ", ".join(f"{op} {name}" for op, name in algorithms.items())
        raise InputError(
            f"NCCL {version_name(version)} has one NCCL_ALGO for all operations (by function since {STRICT_SINCE}): {told}"
        )
    span = "every measured size" if size_bytes is None else format_size(size_bytes)
    lines = [
        f"# Instead of the tuner plugin's table {CSV}; do not use both. Measured, within 5% of the best at {span}:"
    ]
    for op, name in algorithms.items():
        groups = sorted({(choice.ranks, choice.nodes) for choice in choices if choice.op == op})
        on = some([f"{counted(ranks, 'rank')} on {counted(nodes, 'host')}" for ranks, nodes in groups], 3)
        lines.append(f"# {op}, {on}: {name}")
    lines.append(f"NCCL_ALGO={algo_string(algorithms, strict=strict)}")
    protocols = {op: {choice.setting.protocol for choice in choices if choice.op == op} for op in ops}
    # Forcing LL128 where it is not supported corrupts data; NCCL turns it on by itself where it is.
    forced = {op: next(iter(names)) for op, names in protocols.items() if names in ({"LL"}, {"Simple"})}
    if strict and forced:
        lines.append(
            f"NCCL_PROTO={';'.join(f'{FUNCTIONS[op].lower()}:{name.lower()}' for op, name in forced.items())}"
        )
    return "\n".join(lines) + "\n"


def algo_string(algorithms: Mapping[str, str], *, strict: bool) -> str:
    """`allreduce:tree;allgather:ring` since 2.24; before, one name for all, where Ring is still implied for the others."""
    if not strict:
        return next(iter(algorithms.values()))
    return ";".join(f"{FUNCTIONS[op].lower()}:{name.lower()}" for op, name in algorithms.items())


def _one_algorithm(choices: Sequence[Choice], op: str) -> str:
    """The algorithm that is within noise of the best at every measured size."""
    worst: dict[str, float] = {}
    own = [choice for choice in choices if choice.op == op]
    for name in dict.fromkeys(choice.setting.algorithm for choice in own):
        losses = [_loss(choice, name) for choice in own]
        worst[name] = max(losses)
    best = min(worst, key=lambda name: (worst[name], name))
    if worst[best] > 1 + NOISE:
        told = "; ".join(
            f"NCCL_ALGO={algo_string({op: choice.setting.algorithm}, strict=True)} {_span(choice)}"
            for choice in own[:6]
        )
        raise InputError(
            f"no algorithm is good at all sizes of {op}: {told}. Name the job's message size with --size"
        )
    return best


def _loss(choice: Choice, name: str) -> float:
    """Time of an algorithm over the best's, in a range of sizes; infinite where it was not measured."""
    times = {choice.setting: 1.0, **dict(choice.slower)}
    return min((ratio for setting, ratio in times.items() if setting.algorithm == name), default=math.inf)


def _span(choice: Choice) -> str:
    if choice.last_bytes == WHOLE:
        return f"above {format_size(choice.first_bytes)}" if choice.first_bytes else "everywhere"
    return f"up to {format_size(choice.last_bytes)}"

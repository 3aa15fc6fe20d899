"""Readers of `topo.csv`, `flows.csv`, `paths.csv`, and of the configuration of HPCC's simulator.

topo.csv starts with `# hosts H switches S` (hosts are numbered first) and has `a,b,gbps,delay_ns`; flows.csv has
`src,dst,bytes,start_s`; paths.csv `src,dst,data_path_switches,ack_path_switches`, switches joined by `-`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from collectives.fabric_sim.flows import Flow, ShortestPaths
from collectives.fabric_sim.network import Cable, Network, SwitchSettings
from collectives.fabric_sim.textfile import read_text
from nettune.errors import InputError

MAX_NODES = 1_000_000


def read_network(file: Path, settings: SwitchSettings) -> Network:
    """A network out of topo.csv.

    Raises:
        InputError: not such a file, or a network that cannot be.
    """
    counts: tuple[int, int] | None = None
    cables = []
    rows = []
    for line, fields in _rows(file, "a,b,gbps,delay_ns"):
        if isinstance(fields, str):
            found = re.search(r"hosts\s+(\d{1,9})\s+switches\s+(\d{1,9})", fields)
            counts = (int(found[1]), int(found[2])) if found else counts
            continue
        try:
            a, b, gbps, delay = fields
            cables.append(Cable(int(a), int(b), float(gbps), float(delay)))
        except ValueError:
            raise InputError(f"{','.join(fields)!r:.60} is no cable: a,b,gbps,delay_ns", file, line) from None
        rows.append(line)
    if counts is None:
        raise InputError("the line `# hosts H switches S` is missing: it tells hosts from switches", file)
    hosts, switches = counts
    if hosts + switches > MAX_NODES:
        raise InputError(f"{hosts + switches} nodes are more than {MAX_NODES}", file)
    for line, cable in zip(rows, cables, strict=True):
        for end in (cable.a, cable.b):
            if not 0 <= end < hosts + switches:
                raise InputError(f"there is no node {end}: {hosts} hosts, {switches} switches", file, line)
    names = [f"host{row}" for row in range(hosts)] + [f"switch{hosts + row}" for row in range(switches)]
    try:
        return Network(names, hosts, cables, settings)
    except InputError as error:
        raise InputError(str(error), file) from error


def read_flows(file: Path, network: Network, paths: Path | None = None) -> list[Flow]:
    """Flows out of flows.csv, on the paths of paths.csv or on shortest paths that a hash draws for each flow.

    Raises:
        InputError: not such files, a flow to nowhere, a pair without a path.
    """
    given = None if paths is None else _read_paths(paths, network)
    drawn = ShortestPaths(network)
    flows: list[Flow] = []
    for line, fields in _rows(file, "src,dst,bytes,start_s"):
        if isinstance(fields, str):
            continue
        try:
            src, dst, size, start = int(fields[0]), int(fields[1]), int(fields[2]), float(fields[3])
        except (ValueError, IndexError):
            raise InputError(
                f"{','.join(fields)!r:.60} is no flow: src,dst,bytes,start_s", file, line
            ) from None
        for node in (src, dst):
            if not 0 <= node < network.hosts:
                raise InputError(
                    f"a flow to nowhere: {node} is no host (hosts are 0 to {network.hosts - 1})", file, line
                )
        if src == dst:
            raise InputError(f"a flow from host {src} to itself crosses no network", file, line)
        if size <= 0:
            raise InputError(f"a message of {size} bytes: give at least 1", file, line)
        if not 0 <= start < 1e6:
            raise InputError(f"a flow cannot start at {start:g} s", file, line)
        if given is None:
            data, ack = drawn.drawn(src, dst, len(flows)), drawn.drawn(dst, src, len(flows))
        elif (src, dst) in given:
            data, ack = given[src, dst]
        else:
            raise InputError(f"{paths} has no path from {src} to {dst}", file, line)
        flows.append(Flow(src, dst, size, (data,), ack, start * 1e6))
    if not flows:
        raise InputError("no flows", file)
    return flows


def _read_paths(file: Path, network: Network) -> dict[tuple[int, int], tuple[Sequence[int], Sequence[int]]]:
    between = {ends: links[0] for ends, links in network.links_between.items()}
    known: dict[str, tuple[int, ...]] = {"": ()}

    def links(src: int, text: str, dst: int, line: int) -> list[int]:
        middle = known.get(text)
        if middle is None:
            middle = known[text] = tuple(map(int, text.split("-")))
        found = []
        at = src
        for node in (*middle, dst):
            link = between.get((at, node))
            if link is None:
                raise InputError(f"no cable joins {at} and {node}", file, line)
            found.append(link)
            at = node
        if len(set(middle)) < len(middle):
            raise InputError(f"the route {src} > {text} > {dst} loops", file, line)
        return found

    result: dict[tuple[int, int], tuple[Sequence[int], Sequence[int]]] = {}
    for line, fields in _rows(file, "src,dst,data_path_switches,ack_path_switches"):
        if isinstance(fields, str):
            continue
        try:
            src, dst = int(fields[0]), int(fields[1])
            result[src, dst] = links(src, fields[2], dst, line), links(dst, fields[3], src, line)
        except (ValueError, IndexError):
            raise InputError(f"{','.join(fields)!r:.60} is no path", file, line) from None
    return result


def _rows(file: Path, heading: str) -> Iterator[tuple[int, str | list[str]]]:
    """(line, fields) of each row after the heading; a comment as its text."""
    wanted: list[str] | None = heading.split(",")
    for line, row in enumerate(read_text(file).splitlines(), start=1):
        if not row.strip():
            continue
        if row.startswith("#"):
            yield line, row
            continue
        fields = row.split(",")
        if wanted is not None:
            if [field.strip() for field in fields] != wanted:
                raise InputError(f"the first row must be `{heading}`", file, line)
            wanted = None
            continue
        yield line, fields
    if wanted is not None:
        raise InputError(f"empty: it must have a row `{heading}`", file)

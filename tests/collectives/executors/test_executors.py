"""Every registered schedule of every operation, carried out by real ranks, gives the bits that its definition gives."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collectives.communicator import connected
from collectives.executors.program import Layout, messages, program
from collectives.executors.transport import TRANSPORTS
from collectives.schedules import BUILDERS, Op, build
from nettune.errors import InputError

# What ranks import by its name; here it is no package.
WORK = runpy.run_path(str(Path(__file__).parent / "executor_work.py"))
data_of, digest = WORK["data_of"], WORK["digest"]
RANKS = 4
ELEMENTS = 840  # divides over ranks, and over few chunks evenly
HOSTS = ["h0", "h1", "h2", "h3"]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "hierarchical": [{"groups": 2}, {"groups": 2, "overlap": 3}],
    "two_step": [{"groups": 2}],
    "hybrid": [{"x": 0.6, "tree_chunks": 3}],
    "ring": [{}, {"chunks": 3, "channels": 2}],
    "double_tree": [{"chunks": 4}],
}


def cases():
    found = []
    for name, op in BUILDERS:
        for options in OPTIONS.get(name, [{}]):
            known = options
            if op in {Op.BROADCAST, Op.REDUCE}:
                known = {key: value for key, value in options.items() if key != "channels"}
            found.append({"name": name, "op": str(op), "options": known})
    return found


def reference(schedule, elements):
    """Results of all ranks by carrying out the rounds one after the other, in numpy, in one process."""
    op, ranks = schedule.op, schedule.ranks
    layout = Layout.of(schedule, elements)
    inputs = [data_of(op, ranks, elements, rank) for rank in range(ranks)]
    cells = {}
    block = elements // ranks
    for rank in range(ranks):
        for chunk in range(schedule.chunks):
            first = int(layout.first[chunk])
            if op is Op.ALL_TO_ALL:
                if schedule.home[chunk] != rank:
                    continue
                first += int(schedule.target[chunk]) * block
            cells[rank, chunk] = inputs[rank][first : first + int(layout.length[chunk])].copy()
    for step in schedule.rounds():
        rows = list(zip(step.src, step.dst, step.chunk, step.reduce, step.channel, strict=True))
        # Of one round, an executor takes a rank's messages by source, channel and place.
        rows.sort(key=lambda row: (row[0], row[1], row[4], bool(row[3]), layout.first[row[2]]))
        read = [cells[int(src), int(chunk)].copy() for src, _, chunk, _, _ in rows]
        for (_, dst, chunk, reduce, _), values in zip(rows, read, strict=True):
            key = int(dst), int(chunk)
            cells[key] = cells[key] + values if reduce else values
    results = []
    for rank in range(ranks):
        if op is Op.ALL_TO_ALL:
            whole = np.empty(elements, np.float32)
            for chunk in np.flatnonzero(schedule.target == rank).tolist():
                first = int(schedule.home[chunk]) * block + int(layout.first[chunk])
                whole[first : first + int(layout.length[chunk])] = cells[rank, chunk]
        else:
            whole = inputs[rank].copy()
            for chunk in range(schedule.chunks):
                first = int(layout.first[chunk])
                whole[first : first + int(layout.length[chunk])] = cells[rank, chunk]
            if op is Op.REDUCE_SCATTER:
                whole = whole[rank * block : (rank + 1) * block]
        results.append(whole)
    return results


def promised(op, rank, results):
    """What a rank's result must be equal to: only the root has one in a reduce."""
    return digest(results[rank]) if op is not Op.REDUCE or rank == 0 else None


class Contract:
    """What every transport must do; a subclass says how ranks run."""

    transport = ""

    def results(self, wanted, elements, agents):
        """For each rank, a digest of each case."""
        raise NotImplementedError

    def test_bits_of_every_schedule(self, agents):
        """Any transport, any overlap: bit for bit what the rounds give one after the other, and twice the same."""
        wanted = cases()
        assert {(case["name"], case["op"]) for case in wanted} == {(name, str(op)) for name, op in BUILDERS}
        found = self.results(wanted, ELEMENTS, agents)
        for number, case in enumerate(wanted):
            op = Op(case["op"])
            expected = reference(build(case["name"], op, RANKS, **case["options"]), ELEMENTS)
            for rank in range(RANKS):
                wish = promised(op, rank, expected)
                assert wish is None or found[rank][number] == wish, (case, rank)


def torch_results(wanted, elements, agents):
    agents.call("site:addsitedir", {"sitedir": str(Path(__file__).parent)})
    with connected(agents, HOSTS, iface="lo", timeout_s=20, connections=2):
        return agents.call("executor_work:over_torch", {"cases": wanted, "elements": elements})


class TestTorchAhead(Contract):
    """gloo, messages as far ahead as they can be."""

    transport = "torch"

    def results(self, wanted, elements, agents):
        return torch_results(wanted, elements, agents)


class TestTorchByRounds(Contract):
    """gloo, batches round by round, as NCCL needs them."""

    transport = "torch"

    def results(self, wanted, elements, agents):
        return torch_results([{**case, "rounds": True} for case in wanted], elements, agents)


class TestMpi(Contract):
    """mpi4py under a real mpirun, both ways."""

    transport = "mpi"

    @pytest.fixture(autouse=True)
    def _found(self, openmpi):
        self.openmpi = openmpi

    def results(self, wanted, elements, agents):
        both = [{**case, "rounds": rounds} for rounds in (False, True) for case in wanted]
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run(
            [self.openmpi / "mpirun", "-n", str(RANKS), "--oversubscribe", sys.executable, str(Path(__file__).parent / "executor_work.py"),
             json.dumps(both), str(elements)],
            capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **allowed},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        half = len(wanted)
        assert [row[:half] for row in found] == [row[half:] for row in found]
        return found


def test_every_transport_is_held_to_the_contract():
    """A transport that is registered can be found by its name and has its class here."""
    assert {one.transport for one in Contract.__subclasses__()} == set(TRANSPORTS)
    for where in TRANSPORTS.values():
        module, _, name = where.partition(":")
        spec = find_spec(module)  # not loaded: MPI's library may be found under mpirun only
        assert spec is not None
        assert f"class {name}" in Path(str(spec.origin)).read_text(encoding="utf-8")


def test_as_the_library_where_sums_have_its_order(agents):
    """A ring in gloo's direction adds in gloo's order: the bits of an all-reduce are gloo's own."""
    elements = 4 * 1024
    # gloo cuts each rank's block in two; rank r begins with the block behind its own.
    wanted = [{"name": "ring", "op": "all_reduce", "options": {"direction": -1}}]
    with connected(agents, HOSTS, iface="lo", timeout_s=20):
        agents.call("site:addsitedir", {"sitedir": str(Path(__file__).parent)})
        library = agents.call("executor_work:by_the_library", {"elements": elements})
        ours = agents.call("executor_work:over_torch", {"cases": wanted, "elements": elements})
    assert ours == library
    exact = sum(data_of(Op.ALL_REDUCE, RANKS, elements, rank).astype(np.float64) for rank in range(RANKS))
    summed = reference(build("double_tree", "all_reduce", RANKS), elements)[0]
    size = sum(
        np.abs(data_of(Op.ALL_REDUCE, RANKS, elements, rank)).astype(np.float64) for rank in range(RANKS)
    )
    unit = 2.0**-24
    assert np.all(np.abs(summed - exact) <= (RANKS - 1) * unit / (1 - (RANKS - 1) * unit) * size)


@pytest.mark.parametrize("elements", [4, 7 * 4, 1000])
@pytest.mark.parametrize(
    ("name", "op"), [key for key in BUILDERS if key[0] not in {"two_step", "hierarchical", "hybrid"}]
)
def test_both_ends_agree(name, op, elements):
    """Sender and receiver cut a schedule into the same messages; every step waits for earlier ones of its rank only."""
    schedule = build(name, op, RANKS)
    layout = Layout.of(schedule, elements)
    everything = list(messages(schedule, layout))
    for rank in range(RANKS):
        steps = program(schedule, layout, rank)
        own = [one for one in everything if rank in (one.src, one.dst)]
        assert sorted(map(repr, own)) == sorted(repr(step.message) for step in steps)
        assert all(earlier < number for number, step in enumerate(steps) for earlier in step.after)
    carried = sum(one.elements for one in everything)
    assert carried == sum(int(layout.length[chunk]) for step in schedule.rounds() for chunk in step.chunk)


def test_bad_sizes_are_refused():
    """No element, or blocks of unequal size: one line."""
    with pytest.raises(InputError, match="0 elements"):
        Layout.of(build("ring", "all_reduce", 4), 0)
    with pytest.raises(InputError, match="6 elements do not divide over 4 ranks"):
        Layout.of(build("ring", "all_gather", 4), 6)

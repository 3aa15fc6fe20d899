"""Jobs as flows that wait for each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectives.job import load_job
from collectives.scenarios.build import Scenario, prepare
from collectives.scenarios.paths import drawn_paths
from collectives.scenarios.reader import make_scenario
from collectives.scenarios.workload import MOMENT, Workload
from collectives.schedules import BUILDERS, Op, build, needs_options
from collectives.traffic import JobTraffic
from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.generators import fat_tree, leaf_spine
from topology.routing import Routing


def scenario(*jobs: dict[str, Any], beside: Path = Path(), **tables: Any) -> Scenario:
    """A scenario of 4 leaves x 2 hosts."""
    values = {"fabric": {"hosts_per_leaf": 2, "spines": 2}, "job": list(jobs), **tables}
    return prepare(make_scenario(values), beside)


def ends_us(work: Workload, bytes_per_us: float = 1.0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(F,) end of each row where every flow alone has this rate: what the dependencies alone cost."""
    ends = np.zeros(len(work))
    for row in range(len(work)):
        waits = work.after[work.after_first[row] : work.after_first[row + 1]]
        assert (waits < row).all()
        begin = max(work.start_us[row], ends[waits].max(initial=0.0) + work.gap_us[row])
        ends[row] = begin + work.bytes_[row] / bytes_per_us
    return ends


def test_ring_steps_follow_one_another() -> None:
    """A ring all-reduce of 8 ranks has 14 rounds of S/8, each after the one before."""
    work = scenario({"kind": "collective", "size": 8000}).workload(0)
    assert len(work.flows) == 8 * 14
    assert (work.bytes_[work.flows] == 1000).all()
    assert ends_us(work).max() == 14 * 1000


def test_all_to_all_goes_at_once() -> None:
    """Pairwise messages have no data to wait for: all 56 start together."""
    job = {"kind": "collective", "algorithm": "pairwise", "op": "all_to_all", "size": 8000}
    work = scenario(job).workload(0)
    assert len(work.flows) == 56
    assert ends_us(work).max() == 1000


def test_tree_waits_for_both_children() -> None:
    """A binomial reduce of 8 ranks takes three messages in a row at the root, one after another's data."""
    work = scenario({"kind": "collective", "algorithm": "binomial", "op": "reduce", "size": 1000}).workload(0)
    assert len(work.flows) == 7
    assert ends_us(work).max() == 3000


def test_iterations_wait_for_the_last_one_and_compute() -> None:
    """3 iterations of 14 rounds with 500 us between; each is a phase of its own; queue pairs are kept."""
    job = {"kind": "collective", "size": 8000, "iterations": 3, "compute_us": 500.0}
    work = scenario(job).workload(0)
    assert ends_us(work).max() == 3 * 14_000 + 2 * 500
    assert [name.split("/")[1] for name in work.phases] == [f"all_reduce#{i}" for i in (1, 2, 3)]
    assert len(np.unique(work.connection[work.flows])) == 8


def test_start_and_jitter_belong_to_the_seed() -> None:
    """Ranks begin between start and start + jitter; the same seed gives the same times."""
    made = scenario({"kind": "permutation", "size": 100, "start_us": 50.0, "jitter_us": 20.0})
    first, again, other = (made.workload(seed) for seed in (1, 1, 2))
    begins = first.start_us[first.src_port == MOMENT][:8]
    assert (begins >= 50).all()
    assert (begins < 70).all()
    assert len(np.unique(begins)) == 8
    np.testing.assert_array_equal(first.start_us, again.start_us)
    assert (first.start_us != other.start_us).any()


def test_connections_split_messages() -> None:
    """4 queue pairs carry a quarter each."""
    work = scenario({"kind": "permutation", "size": 4000, "connections": 4}).workload(0)
    assert len(work.flows) == 32
    assert (work.bytes_[work.flows] == 1000).all()


def test_ranks_of_one_host_send_nothing_over_the_network() -> None:
    """With 2 ranks on each host half of a ring's edges stay inside; the others still wait for them."""
    work = scenario({"kind": "collective", "size": 1600, "ranks_per_host": 2}).workload(0)
    rounds = 2 * 15
    assert len(work.flows) == rounds * 8
    assert ends_us(work).max() == rounds / 2 * 100


def test_incast_and_permutation() -> None:
    """All but the receiver send to it; rank i sends to i + shift."""
    made = scenario({"kind": "incast", "to": "h3", "hosts": "h[0-3]"}, {"kind": "permutation", "shift": 5})
    work = made.workload(0)
    fabric = made.routing.fabric
    pairs = [
        (
            fabric.nodes.name[fabric.ports.node[work.src_port[row]]],
            fabric.nodes.name[fabric.ports.node[work.dst_port[row]]],
        )
        for row in work.flows
    ]
    assert pairs[:3] == [("h0", "h3"), ("h1", "h3"), ("h2", "h3")]
    assert pairs[3:5] == [("h0", "h5"), ("h1", "h6")]


def test_training_steps_follow_their_phases(tmp_path: Path) -> None:
    """job.toml: its phases after one another, rank by rank, bytes as its traffic says."""
    (tmp_path / "job.toml").write_text(
        'pp = 2\ndp = 4\npp_bytes = "64K"\ndp_bytes = "64K"\n[compute_us]\ndp = 1e6\n'
    )
    made = scenario({"kind": "step", "file": "job.toml"}, beside=tmp_path)
    work = made.workload(0)
    phases = JobTraffic(load_job(tmp_path / "job.toml")).phases
    assert [name.split("/")[1] for name in work.phases] == [phase.name for phase in phases]
    for number, phase in enumerate(phases):
        assert work.bytes_[work.phase == number].sum() == phase.edge_bytes.sum()
    assert ends_us(work).max() >= 1e6


def test_flow_lists(tmp_path: Path) -> None:
    """Names, bytes and starts of a CSV; comments and blank lines are passed over."""
    (tmp_path / "f.csv").write_text("# a list\nsrc,dst,bytes,start_us\n\nh0,h1,1000,5\nh2,h1,2000,0.5\n")
    work = scenario({"kind": "flows", "file": "f.csv", "start_us": 10.0}, beside=tmp_path).workload(0)
    assert work.bytes_[work.flows].tolist() == [1000, 2000]
    assert ends_us(work)[work.flows].tolist() == [1015, 2010.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs the columns src, dst, bytes"),
        ("src,dst,bytes,when\nh0,h1,1,1\n", "needs the columns"),
        ("src,dst,bytes\n", "holds no flow"),
        ("# x\nsrc,dst,bytes\nh0,h1\n", ":3: has 2 cells, not 3"),
        ("src,dst,bytes\nh0,h1,-1\n", ":2: bytes: '-1'"),
        ("src,dst,bytes\nh0,h1,1e30\n", ":2: bytes: '1e30'"),
        ("src,dst,bytes,start_s\nh0,h1,1,nan\n", ":2: the start is no time"),
        ("src,dst,bytes\nh0,h9,1\n", "'h9', which is no host of the fabric"),
        ("src,dst,bytes\nh0,h0,1\n", "from 'h0' to itself"),
    ],
)
def test_wrong_flow_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """Other columns, short lines, no numbers, hosts that are not there, a flow to itself: one line with its place."""
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        scenario({"kind": "flows", "file": "f.csv"}, beside=tmp_path)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"kind": "incast"}, "to: the receiver '' is not among"),
        ({"kind": "permutation", "shift": 8}, "shift: 8 sends each of 8 ranks to itself"),
        ({"kind": "collective", "hosts": "h0"}, "needs at least 2 ranks"),
        ({"kind": "collective", "hosts": "x[0-3]"}, "the fabric has no host 'x0'"),
        ({"kind": "collective", "hosts": "leaf0"}, "the fabric has no host 'leaf0'"),
        ({"kind": "collective", "algorithm": "rong"}, "no schedule 'rong'"),
        ({"kind": "step"}, "needs one"),
        ({"kind": "step", "file": "none.toml"}, "cannot be read"),
        ({"kind": "flows", "file": "."}, "cannot be read"),
    ],
)
def test_jobs_that_cannot_run_are_refused(job: dict[str, Any], message: str) -> None:
    """A missing receiver, hosts, algorithm or file: one line."""
    with pytest.raises(InputError, match=message):
        scenario(job)


def test_names_of_jobs_differ() -> None:
    """Results are told apart by them."""
    with pytest.raises(InputError, match="stands for another job"):
        scenario({"kind": "permutation", "name": "a"}, {"kind": "permutation", "name": "a"})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"ecn": {"kmin_bytes": 1e9}}, "is above kmax_bytes"),
        ({"congestion": {"preset": "dcqcn"}}, "no congestion preset 'dcqcn'"),
        ({"congestion": {"gian": 1.0}}, "did you mean 'gain'"),
        ({"congestion": {"min_rate_mbps": 0}}, "min_rate_mbps must be above 0"),
        ({"fabric": {"kind": "file"}}, "file: is missing"),
        ({"fabric": {"kind": "file", "file": "none.json"}}, "none.json"),
        ({"fabric": {"kind": "fat-tree", "k": 3}}, "must be even"),
    ],
)
def test_settings_that_cannot_be_are_refused(tables: dict[str, Any], message: str) -> None:
    """Kmin above Kmax, unknown presets, zero rates: one line."""
    with pytest.raises(InputError, match=message):
        scenario({"kind": "permutation"}, **tables)


def test_presets_scale_with_the_nic() -> None:
    """The slowest NIC that is used gives the rate."""
    made = scenario({"kind": "permutation"}, fabric={"host_gbps": 400.0}, congestion={"preset": "hpcc-runpy"})
    assert made.host_gbps == 400
    assert made.curve.kmin_bytes == 1_600_000


def test_paths_are_routes_and_belong_to_connections() -> None:
    """Each path is one of the routing's; messages of one connection take one path; seeds draw anew."""
    made = scenario({"kind": "collective", "size": 8000, "iterations": 2})
    work = made.workload(0)
    found, back = made.paths(work, 0)
    by_connection: dict[int, tuple[int, ...]] = {}
    for row, links in zip(work.flows.tolist(), found.tolist(), strict=True):
        path = tuple(link for link in links if link >= 0)
        known = made.routing.alternatives(int(work.src_port[row]), int(work.dst_port[row]))
        assert path in {one for _, one in known}
        assert by_connection.setdefault(int(work.connection[row]), path) == path
    assert (found != made.paths(work, 1)[0]).any()
    np.testing.assert_array_equal(found, made.paths(work, 0)[0])
    first = work.flows[0]
    returned = tuple(link for link in back[0].tolist() if link >= 0)
    ends = int(work.dst_port[first]), int(work.src_port[first])
    assert returned in {one for _, one in made.routing.alternatives(*ends)}


def test_draws_spread_evenly() -> None:
    """One number decides every hop: in a fat tree each of the 4 paths gets a quarter, and equal numbers go alike."""
    fabric = fat_tree(4, link_gbps=1)
    routing = Routing.shortest_paths(fabric)
    src, dst = (np.full(4000, fabric.nics(host)[0]) for host in ("h0", "h15"))
    numbers = np.random.default_rng(0).random(4000)
    found = drawn_paths(routing, src, dst, numbers)
    paths, counts = np.unique(found, axis=0, return_counts=True)
    assert len(paths) == 4
    assert counts.min() > 900
    assert len(np.unique(drawn_paths(routing, src, dst, np.full(4000, 0.3)), axis=0)) == 1


def test_hosts_cabled_to_each_other_have_one_link() -> None:
    """A read fabric may join two NICs directly."""
    builder = FabricBuilder()
    for name in ("a", "b"):
        builder.node(name, NodeKind.HOST)
        builder.port(name, "p0", speed_gbps=1)
    builder.link(("a", "p0"), ("b", "p0"))
    routing = Routing(builder.build(), np.array([-1, -1]), {})
    assert drawn_paths(routing, np.array([0]), np.array([1]), np.array([0.5]))[:, 0].tolist() == [0]


def test_fabrics_are_read_from_files(tmp_path: Path) -> None:
    """What `discover` reads; speeds and delays that it does not tell come from the scenario."""
    fabric = leaf_spine(2, 1, 2, host_gbps=25, delay_us=0)
    (tmp_path / "fabric.json").write_text(json.dumps(fabric.to_json()))
    made = scenario(
        {"kind": "permutation"},
        beside=tmp_path,
        fabric={"kind": "file", "file": "fabric.json", "delay_us": 2},
    )
    assert made.host_gbps == 25
    assert (made.routing.fabric.links.delay_ns == 2000).all()
    assert len(made.workload(0).flows) == 4


@pytest.mark.parametrize(("algorithm", "op"), [key for key in BUILDERS if not needs_options(*key)], ids=str)
@settings(max_examples=6)
@given(ranks=st.sampled_from([2, 4, 8]), channels=st.integers(1, 3), chunks=st.integers(1, 3))
def test_every_schedule_becomes_its_edges(
    algorithm: str, op: Op, ranks: int, channels: int, chunks: int
) -> None:
    """Whatever algorithm, op, channels and chunks: bytes of each pair are the schedule's, and nothing waits for later rows."""
    job = {"kind": "collective", "algorithm": algorithm, "op": str(op), "size": 840_000}
    made = scenario({**job, "hosts": f"h[0-{ranks - 1}]", "channels": channels, "chunks": chunks})
    work = made.workload(0)
    ends_us(work)
    edges = build(algorithm, op, ranks, channels=channels, chunks=chunks).edges
    host = made.routing.fabric.ports.node
    sent = np.zeros((ranks, ranks))
    np.add.at(
        sent, (host[work.src_port[work.flows]], host[work.dst_port[work.flows]]), work.bytes_[work.flows]
    )
    wanted = np.zeros((ranks, ranks))
    np.add.at(wanted, (edges.src, edges.dst), 840_000 * edges.share)
    np.testing.assert_allclose(sent, wanted)

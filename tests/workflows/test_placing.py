"""`nettune place`'s steps: what it reads beside the job, what it keeps, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.workflows import placeinput
from nettune.workflows.placing import ORDERS, Asked, place_job
from topology.builder import FabricBuilder
from topology.fabric import NodeKind
from topology.placement.mapping import Placement
from topology.routing import Routing

JOB = 'name = "mix"\npp = 2\ndp = 4\norder = "tp-pp-dp"\ndp_bytes = "4M"\npp_bytes = "256K"\n'


def two_leaves(hosts_per_leaf=4):
    """2 leaves, 2 spines, uplinks at half the hosts' rate."""
    builder = FabricBuilder()
    for host in range(2 * hosts_per_leaf):
        builder.node(f"h{host}", NodeKind.HOST)
    for switch in ("leaf0", "leaf1", "spine0", "spine1"):
        builder.node(switch, NodeKind.SWITCH)
    for leaf in range(2):
        for place in range(hosts_per_leaf):
            name = f"h{hosts_per_leaf * leaf + place}"
            builder.port(name, "eth0", speed_gbps=0.2, rail=0)
            builder.port(f"leaf{leaf}", f"d{place}", speed_gbps=0.2)
            builder.link((name, "eth0"), (f"leaf{leaf}", f"d{place}"))
        for spine in range(2):
            builder.port(f"leaf{leaf}", f"u{spine}", speed_gbps=0.1)
            builder.port(f"spine{spine}", f"d{leaf}", speed_gbps=0.1)
            builder.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"d{leaf}"))
    return builder.build()


@pytest.fixture(scope="module")
def fabric():
    return two_leaves()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where jobs, fabrics and runs of this module are."""
    return tmp_path_factory.mktemp("placing")


@pytest.fixture(scope="module")
def placed(folder):
    """The function that places a job on a fabric with these wishes, and returns what `--output json` prints."""

    def run(fabric, job=JOB, **asked):
        job_file, fabric_file = folder / "job.toml", folder / "fabric.json"
        job_file.write_text(job, encoding="utf-8")
        data = {"fabric": fabric.to_json(), "routing": None, "link_rate_gbps": 0.2}
        fabric_file.write_text(json.dumps(data), encoding="utf-8")
        return place_job(
            job_file, "lab", fabric_file, folder / "runs", lambda _: None, asked=Asked(**asked)
        ).data

    return run


@pytest.fixture(scope="module")
def plain(placed, fabric):
    """The job on the small fabric, nothing asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SLURM_JOB_ID", raising=False)
        return placed(fabric)


def test_every_order_is_priced_and_ours_is_no_worse(plain):
    """Slurm's, torchrun's, depth-first's and a random order stand beside the map; figures hang together."""
    data = plain

    assert set(data["orders"]) == {"nettune", *ORDERS}
    assert min(data["orders"].values()) == data["cost_us"] == data["orders"]["nettune"]
    assert (
        data["orders"][data["before"]]
        == min(data["orders"][name] for name in ORDERS)
        < max(data["orders"].values())
    )
    assert data["gap"] == pytest.approx(data["cost_us"] / data["bound_us"] - 1)
    assert data["moves"] == 0


def test_busiest_links_are_split_by_what_loads_them(plain):
    """Shares of the phases add up to the link; one link of a host, then links between switches, the heavy ones first."""
    links = plain["links"]

    assert [one["link"].startswith("h") or " > h" in one["link"] for one in links] == [
        True,
        False,
        False,
        False,
        False,
    ]
    for one in links:
        assert sum(one["phases"].values()) == pytest.approx(one["bytes"])
    between = [one["bytes"] for one in links[1:]]
    assert between == sorted(between, reverse=True)
    assert max(one["bytes"] for one in links) == pytest.approx(plain["max_link_load_bytes"])


def test_the_prediction_is_written_with_links_by_name(plain, fabric):
    """Sums over phases are the links' bytes; the heaviest is the one that is reported."""
    data = json.loads(Path(plain["files"]["prediction.json"]).read_text(encoding="utf-8"))
    summed = dict.fromkeys(data["links"], 0.0)
    for phase in data["phases"].values():
        for name, value in phase["links"].items():
            summed[name] += value

    assert summed == pytest.approx(data["links"])
    assert set(summed) <= {fabric.directed_name(row) for row in range(fabric.directed_count)}
    assert max(summed.values()) == pytest.approx(plain["max_link_load_bytes"])
    assert data["cost_us"] == plain["cost_us"] == data["time_us"][2]


def test_pins_and_exclusions_hold_for_the_map(placed):
    """A pinned rank is on its host, and no rank on an excluded one."""
    data = placed(two_leaves(5), pins=("3=h9", "0=h0"), exclude="h[1-2]")
    hosts = [rank["host"] for rank in data["placement"]["ranks"]]

    assert (hosts[3], hosts[0]) == ("h9", "h0")
    assert not {"h1", "h2"} & set(hosts)
    assert data["placement"]["excluded"] == ["h1", "h2"]


@pytest.mark.parametrize("name", ["placement.json", "slurm.hostfile", "openmpi.rankfile"])
def test_a_map_of_ours_is_priced_as_it_was_placed(placed, plain, fabric, name):
    """--evaluate of a file that says where ranks are gives the cost that the same map had."""
    again = placed(fabric, evaluate=Path(plain["files"][name]))

    assert again["evaluated"]["cost_us"] == pytest.approx(plain["cost_us"])
    assert again["before"] == "given"
    assert again["orders"]["given"] == again["evaluated"]["cost_us"]


def test_a_replaced_host_moves_one_rank(placed):
    """With the map of before and its host excluded, the others stay."""
    spare = two_leaves(5)
    first = placed(spare)
    gone = first["placement"]["ranks"][2]["host"]
    again = placed(spare, parent=Path(first["run_dir"]), exclude=gone)

    moved = [
        rank
        for rank, (a, b) in enumerate(
            zip(first["placement"]["ranks"], again["placement"]["ranks"], strict=True)
        )
        if a["host"] != b["host"]
    ]
    assert moved == [2]
    assert again["moves"] == 1


def test_a_host_that_left_the_fabric_is_replaced(placed, fabric):
    """Its rank alone moves, the note names it, and excluding it by name is no mistake."""
    first = placed(fabric, ranks_per_host=1, job=JOB.replace("dp = 4", "dp = 3"))
    parent = Path(first["files"]["placement.json"])
    used = [entry["host"] for entry in first["placement"]["ranks"]]
    kept = [host for host in fabric.hosts if host != used[2]]
    smaller = two_leaves()
    named = smaller.to_json()
    row = smaller.node_row(used[2])
    named["nodes"]["name"][row] = "spare"
    smaller = type(smaller).from_json(named)
    assert used[2] not in smaller.hosts
    assert set(kept) < set(smaller.hosts)

    data = placed(
        smaller, ranks_per_host=1, job=JOB.replace("dp = 4", "dp = 3"), parent=parent, exclude=used[2]
    )

    assert data["moves"] == 1
    after = [entry["host"] for entry in data["placement"]["ranks"]]
    assert [a for a, b in zip(after, used, strict=True) if a == b] == used[:2] + used[3:]
    assert data["placement"]["parent"][2] is None
    assert any(used[2] in note for note in data["notes"])


def test_a_parent_of_another_fabric_is_refused(placed, fabric, tmp_path):
    """A map none of whose hosts is there is a mistake, not a job without moves."""
    (tmp_path / "placement.json").write_text(
        json.dumps({"schema": "nettune.placement/1", "ranks": [{"rank": 0, "host": "far"}]}), encoding="utf-8"
    )
    with pytest.raises(InputError, match="none of its hosts is in the fabric"):
        placed(fabric, parent=tmp_path / "placement.json")


def test_a_map_is_priced_with_its_own_nics(placed, tmp_path):
    """All ranks of the map on one of two NICs of their hosts: dearer than the same hosts with both."""
    builder = FabricBuilder()
    for host in range(4):
        builder.node(f"h{host}", NodeKind.HOST)
    builder.node("leaf", NodeKind.SWITCH)
    for host in range(4):
        for rail in range(2):
            builder.port(f"h{host}", f"eth{rail}", speed_gbps=0.2, rail=rail)
            builder.port("leaf", f"d{host}-{rail}", speed_gbps=0.2)
            builder.link((f"h{host}", f"eth{rail}"), ("leaf", f"d{host}-{rail}"))
    fabric = builder.build()
    first = placed(fabric, ranks_per_host=2)
    given = json.loads(Path(first["files"]["placement.json"]).read_text(encoding="utf-8"))
    for entry in given["ranks"]:
        entry["nic"] = "eth0"
    (tmp_path / "one.json").write_text(json.dumps(given), encoding="utf-8")

    data = placed(fabric, ranks_per_host=2, evaluate=tmp_path / "one.json")

    assert data["evaluated"]["cost_us"] > 1.5 * data["cost_us"]
    assert data["evaluated"]["cost_us"] >= data["evaluated"]["bound_us"]


def test_even_pods_reach_the_map(placed, fabric):
    """Four nodes of two leaves that are pods: 2 and 2 or 4 and 0; three cannot be."""
    job = JOB.replace("dp = 4", "dp = 3")
    data = placed(fabric, job=job, ranks_per_host=1, even_pods=True, exclude="h0")
    near = [int(entry["host"][1:]) < 4 for entry in data["placement"]["ranks"]]
    assert sum(near) % 2 == 0
    with pytest.raises(InputError, match="even number"):
        placed(fabric, job=job, ranks_per_host=2, even_pods=True)


def test_experts_are_evened_out(placed, fabric):
    """Two heavy experts that were neighbours are apart; every expert once; less time than with experts in order."""
    job = (
        'name = "moe"\nep = 4\ndp = 8\nep_bytes = "4M"\ndp_bytes = "1M"\n'
        "expert_tokens = [9, 9, 1, 1, 1, 1, 1, 1]\n"
    )
    plain = placed(fabric, job=job)
    data = placed(fabric, job=job, place_experts=True)

    said = json.loads(Path(data["files"]["experts.json"]).read_text(encoding="utf-8"))
    assert said == data["experts"]
    assert sorted(expert for held in said["experts_of_ep_rank"] for expert in held) == list(range(8))
    assert said["busiest_over_mean"] == pytest.approx(10 / 6)
    assert said["busiest_over_mean_in_order"] == pytest.approx(18 / 6)
    assert data["cost_us"] < plain["cost_us"]
    assert "experts.json" not in plain["files"]
    with pytest.raises(InputError, match="needs expert_tokens"):
        placed(fabric, place_experts=True)


def test_a_parent_says_how_many_ranks_share_a_host(placed):
    """Without --ranks-per-host too; the same map again moves nobody."""
    job = JOB.replace("dp = 4", "dp = 8")
    first = placed(two_leaves(), job=job, ranks_per_host=2)
    again = placed(two_leaves(), job=job, parent=Path(first["files"]["placement.json"]))

    assert again["moves"] == 0
    assert again["cost_us"] == pytest.approx(first["cost_us"])


def test_another_job_takes_hosts_and_slows_links(placed):
    """Its run directory, or its job and map, exclude its hosts and load links; its prediction loads links alone."""
    big = two_leaves(8)
    other = placed(big)
    taken = {rank["host"] for rank in other["placement"]["ranks"]}

    beside = placed(big, background=(other["run_dir"],))
    files = placed(big, background=(f"{other['run_dir']}/../../job.toml={other['files']['slurm.hostfile']}",))
    loads = placed(big, background=(other["files"]["prediction.json"],), exclude=",".join(sorted(taken)))

    for one in (beside, files, loads):
        assert not taken & {rank["host"] for rank in one["placement"]["ranks"]}
    assert beside["orders"] == files["orders"] == pytest.approx(loads["orders"])
    free = placed(big, exclude=",".join(sorted(taken)))
    assert beside["orders"]["depth-first"] >= free["orders"]["depth-first"]
    assert "job mix on 8 hosts" in beside["notes"][-1]


def test_an_explanation_names_the_host_and_the_next_best(placed, fabric):
    """What `--explain` keeps is about the rank's own host, and the next best is no better."""
    data = placed(fabric, explain=5)
    told = data["explain"]

    assert told["host"] == data["placement"]["ranks"][5]["host"]
    assert {talk["phase"] for talk in told["talks"]} == {"pp p2p", "dp all-reduce"}
    assert not told["next_host"] or told["next_cost_us"] >= told["cost_us"] - 1e-6


def test_files_go_where_they_are_asked_to(placed, fabric, tmp_path):
    """--write-files makes its folder; the run directory keeps results alone; the command names the folder."""
    data = placed(fabric, write_files=tmp_path / "deep" / "launch")

    assert {path.name for path in (tmp_path / "deep" / "launch").iterdir()} == set(data["files"])
    assert str(tmp_path / "deep" / "launch") in data["launch"]
    kept = {path.name for path in Path(data["run_dir"]).iterdir()}
    assert kept == {"result.json", "environment.json", "report.html"}


def test_the_command_to_launch_is_srun_s_inside_slurm(plain, placed, fabric, monkeypatch):
    """SLURM_JOB_ID decides; else torchrun's over ssh."""
    assert "torchrun-ssh.sh" in plain["launch"]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert "slurm.sh" in placed(fabric)["launch"]


MAPS = {
    "hosts": ("h3\nh0\n", ["h3", "h0"]),
    "comments and blanks": ("# map\n\n h3 # first\nh0\n", ["h3", "h0"]),
    "slots": ("h3 slots=2\nh0 slots=1 max_slots=4\n", ["h3", "h3", "h0"]),
    "hydra": ("h3:2\nh0:1\n", ["h3", "h3", "h0"]),
    "several on a line": ("h3,h0\nh1\n", ["h3", "h0", "h1"]),
    "slurm": ("h3*2,h0\n# rest\nh1\n", ["h3", "h3", "h0", "h1"]),
    "hostlist": ("h[2-3],h[0-1]\n", ["h2", "h3", "h0", "h1"]),
    "users": ("me@h3 slots=2\n", ["h3", "h3"]),
    "rankfile": ("rank 1=h3 slot=0\nrank 0=h0 slot=0:1\n", ["h0", "h3"]),
}


@pytest.mark.parametrize("form", MAPS)
def test_maps_are_read_in_every_form(fabric, tmp_path, form):
    """Host of each line or rank."""
    text, expected = MAPS[form]
    (tmp_path / "map").write_text(text, encoding="utf-8")

    assert placeinput.read_map(tmp_path / "map", fabric) == expected


BAD_MAPS = {
    "unknown host": ("h0\nh99\n", ":2: the fabric has no host 'h99'"),
    "a switch": ("leaf0\n", "the fabric has no host 'leaf0'"),
    "no line of a map": ("h0\nh1 h2 h3\n", ":2: 'h1 h2 h3' is no line"),
    "rank twice": ("rank 0=h0 slot=0\nrank 0=h1 slot=0\n", ":2: rank 0 is named twice"),
    "rank missing": ("rank 0=h0\nrank 2=h1\n", "a line for each of the ranks 0 to 2"),
    "both forms": ("rank 0=h0\nh1\n", "a line for each of the ranks"),
    "nothing": ("# none\n", "names no host"),
    "no slots": ("h0 slots=0\n", "0 slots are not 1 to"),
    "a range without end": ("h[0-\n", "is no"),
    "a range too long": ("h[0-999999999]\n", "names more than"),
    "too many slots": ("h0 slots=999999999\n", "slots are not 1 to"),
    "json of another kind": ("{}", "schema"),
}


@pytest.mark.parametrize("case", BAD_MAPS)
def test_bad_maps_name_file_and_line(fabric, tmp_path, case):
    """One line that says what is wrong."""
    text, said = BAD_MAPS[case]
    (tmp_path / "map").write_text(text, encoding="utf-8")

    with pytest.raises(InputError) as error:
        placeinput.read_map(tmp_path / "map", fabric)
    assert str(error.value).startswith(f"{tmp_path / 'map'}:")
    assert said in str(error.value)


@given(st.text(alphabet="h0123rank=slot: #*,@[]-\n{}\"'\u00e9\x00", max_size=60))
def test_any_text_is_a_map_or_an_input_error(tmp_path_factory, text):
    """Never another exception."""
    path = tmp_path_factory.mktemp("map") / "map"
    path.write_text(text, encoding="utf-8")
    fabric = two_leaves()
    try:
        hosts = placeinput.read_map(path, fabric)
    except InputError:
        return
    assert set(hosts if isinstance(hosts, list) else hosts.hosts(fabric)) <= set(fabric.hosts)


def test_link_loads_are_read_by_name(fabric, tmp_path):
    """Bytes go to the direction that is named; what the fabric does not have is refused."""
    name = fabric.directed_name(7)
    path = tmp_path / "loads.json"
    path.write_text(json.dumps({"schema": placeinput.LOADS_SCHEMA, "links": {name: 5}}), encoding="utf-8")

    assert np.flatnonzero(placeinput.read_link_loads(path, fabric)).tolist() == [7]
    for links in ({"a:b > c:d": 1}, {name: -1}, {name: "many"}, {name: None}, [name], 3):
        path.write_text(json.dumps({"schema": placeinput.LOADS_SCHEMA, "links": links}), encoding="utf-8")
        with pytest.raises(InputError, match=r"loads\.json"):
            placeinput.read_link_loads(path, fabric)


def test_a_model_s_job_is_read_back_from_its_run(placed):
    """A job by the model's shape is background like one by bytes."""
    big = two_leaves(8)
    job = "pp = 2\ndp = 4\n[model]\nlayers = 4\nhidden = 64\nheads = 4\nseq = 64\nvocab = 1000\n"
    other = placed(big, job=job)
    found = placeinput.read_other_jobs([other["run_dir"]], Routing.shortest_paths(big))

    assert found is not None
    placement = Placement.from_json(json.loads(Path(other["files"]["placement.json"]).read_text()), big)
    assert set(found.hosts) == set(placement.hosts(big))
    assert found.link_bytes.sum() > 0


def test_nothing_is_left_of_a_run_that_was_refused(placed, fabric, folder, tmp_path):
    """An input error leaves no run directory."""
    before = set((folder / "runs").iterdir())
    for asked in ({"pins": ("0=h99",)}, {"exclude": "h[0-7]"}, {"evaluate": tmp_path / "nowhere"}):
        with pytest.raises(InputError):
            placed(fabric, **asked)
    assert set((folder / "runs").iterdir()) == before

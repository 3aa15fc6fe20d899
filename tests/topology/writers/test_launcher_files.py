"""Files of launchers, read back by parsers of their own after each format's grammar."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from topology.placement.mapping import Placement
from topology.writers import WRITERS, launcher_files

INTERLEAVED = ["node5", "node1", "node5", "node2"]


def read_slurm(text):
    """slurm_read_hostfile: comments end lines, commas separate, host*N repeats, a line begins with a letter or digit."""
    hosts = []
    for line in text.splitlines():
        content = line.split("#")[0]
        if not content:
            continue
        assert content[0].isascii()
        assert content[0].isalnum()
        for word in content.split(","):
            name, _, times = word.partition("*")
            assert not set(name) & set("[] \t")
            hosts += [name] * int(times or 1)
    return hosts


def read_openmpi(hostfile, rankfile):
    """Hosts by rank, whose slots must be there and be used once each."""
    slots = {}
    for line in hostfile.splitlines():
        if not line.startswith("#"):
            name, count = re.fullmatch(r"([A-Za-z0-9_][\w.-]*) slots=([0-9]+)", line, re.ASCII).groups()
            assert name not in slots
            slots[name] = int(count)
    placed, taken = {}, set()
    for line in rankfile.splitlines():
        if not line.startswith("#"):
            rank, name, slot = re.fullmatch(r"rank ([0-9]+)=([\w.-]+) slot=([0-9]+)", line, re.ASCII).groups()
            assert int(rank) not in placed
            assert (name, slot) not in taken
            assert int(slot) < slots[name]
            taken.add((name, slot))
            placed[int(rank)] = name
    return [placed[rank] for rank in range(len(placed))]


def read_hydra(text, ranks):
    """HYDU_add_to_node_list: a line with the host of the line before adds to it; ranks fill lines and begin again."""
    nodes: list[list[Any]] = []
    for line in text.splitlines():
        content = line.split("#")[0].split()
        if content:
            assert len(content) == 1
            name, _, count = content[0].partition(":")
            if nodes and nodes[-1][0] == name:
                nodes[-1][1] += int(count or 1)
            else:
                nodes.append([name, int(count or 1)])
    filled = [name for name, count in nodes for _ in range(count)]
    return [filled[rank % len(filled)] for rank in range(ranks)]


def read_deepspeed(text):
    """_parse_hostfile of deepspeed/launcher/runner.py: each host once."""
    pool = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, count = re.search(r"^(\S+)\s+slots=(\d+)", line).groups()
        assert name not in pool
        pool[name] = int(count)
    return [name for name, count in pool.items() for _ in range(count)]


def files_of(writer, fabric, placement):
    """Files of one writer, None where it refuses the map."""
    try:
        return import_module(WRITERS[writer]).files(placement, fabric)
    except InputError:
        return None


@given(st.data())
def test_any_map_is_read_back_the_same(map_of, drawn_hosts, data):
    """Slurm, Open MPI and Hydra express every map of plain names, ranks of a host together or apart."""
    hosts = drawn_hosts(data)
    fabric, placement = map_of(hosts)

    slurm = files_of("slurm", fabric, placement)
    assert read_slurm(slurm["slurm.hostfile"]) == hosts
    assert f"--nodes={len(set(hosts))} --ntasks={len(hosts)} " in slurm["slurm.sh"]
    openmpi = files_of("openmpi", fabric, placement)
    assert read_openmpi(openmpi["openmpi.hostfile"], openmpi["openmpi.rankfile"]) == hosts
    assert f"-np {len(hosts)} " in openmpi["openmpi.sh"]
    hydra = files_of("hydra", fabric, placement)
    assert read_hydra(hydra["hydra.hostfile"], len(hosts)) == hosts
    assert f"-n {len(hosts)} " in hydra["hydra.sh"]


@given(st.data())
def test_launchers_that_number_host_by_host_take_just_such_maps(map_of, drawn_hosts, data):
    """DeepSpeed and torchrun take a map exactly where the ranks of each host follow one another."""
    hosts = drawn_hosts(data, together=data.draw(st.booleans()))
    fabric, placement = map_of(hosts)
    order = list(dict.fromkeys(hosts))
    fits = hosts == sorted(hosts, key=order.index)

    deepspeed = files_of("deepspeed", fabric, placement)
    assert (deepspeed is not None) == fits
    assert (files_of("torchrun", fabric, placement) is not None) == fits
    if deepspeed is not None:
        assert read_deepspeed(deepspeed["deepspeed.hostfile"]) == hosts


@given(st.data())
def test_odd_names_are_refused_or_read_back(map_of, drawn_hosts, data):
    """No name is taken for something else by a format: it is refused, with the name in the reason, or comes back."""
    hosts = drawn_hosts(data, odd=True)
    fabric, placement = map_of(hosts)
    files, refused = launcher_files(placement, fabric)

    if "slurm.hostfile" in files:
        assert read_slurm(files["slurm.hostfile"]) == hosts
    if "openmpi.hostfile" in files:
        assert read_openmpi(files["openmpi.hostfile"], files["openmpi.rankfile"]) == hosts
    if "hydra.hostfile" in files:
        assert read_hydra(files["hydra.hostfile"], len(hosts)) == hosts
    if "deepspeed.hostfile" in files:
        assert read_deepspeed(files["deepspeed.hostfile"]) == hosts
    for reason in refused.values():
        assert "\n" not in reason
    assert set(refused) <= set(WRITERS) - {"json"}


@pytest.mark.parametrize(
    ("writer", "hosts", "why"),
    [
        ("slurm", ["-x"], "cannot name host '-x'"),
        ("slurm", ["ALL"], "cannot name host 'ALL'"),
        ("slurm", ["h[1-2]"], "cannot name host 'h[1-2]'"),
        ("openmpi", ["slots"], "cannot name host 'slots'"),
        ("openmpi", ["localhost"], "cannot name host 'localhost'"),
        ("openmpi", ["a.x", "a.y"], "a.x and a.y would be one host"),
        ("hydra", ["a:2"], "cannot name host 'a:2'"),
        ("deepspeed", ["a,b"], "cannot name host 'a,b'"),
        ("deepspeed", INTERLEAVED, "node5 has ranks 0, 2; use slurm or openmpi"),
        ("torchrun", INTERLEAVED, "node5 has ranks 0, 2; use slurm or openmpi"),
        ("torchrun", ["-oProxyCommand=x"], "cannot name host"),
        ("kubernetes", INTERLEAVED, "node5 has ranks 0, 2; use slurm or openmpi"),
        ("kubernetes", ["a", "a", "b"], "hosts have 1 to 2 ranks"),
        ("kubernetes", ["Node"], "cannot name host 'Node'"),
    ],
)
def test_what_a_format_cannot_express_is_refused(map_of, writer, hosts, why):
    """The reason names the host and what is wrong with it."""
    fabric, placement = map_of(hosts)

    assert why in launcher_files(placement, fabric)[1][writer]


def test_addresses_are_names_of_their_own_for_open_mpi(map_of):
    """Two addresses of one network do not count as one host with two domains."""
    fabric, placement = map_of(["10.0.0.1", "10.0.0.2"])

    assert "openmpi" not in launcher_files(placement, fabric)[1]


def test_open_mpi_files_are_as_documented(map_of):
    """The command lines of versions 4 and 5 stand at the head; the rest are ranks with their hosts, hosts with slots."""
    fabric, placement = map_of(INTERLEAVED)
    files, _ = launcher_files(placement, fabric)
    head, ranks = files["openmpi.rankfile"].split("rank 0=")

    assert "--map-by rankfile:file=/dev/fd/3 PROGRAM 3<openmpi.rankfile\n" in head
    assert "--rankfile openmpi.rankfile PROGRAM\n" in head
    assert ranks.splitlines() == [
        "node5 slot=0",
        "rank 1=node1 slot=0",
        "rank 2=node5 slot=1",
        "rank 3=node2 slot=0",
    ]
    assert files["openmpi.hostfile"].splitlines()[1:] == ["node5 slots=2", "node1 slots=1", "node2 slots=1"]


def test_accelerators_out_of_order_are_refused_by_deepspeed(map_of):
    """DeepSpeed numbers accelerators itself."""
    fabric, placement = map_of(["a", "a"], gpus=[1, 0])

    assert "accelerator i" in launcher_files(placement, fabric)[1]["deepspeed"]


def test_every_file_begins_with_how_to_use_it(map_of):
    """All formats that know comments begin with one."""
    fabric, placement = map_of(["a", "b"])
    files, refused = launcher_files(placement, fabric)

    assert refused == {}
    assert [name for name, content in files.items() if content[0] != "#"] == [
        "kubernetes-positions.json",
        "placement.json",
    ]
    assert all(content.endswith("\n") for content in files.values())


def test_no_ranks_is_a_line(map_of):
    """An empty map is refused by every launcher."""
    fabric, _ = map_of(["a"])
    _, refused = launcher_files(Placement.of_hosts(fabric, []), fabric)

    assert set(refused) == set(WRITERS) - {"json"}
    assert refused["slurm"] == "the map has no ranks, so there is nothing to launch"


def test_json_is_the_placement(map_of):
    """placement.json has the schema of a placement, and gives it back."""
    fabric, placement = map_of(INTERLEAVED)
    data = json.loads(launcher_files(placement, fabric)[0]["placement.json"])

    assert data["schema"] == "nettune.placement/1"
    assert Placement.from_json(data, fabric).hosts(fabric) == INTERLEAVED


@given(st.data())
def test_kubernetes_numbers_pods_by_node_and_positions_sort_as_strings(map_of, drawn_hosts, data):
    """Label values sorted as strings give the order of hosts; the job is limited to its hosts, one pod on each."""
    names = [*dict.fromkeys(drawn_hosts(data)), *(f"more{number}" for number in range(12))]
    fabric, placement = map_of([name for name in names for _ in range(2)])
    files = files_of("kubernetes", fabric, placement)
    if files is None:
        assert any(name.endswith("-") for name in names)
        return
    nodes = json.loads(files["kubernetes-positions.json"])["items"]
    label = "placement.nettune/position"
    ordered = sorted(nodes, key=lambda node: node["metadata"]["labels"][label])

    assert [node["metadata"]["name"] for node in ordered] == names
    assert (
        f'- nodeLabel: "{label}"\n  - nodeLabel: "kubernetes.io/hostname"\n' in files["kubernetes-kueue.yaml"]
    )
    job = files["kubernetes-job.yaml"]
    assert f"  completions: {len(names)}\n  parallelism: {len(names)}\n" in job
    assert json.loads(re.findall(r"values: (\[.*\])", job)[0]) == names
    assert "nvidia.com/gpu: 2\n" in job
    script = json.loads(re.findall(r'  torchrun.sh: (".*")\n', job)[0])
    assert script == files_of("torchrun", fabric, placement)["torchrun.sh"]


def test_kubernetes_manifests_are_yaml(map_of):
    """A YAML parser reads two documents, the job among them with its annotations and affinities."""
    fabric, placement = map_of(["b", "b", "a", "a"])
    files, _ = launcher_files(placement, fabric)
    config, job = yaml.safe_load_all(files["kubernetes-job.yaml"])
    topology = yaml.safe_load(files["kubernetes-kueue.yaml"])

    assert config["data"]["torchrun.sh"] == files["torchrun.sh"]
    assert job["spec"]["completionMode"] == "Indexed"
    pod = job["spec"]["template"]
    assert pod["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    assert pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ][0]["matchExpressions"][0]["values"] == ["b", "a"]
    assert topology["spec"]["levels"][-1] == {"nodeLabel": "kubernetes.io/hostname"}

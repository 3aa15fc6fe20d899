"""What tests share: a run with results of every step, made by the real functions; a lab, and Slurm on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from collectives.bench import Method
from collectives.job import JobSpec
from collectives.traffic import AllReduceTraffic, JobTraffic
from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.lab import Lab, LabSpec
from nettune.launch import Agents, LocalLauncher
from nettune.trainer.config import GPTConfig, TrainConfig
from nettune.workflows import steps
from nettune.workflows.run import Run, open_run
from nettune.workflows.training import Training
from sweeps.knob import Knob
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind
from topology.placement.place import AGAINST, OURS
from topology.routing import Routing

MODEL = GPTConfig.from_depth(1)
AGENT = """#!/bin/sh
# stands for ssh: options, HOST, and the words of a command for the shell there
while case "$1" in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
exec nsenter --net="/run/netns/$host" --uts="/run/uts/$host" sh -c "$*"
"""
SLURM_CONF = """
ClusterName=lab
SlurmctldHost=h0({controller})
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/slurm/state
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdSpoolDir=/run/slurm/%n
SlurmdPidFile=/run/slurm/%n.pid
SlurmdLogFile=/run/slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=1
{nodes}
PartitionName=all Nodes=ALL Default=YES
"""


def two_leaves() -> Fabric:
    """2 leaves x 2 hosts, 2 spines, all links 0.1 Gbit/s."""
    builder = FabricBuilder()
    for host in range(4):
        builder.node(f"h{host}", NodeKind.HOST)
    for switch in ("leaf0", "leaf1", "spine0", "spine1"):
        builder.node(switch, NodeKind.SWITCH)
    for leaf in range(2):
        for place in range(2):
            builder.port(f"h{2 * leaf + place}", "eth0", speed_gbps=0.1, rail=0)
            builder.port(f"leaf{leaf}", f"d{place}", speed_gbps=0.1)
            builder.link((f"h{2 * leaf + place}", "eth0"), (f"leaf{leaf}", f"d{place}"))
        for spine in range(2):
            builder.port(f"leaf{leaf}", f"u{spine}", speed_gbps=0.1)
            builder.port(f"spine{spine}", f"d{leaf}", speed_gbps=0.1)
            builder.link((f"leaf{leaf}", f"u{spine}"), (f"spine{spine}", f"d{leaf}"))
    return builder.build()


def findings() -> list[dict[str, Any]]:
    """One of each status."""
    link, host = ElementId("link/leaf0:u0--spine0:d0"), ElementId.host("h1")
    return [
        one.to_json()
        for one in (
            Finding(check="link-loss", status=Status.WARN, where=link, what="loses 0.1%", probability=0.9, fix="clean it"),
            Finding(check="pairs", status=Status.UNKNOWN, where=host, what="not reached", required=False),
            Finding(check="host-cpu", status=Status.PASS, where=host, what="is as fast as the others"),
        )
    ]  # fmt: skip


def fill(run: Run) -> None:
    """Do every step, as small as it goes."""
    fabric = two_leaves()
    routing = Routing.shortest_paths(fabric)
    hosts = fabric.hosts
    run.data |= {"fabric": fabric.to_json(), "routing": routing.to_json(), "link_rate_gbps": 0.1}
    run.data |= {
        "findings": findings(),
        "dropped": {},
        "busbw_bytes": 65536,
        "mode": "lab",
        "not_shown": ["a rail"],
    }
    run.data["qualify"] = {
        "hosts": list(hosts),
        "flows": [{"offered_gbps": 0.088}],
        "matrix_gbps": [[None if a == b else 0.09 for b in hosts] for a in hosts],
    }
    method = Method(inits=2, repeats=1, iface="lo")
    traffic = AllReduceTraffic(len(hosts), 65536)
    job = JobSpec(pp=2, dp=2, order="tp-pp-dp", dp_bytes=65536, pp_bytes=4096)
    with Agents(LocalLauncher(hosts), hosts, preload=steps.TORCH) as agents:
        orders = steps.placed(run, routing, traffic)
        steps.compared(run, agents, orders, traffic, method)
        both = {name: orders[name] for name in (AGAINST, OURS)}
        steps.sized(run, agents, both, (65536,), method)
        training = Training(agents, "lo", TrainConfig(model=MODEL, batch_per_rank=1))
        peak = steps.peak_of(run, training, hosts)
        steps.swept(run, training, hosts, peak, Knob("bucket_cap_mib", (25.0, 1.0), 25.0), 2)
        steps.trained(run, training, both, peak, inits=2, steps=1)
        inner = Run(run.dir, run.progress, run.seed, {"seconds": {}})
        second = steps.placed(inner, routing, JobTraffic(job), ("depth-first", OURS))
        steps.compared(inner, agents, second, JobTraffic(job), method)
    kept = {key: inner.data[key] for key in ("placements", "comparison", "speedup")}
    run.data["second"] = {"job": job.to_json(), "fabric": run.data["fabric"], **kept}


@pytest.fixture(scope="session")
def stored(tmp_path_factory) -> dict[str, Any]:
    """The content of result.json."""
    with open_run("demo", tmp_path_factory.mktemp("stored"), lambda _: None) as run:
        fill(run)
        run.finish(0)
    data = json.loads((run.dir.path / "result.json").read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


@pytest.fixture(scope="session")
def lab():
    """Eight hosts on four leaves."""
    with Lab.up(LabSpec(name="wr"), bound=True) as up:
        yield up


@pytest.fixture
def agent(tmp_path):
    """Path of a program that launchers take for ssh."""
    path = tmp_path / "agent"
    path.write_text(AGENT, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def slurm(lab, tmp_path_factory):
    """Slurm on the lab: a controller on h0, a daemon on every host; SLURM_CONF of it."""
    for program, package in (
        ("munged", "munge"),
        ("slurmctld", "slurm-wlm"),
        ("slurmd", "slurm-wlm"),
        ("srun", "slurm-wlm"),
    ):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"needs {program}: Debian package {package}")
    if lab.rootless or int(Path("/proc/self/uid_map").read_text(encoding="ascii").split()[2]) < 1 << 16:
        pytest.skip("needs root outside of user namespaces: Slurm's daemons and munge change users")
    address = {end.node: end.address for link in lab.wiring.links for end in link.ends}
    conf = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    nodes = "\n".join(f"NodeName={host} NodeAddr={address[host]} CPUs=4" for host in lab.hosts)
    conf.write_text(SLURM_CONF.format(controller=address["h0"], nodes=nodes), encoding="utf-8")
    prepare = "mkdir -p /run/munge /run/slurm/state; head -c 128 /dev/urandom >/run/munge/key; chmod 400 /run/munge/key"
    wait_for(lab, ["sh", "-c", prepare])
    munged = ["munged", "--foreground", "--key-file=/run/munge/key", "--seed-file=/run/munge/seed",
              "--pid-file=/run/munge/pid", "--num-threads=2"]  # fmt: skip
    daemons = [("h0", munged), ("h0", ["slurmctld", "-D", "-i"])]
    daemons += [(host, ["slurmd", "-D", "-N", host]) for host in lab.hosts]
    started = []
    try:
        for host, words in daemons:
            argv = ["env", f"SLURM_CONF={conf}", f"PATH={os.environ['PATH']}:/usr/sbin", *words]
            null = subprocess.DEVNULL
            argv = lab.launcher().argv(host, argv)
            started.append(
                subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, start_new_session=True)
            )
            if words is munged:
                wait_for(lab, ["sh", "-c", "munge -n | unmunge"])
        wait_for(
            lab,
            ["sh", "-c", f'[ "$(sinfo -h -N -t idle -o %n | wc -l)" = {len(lab.hosts)} ]'],
            SLURM_CONF=conf,
        )
        yield conf
    finally:
        for daemon in reversed(started):
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()


def wait_for(lab, argv, **env):
    """Wait until a command succeeds on h0."""
    deadline = time.monotonic() + 20
    words = [f"{key}={value}" for key, value in env.items()]
    while (done := lab.exec("h0", ["env", *words, *argv], timeout_s=10)).returncode:
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.1)

"""The written shell scripts, run with stubs in place of the launchers."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from topology.writers import launcher_files


@pytest.fixture
def folder(map_of, tmp_path):
    """The function that writes all files of a map into a folder with blanks and quotes in its name."""

    def write(hosts, gpus=None, addresses=None):
        fabric, placement = map_of(hosts, gpus, addresses)
        here = tmp_path / "the 'open' map"
        here.mkdir(exist_ok=True)
        for name, content in launcher_files(placement, fabric)[0].items():
            (here / name).write_text(content, encoding="utf-8")
        return here

    return write


@pytest.fixture
def stub(tmp_path):
    """The function that puts a program with this body on PATH."""
    (tmp_path / "bin").mkdir()

    def write(name, body):
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    return write


@pytest.fixture
def run(tmp_path):
    """The function that runs a script with the stubs on PATH; (exit code, stdout, stderr)."""

    def go(script, *words, **env):
        done = subprocess.run(
            ["sh", str(script), *words], env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", **env},
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return go


MAPS = [
    (["node5", "node1", "node5"], None),
    (["b c", "x'y", "$z"], None),
    (["a", "a", "b", "b"], [1, 0, 4, 5]),
    (["a"], None),
]


@pytest.mark.parametrize(("hosts", "gpus"), MAPS)
def test_scripts_are_sound(folder, hosts, gpus):
    """Every script is free of syntax errors, and of what shellcheck finds where it is installed."""
    scripts = sorted(folder(hosts, gpus).glob("*.sh"))

    for script in scripts:
        done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    if shutil.which("shellcheck") and scripts:
        checked = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)
        assert checked.stdout == ""


def test_srun_gets_the_hostfile_and_the_program(folder, stub, run):
    """The program's words arrive as they are; what sbatch said of tasks per node does not."""
    here = folder(["b", "a", "b"])
    stub("srun", 'printf "%s\\n" "$SLURM_HOSTFILE" "${SLURM_NTASKS_PER_NODE-none}" "$@"')

    code, out, _ = run(
        here / "slurm.sh", "./train me", "", SRUN_OPTIONS="--mpi=pmix --label", SLURM_NTASKS_PER_NODE="8"
    )

    assert code == 0
    assert out.splitlines() == [
        str(here / "slurm.hostfile"), "none",
        "--distribution=arbitrary", "--nodes=2", "--ntasks=3", "--mpi=pmix", "--label", "./train me", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("4.1.4", ["--rankfile", "{here}/openmpi.rankfile"]),
        ("5.0.11", ["--map-by", "rankfile:file=/dev/fd/3"]),
    ],
)
def test_mpirun_gets_the_words_of_its_version(folder, stub, run, version, words):
    """Versions 4 and 5 are told of the rankfile differently; version 5 reads it from descriptor 3."""
    here = folder(["b", "a", "b"])
    body = f'[ "$1" != --version ] || {{ echo "mpirun (Open MPI) {version}"; exit; }}\nprintf "%s\\n" "$@"; cat <&3'
    stub("mpirun", body)

    code, out, _ = run(here / "openmpi.sh", "./train me", MPIRUN_OPTIONS="-x A=1")

    assert code == 0
    assert out == "\n".join(
        [
            "-np", "3", "--hostfile", f"{here}/openmpi.hostfile", "--bind-to", "none",
            *(word.format(here=here) for word in words), "-x", "A=1", "./train me",
            (here / "openmpi.rankfile").read_text(encoding="utf-8"),
        ]
    )  # fmt: skip


def test_an_mpirun_of_another_kind_is_refused(folder, stub, run):
    """MPICH's mpirun would ignore the files."""
    stub("mpirun", 'echo "HYDRA build details:"')

    code, _, err = run(folder(["a"]) / "openmpi.sh", "./train")

    assert (code, err) == (2, "error: mpirun is not Open MPI's; use hydra.sh\n")


def test_hydra_is_found_and_told(folder, stub, run):
    """mpiexec.hydra comes before an mpiexec of any kind."""
    here = folder(["b", "a", "b"])
    stub("mpiexec.hydra", 'printf "%s\\n" "$@"')
    stub("mpiexec", "exit 9")

    code, out, _ = run(here / "hydra.sh", "./train me", MPIEXEC_OPTIONS="-genv A 1")

    assert code == 0
    assert out.splitlines() == ["-f", f"{here}/hydra.hostfile", "-n", "3", "-genv", "A", "1", "./train me"]


@pytest.mark.parametrize("variable", ["SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK"])
def test_ranks_see_accelerators_in_the_map_s_order(folder, run, variable):
    """Local rank i takes device i, which is then the accelerator that the map gives it."""
    here = folder(["a", "b", "a", "b", "c", "c"], gpus=[1, 4, 0, 5, 1, 0])

    seen = [
        run(
            here / "devices.sh",
            "sh",
            "-c",
            'echo "$CUDA_VISIBLE_DEVICES $1"',
            "-",
            "x y",
            **{variable: str(rank)},
        )
        for rank in range(6)
    ]

    assert [out for _, out, _ in seen] == [
        f"{own} x y\n" for own in ("1,0", "4,5", "1,0", "4,5", "1,0", "1,0")
    ]
    assert run(here / "devices.sh", "true")[0] == 2


def test_launchers_put_the_devices_script_before_the_program(folder, stub, run):
    """Only where the map's accelerators are not 0, 1, 2, ... by local rank."""
    stub("srun", 'printf "%s\\n" "$@"')
    here = folder(["a", "a"], gpus=[1, 0])

    out = run(here / "slurm.sh", "./train")[1].splitlines()
    assert out[-3:] == ["sh", f"{here}/devices.sh", "./train"]
    assert "devices.sh" not in (folder(["a", "a"]) / "slurm.sh").read_text(encoding="utf-8")


def torchrun_words(folder, stub, run, hosts, name, gpus=None, **env):
    """What torchrun is started with on a host of this name."""
    stub("hostname", f"printf '%s\\n' '{name}'")
    stub("torchrun", 'echo "$@"; echo "${CUDA_VISIBLE_DEVICES-}"; echo "${TORCH_ELASTIC_WORKER_IDENTICAL-}"')
    code, out, err = run(folder(hosts, gpus, {"b": "10.0.2.1"}) / "torchrun.sh", "train.py", "--x", **env)
    return code, out.splitlines(), err


@pytest.mark.parametrize(
    ("name", "node", "count"), [("b", 0, 2), ("b.cluster.example", 0, 2), ("a", 1, 1), ("x.y", 2, 3)]
)
def test_torchrun_starts_the_right_node_rank(folder, stub, run, name, node, count):
    """A host finds itself by its name with or without a domain; unequal numbers of ranks are counted by torchrun."""
    hosts = ["b", "b", "a", "x.y", "x.y", "x.y"]

    code, out, _ = torchrun_words(folder, stub, run, hosts, name, TORCH_ELASTIC_WORKER_IDENTICAL="1")

    assert code == 0
    assert out == [
        f"--nnodes 3 --nproc-per-node {count} --node-rank {node} --master-addr 10.0.2.1 --master-port 29500 train.py --x",
        "", "",
    ]  # fmt: skip


def test_torchrun_shows_accelerators_in_the_map_s_order(folder, stub, run):
    """The visible devices of a host are those of its ranks in order."""
    _, out, _ = torchrun_words(folder, stub, run, ["b", "b", "a"], "b", gpus=[3, 1, 0])

    assert out[1] == "3,1"


def test_torchrun_takes_node_name_and_port_from_the_environment(folder, stub, run):
    """NODE_NAME stands for the host's name, MASTER_PORT for the port; equal hosts may use torchrun's fast path."""
    env = {"NODE_NAME": "a", "MASTER_PORT": "4000", "TORCH_ELASTIC_WORKER_IDENTICAL": "1"}
    _, out, _ = torchrun_words(folder, stub, run, ["b", "a"], "other", **env)

    assert "--node-rank 1 " in out[0]
    assert "--master-port 4000 " in out[0]
    assert out[2] == "1"


def test_torchrun_on_another_host_says_so(folder, stub, run):
    """A host that the map does not name starts nothing."""
    code, out, err = torchrun_words(folder, stub, run, ["b", "a"], "c")

    assert (code, out) == (2, [])
    assert err == "error: c is not in the map; set NODE_NAME to its name there\n"


def test_odd_names_reach_torchrun_as_they_are(folder, stub, run):
    """Quotes, dollars and patterns in names are no syntax."""
    hosts = ["$HOME", "a*", "it's", "`id`"]
    for node, host in enumerate(hosts):
        stub("torchrun", 'echo "$6"')
        code, out, err = run(folder(hosts) / "torchrun.sh", "x", NODE_NAME=host)
        assert (code, out, err) == (0, f"{node}\n", "")


SSH = 'host=$1; shift; exec sh -c "$*"'


def test_ssh_starts_torchrun_on_every_host_with_the_words_as_they_are(folder, stub, run):
    """Blanks, quotes, line ends and empty words survive the remote shell."""
    hosts = ["b", "b", "it's", "a"]
    stub("remote", f'printf "%s\\n" "$1" >>"$LOG"; {SSH}')
    stub("torchrun", 'for word; do printf "<%s>" "$word"; done; echo')
    here = folder(hosts)
    log = here / "log"
    words = ["train me.py", "", "it's", "two\nlines", "$HOME"]

    code, out, err = run(here / "torchrun-ssh.sh", *words, SSH="remote", LOG=str(log), MASTER_PORT="4000")

    assert (code, err) == (0, "")
    assert sorted(log.read_text(encoding="utf-8").splitlines()) == ["a", "b", "it's"]
    assert out.count("<--master-port><4000>" + "".join(f"<{word}>" for word in words)) == 3
    assert sorted(part.split(">")[0] for part in out.split("<--node-rank><")[1:]) == ["0", "1", "2"]


def test_a_host_that_fails_ends_the_others(folder, stub, run):
    """The exit code is that of the host that failed; nobody waits for the rest."""
    stub("remote", SSH)
    stub("torchrun", 'case "$6" in 1) exit 7 ;; esac; exec sleep 60')
    begun = time.monotonic()

    code, _, _ = run(folder(["a", "b", "c"]) / "torchrun-ssh.sh", "x", SSH="remote")

    assert code == 7
    assert time.monotonic() - begun < 30


def test_an_interrupt_ends_all_hosts(folder, stub, tmp_path):
    """Ctrl-C reaches every connection."""
    stub("remote", SSH)
    stub("torchrun", 'echo "$$"; exec sleep 60')
    process = subprocess.Popen(
        ["sh", folder(["a", "b"]) / "torchrun-ssh.sh", "x"],
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SSH": "remote"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    ranks = [int(process.stdout.readline()) for _ in range(2)]

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=20) == 130
    process.stdout.close()
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)

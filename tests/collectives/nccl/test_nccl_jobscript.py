"""Job scripts: what a real bash hands to the program is what is read; and options of launchers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from collectives.nccl.environment import Form, read_text
from collectives.nccl.settings import Origin

BASH = shutil.which("bash")

# Each ends with ./train, which tells its environment.
SCRIPTS = [
    # quotes
    "export NCCL_IB_TC='106' NCCL_IB_SL=\"3\"\n./train\n",
    "export NCCL_IB_TC=\"1\"'0'6\n./train\n",
    'export "NCCL_IB_TC=106"\n./train\n',
    "export 'NCCL_IB_TC'=106\n./train\n",
    "export NCCL_IB_TC=$'106'\n./train\n",
    "export NCCL_IB_TC=$'1\\x30\\t\\'6'\n./train\n",
    'export NCCL_IB_TC=\\"5\\"\n./train\n',
    "export NCCL_IB_TC=\"'5'\"\n./train\n",
    'export NCCL_IB_TC="5\n./train\n"\n./train\n',
    "echo 'x' # it's a trap\nexport NCCL_IB_TC=5\n./train\n",
    "export NCCL_ALGO='allreduce:ring;allgather:ring'\n./train\n",
    # what ends a word, and what does not
    "export NCCL_IB_TC=10\\\n6\n./train\n",
    "export NCCL_IB_TC=106# no comment\n./train\n",
    "export NCCL_IB_TC=106 # a comment NCCL_IB_SL=3\n./train\n",
    "export NCCL_IB_TC = 106\n./train\n",
    "NCCL_IB_TC =106\n./train\n",
    "export\tNCCL_IB_TC=5\n  export   NCCL_IB_SL=5  \n./train\n",
    "export NCCL_IB_TC=5;export NCCL_IB_SL=3\n./train\n",
    "export NCCL_ALGO=allreduce:ring;allgather:ring\n./train\n",
    'export NCCL_IB_HCA="mlx5_0, mlx5_1" NCCL_IB_SL==3\n./train\n',
    "export NCCL_IB_TC=5\r\n./train\n",
    "export NCCL_IB_TC=5 >/dev/null 2>&1\n./train\n",
    # here-documents and here-strings
    "cat <<EOF >/dev/null; export NCCL_IB_SL=4\nit's\nEOF\n./train\n",
    "cat > /dev/null <<'EOF'\nit's \"open\nEOF\nexport NCCL_IB_SL=1\n./train\n",
    "cat <<-EOF >/dev/null\n\tdon't\n\tEOF\nexport NCCL_IB_SL=2\n./train\n",
    "bash <<EOF\nexport NCCL_IB_TC=106\n./train\nEOF\n",
    'cat <<< "export NCCL_IB_TC=1" >/dev/null\nexport NCCL_IB_SL=1\n./train\n',
    "(( x = 1 << 2 ))\nexport NCCL_IB_TC=$((26 << 2))\n./train\n",
    # what is exported
    "f() { export NCCL_IB_TC=5; }\nf\n./train\n",
    "function f { export NCCL_IB_TC=3; ./train; }\nf\n",
    "{ export NCCL_IB_TC=5; }\n./train\n",
    "export -n NCCL_IB_TC=5\n./train\n",
    "export NCCL_IB_TC=5\nexport -n NCCL_IB_TC\n./train\n",
    "declare -gx NCCL_IB_TC=5\ntypeset -x NCCL_IB_SL=5\n./train\n",
    "readonly NCCL_IB_TC=5\nexport NCCL_IB_TC\n./train\n",
    'eval "export NCCL_IB_TC=5"; eval export NCCL_IB_SL=6\n./train\n',
    "set -o allexport\nNCCL_IB_TC=5\nset +o allexport\nNCCL_IB_SL=6\n./train\n",
    "set -euxo pipefail\nexport NCCL_IB_TC=5\n./train 2>/dev/null\n",
    "set -eua\nNCCL_IB_TC=5\n./train\n",
    "export NCCL_IB_TC=5\nunset -v NCCL_IB_TC\n./train\n",
    "export NCCL_IB_TC=5\nunset NCCL_IB_TC NCCL_X\nNCCL_IB_TC=7\n./train\n",
    "export NCCL_IB_TC=1\nexport NCCL_IB_TC+=06\n./train\n",
    "NCCL_IB_TC=1; NCCL_IB_TC+=06; export NCCL_IB_TC\n./train\n",
    "export NCCL_IB_TC=5 NCCL_IB_TC=6\n./train\n",
    "echo export NCCL_IB_TC=5 > /dev/null\n./train\n",
    # branches and loops
    "if true\nthen\nexport NCCL_IB_TC=5\nfi\n./train\n",
    "for i in 1; do export NCCL_IB_TC=5; done\n./train\n",
    "case x in x) export NCCL_IB_TC=5;; esac\n./train\n",
    "[[ -z $FOO ]] && export NCCL_IB_TC=5\n./train\n",
    # expansions
    "A=1; export NCCL_IB_TC=${A}06 NCCL_IB_SL=$A\n./train\n",
    "export NCCL_IB_TC=$(echo 106) NCCL_IB_SL=`echo 5`\n./train\n",
    "export NCCL_IB_TC=${FOO:-106} NCCL_IB_SL=${FOO-3}\n./train\n",
    "NCCL_IB_TC=${NCCL_IB_TC:-106}\nexport NCCL_IB_TC\n./train\n",
    ': "${NCCL_IB_TC:=106}"\nexport NCCL_IB_TC\n./train\n',
    'ALL="NCCL_IB_TC=5 NCCL_IB_SL=2"\nexport $ALL\n./train\n',
    'ALL="NCCL_IB_TC=5 NCCL_IB_SL=2"\nenv $ALL ./train\n',
    "X='export NCCL_IB_TC=5'\n$X\n./train\n",
    # before a command, and programs that start programs
    "true && NCCL_IB_TC=5 NCCL_IB_SL=3 ./train\n",
    "! NCCL_IB_TC=5 ./train\n",
    "env -u HOME NCCL_IB_TC=5 ./train\n",
    "export NCCL_IB_TC=5; env -u NCCL_IB_TC ./train\n",
    'export NCCL_IB_TC=5; env -i PATH="$PATH" NCCL_IB_SL=1 ./train\n',
    "time NCCL_IB_TC=5 ./train 2>/dev/null\n",
    "nohup env NCCL_IB_TC=5 ./train 2>/dev/null\n",
    "timeout 5 env NCCL_IB_TC=5 ./train\n",
    "exec env NCCL_IB_TC=5 ./train\n",
    "export NCCL_IB_TC=5\nbash -c './train'\n",
    "bash -c 'export NCCL_IB_TC=5; ./train'\n",
    'bash -c "NCCL_IB_TC=5 ./train"\n',
    "bash -lc 'NCCL_IB_TC=$1 ./train 2>/dev/null' x 5\n",
    "#!/bin/bash -x\n#export NCCL_IB_TC=5\n./train 2>/dev/null\n",
]  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("script", SCRIPTS)
def test_bash_exports_what_is_read(tmp_path: Path, script: str) -> None:
    """Names and values as a program gets them; an expansion that cannot be followed is marked, never guessed."""
    train = tmp_path / "train"
    train.write_text("#!/bin/sh\nexec env -0\n")
    train.chmod(0o755)
    job = tmp_path / "job.sh"
    job.write_bytes(script.encode())
    ran = subprocess.run(
        [str(BASH), str(job)],
        check=False,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
        capture_output=True,
    )
    told = (entry.partition("=") for entry in ran.stdout.decode().rstrip("\0").split("\0"))
    exported = {name.strip(): value for name, _, value in told if name.strip().startswith("NCCL")}
    found = read_text("job.sh", script, Form.SCRIPT).in_force

    assert found.keys() == exported.keys()
    assert {n: one.value for n, one in found.items() if not one.expands} == {
        n: value for n, value in exported.items() if not found[n].expands
    }


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        # what is not known is taken the way that sets more
        ("f() { export NCCL_IB_TC=5; }\n", {"NCCL_IB_TC": "5"}),
        ("( export NCCL_IB_TC=5; ./train )\n", {"NCCL_IB_TC": "5"}),
        ("if x; then export NCCL_IB_TC=5; else export NCCL_IB_SL=6; fi\n", {"NCCL_IB_TC": "5", "NCCL_IB_SL": "6"}),
        ("cat > run.sh <<EOF\nexport NCCL_IB_TC=106\nEOF\nsbatch run.sh\n", {"NCCL_IB_TC": "106"}),
        # a configuration file that the script writes
        ("cat > ~/.nccl.conf <<EOF\n#NCCL_IB_SL=1\nNCCL_IB_TC=106\nEOF\n", {"NCCL_IB_TC": "106"}),
        # Slurm
        ("#SBATCH --export=ALL,NCCL_IB_TC=106\n", {"NCCL_IB_TC": "106"}),
        ("#SBATCH --export ALL,NCCL_IB_TC=106 # NCCL_IB_SL=1\n", {"NCCL_IB_TC": "106"}),
        ("srun --export=ALL,'NCCL_IB_TC=106' -N 2 ./a\n", {"NCCL_IB_TC": "106"}),
        ("srun env NCCL_IB_TC=106 ./a\n", {"NCCL_IB_TC": "106"}),
        ("NCCL_IB_TC=106 srun ./a\n", {"NCCL_IB_TC": "106"}),
        ("srun bash -c 'NCCL_IB_TC=106 exec python x.py'\n", {"NCCL_IB_TC": "106"}),
        # MPI
        ("mpirun -np 8 -x NCCL_IB_TC=106 \\\n  -x NCCL_IB_SL=3 --mca btl tcp ./a\n", {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}),
        ("NCCL_IB_TC=106\nmpirun -x NCCL_IB_TC ./a\n", {"NCCL_IB_TC": "106"}),
        ("mpirun -x 'NCCL_IB_HCA=mlx5_0,mlx5_1' ./a\n", {"NCCL_IB_HCA": "mlx5_0,mlx5_1"}),
        ("mpiexec -genv NCCL_IB_TC=106 ./a\n", {"NCCL_IB_TC": "106"}),
        ("mpiexec -genv NCCL_IB_TC 106 -env NCCL_IB_SL 3 ./a\n", {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}),
        # containers
        ("docker run -eNCCL_IB_TC=106 image\n", {"NCCL_IB_TC": "106"}),
        ("docker run --rm -e NCCL_IB_TC=106 --env NCCL_IB_SL=3 --env=NCCL_NET=IB image\n",
         {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3", "NCCL_NET": "IB"}),
        ('docker run -e "NCCL_IB_HCA=mlx5_0" image bash -c "export NCCL_IB_SL=3 && ./a"\n',
         {"NCCL_IB_HCA": "mlx5_0", "NCCL_IB_SL": "3"}),
        ("export APPTAINERENV_NCCL_IB_TC=106 SINGULARITYENV_NCCL_IB_SL=3\n", {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}),
        ("ssh h1 'export NCCL_IB_TC=106; ./a'\n", {"NCCL_IB_TC": "106"}),
    ],
)  # fmt: skip
def test_launchers(script: str, expected: dict[str, str]) -> None:
    """Each in the ways in which it is written."""
    assert {
        name: one.value for name, one in read_text("job.sh", script, Form.SCRIPT).in_force.items()
    } == expected


def test_lines_are_counted_through_here_documents() -> None:
    """Inside and behind them."""
    script = "cat > a.sh <<EOF\n\nexport NCCL_IB_TC=1\nEOF\nexport NCCL_IB_SL=1\n"
    assert {one.name: one.line for one in read_text("job.sh", script, Form.SCRIPT).settings} == {
        "NCCL_IB_TC": 3,
        "NCCL_IB_SL": 5,
    }


@pytest.mark.parametrize(
    "text", ["<<A " * 20_000, "$'" * 20_000, "${A:-" * 20_000, "cat <<A\n" * 5_000 + "A\n", "\\" * 40_000]
)
def test_hostile_scripts_cost_their_length(text: str) -> None:
    """Nothing that is opened twenty thousand times and never closed is looked for twenty thousand times."""
    assert read_text("job.sh", text, Form.SCRIPT).settings == ()


def test_a_launcher_that_takes_a_list_apart_is_told() -> None:
    """Quotes do not save the commas of srun --export."""
    found = read_text("job.sh", "srun --export='ALL,NCCL_IB_HCA=mlx5_0,mlx5_1' ./a\n", Form.SCRIPT)
    assert [(one.name, one.value) for one in found.settings if one.origin is Origin.LOST] == [
        ("NCCL_IB_HCA", "mlx5_1")
    ]

"""Sources of settings: processes, nccl.conf, env files, job scripts, and which one counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collectives.nccl.environment import Form, form_of, read_file, read_process, read_text
from collectives.nccl.settings import Origin
from nettune.errors import InputError


def in_force(name: str, text: str, form: Form | None = None) -> dict[str, str]:
    return {name: one.value for name, one in read_text(name, text, form).in_force.items()}


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("x", "A=1\0NCCL_DEBUG=INFO\0", Form.ENVIRON),
        ("/etc/nccl.conf", "NCCL_DEBUG=INFO\n", Form.CONF),
        ("home/.nccl.conf", "export NCCL_DEBUG=INFO\n", Form.CONF),
        ("x", "NCCL_DEBUG=INFO\nPATH=/bin\n", Form.LINES),
        ("x", "#!/bin/sh\nNCCL_DEBUG=INFO\n", Form.SCRIPT),
        ("x", "export NCCL_DEBUG=INFO\n", Form.SCRIPT),
        ("x", "mpirun -x NCCL_DEBUG=INFO ./a\n", Form.SCRIPT),
        ("x", "python a.py --export=ALL,NCCL_DEBUG=INFO\n", Form.SCRIPT),
        ("x", "", Form.LINES),
    ],
)
def test_the_form_is_recognised(name: str, text: str, form: Form) -> None:
    """By NUL bytes, the file's name, or words of a shell."""
    assert form_of(name, text) is form


def test_only_what_is_meant_for_nccl_is_kept() -> None:
    """An environment holds secrets."""
    text = "AWS_SECRET_ACCESS_KEY=x\0NCCL_DEBUG=INFO\0HOME=/\0NCLL_IB_HCA=mlx5_0\0"
    assert [one.name for one in read_text("e", text).settings] == ["NCCL_DEBUG", "NCLL_IB_HCA"]


def test_a_key_is_masked() -> None:
    """NCCL_PSK encrypts the job's sockets."""
    [setting] = read_text("e", "NCCL_PSK=0123456789").settings
    assert setting.value == "**********"


CONF = "#NCCL_ALGO=Ring\nNCCL_IB_TC=106\nNCCL_IB_TC=104\nNCCL_NET =IB\n NCCL_DEBUG=INFO\nNCCL_PROTO\n\nNCCL_HOSTID=a=b\n"


def test_nccl_conf_is_read_as_nccl_reads_it() -> None:
    """`#` as first character only, nothing trimmed, the first of two counts, values with `=`."""
    environment = read_text("nccl.conf", CONF)
    assert {name: one.value for name, one in environment.in_force.items()} == {
        "NCCL_IB_TC": "106",
        "NCCL_NET ": "IB",
        " NCCL_DEBUG": "INFO",
        "NCCL_HOSTID": "a=b",
    }
    assert [(without.value, counts.value) for without, counts in environment.shadowed()] == [("104", "106")]
    assert [(one.name, one.line) for one in environment.settings if one.origin is Origin.LOST] == [
        ("NCCL_PROTO", 6)
    ]


def test_nccl_conf_cuts_values() -> None:
    """At 1,023 bytes."""
    setting = read_text("nccl.conf", "NCCL_IB_HCA=" + "x" * 1100).in_force["NCCL_IB_HCA"]
    assert (len(setting.value), setting.cut) == (1023, True)


SCRIPT = r"""#!/bin/bash
#SBATCH --export=ALL,NCCL_DEBUG=INFO
# export NCCL_IB_SL=3
HCAS=mlx5_0,mlx5_1
export NCCL_IB_HCA="=$HCAS" NCCL_IB_TIMEOUT=22 # NCCL_X=1
NCCL_IB_TC=106
NCCL_ALGO=Ring; export NCCL_ALGO
unset NCCL_IB_TIMEOUT
NCCL_PROTO=Simple python x.py
if true; then export NCCL_NET='IB'; fi
srun --export=ALL,NCCL_SOCKET_IFNAME=eth0,eth1,NCCL_IB_SL=3 \
   bash -c "export NCCL_NVLS_ENABLE=0; python 'a b'"
mpirun -x NCCL_CROSS_NIC=1 -x PATH -x NCCL_ALGO ./all
mpiexec -genv NCCL_NTHREADS 256 ./all
docker run -e NCCL_P2P_DISABLE=1 --env=NCCL_SHM_DISABLE=1 image
env NCCL_MIN_CTAS=4 ./all
export NCCL_BUFFSIZE=$((1<<20)) NCCL_HOSTID=${X:-3}
echo "NCCL_FOO=1; NCCL_BAR=2"
"""


def test_a_job_script() -> None:
    """export, assignments before commands, --export, -x, -e, -genv, env, nested shells; comments and echo set nothing."""
    environment = read_text("job.sh", SCRIPT)
    assert {name: one.value for name, one in environment.in_force.items()} == {
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "NCCL_ALGO": "Ring",
        "NCCL_PROTO": "Simple",
        "NCCL_NET": "IB",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_IB_SL": "3",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_CROSS_NIC": "1",
        "NCCL_NTHREADS": "256",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_MIN_CTAS": "4",
        "NCCL_BUFFSIZE": "$((1<<20))",
        "NCCL_HOSTID": "3",
    }
    assert {one.name for one in environment.settings if one.expands} == {"NCCL_BUFFSIZE"}
    assert [(one.name, one.value) for one in environment.settings if one.origin is Origin.LOST] == [
        ("NCCL_SOCKET_IFNAME", "eth1")
    ]
    lines = {one.name: one.line for one in environment.settings}
    assert (lines["NCCL_IB_HCA"], lines["NCCL_IB_TC"], lines["NCCL_NVLS_ENABLE"], lines["NCCL_BUFFSIZE"]) == (
        5,
        6,
        12,
        17,
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("set -a\nNCCL_IB_TC=1\nset +a\nNCCL_IB_SL=2\n", {"NCCL_IB_TC": "1"}),
        ("export NCCL_IB_TC\nNCCL_IB_TC=1\n", {"NCCL_IB_TC": "1"}),
        ("export NCCL_IB_TC=1\nexport NCCL_IB_TC=2\n", {"NCCL_IB_TC": "2"}),
        ("setenv NCCL_IB_TC 5\n", {"NCCL_IB_TC": "5"}),
        ("declare -x NCCL_IB_TC=5\ndeclare NCCL_IB_SL=5\n", {"NCCL_IB_TC": "5"}),
        ("export NCCL_IB_TC='a b' NCCL_IB_SL=a\\ b\n", {"NCCL_IB_TC": "a b", "NCCL_IB_SL": "a b"}),
        ('export NCCL_IB_TC="1\n2"\nexport NCCL_IB_SL=3', {"NCCL_IB_TC": "1\n2", "NCCL_IB_SL": "3"}),
        ("export NCCL_IB_TC=1 \\\n  NCCL_IB_SL=2", {"NCCL_IB_TC": "1", "NCCL_IB_SL": "2"}),
        ("A=1\nexport NCCL_IB_TC=${A}2 NCCL_IB_SL=$A\n", {"NCCL_IB_TC": "12", "NCCL_IB_SL": "1"}),
        ("export NCCL_HOSTID=`unclosed\n", {"NCCL_HOSTID": "`unclosed\n"}),
        ("NCCL_HOSTID=a\nNCCL_HOSTID+=b\nexport NCCL_HOSTID\n", {"NCCL_HOSTID": "ab"}),
        ("A='$B'; export NCCL_HOSTID=$A", {"NCCL_HOSTID": "$B"}),
        ("export NCCL_IB_TC='unclosed\nexport NCCL_IB_SL=2", {"NCCL_IB_TC": "unclosed\nexport NCCL_IB_SL=2"}),
    ],
)
def test_shells(script: str, expected: dict[str, str]) -> None:
    """Quotes, continued lines, exports before and after, the last of two."""
    assert in_force("job.sh", script, Form.SCRIPT) == expected


def test_lines_are_counted_through_quotes_and_continuations() -> None:
    """A finding leads to the right line."""
    script = 'A="1\n2\\\n3"\nB=\\\n4\nC=`a\nb`\nexport NCCL_IB_SL=2\n'
    [setting] = read_text("job.sh", script, Form.SCRIPT).settings
    assert setting.line == script.splitlines().index("export NCCL_IB_SL=2") + 1


def test_a_process_and_its_configuration_file(tmp_path: Path) -> None:
    """The environment comes before NCCL_CONF_FILE; what is in both is told."""
    conf = tmp_path / "own.conf"
    conf.write_text("NCCL_IB_TC=106\nNCCL_DEBUG=WARN\n")
    environment = {**os.environ, "NCCL_CONF_FILE": str(conf), "NCCL_DEBUG": "INFO"}
    sleeper = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
    with subprocess.Popen(sleeper, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = read_process(process.pid, "h1")
        process.communicate()
    assert {found.in_force[name].value for name in ("NCCL_IB_TC", "NCCL_DEBUG")} == {"106", "INFO"}
    assert [without.value for without, _ in found.shadowed()] == ["WARN"]
    assert found.host == "h1"
    assert found.notes == ()


def test_a_configuration_file_that_is_missing_is_told(tmp_path: Path) -> None:
    """NCCL skips it without a word."""
    proc = tmp_path / "proc" / "7"
    proc.mkdir(parents=True)
    (proc / "environ").write_bytes(b"NCCL_CONF_FILE=none.conf\0")
    found = read_process(7, "h1", tmp_path / "proc")
    assert any("none.conf" in note for note in found.notes)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """No file, a folder, no process."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_file(path)
    with pytest.raises(InputError, match="process 8"):
        read_process(8, "h1", tmp_path)


def test_empty_is_told_from_comments() -> None:
    """A file of comments sets nothing on purpose; nothing at all may be a capture that failed."""
    assert read_text("nccl.conf", "").empty
    assert read_text("x", "\0\0").empty
    assert not read_text("nccl.conf", "# nothing\n").empty

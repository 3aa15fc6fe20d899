"""Settings in YAML and JSON, and texts whose settings cannot be read: never a pass."""

from __future__ import annotations

import pytest

from collectives.nccl.environment import Form, form_of, read_text
from collectives.nccl.job import Job
from collectives.nccl.lint_env import lint_environment
from nettune.checks import Status, exit_code
from nettune.errors import InputError

POD = """apiVersion: v1
kind: Pod
spec:
  containers:
  - name: trainer
    env:
    - name: NCCL_IB_TIMEOUT
      value: "22s"
    - {name: NCCL_IB_TC, value: '106'}
    - name: NCCL_SOCKET_IFNAME
      valueFrom: {configMapKeyRef: {name: net, key: if}}
    - name: SECRET
      value: "x"
    command: ["bash", "-c"]
    args:
    - |
      export NCCL_IB_SL=3
      torchrun --nnodes 2 train.py
---
kind: ConfigMap
data:
  NCCL_IB_HCA: =mlx5_0,mlx5_1
"""


def test_a_manifest_of_kubernetes() -> None:
    """Env lists of both styles, ConfigMaps, scripts in `args`; with lines, also over documents; no secret is kept."""
    found = read_text("pod.yaml", POD).in_force
    assert {name: (one.value, one.line, one.expands) for name, one in found.items()} == {
        "NCCL_IB_TIMEOUT": ("22s", 7, False),
        "NCCL_IB_TC": ("106", 9, False),
        "NCCL_SOCKET_IFNAME": ("$(valueFrom)", 10, True),
        "NCCL_IB_SL": ("3", 17, False),
        "NCCL_IB_HCA": ("=mlx5_0,mlx5_1", 22, False),
    }


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  a:\n    environment:\n      NCCL_IB_TC: 106\n",
        "services:\n  a:\n    environment:\n      - NCCL_IB_TC=106\n",
        '{"env_vars": {"NCCL_IB_TC": "106"}}',
        '{"env": [{"name": "NCCL_IB_TC", "value": "106"}]}',
        "NCCL_IB_TC: 106\n",
        "a: &x\n  NCCL_IB_TC: 106\nb: *x\n",
    ],
)
def test_other_manifests(text: str) -> None:
    """Compose, runtime environments, plain mappings; recognised without a name, aliases read once."""
    assert form_of("<stdin>", text) is Form.MANIFEST
    assert {name: one.value for name, one in read_text("<stdin>", text).in_force.items()} == {
        "NCCL_IB_TC": "106"
    }


def test_a_value_is_not_made_a_number() -> None:
    """`022` is what Kubernetes passes on, and octal for NCCL."""
    found = read_text("pod.yaml", "env:\n- {name: NCCL_IB_TIMEOUT, value: 022}\n")
    assert found.in_force["NCCL_IB_TIMEOUT"].value == "022"


@pytest.mark.parametrize("text", ["a: [\n", "a: 1\na: 2\n", "a: {{ .Values.x }}\n  b\n", "\ta: 1\n"])
def test_what_is_no_manifest_is_one_line(text: str) -> None:
    """With file and line."""
    with pytest.raises(InputError, match=r"x\.yaml:\d"):
        read_text("x.yaml", text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("nothing here\n", None),
        ("NCCL_IB_TIMEOUT 22\n", None),
        ("\0\1\2\xff", None),
        ("\0".join(["\1\2", "x=", "\3\4"] * 9 + ["\5"] * 100), None),
        ("prose = words\n" + "of some text\n" * 20, None),
        ("[nccl]\ntimeout = 1\nuse NCCL_IB_TIMEOUT 22\n", None),
        ("NCCL_IB_TC: 106\n", Form.SCRIPT),
    ],
)
def test_settings_that_were_not_read_are_no_pass(text: str, form: Form | None) -> None:
    """A text that names variables in another form, or has none of a setting's form: UNKNOWN, exit code 2."""
    [finding] = lint_environment(Job(read_text("x", text, form)))
    assert (finding.status, exit_code([finding])) == (Status.UNKNOWN, 2)
    assert finding.fix


@pytest.mark.parametrize(
    "text", ["HOME=/\nPATH=/bin\n", "#!/bin/sh\necho $NCCL_DEBUG\n", "# NCCL_IB_TC=1\nA=2\n"]
)
def test_a_job_that_sets_nothing_passes(text: str) -> None:
    """NCCL's own choices apply."""
    assert exit_code(lint_environment(Job(read_text("x", text)))) == 0

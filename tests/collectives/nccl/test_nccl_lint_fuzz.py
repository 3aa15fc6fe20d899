"""2,000 mutated files of settings and logs: findings or one line of error, never a traceback (NETTUNE_FUZZ for more)."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType

from collectives.nccl.environment import Form, read_text
from collectives.nccl.firstcause import lint_logs
from collectives.nccl.job import Job
from collectives.nccl.lint_env import lint_environment
from nettune.checks import Finding, Status
from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind

COUNT = int(os.environ.get("NETTUNE_FUZZ", "2000"))


def load_mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_nccl", Path(__file__).with_name("fuzz_nccl.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small_fabric() -> Fabric:
    builder = FabricBuilder()
    builder.node("leaf0", NodeKind.SWITCH)
    for host in ("h0", "h1"):
        builder.node(host, NodeKind.HOST)
        for nic in range(2):
            builder.port(host, f"mlx5_{nic}", speed_gbps=400, rail=nic, address=f"10.{nic}.0.{host[1]}")
            builder.port("leaf0", f"{host}n{nic}", speed_gbps=400)
            builder.link((host, f"mlx5_{nic}"), ("leaf0", f"{host}n{nic}"))
    return builder.build()


def check(findings: list[Finding]) -> None:
    """Something is said, it goes into JSON and back, it names an element and what to do, on few lines."""
    assert findings
    for finding in findings:
        data = json.loads(json.dumps(finding.to_json()))
        assert Finding.from_json(data) == finding
        assert finding.fix or finding.status is Status.PASS
        assert len(finding.what) < 4000


def test_mutated_settings() -> None:
    """Files, environments, scripts and nccl.conf, with and without a fabric, under old and new versions."""
    mutants = load_mutants()
    fabric = small_fabric()
    forms = [None, *Form]
    for number in range(COUNT // 2):
        text = mutants.mutant(mutants.SETTINGS[number % len(mutants.SETTINGS)], number)
        form = forms[number % len(forms)]
        environment, refused = None, ""
        try:
            environment = read_text("nccl.conf" if number % 7 == 0 else "x", text, form)
        except InputError as error:
            refused = str(error)
        if environment is None:  # it is told to be a manifest and is none
            assert form is Form.MANIFEST
            assert len(refused.splitlines()) == 1
            continue
        version = [(2, 30, 7), (2, 18), (2, 4)][number % 3]
        check(
            lint_environment(
                Job(environment, version, fabric if number % 2 else None, 26 if number % 5 else None)
            )
        )


def test_mutated_logs() -> None:
    """All logs in one, and each alone; at most one is worse than a warning."""
    mutants = load_mutants()
    whole = "".join(mutants.LOGS)
    for number in range(COUNT // 2):
        base = whole if number % 3 == 0 else mutants.LOGS[number % len(mutants.LOGS)]
        text = mutants.mutant(base, number)
        found = lint_logs([("log", text.splitlines(keepends=True))])
        check(found)
        assert sum(finding.status is Status.FAIL for finding in found) <= 1

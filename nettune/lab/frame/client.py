"""Start a lab's holder, and talk to the helper process that acts inside a running lab."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

from nettune.errors import NettuneError, UnavailableError
from nettune.lab.frame.holder import Plan
from nettune.lab.frame.lines import LineReader
from nettune.lab.frame.process import ProcessId, start_time

BUILD_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 60.0
_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}


def require_programs() -> None:
    """Check that the tools of a lab are installed.

    Raises:
        UnavailableError: naming the program and the package.
    """
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=tool_path()) is None:
            raise UnavailableError(f"the program {program!r} is missing; install {package} to use a lab")


def tool_path() -> str:
    """PATH with the system folders, which an ordinary user's often lacks."""
    path = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([path, *(p for p in ("/usr/sbin", "/sbin") if p not in path.split(os.pathsep))])


def _python(module: str) -> list[str]:
    # Without site-packages: it starts in 15 ms, and needs nothing but the standard library and this package.
    root = str(Path(__file__).resolve().parents[3])
    code = f"import sys; sys.path.insert(0, {root!r}); from nettune.lab.frame.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", code]


def _environment() -> dict[str, str]:
    return {"PATH": tool_path(), "LC_ALL": "C"}


def end_holder(holder: ProcessId) -> None:
    """Kill a lab; returns when all its processes are gone.

    Raises:
        UnavailableError: it belongs to somebody else.
        NettuneError: it does not end.
    """
    try:
        gone = holder.kill()
    except PermissionError:
        raise UnavailableError(f"process {holder.pid} holds the lab and is not yours to end") from None
    if not gone:
        raise NettuneError(f"process {holder.pid}, which holds the lab, does not end though it was killed")


def start_duty_cycle(holder: ProcessId, inode: int, share: float, period_s: float) -> ProcessId:
    """Start `frame/duty.py` in the background; it ends with the lab at the latest."""
    params = {
        "holder": {"pid": holder.pid, "start": holder.start},
        "inode": inode,
        "share": share,
        "period_s": period_s,
    }
    done = subprocess.run(
        _python("duty"),
        input=json.dumps(params) + "\n",
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_environment(),
    )
    if done.returncode != 0:
        raise NettuneError("the process that stops and continues the host could not be started", done.stderr)
    started = json.loads(done.stdout)
    return ProcessId(started["pid"], started["start"])


class Birth:
    """A holder that is not committed: it ends when this object is abandoned or this process dies."""

    def __init__(self, plan: Plan) -> None:
        self._process = subprocess.Popen(
            _python("holder"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )
        self._lines = _lines_of(self._process)
        self._holder: ProcessId | None = None
        try:
            self._build(plan)
        except BaseException:
            self.abandon()
            raise

    @property
    def holder(self) -> ProcessId:
        """The first process of the lab."""
        assert self._holder is not None
        return self._holder

    def _build(self, plan: Plan) -> None:
        self._tell(json.dumps(plan) + "\n")
        # Its pid is said by the process that forked it, which may come after its own word.
        for _ in range(2):
            answer = self._hear()
            if "pid" in answer:
                self._holder = ProcessId(answer["pid"], start_time(answer["pid"]) or 0)

    def commit(self) -> None:
        """Let the holder live on without this process."""
        self._tell("commit\n")
        self._hear()
        self._close()

    def abandon(self) -> None:
        """End the holder, and the lab with it."""
        if self._holder is not None:
            end_holder(self._holder)
        else:
            self._process.kill()
        self._close()

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._refused({"error": "the lab's holder process ended early"})

    def _hear(self) -> dict[str, Any]:
        line = self._lines.line(BUILD_TIMEOUT_S)
        answer: dict[str, Any] = (
            json.loads(line) if line else {"error": "the lab's holder process ended early"}
        )
        if "error" in answer:
            self._refused(answer)
        return answer

    def _refused(self, answer: dict[str, Any]) -> None:
        self._process.kill()
        details = self._process.stderr.read() if self._process.stderr is not None else ""
        if answer.get("refused") == "namespaces":
            raise UnavailableError(f"new namespaces are refused: {answer['error']}", details)
        last = details.strip().splitlines()[-1:] if answer["error"].endswith("ended early") else []
        raise NettuneError(f"the lab could not be built: {' '.join([answer['error'], *last])}", details)

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait()


def enter_argv(holder: ProcessId, *, user: bool, net: str | None = None, uts: str | None = None) -> list[str]:
    """Start of an nsenter command into the lab, and into a node's network and host name when given."""
    argv = ["nsenter", "--target", str(holder.pid)]
    if user:
        # The caller is root inside already (its id is mapped to 0), and may not change groups there.
        argv += ["--user", "--preserve-credentials"]
    inside = f"/proc/{holder.pid}/root"
    argv += ["--mount", "--pid"]
    argv.append("--net" if net is None else f"--net={inside}{net}")
    argv.append("--uts" if uts is None else f"--uts={inside}{uts}")
    return [*argv, "--"]


class Helper:
    """A process inside the lab that answers one JSON request after the other; started on first use."""

    def __init__(self, holder: ProcessId, *, user: bool) -> None:
        self._holder = holder
        self._user = user
        self._running: tuple[subprocess.Popen[str], LineReader] | None = None
        self._finalizer: weakref.finalize[[subprocess.Popen[str]], Helper] | None = None

    def ask(self, op: str, **request: Any) -> Any:
        """The answer to a request.

        Raises:
            NettuneError: what the helper or a tool complained about.
            UnavailableError: the kernel or the machine lacks something.
        """
        process, lines = self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"op": op, **request}) + "\n")
            process.stdin.flush()
            line = lines.line(ANSWER_TIMEOUT_S)
        except BrokenPipeError:
            line = ""
        except BaseException:
            # An answer that nobody waited for must not be taken for the next one.
            self.close()
            raise
        if not line:
            self.close()
            raise NettuneError("the lab is gone; run `nettune lab status` and bring it up again")
        answer = json.loads(line)
        if "error" in answer:
            kind = UnavailableError if answer.get("unavailable") else NettuneError
            raise kind(answer["error"], answer.get("details", ""))
        return answer["result"]

    def close(self) -> None:
        """End the helper process."""
        if self._finalizer is not None:
            self._finalizer()
        self._running = None
        self._finalizer = None

    def _start(self) -> tuple[subprocess.Popen[str], LineReader]:
        if self._running is None:
            process = subprocess.Popen(
                [*enter_argv(self._holder, user=self._user), *_python("helper")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                cwd="/",
                env=_environment(),
            )
            self._finalizer = weakref.finalize(self, _end, process)
            self._running = process, _lines_of(process)
        return self._running


def _lines_of(process: subprocess.Popen[str]) -> LineReader:
    assert process.stdout is not None
    return LineReader(process.stdout.fileno())


def _end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

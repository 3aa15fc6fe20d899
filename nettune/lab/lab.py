"""A running lab: bring it up, find it again, act on it, take it down."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from nettune.errors import InputError, NettuneError, UnavailableError
from nettune.lab import state as states
from nettune.lab.cgroups import group_path, remove_group
from nettune.lab.faults.control import Faults
from nettune.lab.frame.client import Birth, end_holder, require_programs, tool_path
from nettune.lab.frame.privilege import is_full_root
from nettune.lab.launcher import LabLauncher
from nettune.lab.plan import make_plan
from nettune.lab.site import Site
from nettune.lab.spec import LabSpec
from nettune.lab.state import LabState
from nettune.lab.wiring import Link, Wiring
from nettune.launch.base import Launcher

_CONGESTION_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


class Lab:
    """One lab that is up. Get it by `Lab.up` or `Lab.load`; as a context manager it is taken down at the end."""

    def __init__(self, state: LabState, birth: Birth | None = None) -> None:
        self._site = Site(state)
        self._birth = birth  # kept open while the lab is bound to this process
        self.faults = Faults(self._site)

    @classmethod
    def up(cls, spec: LabSpec, *, bound: bool = False) -> Lab:
        """Build the fabric; all or nothing, also when this process is killed on the way.

        Args:
            spec: what to build.
            bound: the lab ends with this process, however that ends (kill -9 too); else it stays until `down`.

        Raises:
            InputError: a lab of this name is up already.
            UnavailableError: a program, kernel feature or permission is missing.
            NettuneError: the state cannot be written, or a tool failed.
        """
        require_programs()
        _check_congestion_control(spec.congestion_control)
        with states.locked():
            states.clean_stale()
            if states.read_state(spec.name) is not None:
                raise InputError(f"lab {spec.name!r} is up already; take it down or give another name")
            with _terminated_as_interrupt():
                return cls(*_build(spec, bound=bound))

    @classmethod
    def load(cls, name: str) -> Lab:
        """Find a lab that is up.

        Raises:
            InputError: no such lab.
        """
        with states.locked():
            states.clean_stale()
            state = states.read_state(name)
        if state is None:
            up = ", ".join(cls.names()) or "none"
            raise InputError(f"no lab {name!r} is up (up: {up}); bring it up with `nettune lab up`")
        return cls(state)

    @classmethod
    def names(cls) -> list[str]:
        """Names of this user's labs that are up."""
        return states.names()

    def down(self) -> None:
        """End every process of the lab and free all it made; nothing happens when it is down already."""
        with states.locked():
            self._site.close()
            end_holder(self._site.state.holder)
            if self._birth is not None:
                self._birth.abandon()
            for host in self.hosts:
                path = group_path(self._site.state.holder, host)
                if path is not None:
                    remove_group(path)
            # Another lab may have taken the name since this one went.
            current = states.read_state(self.name)
            if current is None or current.holder == self._site.state.holder:
                states.remove_state(self.name)

    def close(self) -> None:
        """Let go of this process's helper; the lab stays up."""
        self._site.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def name(self) -> str:
        """Name of the lab."""
        return self.spec.name

    @property
    def spec(self) -> LabSpec:
        """What it was built from."""
        return self._site.state.spec

    @property
    def holder_pid(self) -> int:
        """The process that keeps the lab alive."""
        return self._site.state.holder.pid

    @property
    def rootless(self) -> bool:
        """Whether it lives in a user namespace of an ordinary user."""
        return self._site.state.user

    @property
    def wiring(self) -> Wiring:
        """Ports, addresses and links as they are cabled now."""
        return self._site.wiring

    @property
    def hosts(self) -> list[str]:
        """Host names in fabric (depth-first) order."""
        return list(self.wiring.hosts)

    @property
    def switches(self) -> list[str]:
        """Leaves, then spines."""
        return [*self.wiring.leaves, *self.wiring.spines]

    @property
    def nodes(self) -> list[str]:
        """Hosts, leaves, spines."""
        return list(self.wiring.nodes)

    @property
    def links(self) -> list[tuple[str, str, str, str]]:
        """(node, interface, peer node, peer interface) of every link, as cabled now."""
        return [_four(link) for link in self.wiring.links]

    def launcher(self) -> Launcher:
        """The way to run commands and ranks on the lab's nodes."""
        return self._launcher

    @cached_property
    def _launcher(self) -> LabLauncher:
        state = self._site.state
        return LabLauncher(state.holder, self.hosts, self.nodes, user=state.user)

    def counters(self) -> dict[tuple[str, str], tuple[int, int, int, int, int]]:
        """(node, interface) -> (rx bytes, tx bytes, rx packets, tx packets, drops) from the kernel, of all ports.

        Bytes include Ethernet headers. Drops are the device's, both ways, and its queue's.
        """
        rows = self._site.ask("counters")
        return {(node, iface): (rx, tx, rxp, txp, drops) for node, iface, rx, tx, rxp, txp, drops in rows}

    def exec(
        self, node: str, argv: Sequence[str], timeout_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a node to its end; its output is text.

        Raises:
            InputError: no such node.
            NettuneError: it did not end in time; it was killed.
        """
        with subprocess.Popen(
            self._launcher.argv(node, argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PATH": tool_path()},
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except BaseException as error:
                # The command is a child of nsenter: only the whole group ends it.
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise NettuneError(f"{argv[0]} on {node} did not end within {timeout_s:g} s") from None
                raise
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)


def _four(link: Link) -> tuple[str, str, str, str]:
    return link.lower.node, link.lower.iface, link.upper.node, link.upper.iface


def _build(spec: LabSpec, *, bound: bool) -> tuple[LabState, Birth | None]:
    birth = Birth(make_plan(Wiring(spec, {})))
    try:
        state = LabState(spec=spec, holder=birth.holder, user=not is_full_root())
        states.write_state(state)
        if not bound:
            birth.commit()
    except BaseException:
        birth.abandon()
        states.remove_state(spec.name)
        raise
    return state, birth if bound else None


def _check_congestion_control(name: str) -> None:
    try:
        available = _CONGESTION_CONTROLS.read_text(encoding="ascii").split()
    except OSError:
        return
    if name not in available:
        raise UnavailableError(
            f"this kernel lacks congestion control {name!r}; it has {', '.join(available)}"
        )


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """Turn SIGTERM into KeyboardInterrupt for the block, so that a stopped `up` cleans up at once."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread: the holder still ends with this process
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

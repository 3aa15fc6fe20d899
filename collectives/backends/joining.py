"""How ranks meet before the backend connects them, and errors of one line that name who is missing.

Rank 0 serves a store and the ranks meet there first, because then a rank that never came can be named; torch's own
rendezvous cannot. Nobody guesses a free port: `serve_store` on the process that will be rank 0 lets the kernel pick one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from nettune.errors import InputError, NettuneError

_SIOCGIFADDR = 0x8915
_POLL_S = 0.01

# TCPStore looks up the name of every peer's address for its log lines (torch 2.13: on each connect). A name server that
# does not answer costs 5 s then, with the resolver's defaults; glibc reads this before a thread's first look-up.
_RESOLVER = "timeout:1 attempts:1"

_served: dict[int, TCPStore] = {}  # by port; at most one, and only until this process joins


class GroupError(NettuneError):
    """Ranks could not join, or an operation did not finish."""


def interface_address(iface: str) -> str:
    """IPv4 address of a network interface of this host.

    Raises:
        InputError: no such interface, or it has no IPv4 address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16s24x", iface.encode()[:15])
        try:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, request)
        except OSError as error:
            raise InputError(f"interface {iface!r} has no IPv4 address here ({error.strerror})") from error
    return socket.inet_ntoa(answer[20:24])


def serve_store(world_size: int, iface: str = "eth0", timeout_s: float = 30.0) -> dict[str, Any]:
    """Start the meeting point on the process that will be rank 0; `master_addr` and `master_port` for all ranks.

    Raises:
        InputError: the interface has no address.
    """
    withdraw_store()
    os.environ.setdefault("RES_OPTIONS", _RESOLVER)
    address = interface_address(iface)
    store = _tcp_store(address, 0, world_size, timeout_s, serves=True)
    _served[store.port] = store
    return {"master_addr": address, "master_port": store.port}


def serves_store(port: int) -> bool:
    """Whether this process serves a store on that port and has not joined by it yet."""
    return port in _served


def withdraw_store() -> None:
    """Close the store that this process serves and has not joined by; harmless when there is none."""
    _served.clear()


def meet(
    *, rank: int, world_size: int, master_addr: str, master_port: int, timeout_s: float, deadline: float
) -> Store:
    """Join the store and wait there until all ranks have come.

    Rank 0 serves it, by `serve_store` before or else here; under torchrun its agent does.

    Args:
        rank: this process's rank.
        world_size: ranks of the job.
        master_addr: where the store is served.
        master_port: its TCP port.
        timeout_s: for joining as a whole, and later for every operation on the store.
        deadline: when joining must be over, of the monotonic clock in seconds.

    Returns:
        The store; rank 0's must be kept as long as the others need it.

    Raises:
        GroupError: rank 0 was not found, or ranks are missing; the line names them.
    """
    os.environ.setdefault("RES_OPTIONS", _RESOLVER)
    me = f"rank {rank} of {world_size}"
    tcp = _served.pop(master_port, None) if rank == 0 else None
    if tcp is None:
        # Under torchrun the launcher's agent serves the store at this address, also for rank 0.
        serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        where = f"{master_addr}:{master_port}"
        if not serves and (why := _no_answer(master_addr, master_port, deadline)):
            raise GroupError(f"{me}: found no rank 0 at {where} within {timeout_s:g} s ({why})")
        try:
            tcp = _tcp_store(master_addr, master_port, world_size, timeout_s, serves=serves)
        except RuntimeError as error:
            raise GroupError(
                f"{me}: could not {'serve' if serves else 'join'} the store at {where} ({first_line(error)})"
            ) from error
    store = PrefixStore(f"nettune/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", tcp)
    keys = [f"rank/{other}" for other in range(world_size)]
    try:
        store.set(keys[rank], "here")
        store.wait(keys, time_left(deadline))
    except RuntimeError as error:
        missing: list[int] = []
        with contextlib.suppress(RuntimeError):  # rank 0 gave up first and took the store with it
            missing = [other for other, key in enumerate(keys) if not store.check([key])]
        who = f"rank {', '.join(map(str, missing))}" if missing else "a rank"
        raise GroupError(
            f"{me}: {who} did not join within {timeout_s:g} s; check that it started and reaches rank 0"
        ) from error
    return store


def time_left(deadline: float) -> timedelta:
    """Time until a moment of the monotonic clock, at least 0.1 s: torch takes 0 for no limit."""
    return timedelta(seconds=max(0.1, deadline - time.monotonic()))


@contextlib.contextmanager
def one_line_errors(me: object, what: str, *, computes: bool = False) -> Iterator[None]:
    """Turn the failure of an operation inside the block into one line; the group is unusable after it.

    Args:
        me: who speaks, `rank R of N`.
        what: the operation.
        computes: the block also computes: an error that is not from the network is a defect there, and passes as it is.

    Raises:
        GroupError: a peer closed its connection, or an operation ran into its time-out.
    """
    try:
        yield
    except RuntimeError as error:
        # gloo names its source file in every error.
        if computes and "gloo" not in str(error) and not isinstance(error, dist.DistError):
            raise
        raise GroupError(
            f"{me}: {what} did not finish ({first_line(error)}); a rank died or hangs, or the network is too slow for "
            "the time-out; tear the group down and set it up again"
        ) from error


def first_line(error: BaseException) -> str:
    """The message without the C++ stack below it and without gloo's `[path/file.cc:123] ` in front."""
    line = (str(error).strip() or type(error).__name__).split("\n", 1)[0]
    return line.split(".cc:", 1)[-1].split("] ", 1)[-1][:160]


def _tcp_store(address: str, port: int, world_size: int, timeout_s: float, *, serves: bool) -> TCPStore:
    wait = timedelta(seconds=timeout_s)
    return TCPStore(address, port, world_size, is_master=serves, timeout=wait, wait_for_workers=False)


def _no_answer(address: str, port: int, deadline: float) -> str | None:
    """Wait until the store answers; why it did not. TCPStore's own retries back off by up to a second each."""
    why = "no answer"
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((address, port), timeout=left):
                return None
        except OSError as error:
            why = error.strerror or str(error)
        time.sleep(min(_POLL_S, left))
    return why

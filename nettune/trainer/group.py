"""Joining the ranks: one process group per initialisation, and an error that names who is missing.

A group is made anew for every initialisation on purpose: new TCP connections draw new source ports, so ECMP draws
new paths. The store is made here, not by torch's env:// rendezvous, because a rank that never came can then be named.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from datetime import timedelta

from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from nettune.errors import NettuneError

_POLL_S = 0.01


class GroupError(NettuneError):
    """Ranks could not join, or a collective did not finish."""


def join(
    *, rank: int, world_size: int, master_addr: str, master_port: int, iface: str | None, timeout_s: float
) -> Store:
    """Create the default gloo group of this process.

    Args:
        rank: this process's rank.
        world_size: ranks of the job.
        master_addr: where rank 0 listens for the store.
        master_port: its TCP port; a fresh one for each initialisation.
        iface: network interface that gloo binds to (GLOO_SOCKET_IFNAME); None leaves it to the environment.
        timeout_s: for joining, and later for every collective.

    Returns:
        The store that the ranks met at.

    Raises:
        GroupError: rank 0 was not found, ranks are missing, or gloo could not connect them.
    """
    if dist.is_initialized():
        raise GroupError(f"rank {rank}: a process group is up already; call teardown first")
    if iface is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = iface
    deadline = time.monotonic() + timeout_s
    # Under torchrun the launcher's agent serves the store at this address, also for rank 0.
    agent_serves = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    serves = rank == 0 and not agent_serves
    if not serves:
        _await_server(rank, master_addr, master_port, timeout_s, deadline)
    try:
        tcp = TCPStore(
            master_addr,
            master_port,
            world_size,
            is_master=serves,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
        )
    except RuntimeError as error:
        raise GroupError(
            f"rank {rank}: could not {'serve' if serves else 'join'} the store at {master_addr}:{master_port} "
            f"({_first_line(error)})"
        ) from error
    store = PrefixStore(f"nettune/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", tcp)
    _meet(store, rank, world_size, timeout_s, deadline)
    left = timedelta(seconds=max(0.1, deadline - time.monotonic()))
    store.set_timeout(left)
    try:
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=timeout_s)
        )
    except RuntimeError as error:
        raise GroupError(
            f"rank {rank}: gloo could not connect the {world_size} ranks within {timeout_s:g} s; check that "
            f"{iface or 'the interface'} reaches every host ({_first_line(error)})"
        ) from error
    return store


def _await_server(rank: int, host: str, port: int, timeout_s: float, deadline: float) -> None:
    """Wait until the store answers; TCPStore's own retries back off by up to a second each."""
    why = "no answer"
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, port), timeout=left):
                return
        except OSError as error:
            why = error.strerror or str(error)
        time.sleep(min(_POLL_S, left))
    raise GroupError(f"rank {rank}: found no rank 0 at {host}:{port} within {timeout_s:g} s ({why})")


def _meet(store: Store, rank: int, world_size: int, timeout_s: float, deadline: float) -> None:
    keys = [f"rank/{other}" for other in range(world_size)]
    store.set(keys[rank], "here")
    try:
        store.wait(keys, timedelta(seconds=max(0.1, deadline - time.monotonic())))
    except RuntimeError as error:
        missing = []
        with contextlib.suppress(RuntimeError):  # rank 0 gave up first and took the store with it
            missing = [other for other, key in enumerate(keys) if not store.check([key])]
        who = f"rank {', '.join(map(str, missing))}" if missing else "a rank"
        raise GroupError(
            f"rank {rank}: {who} did not join within {timeout_s:g} s; check that it started and reaches the master"
        ) from error


@contextlib.contextmanager
def collective_errors(rank: int, what: str) -> Iterator[None]:
    """Turn the failure of a collective inside the block into one line; the group is unusable after it.

    Raises:
        GroupError: a peer closed its connection, or an operation ran into the group's timeout.
    """
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        # gloo names its source file in every error; other RuntimeErrors are defects and keep their traceback.
        if "gloo" not in text and not isinstance(error, dist.DistError):
            raise
        raise GroupError(
            f"rank {rank}: {what} did not finish ({_first_line(error)}); a rank died, or the network is too slow "
            "for the timeout; tear the group down and set it up again"
        ) from error


def _first_line(error: BaseException) -> str:
    """The message without the C++ stack below it and without gloo's `[path/file.cc:123] ` in front."""
    line = str(error).strip().split("\n", 1)[0]
    return line.split(".cc:", 1)[-1].split("] ", 1)[-1][:160]

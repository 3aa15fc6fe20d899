"""Joining the ranks of one initialisation: store, connections, groups; errors that name who is missing.

Everything is made anew for every initialisation on purpose: new TCP connections draw new source ports, so ECMP draws
new paths. Rank 0 serves the store on a port that the kernel picks, and ranks meet there before gloo starts, because
then a rank that never came can be named.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch import distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from collectives.backends.sockets import own_connections
from nettune.errors import InputError, NettuneError

_SIOCGIFADDR = 0x8915

# TCPStore looks up the name of every peer's address for its log lines (torch 2.13: on each connect). A name server that
# does not answer costs 5 s then, with the resolver's defaults; glibc reads this before a thread's first look-up.
_RESOLVER = "timeout:1 attempts:1"


class GroupError(NettuneError):
    """Ranks could not join, or an operation did not finish."""


@dataclass
class Joined:
    """This process's part in the initialisation that is up.

    Attributes:
        rank, world_size: its place.
        store: where the ranks met; rank 0's serves the others.
        timeout_s: for every operation.
        groups: handle of each process group by its members; all ranks are the first one.
        members_of: members of the group that a socket belongs to, by the socket's inode; empty for the store.
    """

    rank: int
    world_size: int
    store: Store
    timeout_s: float
    groups: dict[tuple[int, ...], Any] = field(default_factory=dict)
    members_of: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def group(self, members: Sequence[int] | None) -> Any:
        """Handle of a group; None means all ranks.

        Raises:
            InputError: no such group was created, or this rank is not in it.
        """
        key = tuple(range(self.world_size)) if members is None else tuple(members)
        if key not in self.groups or self.rank not in key:
            raise InputError(
                f"rank {self.rank}: no group of ranks {list(key)} here; name it when the ranks join"
            )
        return self.groups[key]


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


def serve(world_size: int, iface: str, timeout_s: float) -> tuple[TCPStore, str]:
    """A store on a free port of this host, and the address to reach it at.

    Raises:
        InputError: as `interface_address`.
    """
    address = interface_address(iface)
    os.environ.setdefault("RES_OPTIONS", _RESOLVER)
    wait = timedelta(seconds=timeout_s)
    return TCPStore(address, 0, world_size, is_master=True, timeout=wait, wait_for_workers=False), address


def join(
    *,
    rank: int,
    world_size: int,
    master_addr: str,
    master_port: int,
    served: TCPStore | None,
    backend: str,
    iface: str,
    timeout_s: float,
    groups: Sequence[Sequence[int]],
) -> Joined:
    """Connect this rank with the others and create the groups.

    Args:
        rank: this process's rank.
        world_size: ranks of the job.
        master_addr: where rank 0 serves the store.
        master_port: its TCP port.
        served: rank 0's store from `serve`; None elsewhere.
        backend: torch's name of the backend, `gloo`.
        iface: network interface of this host that gloo binds to.
        timeout_s: for joining as a whole, and later for every operation.
        groups: members of each further group, ascending; the same list on every rank.

    Raises:
        GroupError: rank 0 was not found, ranks are missing, or the backend could not connect them.
        InputError: a group that is not ascending ranks of the job.
    """
    for members in groups:
        if (
            list(members) != sorted(set(members))
            or not members
            or not 0 <= members[0] <= members[-1] < world_size
        ):
            raise InputError(f"group {list(members)} must be ascending ranks below {world_size}")
    me = f"rank {rank} of {world_size}"
    os.environ["GLOO_SOCKET_IFNAME"] = iface
    os.environ.setdefault("RES_OPTIONS", _RESOLVER)
    interface_address(iface)
    wait, deadline = timedelta(seconds=timeout_s), time.monotonic() + timeout_s
    try:
        store = served or TCPStore(master_addr, master_port, world_size, timeout=wait, wait_for_workers=False)
    except RuntimeError as error:
        raise GroupError(
            f"{me}: found no rank 0 at {master_addr}:{master_port} within {timeout_s:g} s ({first_line(error)})"
        ) from error
    _meet(store, me, rank, world_size, timeout_s, deadline)
    joined = Joined(rank, world_size, store, timeout_s)
    joined.members_of = dict.fromkeys(_inodes(), ())
    everybody = tuple(range(world_size))
    left = timedelta(seconds=max(0.1, deadline - time.monotonic()))
    store.set_timeout(left)
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=wait)
        joined.groups[everybody] = dist.group.WORLD
        _claim(joined, everybody)
        for members in map(tuple, groups):
            if members not in joined.groups:
                joined.groups[members] = dist.new_group(list(members), timeout=wait)
                _claim(joined, members)
    except RuntimeError as error:
        raise GroupError(
            f"{me}: {backend} could not connect the ranks within {timeout_s:g} s; "
            f"check that {iface} reaches every host ({first_line(error)})"
        ) from error
    return joined


def leave() -> None:
    """End the group that is up, if any; peers may be gone already."""
    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def connections(joined: Joined) -> list[Mapping[str, Any]]:
    """Connections of this rank to other ranks with the members of the group that each belongs to."""
    return [
        {**vars(one), "group": list(joined.members_of[one.inode])}
        for one in own_connections()
        if joined.members_of.get(one.inode)
    ]


@contextlib.contextmanager
def one_line_errors(joined: Joined, what: str) -> Iterator[None]:
    """Turn the failure of an operation inside the block into one line; the group is unusable after it.

    Raises:
        GroupError: a peer closed its connection, or an operation ran into its time-out.
    """
    try:
        yield
    except RuntimeError as error:
        raise GroupError(
            f"rank {joined.rank} of {joined.world_size}: {what} did not finish ({first_line(error)}); "
            "a rank died or hangs, or the network is too slow for the time-out"
        ) from error


def first_line(error: BaseException) -> str:
    """The message without the C++ stack below it and without gloo's `[path/file.cc:123] ` in front."""
    line = (str(error).strip() or type(error).__name__).split("\n", 1)[0]
    return line.split(".cc:", 1)[-1].split("] ", 1)[-1][:160]


def _meet(store: Store, me: str, rank: int, world_size: int, timeout_s: float, deadline: float) -> None:
    keys = [f"rank/{other}" for other in range(world_size)]
    try:
        store.set(keys[rank], "here")
        store.wait(keys, timedelta(seconds=max(0.1, deadline - time.monotonic())))
    except RuntimeError as error:
        missing: list[int] = []
        with contextlib.suppress(RuntimeError):  # rank 0 gave up first and took the store with it
            missing = [other for other, key in enumerate(keys) if not store.check([key])]
        who = f"rank {', '.join(map(str, missing))}" if missing else "a rank"
        raise GroupError(
            f"{me}: {who} did not join within {timeout_s:g} s; check that it started and reaches rank 0"
        ) from error


def _inodes() -> list[int]:
    return [one.inode for one in own_connections()]


def _claim(joined: Joined, members: tuple[int, ...]) -> None:
    for inode in _inodes():
        joined.members_of.setdefault(inode, members)

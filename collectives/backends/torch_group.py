"""Process groups of one initialisation, and which of this process's connections belong to which.

Everything is made anew for every initialisation on purpose: new TCP connections draw new source ports, so ECMP draws
new paths.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist
from torch._C._distributed_c10d import Store

from collectives.backends import devices, joining
from collectives.backends.joining import GroupError
from collectives.backends.sockets import own_connections
from nettune.errors import InputError


@dataclass
class Joined:
    """This process's part in the initialisation that is up.

    Attributes:
        rank, world_size: its place.
        store: where the ranks met; rank 0's serves the others.
        timeout_s: for every operation.
        groups: handle of each process group by its members; all ranks are the first one.
        copies: handles of groups of all ranks, one for each connection of a pair; the first is that of `groups`.
        members_of: members of the group that a socket belongs to, by the socket's inode; empty for the store.
        copy_of: which of `copies` a socket belongs to, by its inode; absent is the first.
        device: of the data.
        monitor: handle of a gloo group of all ranks, which can name those that do not come.
    """

    rank: int
    world_size: int
    store: Store
    timeout_s: float
    groups: dict[tuple[int, ...], Any] = field(default_factory=dict)
    copies: list[Any] = field(default_factory=list)
    members_of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    copy_of: dict[int, int] = field(default_factory=dict)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    monitor: Any = None

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size}"

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


def join(
    *,
    rank: int,
    world_size: int,
    master_addr: str,
    master_port: int,
    iface: str | None,
    timeout_s: float,
    backend: str = "gloo",
    groups: Sequence[Sequence[int]] = (),
    connections: int = 1,
) -> Joined:
    """Connect this rank with the others and create the groups.

    Args:
        rank: this process's rank.
        world_size: ranks of the job.
        master_addr: where rank 0 serves the store; see `joining.meet`.
        master_port: its TCP port.
        iface: network interface of this host that gloo binds to; None leaves it to the environment.
        timeout_s: for joining as a whole, and later for every operation.
        backend: torch's name of the backend.
        groups: members of each further group, ascending; the same list on every rank.
        connections: of each pair of ranks, in the group of all.

    Raises:
        GroupError: a group is up already, rank 0 was not found, ranks are missing, or the backend could not connect
            them.
        InputError: a group that is not ascending ranks of the job, an interface without address, no GPU for NCCL.
    """
    device = devices.device_of(backend, rank)
    for members in groups:
        if (
            list(members) != sorted(set(members))
            or not members
            or not 0 <= members[0] <= members[-1] < world_size
        ):
            raise InputError(f"group {list(members)} must be ascending ranks below {world_size}")
    if dist.is_initialized():
        raise GroupError(f"rank {rank}: a process group is up already; leave it first")
    if iface is not None:
        joining.interface_address(iface)
        os.environ["GLOO_SOCKET_IFNAME"] = iface
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={iface}")
    wait, deadline = timedelta(seconds=timeout_s), time.monotonic() + timeout_s
    store = joining.meet(
        rank=rank,
        world_size=world_size,
        master_addr=master_addr,
        master_port=master_port,
        timeout_s=timeout_s,
        deadline=deadline,
    )
    joined = Joined(rank, world_size, store, timeout_s, device=device)
    joined.members_of = dict.fromkeys(_inodes(), ())
    everybody = tuple(range(world_size))
    store.set_timeout(joining.time_left(deadline))
    try:
        on_gpu: dict[str, Any] = {}
        if device.type == "cuda":
            torch.cuda.set_device(device)
            on_gpu = {"device_id": device}  # connects now, not within the first operation
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=world_size, timeout=wait, **on_gpu
        )
        joined.groups[everybody] = joined.monitor = dist.group.WORLD
        if on_gpu:
            joined.monitor = dist.new_group(list(everybody), timeout=wait, backend="gloo")
        joined.copies.append(dist.group.WORLD)
        _claim(joined, everybody)
        for copy in range(1, connections):
            known = set(joined.members_of)
            joined.copies.append(dist.new_group(list(everybody), timeout=wait))
            _claim(joined, everybody)
            joined.copy_of |= dict.fromkeys(joined.members_of.keys() - known, copy)
        for members in map(tuple, groups):
            if members not in joined.groups:
                joined.groups[members] = dist.new_group(list(members), timeout=wait)
                _claim(joined, members)
    except RuntimeError as error:
        raise GroupError(
            f"{joined}: {backend} could not connect the {world_size} ranks within {timeout_s:g} s; check that "
            f"{iface or 'the interface'} reaches every host ({joining.first_line(error)})"
        ) from error
    return joined


def leave() -> None:
    """End the group that is up, if any, and a store that is still served; peers may be gone already."""
    joining.withdraw_store()
    if dist.is_initialized():
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()


def connections(joined: Joined) -> list[Mapping[str, Any]]:
    """Connections of this rank to other ranks with the members of the group that each belongs to."""
    return [
        {
            **vars(one),
            "group": list(joined.members_of[one.inode]),
            "copy": joined.copy_of.get(one.inode, 0),
        }
        for one in own_connections()
        if joined.members_of.get(one.inode)
    ]


def _inodes() -> list[int]:
    return [one.inode for one in own_connections()]


def _claim(joined: Joined, members: tuple[int, ...]) -> None:
    for inode in _inodes():
        joined.members_of.setdefault(inode, members)

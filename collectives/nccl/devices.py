"""NCCL_IB_HCA, NCCL_SOCKET_IFNAME: which devices a list takes.

NVIDIA/nccl src/misc/utils.cc (parseStringList, matchIfList) and docs/userguide/source/env.rst: `^` excludes, `=` makes
names exact, both once before the list; else a name is a beginning. Entries of NCCL_IB_HCA have `:port[:rail[:plane]]`.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_HCAS = 32
"""Devices that NCCL can hold."""


@dataclass(frozen=True, slots=True)
class DeviceFilter:
    """A list of devices: names without ports, whether they are exact, whether they are excluded."""

    names: tuple[str, ...]
    exact: bool
    excluded: bool

    def matching(self, device: str) -> list[str]:
        """The entries that a device matches."""
        return [
            name
            for name in self.names
            if (device == name if self.exact else name and device.startswith(name))
        ]

    def takes(self, device: str) -> bool:
        """Whether NCCL uses a device."""
        return bool(self.matching(device)) != self.excluded


def device_filter(text: str, *, with_ports: bool) -> DeviceFilter:
    """The filter of a value: `=mlx5_0:1,mlx5_1:1`, `^docker,lo`."""
    excluded = text.startswith("^")
    text = text.removeprefix("^")
    exact = text.startswith("=")
    entries = text.removeprefix("=").split(",")
    names = tuple(entry.partition(":")[0] if with_ports else entry for entry in entries)
    return DeviceFilter(names, exact, excluded)

"""Series of message sizes, as nccl-tests' -b, -e and -f make them."""

from __future__ import annotations

from nettune.errors import InputError
from nettune.units import parse_size


def sizes_of(begin: str, end: str, factor: int, unit: int = 1) -> list[int]:
    """Sizes from -b to -e by factor -f, each rounded down to whole elements for every rank, as nccl-tests does.

    Raises:
        InputError: the first is above the last, or nothing is left.
    """
    first, last = parse_size(begin), parse_size(end)
    if first > last:
        raise InputError(f"-b {begin} is above -e {end}")
    if first < 1:
        raise InputError(f"-b {begin}: a message has at least a byte")
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    whole = [size - size % unit for size in sizes]
    found = list(dict.fromkeys(size for size in whole if size))
    if not found:
        raise InputError(f"-e {end}: every size is below {unit} bytes, one element for each rank")
    return found

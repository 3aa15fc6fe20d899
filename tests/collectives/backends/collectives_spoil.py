"""Work functions that make a rank's input wrong, to see that it is noticed."""

from __future__ import annotations

from collectives.backends import torch_backend

_RIGHT = torch_backend._AllReduce.prepare


def spoil():
    """From now on this rank contributes zeros."""

    def prepare(self):
        self._buffer.zero_()

    torch_backend._AllReduce.prepare = prepare  # type: ignore[method-assign]


def mend():
    """Undo `spoil`."""
    torch_backend._AllReduce.prepare = _RIGHT  # type: ignore[method-assign]

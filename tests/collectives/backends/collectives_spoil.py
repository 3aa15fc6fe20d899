"""Work functions that make a rank's input wrong, to see that it is noticed."""

from __future__ import annotations

from collectives.backends.operations import Collective

_RIGHT = Collective.prepare


def spoil():
    """From now on this rank contributes zeros."""

    def prepare(self):
        self.data.zero_()

    Collective.prepare = prepare  # type: ignore[method-assign]


def mend():
    """Undo `spoil`."""
    Collective.prepare = _RIGHT  # type: ignore[method-assign]

"""Apply, list and undo faults of one lab; every step is recorded, so that another process can undo it."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from nettune.errors import InputError, NettuneError
from nettune.lab import state as states
from nettune.lab.faults.base import ActiveFault, Fault
from nettune.lab.faults.registry import FAULTS
from nettune.lab.site import Site


def find_fault(kind: str) -> Fault:
    """The fault of this name.

    Raises:
        InputError: there is none.
    """
    if kind not in FAULTS:
        raise InputError(f"unknown fault {kind!r}; known: {', '.join(FAULTS)}")
    return FAULTS[kind]


class Faults:
    """The faults of a lab."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def active(self) -> list[ActiveFault]:
        """Faults in force, oldest first."""
        self._site.refresh()
        return [ActiveFault.from_json(values) for values in self._site.state.faults]

    def apply(self, kind: str, **params: object) -> ActiveFault:
        """Inject a fault; parameters that are left out take the kind's defaults.

        Raises:
            InputError: unknown kind, parameter or target, or an active fault is in the way.
            UnavailableError: the kernel lacks what the fault needs, by name.
        """
        fault = find_fault(kind)
        known = {param.name: param.default for param in fault.params}
        for name in params:
            if name not in known:
                raise InputError(f"{kind} has no parameter {name!r}; it has {', '.join(known)}")
        given = {**known, **{name: str(value) for name, value in params.items()}}
        with states.locked():
            active = self.active()
            effect = fault.prepare(self._site, given)
            for other in active:
                if set(other.touches) & set(effect.touches):
                    raise InputError(
                        f"fault {other.id} ({other.kind}) is in the way: {other.what}; undo it first"
                    )
            number = self._site.state.counter + 1
            record = ActiveFault(
                id=f"f{number}",
                kind=kind,
                params=given,
                where=effect.where,
                what=effect.what,
                touches=effect.touches,
                undo=effect.undo,
                down=effect.down,
            )
            # Recorded before it is done: if this process dies in between, undo still knows what to put right.
            self._record([*active, record], number)
            try:
                fault.start(self._site, effect)
                self._record([*active, record], number)
            except BaseException:
                # The first error says why. A record that cannot be taken back (disk full) only means one undo more.
                with contextlib.suppress(NettuneError):
                    fault.stop(self._site, effect.undo)
                with contextlib.suppress(NettuneError):
                    self._record(active, number)
                raise
        return record

    def undo(self, which: str) -> list[ActiveFault]:
        """Undo the fault of this id, or `all` (the latest first); the faults that were undone.

        Raises:
            InputError: no such fault is active.
        """
        with states.locked():
            active = self.active()
            chosen = active[::-1] if which == "all" else [fault for fault in active if fault.id == which]
            if not chosen and which != "all":
                ids = ", ".join(fault.id for fault in active) or "none"
                raise InputError(f"no fault {which!r} is active (active: {ids})")
            for fault in chosen:
                # Routes are computed from the links that are down by the other faults; the record itself stays
                # until all is put right, so that an interrupted undo can be done again.
                at = active.index(fault)
                self._record(
                    [*active[:at], replace(fault, down=()), *active[at + 1 :]], self._site.state.counter
                )
                FAULTS[fault.kind].stop(self._site, fault.undo)
                active.remove(fault)
                self._record(active, self._site.state.counter)
        return chosen

    def _record(self, faults: list[ActiveFault], counter: int) -> None:
        records = tuple(fault.to_json() for fault in faults)
        self._site.save(replace(self._site.state, faults=records, counter=counter))

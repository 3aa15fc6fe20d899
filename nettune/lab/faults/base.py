"""What a fault is: the protocol that every kind implements, and the record of an active one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nettune.errors import InputError
from nettune.lab.site import Site


@dataclass(frozen=True)
class Effect:
    """What a fault is about to do, fully decided before anything is touched.

    Attributes:
        where: names of the elements at fault (`ElementId` grammar), the guilty one first.
        what: one line for people.
        touches: what is changed, so that two faults do not undo each other: `shape leaf0:u0--spine0:d0`.
        undo: plain values that `undo` needs; `start` may add to them.
        down: keys of links that carry nothing while the fault is active; routes avoid them.
    """

    where: tuple[str, ...]
    what: str
    touches: tuple[str, ...]
    undo: dict[str, Any]
    down: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActiveFault:
    """A fault in force, as recorded in the lab's state."""

    id: str
    kind: str
    params: Mapping[str, str]
    where: tuple[str, ...]
    what: str
    touches: tuple[str, ...]
    undo: dict[str, Any] = field(repr=False)
    down: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "id": self.id,
            "kind": self.kind,
            "params": dict(self.params),
            "where": list(self.where),
            "what": self.what,
            "touches": list(self.touches),
            "undo": self.undo,
            "down": list(self.down),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ActiveFault:
        """Inverse of `to_json`."""
        return cls(
            id=values["id"],
            kind=values["kind"],
            params=values["params"],
            where=tuple(values["where"]),
            what=values["what"],
            touches=tuple(values["touches"]),
            undo=values["undo"],
            down=tuple(values["down"]),
        )


@dataclass(frozen=True)
class Param:
    """One parameter of a fault; its default is text, as a person would write it. Empty means: chosen by the lab."""

    name: str
    default: str
    help: str


class Fault(Protocol):
    """One kind of fault."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def summary(self) -> str:
        """One line for the help."""
        ...

    @property
    def params(self) -> tuple[Param, ...]:
        """Its parameters."""
        ...

    def prepare(self, site: Site, params: Mapping[str, str]) -> Effect:
        """Decide target and size; change nothing.

        Raises:
            InputError: a parameter cannot be used.
        """
        ...

    def start(self, site: Site, effect: Effect) -> None:
        """Make it happen; may add to `effect.undo`. A failure half-way is undone by `stop`.

        Raises:
            UnavailableError: the kernel lacks what it needs, by name.
        """
        ...

    def stop(self, site: Site, undo: Mapping[str, Any]) -> None:
        """Make it as if it had never been; harmless when `start` did not get to its end."""
        ...


def share_of(text: str, name: str, low: float, high: float) -> float:
    """The share (0..1) that a percentage like `30%` or `30` names, within [low, high] percent.

    Raises:
        InputError: no number, or outside the range.
    """
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        raise InputError(
            f"{name}={text!r} is no percentage; write {name}={low:g}% to {name}={high:g}%"
        ) from None
    if not low <= percent <= high:
        raise InputError(f"{name}={text} is out of range; use {low:g}% to {high:g}%")
    return percent / 100


def choice_of(text: str, name: str, choices: tuple[str, ...]) -> str:
    """`text`, which must be one of `choices`.

    Raises:
        InputError: it is not.
    """
    if text not in choices:
        raise InputError(f"{name}={text!r} is unknown; use {', '.join(choices)}")
    return text

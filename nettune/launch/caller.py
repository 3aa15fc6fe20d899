"""What work over agents needs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Caller(Protocol):
    """The part of `nettune.launch.agents.Agents` that runs functions; attributes and arguments as there."""

    placement: tuple[str, ...]

    def call(
        self,
        function: str,
        kwargs: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None = None,
        ranks: Sequence[int] | None = None,
        timeout_s: float = 60.0,
    ) -> list[Any]:
        """Run a function in the processes of these ranks; results in their order."""
        ...

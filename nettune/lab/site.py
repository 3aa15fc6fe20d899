"""What faults and the lab act through: the current wiring, the state on disk, the helper inside the lab."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nettune.errors import InputError
from nettune.lab import state as states
from nettune.lab.frame.batch import Step
from nettune.lab.frame.client import Helper
from nettune.lab.plan import etc_hosts
from nettune.lab.routes import router_routes
from nettune.lab.state import LabState
from nettune.lab.wiring import Link, Wiring


class Site:
    """One lab as this process sees it. Changes go to the state file first, then into the lab."""

    def __init__(self, state: LabState) -> None:
        self.state = state
        self._wiring = Wiring(state.spec, state.moves)
        self._helper = Helper(state.holder, user=state.user)

    @property
    def wiring(self) -> Wiring:
        """Ports and links as they are cabled now."""
        if self._wiring.moves != self.state.moves:
            self._wiring = Wiring(self.state.spec, self.state.moves)
        return self._wiring

    def refresh(self) -> None:
        """Take over what other processes changed.

        Raises:
            InputError: the lab is down.
        """
        state = states.read_state(self.state.spec.name)
        if state is None or state.holder != self.state.holder:
            raise InputError(f"lab {self.state.spec.name!r} is not up any more")
        self.state = state

    def save(self, state: LabState) -> None:
        """Record a change."""
        states.write_state(state)
        self.state = state

    def ask(self, op: str, **request: Any) -> Any:
        """A request to the helper; see `frame/helper.py`."""
        return self._helper.ask(op, **request)

    def close(self) -> None:
        """End this process's helper."""
        self._helper.close()

    def run(self, node: str, tool: str, lines: Sequence[str]) -> None:
        """Lines of `ip` or `tc` on a node."""
        self.ask("batch", steps=[Step(node=node, tool=tool, text="".join(f"{line}\n" for line in lines))])

    def set_links(self, links: Sequence[Link], *, up: bool) -> None:
        """Open or shut links at their upper ends, and give every router the routes that fit then."""
        self.ask(
            "links",
            ports=[[link.upper.node, link.upper.iface] for link in links],
            peers=[[link.lower.node, link.lower.iface] for link in links],
            up=up,
        )
        self.converge()

    def converge(self) -> None:
        """Give every router the routes that fit the links that are up now."""
        down = {key for fault in self.state.faults for key in fault["down"]}
        steps = [
            Step(
                node=node, tool="ip", text="".join(f"{line}\n" for route in routes for line in route.lines())
            )
            for node, routes in router_routes(self.wiring, down).items()
        ]
        self.ask("converge", steps=steps)

    def rewrite_hosts_file(self) -> None:
        """Bring the lab's /etc/hosts in line with the wiring."""
        self.ask("hosts", text=etc_hosts(self.wiring))

    def find_link(self, text: str) -> Link:
        """The link named by `h3`, `h3:eth1`, `leaf0:u0--spine0:d0` (ends in either order) or `link/...`.

        Raises:
            InputError: there is none of that name.
        """
        wanted = text.removeprefix("link/")
        for link in self.wiring.links:
            ends = [f"{end.node}:{end.iface}" for end in link.ends]
            names = {"--".join(ends), "--".join(reversed(ends)), *ends}
            if link.kind == "host" and link.lower.iface == "eth0":
                names.add(link.lower.node)
            if wanted in names:
                return link
        example = self.wiring.links[-1].key
        raise InputError(f"the lab has no link {text!r}; write a host, NODE:PORT or {example}")

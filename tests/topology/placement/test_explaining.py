"""Why a rank is where it is."""

from __future__ import annotations

import dataclasses

import pytest

from nettune.errors import InputError
from topology.placement.explaining import explain
from topology.placement.place import evaluate, place
from topology.routing import Routing


@pytest.fixture
def placed(leaves, rings):
    """Two strided rings of 4 nodes with 2 ranks each on leaves of 4, 4 and 1."""
    routing = Routing.shortest_paths(leaves([4, 4, 1], up_gbps=[50, 50, 50]))
    traffic = rings(16, ([[0, 4, 8, 12], [2, 6, 10, 14]], 1e7), ([[1, 3]], 1e6))
    return place(routing, traffic, ranks_per_host=2)


def test_it_names_partners_links_and_the_next_host(placed):
    """Bytes by phase, partners near by, links by load, and a next best host that costs no less."""
    found = explain(placed, 4)

    assert found.node_ranks == (4, 5)
    (talk,) = found.talks
    assert (talk["phase"], talk["sent_bytes"], talk["received_bytes"]) == ("p0", 1e7, 1e7)
    assert talk["near"] == len(talk["hosts"]) == 2
    assert {link["own_bytes"] for link in found.links} == {1e7}
    assert found.links[0]["total_bytes"] >= found.links[-1]["total_bytes"]
    assert found.next_host not in {"", found.host}
    assert found.next_cost_us >= found.cost_us == placed.cost_us
    text = "\n".join(found.lines())
    assert f"rank 4: host {found.host}" in text
    assert "2 of 2 under its leaf group" in text
    assert f"next best host: {found.next_host}" in text


def test_the_next_host_costs_what_it_says(placed):
    """The map with both nodes exchanged has that price."""
    found = explain(placed, 4)
    routing, traffic = placed.problem.routing, placed.problem.traffic
    swap = {found.host: found.next_host, found.next_host: found.host}
    names = [swap.get(name, name) for name in placed.placement.hosts(routing.fabric)]

    assert evaluate(routing, traffic, names).cost_us == pytest.approx(found.next_cost_us)


def test_a_silent_rank_has_nothing_to_tell(placed):
    """No bytes, no links, no partners."""
    found = explain(placed, 5)

    assert (found.talks, found.links) == ((), ())
    assert found.lines()[0].startswith("rank 5")


def test_maps_made_elsewhere_are_explained_too(leaves, rings):
    """A scattered map has no next host, but links and partners."""
    routing = Routing.shortest_paths(leaves([2, 2]))
    traffic = rings(4, ([[0, 1, 2, 3]], 1e6))

    found = explain(evaluate(routing, traffic, ["node1", "node3", "node1", "node4"]), 0)

    assert found.next_host == ""
    assert found.links


def test_what_cannot_be_explained_is_refused(placed):
    """No such rank; a result without its problem."""
    with pytest.raises(InputError, match="ranks 0 to 15"):
        explain(placed, 16)
    with pytest.raises(InputError, match="place the job again"):
        explain(dataclasses.replace(placed, problem=None), 0)

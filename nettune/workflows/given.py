"""The fabric that a verb works on: a lab's, discovered now, or one from a file that `nettune discover -o` wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nettune.checks import worst_first
from nettune.errors import InputError
from nettune.workflows.run import Progress, Run, open_run, read_results
from topology.fabric import Fabric
from topology.routing import Routing

if TYPE_CHECKING:
    from nettune.workflows.cluster import Cluster


def discovered(run: Run, find: Callable[[], Cluster]) -> Cluster:
    """Discover; keys fabric, routing, link_rate_gbps, findings."""
    with run.step("discover"):
        cluster = find()
    found = cluster.discovery
    run.data |= {
        "fabric": found.fabric.to_json(),
        "routing": found.routing.to_json(),
        "link_rate_gbps": cluster.link_rate_gbps,
        "dropped": dict(found.dropped),
        "findings": [finding.to_json() for finding in worst_first(found.findings)],
    }
    return cluster


@contextmanager
def on_lab(
    verb: str, lab_name: str, runs: Path, progress: Progress, seed: int
) -> Iterator[tuple[Run, Cluster]]:
    """A run directory for a verb that works on a lab, and the cluster that was discovered there.

    Raises:
        InputError: no such lab.
        CollectError: a node did not answer.
    """
    from nettune.lab import Lab
    from nettune.workflows.cluster import discover_lab

    lab = Lab.load(lab_name)
    try:
        with open_run(verb, runs, progress, seed=seed) as run:
            yield run, discovered(run, lambda: discover_lab(lab))
    finally:
        lab.close()


def read_fabric(path: Path) -> tuple[Routing, dict[str, Any]]:
    """Routing of a file that `nettune discover -o` wrote, and the keys that a run keeps of it.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    data = read_results(path)
    try:
        fabric = Fabric.from_json(data["fabric"])
        # Files tell cables and no routes; switches then spread over all shortest paths, as ECMP does.
        known = data["routing"]
        routing = Routing.shortest_paths(fabric) if known is None else Routing.from_json(known, fabric)
        rate_gbps = float(data["link_rate_gbps"])
        return routing, {"fabric": data["fabric"], "routing": known, "link_rate_gbps": rate_gbps}
    except KeyError as error:
        raise InputError(f"has no {error}; make it with `nettune discover -o`", path) from error
    except InputError as error:
        raise InputError(str(error), path) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"is no fabric of `nettune discover -o`: {error}", path) from error

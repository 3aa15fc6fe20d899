"""LLDP of real daemons: lldpd runs on every node of labs, and what lldpcli prints there is read back as their wiring.

`NETTUNE_LLDP_LABS=10` takes that many labs instead of three.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nettune.lab import Lab, LabSpec
from topology.fabric import Fabric
from topology.merge import merge
from topology.readers import Source, read

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        shutil.which("lldpd", path=f"{os.environ.get('PATH')}:/usr/sbin:/sbin") is None,
        reason="lldpd is not installed",
    ),
]
LABS = int(os.environ.get("NETTUNE_LLDP_LABS", "3"))
PATIENCE_S = 30


@dataclass
class Daemons:
    """A lab whose nodes all speak LLDP; `folder` has their control sockets."""

    lab: Lab
    folder: Path

    def cli(self, node: str, *words: str) -> str:
        result = self.lab.exec(node, ["lldpcli", "-u", str(self.folder / node), *words], timeout_s=20)
        return result.stdout if result.returncode == 0 else ""

    def heard_all(self) -> bool:
        cables = [end for a, port_a, b, port_b in self.lab.links for end in ((a, port_a), (b, port_b))]
        for node in {node for node, _ in cables}:
            text = self.cli(node, "-f", "keyvalue", "show", "neighbors")
            if not all(f"lldp.{port}.port.descr=" in text for name, port in cables if name == node):
                return False
        return True


def random_spec(number: int) -> LabSpec:
    draw = random.Random(number)
    return LabSpec(
        name=f"et{number}-{os.getpid()}",
        leaves=draw.randint(1, 3) * 2,
        spines=draw.randint(1, 3),
        hosts_per_leaf=draw.randint(1, 2),
        rails=draw.choice([1, 2]),
        rail_wiring=draw.choice(["same-leaf", "per-rail"]),
        parallel_uplinks=draw.choice([1, 1, 2]),
    )


@pytest.fixture(scope="module")
def labs() -> Iterator[list[Daemons]]:
    """All labs at once: they only wait for each other's announcements, one a second."""
    with contextlib.ExitStack() as stack:
        running = []
        for number in range(LABS):
            lab = stack.enter_context(Lab.up(random_spec(number), bound=True))
            if lab.rootless:
                pytest.skip(
                    "lldpd gives up root for its own user, which a user namespace of one user does not have"
                )
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nettune-lldp-")))
            folder.chmod(0o755)  # lldpcli gives up root before it opens the socket
            running.append(Daemons(lab, folder))
            for node in lab.nodes:
                stack.enter_context(daemon(lab, node, folder / node))
        for daemons in running:
            for node in daemons.lab.nodes:
                wait(lambda d=daemons, n=node: (d.folder / n).is_socket(), f"the socket of {node}")
                wait(
                    lambda d=daemons, n=node: d.cli(n, "configure", "lldp", "tx-interval", "1"),
                    f"lldpd on {node}",
                )
        for daemons in running:
            wait(daemons.heard_all, f"neighbours in {daemons.lab.name}")
        yield running


@contextlib.contextmanager
def daemon(lab: Lab, node: str, socket: Path) -> Iterator[None]:
    words = ["lldpd", "-d", "-u", str(socket), "-S", f"node {node}"]
    with subprocess.Popen(
        lab.launcher().argv(node, words),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{os.environ.get('PATH')}:/usr/sbin:/sbin"},
    ) as process:
        try:
            yield
        finally:
            process.kill()


def wait(true: object, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end, f"waited {PATIENCE_S} s in vain for {what}"
        time.sleep(0.1)


def assert_is_lab(fabric: Fabric, lab: Lab) -> None:
    assert set(fabric.hosts) == set(lab.hosts)
    assert set(fabric.switches) == set(lab.switches)
    cables = {frozenset([(a, port_a), (b, port_b)]) for a, port_a, b, port_b in lab.links}
    names = [
        (fabric.nodes.name[node], port)
        for node, port in zip(fabric.ports.node.tolist(), fabric.ports.name, strict=True)
    ]
    assert set(names) == {end for cable in cables for end in cable}
    ends = zip(fabric.links.port_a.tolist(), fabric.links.port_b.tolist(), strict=True)
    assert {frozenset([names[a], names[b]]) for a, b in ends} == cables


@pytest.mark.parametrize("form", ["json0", "json", "keyvalue"])
def test_all_nodes_in_one_file(labs: list[Daemons], form: str) -> None:
    """`show chassis` and `show neighbors` of all nodes, one after the other: names, kinds, ports and cables of the lab."""
    for daemons in labs:
        text = "".join(
            daemons.cli(node, "-f", form, "show", *words)
            for node in daemons.lab.nodes
            for words in (("chassis",), ("neighbors", "details"), ("interfaces",))
        )
        said = read(Source("all", text))
        assert said.format == "lldpcli"
        assert not said.findings
        assert_is_lab(said.to_fabric(), daemons.lab)


def test_a_file_of_each_node_merged(labs: list[Daemons]) -> None:
    """`show neighbors` alone, each node's in a file of its name; both ends of a cable tell the same one."""
    for daemons in labs:
        files = {node: daemons.cli(node, "-f", "json0", "show", "neighbors") for node in daemons.lab.nodes}
        said = merge([read(Source(f"captures/{node}.json0", text)) for node, text in files.items()])
        assert not said.findings
        assert_is_lab(said.to_fabric(), daemons.lab)


def test_one_end_is_enough_for_a_cable(labs: list[Daemons]) -> None:
    """The leaves' outputs alone have every cable of a fabric of two tiers."""
    for daemons in labs:
        leaves = [node for node in daemons.lab.switches if node.startswith("leaf")]
        text = "".join(
            daemons.cli(node, "-f", "json", "show", *words)
            for node in leaves
            for words in (("chassis",), ("neighbors",))
        )
        assert_is_lab(read(Source("leaves", text)).to_fabric(), daemons.lab)

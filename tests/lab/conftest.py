"""A lab that tests share, and real transfers on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nettune.lab import Lab, LabSpec

# Receiver: accepts, counts bytes between the first and the last that came within SECONDS, says bit/s.
RECEIVE = """
import socket, sys, time
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
server.settimeout(float(sys.argv[2]) + 2)
total, begun, last = 0, None, None
try:
    connection, _ = server.accept()
    connection.settimeout(float(sys.argv[2]) + 2)
    while data := connection.recv(1 << 16):
        last = time.monotonic()
        if begun is None:
            begun = last
        else:
            total += len(data)
except TimeoutError:
    pass
print(8 * total / (last - begun) if total else 0.0)
"""
SEND = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)
end = time.monotonic() + float(sys.argv[3])
connection.settimeout(0.5)
data = b"x" * 65536
while time.monotonic() < end:
    try:
        connection.send(data)
    except TimeoutError:
        pass
"""

Transfer = Callable[..., list[float]]


@pytest.fixture(scope="session")
def transfer() -> Transfer:
    """Run flows between pairs of (source, destination) at once; returns Gbit/s of payload of each.

    With `full`, flows that should fill their links are measured up to three times until each gives 85% of its rate, and
    the best of each counts: a busy machine takes rate away, it never adds any.
    """

    def run(
        lab: Lab, pairs: list[tuple[str, str]], seconds: float = 0.8, *, full: bool = False
    ) -> list[float]:
        rates = once(lab, pairs, seconds)
        for _ in range(2):
            if not full or min(rates) > 0.85 * lab.spec.host_rate_gbps:
                break
            rates = [max(pair) for pair in zip(rates, once(lab, pairs, seconds), strict=True)]
        return rates

    def once(lab: Lab, pairs: list[tuple[str, str]], seconds: float) -> list[float]:
        launcher = lab.launcher()
        receivers, senders = [], []
        try:
            for number, (_, destination) in enumerate(pairs):
                argv = [sys.executable, "-c", RECEIVE, str(5000 + number), str(seconds)]
                receivers.append(start(launcher.argv(destination, argv)))
            for receiver in receivers:
                assert receiver.stdout.readline() == "ready\n"
            for number, (source, destination) in enumerate(pairs):
                argv = [sys.executable, "-c", SEND, destination, str(5000 + number), str(seconds)]
                senders.append(start(launcher.argv(source, argv)))
            for sender in senders:
                sender.communicate(timeout=20)
            return [float(receiver.communicate(timeout=20)[0] or 0) / 1e9 for receiver in receivers]
        finally:
            for process in [*senders, *receivers]:
                process.kill()
                process.communicate()

    return run


def start(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.fixture(scope="session")
def transfer_code() -> tuple[str, str]:
    """Programs of a receiver (PORT SECONDS) and a sender (ADDRESS PORT SECONDS)."""
    return RECEIVE, SEND


@pytest.fixture(scope="session")
def ip_json() -> Callable[..., list[dict[str, Any]]]:
    """Ask a node's `ip -j` (or `tc -j`)."""

    def run(lab: Lab, node: str, *words: str, tool: str = "ip") -> Any:
        done = lab.exec(node, [tool, "-j", *words], timeout_s=10)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "[]")

    return run


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """4 leaves, 2 spines, 8 hosts, all links 50 Mbit/s; shared by a module's tests, which undo what they do."""
    with Lab.up(LabSpec(name="shared", host_rate="50mbit", uplink_rate="50mbit")) as up:
        yield up

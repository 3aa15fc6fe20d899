"""A lab that is up: names, routes, TTL-exceeded answers, rails, counters, and the rate that its links give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nettune.lab import Lab, LabSpec

pytestmark = pytest.mark.lab

# Sends UDP with a small TTL and prints who answered "time exceeded", hop by hop.
TRACE = """
import socket, sys
target, out = socket.gethostbyname(sys.argv[1]), []
for ttl in range(1, 9):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
    sock.bind(("", 40000))
    sock.settimeout(2)
    sock.sendto(b"x", (target, 33434))
    try:
        sock.recv(1)
    except OSError:
        pass
    control = sock.recvmsg(512, 512, socket.MSG_ERRQUEUE)[1][0][2]
    kind, offender = control[5], socket.inet_ntoa(control[20:24])
    out.append(offender)
    if kind == 3:  # destination unreachable: it arrived
        break
print(" ".join(out))
"""


def trace(lab, source, target):
    done = lab.exec(source, [sys.executable, "-c", TRACE, target], timeout_s=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_routers_answer_ttl_exceeded_with_their_inbound_address(lab):
    """Every hop from h0 to h7 shows the port that the packet came in by, then the host itself."""
    by_address = {end.address: end for link in lab.wiring.links for end in link.ends}

    hops = [by_address[address] for address in trace(lab, "h0", "h7")]

    assert [hop.node for hop in hops[:1]] == ["leaf0"]
    assert [hop.iface for hop in hops] == ["d0", "d0", f"u{hops[1].node[-1]}", "eth0"]
    assert hops[1].node in lab.wiring.spines
    assert [hop.node for hop in hops[2:]] == ["leaf3", "h7"]


def test_two_hosts_of_a_leaf_meet_in_it(lab):
    """Traffic inside a leaf never sees a spine."""
    assert trace(lab, "h2", "h3") == ["10.0.1.0", "10.0.1.3"]


def test_links_give_at_least_85_percent_of_their_rate(lab, transfer):
    """One flow through four hops, and four at once that share no link, fill links to 85% with payload."""
    nominal = lab.spec.host_rate_gbps

    alone = transfer(lab, [("h0", "h7")], full=True)
    together = transfer(lab, [("h0", "h1"), ("h2", "h3"), ("h4", "h5"), ("h6", "h7")], full=True)

    assert 0.85 * nominal < alone[0] < nominal
    assert min(together) > 0.85 * nominal
    assert max(together) < nominal


def test_counters_agree_at_both_ends_and_with_the_payload(lab, transfer):
    """What one end sent the other received; headers add between 4% and 8% to the payload."""
    before = lab.counters()
    rate = transfer(lab, [("h0", "h2")], 0.5)[0]
    after = lab.counters()
    gained = {port: [b - a for a, b in zip(before[port], after[port], strict=True)] for port in after}

    assert rate > 0
    for node, iface, peer, peer_iface in lab.links:
        near, far = gained[node, iface], gained[peer, peer_iface]
        assert near[1] == far[0]
        assert near[3] == far[2]
        assert near[0] == far[1]
    sent_bytes, packets = gained["h0", "eth0"][1], gained["h0", "eth0"][3]
    assert 1400 < sent_bytes / packets < 1515  # whole packets of one MTU, no aggregates
    assert gained["h2", "eth0"][1] < sent_bytes / 5  # acknowledgements
    assert all(gained[host, "eth0"][1] < 1000 for host in lab.hosts if host not in {"h0", "h2"})


def test_every_port_tells_its_nominal_rate(lab, ip_json):
    """The root qdisc of each port is a token bucket of the nominal rate."""
    for node in ("h0", "leaf0", "spine1"):
        rates = {
            row["dev"]: row["options"]["rate"] * 8
            for row in ip_json(lab, node, "qdisc", "show", tool="tc")
            if row["kind"] == "tbf" and row.get("root")
        }
        assert rates == {own.iface: 50e6 for _, own, _ in lab.wiring.links_of[node]}


def test_launcher_gives_name_directory_and_environment(lab, tmp_path, monkeypatch):
    """A command on a node sees the node's name, the caller's directory and environment, and only lab addresses."""
    monkeypatch.chdir(tmp_path)
    script = "hostname; pwd; echo $MARK; getent hosts h3 | cut -d' ' -f1; ls /run; ip -br link | wc -l"
    done = subprocess.run(
        lab.launcher().argv("leaf2", ["sh", "-c", script]),
        capture_output=True, text=True, check=True, env={**os.environ, "MARK": "seen"},
    )  # fmt: skip

    lines = done.stdout.splitlines()
    assert lines[:4] == ["leaf2", str(tmp_path), "seen", "10.0.1.3"]
    assert "netns" in lines
    assert lines[-1] == "5"  # lo, d0, d1, u0, u1


def test_launcher_passes_exit_codes_and_refuses_strangers(lab):
    """The command's exit status comes back; an unknown host is an error that lists the hosts."""
    assert lab.exec("h0", ["sh", "-c", "exit 7"]).returncode == 7
    with pytest.raises(Exception, match="has no host or switch 'h99'; its hosts are h0, h1"):
        lab.launcher().argv("h99", ["true"])


def test_process_of_root_argv_enters_a_host_by_its_entry(lab):
    """As rank agents do: one process in the lab, setns into the host of its `Entry`; no other network is near."""
    entry = lab.launcher().entry("h5")
    code = (
        "import ctypes, os, socket, sys\n"
        "print(socket.if_nameindex())\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.setns(os.open(sys.argv[1], os.O_RDONLY), 0x40000000) == 0\n"
        "print([name for _, name in socket.if_nameindex()])\n"
    )
    argv = lab.launcher().root_argv([sys.executable, "-c", code, entry.netns])
    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert entry.hostname == "h5"
    assert done.stdout.splitlines() == ["[(1, 'lo')]", "['lo', 'eth0']"]


def test_every_rail_reaches_every_other_and_leaves_by_itself(transfer):
    """Two rails on one leaf: what is bound to eth1 leaves by eth1, also towards another rail's address."""
    code = "import socket, sys; s = socket.create_connection((sys.argv[2], 22), 3, (sys.argv[1], 0))"
    with Lab.up(LabSpec(name="rails", rails=2, leaves=2, spines=1)) as lab:
        before = lab.counters()
        for source in ("h0", "h0-eth1"):
            for target in ("h3", "h3-eth1", "h1-eth1"):
                done = lab.exec("h0", [sys.executable, "-c", code, source, target], timeout_s=10)
                assert "refused" in done.stderr  # a reset from the far host: packets went and came back
        after = lab.counters()
        sent = {nic: after["h0", nic][3] - before["h0", nic][3] for nic in ("eth0", "eth1")}

    assert sent["eth0"] >= 3
    assert sent["eth1"] >= 3


def test_per_rail_wiring_keeps_a_rail_on_its_leaves():
    """Unbound traffic to another host's eth1 leaves by eth1 and stays on leaves of rail 1."""
    spec = LabSpec(name="perrail", rails=2, rail_wiring="per-rail", leaves=4, spines=1, hosts_per_leaf=1)
    with Lab.up(spec) as lab:
        hops = trace(lab, "h0", "h1-eth1")
        ports = {end.address: end.node for link in lab.wiring.links for end in link.ends}

    assert [ports[hop] for hop in hops] == ["leaf1", "spine0", "leaf3", "h1"]


def test_parallel_uplinks_all_carry_traffic():
    """With two cables to each spine many flows use every one of them, down as well as up."""
    code = (
        "import socket\n"
        "for port in range(30000, 30200):\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "    s.bind(('', port)); s.sendto(b'x' * 200, ('10.0.1.1', 9)); s.close()\n"
    )
    with Lab.up(LabSpec(name="wide", leaves=2, hosts_per_leaf=1, spines=2, parallel_uplinks=2)) as lab:
        before = lab.counters()
        assert lab.exec("h0", [sys.executable, "-c", code]).returncode == 0
        after = lab.counters()
        used = {port: after[port][2] - before[port][2] for port in after}

    assert all(used["leaf1", f"u{n}"] > 15 for n in range(4)), used


def test_ports_are_of_the_range_that_was_asked_for():
    """A connection from a host leaves from it, where the kernel chooses the port."""
    code = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"
    with Lab.up(LabSpec(name="ports", leaves=1, spines=0, port_range="40000-40015")) as lab:
        chosen = [int(lab.exec(host, ["python3", "-c", code]).stdout) for host in lab.hosts]
    assert all(40000 <= port <= 40015 for port in chosen)


def test_congestion_control_is_what_was_asked_for(ip_json):
    """Reno by default; cubic, which a namespace may not have as its default, comes by the route."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text("ascii").split()
    if "cubic" not in available:
        pytest.skip("this kernel has no cubic")
    code = (
        "import socket\n"
        "a = socket.create_server(('', 99)); s = socket.create_connection(('h1', 98))\n"
        "print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())\n"
    )
    server = "import socket; s = socket.create_server(('', 98)); print('ready', flush=True); s.accept()"
    for wanted in ("reno", "cubic"):
        with Lab.up(LabSpec(name="cc", leaves=1, spines=0, congestion_control=wanted)) as lab:
            listener = subprocess.Popen(
                lab.launcher().argv("h1", [sys.executable, "-c", server]), stdout=subprocess.PIPE, text=True
            )
            assert listener.stdout.readline() == "ready\n"
            assert lab.exec("h0", [sys.executable, "-c", code], timeout_s=10).stdout == f"{wanted}\n"
            listener.communicate(timeout=5)
    with pytest.raises(Exception, match="this kernel lacks congestion control 'tcp_nope'; it has"):
        Lab.up(LabSpec(name="cc", congestion_control="tcp_nope"))

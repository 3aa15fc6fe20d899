"""NCCL's settings from a fabric: read back after NCCL's own rules, and each with its reason."""

from __future__ import annotations

import re
import subprocess

import pytest

from nettune.errors import InputError
from topology.builder import FabricBuilder
from topology.columns import LinkState
from topology.fabric import NodeKind
from topology.placement.mapping import Placement
from topology.writers.nccl import files


def build(
    nics, *, hosts=("h0", "h1"), leaf_of=lambda rail: f"leaf{rail}", spines=2, up_gbps=400, addresses=False
):
    """Hosts with NICs of (name, rail, plane), each on the leaf of its rail; leaves joined by spines."""
    builder = FabricBuilder()
    leaves = list(dict.fromkeys(leaf_of(rail) for _, rail, _ in nics))
    for host in hosts:
        builder.node(host, NodeKind.HOST)
    for switch in (*leaves, *(f"spine{spine}" for spine in range(spines))):
        builder.node(switch, NodeKind.SWITCH)
    for number, host in enumerate(hosts):
        for index, (name, rail, plane) in enumerate(nics):
            address = f"10.{index}.0.{number}" if addresses else ""
            builder.port(host, name, speed_gbps=400, rail=rail, plane=plane, address=address)
            builder.port(leaf_of(rail), f"{host}-{name}", speed_gbps=400)
            builder.link((host, name), (leaf_of(rail), f"{host}-{name}"))
    for leaf in leaves:
        for spine in range(spines):
            builder.port(leaf, f"u{spine}", speed_gbps=up_gbps)
            builder.port(f"spine{spine}", leaf, speed_gbps=up_gbps)
            builder.link((leaf, f"u{spine}"), (f"spine{spine}", leaf))
    return builder


def env(fabric, hosts=("h0", "h1")):
    """The file's text."""
    return files(Placement.of_hosts(fabric, hosts), fabric)["nccl.env"]


def settings(text):
    """NCCL_CONF_FILE as NCCL reads it: `#` in the first column is a comment, else KEY=VALUE with nothing trimmed."""
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, value = line.split("=", 1)
            assert key not in found
            assert len(value) <= 1023
            found[key] = value
    return found


def devices(value):
    """NCCL_IB_HCA of 2.30: (name, port, rail, plane) of each entry, -1 where it says nothing."""
    assert value.startswith("=")
    entries = []
    for entry in value[1:].split(","):
        name, *numbers = entry.split(":")
        entries.append((name, *[int(number) if number else -1 for number in [*numbers, "", "", ""][:3]]))
    return entries


def devices_before_2_30(value):
    """The same in older versions: what follows the port's digits is skipped."""
    pairs = [entry.partition(":") for entry in value[1:].split(",")]
    return [(name, int(re.findall(r"[0-9]*", rest)[0] or 0) if colon else -1) for name, colon, rest in pairs]


RAILS = [("mlx5_0", 0, 0), ("mlx5_10", 1, 1)]


def test_rails_and_planes_are_told_in_a_form_that_old_versions_read_too():
    """2.30 reads port, rail and plane; older ones name and port; the form without rails stands in a comment."""
    text = env(build(RAILS).build())
    value = settings(text)["NCCL_IB_HCA"]

    assert devices(value) == [("mlx5_0", 1, 0, 0), ("mlx5_10", 1, 1, 1)]
    assert devices_before_2_30(value) == [("mlx5_0", 1), ("mlx5_10", 1)]
    assert "# without them: NCCL_IB_HCA==mlx5_0:1,mlx5_10:1\n" in text


def test_rails_without_planes():
    """A plane that is not known is not told."""
    value = settings(env(build([("mlx5_0", 0, -1), ("mlx5_1", 1, -1)]).build()))["NCCL_IB_HCA"]

    assert value == "=mlx5_0:1:0,mlx5_1:1:1"
    assert devices(value) == [("mlx5_0", 1, 0, -1), ("mlx5_1", 1, 1, -1)]


def test_no_rails_gives_the_plain_form():
    """Only the devices and their ports."""
    value = settings(env(build([("mlx5_0", -1, -1), ("bnxt_re1", -1, -1)]).build()))["NCCL_IB_HCA"]

    assert value == "=mlx5_0:1,bnxt_re1:1"


def test_storage_nics_are_left_out():
    """Of NICs some of which have a rail those without are for other things; so are those without a cable."""
    builder = build([*RAILS, ("mlx5_7", -1, -1)], leaf_of=lambda rail: f"leaf{rail}")
    for host in ("h0", "h1"):
        builder.port(host, "mlx5_8", rail=7)
    value = settings(env(builder.build()))["NCCL_IB_HCA"]

    assert [name for name, *_ in devices(value)] == ["mlx5_0", "mlx5_10"]


def test_a_port_in_a_name_is_that_port():
    """Two ports of one device are two NICs."""
    value = settings(env(build([("mlx4_0:1", -1, -1), ("mlx4_0/2", -1, -1)]).build()))["NCCL_IB_HCA"]

    assert value == "=mlx4_0:1,mlx4_0:2"


def test_interfaces_are_no_devices():
    """Interfaces with addresses are sockets' matter; RDMA devices say nothing of the hosts' own network."""
    interfaces = env(build([("eth0", 0, -1), ("eth1", 1, -1)], addresses=True).build())
    rdma = env(build(RAILS, addresses=True).build())

    assert settings(interfaces)["NCCL_SOCKET_IFNAME"] == "=eth0,eth1"
    assert "NCCL_IB_HCA" not in settings(interfaces)
    assert "# NCCL_IB_HCA is not set: the fabric names no RDMA devices, but eth0 rail 0" in interfaces
    assert "NCCL_SOCKET_IFNAME" not in settings(rdma)
    assert "# NCCL_SOCKET_IFNAME is not set: the fabric knows no interface" in rdma


@pytest.mark.parametrize(
    ("changes", "value", "why"),
    [
        ({"nics": RAILS[:1]}, None, "every host has one NIC"),
        ({"leaf_of": lambda _: "leaf"}, "1", "All NICs of a host are on one switch"),
        ({"spines": 0}, "0", "No switches join the rails of leaf0 and leaf1"),
        ({"spines": 1}, "0", "leaf0 has 400 Gbit/s up for 800 down"),
        ({"spines": 2}, None, "uplinks carry as much as their hosts"),
        (
            {"nics": [*RAILS, ("mlx5_2", 2, 0)], "leaf_of": lambda rail: f"leaf{rail // 2}"},
            None,
            "share some",
        ),
    ],
)
def test_crossing_follows_the_cables(changes, value, why):
    """Rails apart or oversubscribed: stay; one switch: cross freely; else NCCL's default, with the reason."""
    text = env(build(**{"nics": RAILS, **changes}).build())

    assert settings(text).get("NCCL_CROSS_NIC") == value
    reason = next(line for line in text.splitlines() if line.startswith("#") and why in line)
    assert ("is not set" in reason) == (value is None)


def test_cables_that_are_down_carry_nothing():
    """A rail whose only uplink is down is on its own."""
    builder = build(RAILS, spines=0)
    builder.node("spine", NodeKind.SWITCH)
    for leaf, state in (("leaf0", LinkState.UP), ("leaf1", LinkState.DOWN)):
        builder.port(leaf, "u", speed_gbps=800)
        builder.port("spine", leaf, speed_gbps=800)
        builder.link((leaf, "u"), ("spine", leaf), state=state)

    assert settings(env(builder.build()))["NCCL_CROSS_NIC"] == "0"


def test_hosts_with_other_nics_are_refused():
    """One file serves all hosts, so they must agree on names and rails; hosts that are not used do not count."""
    builder = build(RAILS)
    builder.node("h2", NodeKind.HOST)
    builder.port("h2", "mlx5_3", rail=0, plane=0)
    builder.port("leaf0", "h2", speed_gbps=400)
    builder.link(("h2", "mlx5_3"), ("leaf0", "h2"))
    fabric = builder.build()

    assert settings(env(fabric))
    with pytest.raises(
        InputError, match=r"hosts h0 and h2 have NICs of other names or rails \(mlx5_0 rail 0,.*mlx5_3"
    ):
        env(fabric, ("h0", "h2"))


def test_more_than_nccl_takes_is_refused():
    """33 devices, or a list that NCCL would cut off, are lines and no surprise."""
    with pytest.raises(InputError, match="NCCL takes 32 devices, and the hosts have 33"):
        env(build([(f"mlx5_{number}", -1, -1) for number in range(33)]).build())
    with pytest.raises(InputError, match=r"NCCL_IB_HCA would have .* NCCL reads 1023"):
        env(build([(f"rocep{number}{'s1' * 20}", -1, -1) for number in range(30)]).build())


def test_no_cable_is_refused():
    """Without a NIC on the fabric there is nothing to tell."""
    builder = FabricBuilder()
    builder.node("h0", NodeKind.HOST)
    builder.port("h0", "mlx5_0")

    with pytest.raises(InputError, match="host h0 has no NIC with a cable"):
        env(builder.build(), ("h0",))


def test_the_file_is_also_sh(tmp_path):
    """Sourced by sh it sets the same values as NCCL reads."""
    file = tmp_path / "nccl.env"
    file.write_text(env(build(RAILS, spines=1, addresses=True).build()), encoding="utf-8")
    done = subprocess.run(
        ["sh", "-c", 'set -a; . "$0"; set +a; env', str(file)], env={"PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("NCCL_"))

    assert found == settings(file.read_text(encoding="utf-8"))
    assert set(found) == {"NCCL_IB_HCA", "NCCL_CROSS_NIC"}

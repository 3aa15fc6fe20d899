"""What an NCCL log says of hosts, NICs and GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.readers import Source, read
from topology.readers.nccl_log import READER
from topology.readers.nccl_log import events as e
from topology.readers.said import Said

EXAMPLE = Path(__file__).parent / "examples" / "nccl-log.txt"

SAMPLES = {
    # file: host -> (NICs, GPUs). NICs: grep -o '\[[0-9]*\][a-zA-Z0-9_]*:[0-9]/' of NET/IB Using lines, by host;
    # GPUs: nvmlDev of Init lines, by host. Lines without a host name stand for a host named after the file.
    "01-tuning-table-2.29.7-2ranks-socket.log": {"lab": (0, 0)},
    "02-ib-error12-azure-mixed-ib-roce.log": {"node-2": (2, 0)},
    "03-net-ib-using-lines.log": {"03-net-ib-using-lines": (9, 0)},
    "04-5090-shm-init-2.25.1.log": {
        "GENOA-06": (2, 2)
    },  # two interfaces of NET/Socket, which is what it uses
    "05-ib-status12-vendor129-roce-ipv6.log": {"kp-ddp-worker-0": (0, 0)},
    "07-ib-2.30-new-format-retry-exc.log": {"ubuntu2": (0, 0), "ubuntu4": (0, 0)},
    "09-ring-trees-2.5.7-roce-no-gdr.log": {"09-ring-trees-2.5.7-roce-no-gdr": (1, 0)},
    "10-channel-lines-ib-no-gdr-and-gid3.log": {},
    "11-channel-lines-gdrdma-ibext-p2pcumem.log": {"qh100-gpu20": (0, 0)},
    "12-async-port-error-then-error12.log": {"...-48": (0, 0), "...-51": (0, 0)},
    "13-async-fatal-2.27-local-access.log": {"h100-28": (0, 0)},
    "14-graph-system-topology.log": {},
    "16-torch-watchdog-2.7.log": {},
    "17-torch-watchdog-different-seq.log": {},
    "18-torch-heartbeat-480s.log": {},
    "19-ras-mismatch.txt": {},
}


def counts(said: Said) -> dict[str, tuple[int, int]]:
    return {
        name: (sum(end[0] == name for end in said.ports), sum(end[0] == name for end in said.gpus))
        for name in said.nodes
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_logs_tell_their_hosts(shared: Path, name: str) -> None:
    """Hosts with NICs and GPUs of every recorded log; a log that names no host has events only."""
    said = read(Source.open(shared / "samples" / "nccl-logs" / name))
    assert said.format == "nccl-log"
    assert counts(said) == SAMPLES[name]
    assert said.events
    assert len(said.to_fabric().nodes.name) == len(SAMPLES[name])


def test_mixed_link_layers_are_told_apart(shared: Path) -> None:
    """The Azure host with one InfiniBand and one RoCE device, and a bond among InfiniBand."""
    folder = shared / "samples" / "nccl-logs"
    azure = read(Source.open(folder / "02-ib-error12-azure-mixed-ib-roce.log"))
    assert {name: port.link_layer for (_, name), port in azure.ports.items()} == {
        "ibP111p0s0": "IB",
        "rdmaP1111p0s2": "Ethernet",
    }
    bond = read(Source.open(folder / "03-net-ib-using-lines.log"))
    assert bond.ports["03-net-ib-using-lines", "mlx5_bond_0"].link_layer == "Ethernet"


def test_the_example_in_full() -> None:
    """Speed and address of a NIC, GPUs with bus and the NIC that GPUDirect is nearest to."""
    said = read(Source("job.log", EXAMPLE.read_text()))
    assert counts(said) == {"gpu-1": (2, 2), "gpu-2": (2, 2)}
    port = said.ports["gpu-1", "mlx5_0"]
    assert (port.speed_gbps, port.link_layer, port.address) == (400.0, "Ethernet", "192.168.0.11")
    gpu = said.gpus["gpu-1", 0]
    assert (gpu.bus, gpu.nics) == ("0000:13:00.0", ("mlx5_0",))
    assert not any(isinstance(event, e.Other) and not event.level for event in said.events)


def log(*lines: str) -> Said:
    return READER.read(Source("job.log", "\n".join(f"h:1:2 [0] NCCL INFO {line}" for line in lines)))


def test_interfaces_are_nics_only_where_sockets_are_used() -> None:
    """Besides RDMA NICs, the interfaces of the socket transport are not those that carry the traffic."""
    sockets, ib = (
        "NET/Socket : Using [0]eth0:10.0.0.1<0>",
        "NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>",
    )
    assert list(log(sockets).ports) == [("h", "eth0")]
    assert list(log(sockets, "Using network Socket").ports) == [("h", "eth0")]
    assert list(log(ib, sockets, "Using network IB").ports) == [("h", "mlx5_0")]
    assert list(log(ib, sockets, "Using network Socket").ports) == [("h", "mlx5_0"), ("h", "eth0")]


def test_torn_names_and_addresses_are_left_out() -> None:
    """A log is read as far as it tells."""
    said = log(
        "NET/Socket : Using [0]eth0:10.0.0.1<0> [1]e--th1:10.0.0.2<0> [2]eth2:10.0.0<0> [3]ib0:fe80::1%ib0<0>"
    )
    assert {name: port.address for (_, name), port in said.ports.items()} == {
        "eth0": "10.0.0.1",
        "eth2": "",
        "ib0": "fe80::1",
    }


def test_infiniband_queue_pairs_tell_lid_and_subnet() -> None:
    """By number of the RDMA device."""
    said = log(
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB eth0:10.0.0.1<0>",
        "NET/IB: NCCL Dev 1 IbDev 1 Port 1 qpn 9 mtu 5 LID 42 subnet-prefix 33022  FLID 0 fifoRkey=0x1 fifoLkey=0x1",
    )
    assert [(port.lid, port.subnet) for port in said.ports.values()] == [(0, ""), (42, "fe80000000000000")]


def test_both_ports_of_a_device_have_names() -> None:
    """As NCCL_IB_HCA writes them."""
    said = log("NET/IB : Using [0]mlx4_0:1/IB [1]mlx4_0:2/IB ; OOB eth0:10.0.0.1<0>")
    assert [name for _, name in said.ports] == ["mlx4_0", "mlx4_0:2"]


def test_a_log_without_a_line_of_nccl_is_refused() -> None:
    """Named by hand, a file of another kind says so."""
    with pytest.raises(InputError, match=r"^x: has no line of NCCL among 2 lines$"):
        READER.read(Source("x", "a\nb\n"))


@pytest.mark.parametrize(
    "text",
    [
        "# nccl-tests version 2.17\n# Using devices\n",
        "export NCCL_DEBUG=INFO\n",
        "NCCL version 2.18.3+cuda12.2\n",
        '{"verb": "NCCL INFO"}',
    ],
)
def test_what_only_speaks_of_nccl_is_not_taken_for_a_log(text: str) -> None:
    """Output of nccl-tests, scripts, JSON."""
    assert not READER.recognises(Source("x", text))


def test_trouble_in_a_log_is_a_warning_about_the_host_that_wrote_it() -> None:
    """What failed, how often, first on which line; traces of the same error are not counted again."""
    prefix = "node-2:11:22 [0] "
    text = (
        f"{prefix}NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        f"{prefix}transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with error 12, opcode 0, "
        "len 0, vendor err 129 (Recv)\n"
        f"{prefix}NCCL INFO transport/net.cc:1134 -> 6 [Proxy Thread]\n"
    )
    (finding,) = read(Source("run.log", text)).findings
    assert (finding.check, finding.status, str(finding.where)) == ("nccl-log", Status.WARN, "host/node-2")
    assert finding.what == "its log tells of trouble, first on line 2: 1 x completion with an error"
    assert finding.evidence["lines"] == [2]
    assert read(Source("run.log", text[: text.index("\n") + 1])).findings == []

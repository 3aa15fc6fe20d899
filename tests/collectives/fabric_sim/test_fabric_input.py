"""What cannot be simulated is refused with one line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collectives.congestion.parameters import EcnCurve
from collectives.fabric_sim.flows import Flow, ShortestPaths
from collectives.fabric_sim.hpccconfig import read_hpcc_config
from collectives.fabric_sim.network import Cable, Change, Network, SwitchSettings, Transport
from collectives.fabric_sim.simbase import read_flows, read_network
from nettune.errors import InputError

TOPO = "# hosts 2 switches 1\na,b,gbps,delay_ns\n0,2,100,1000\n1,2,100,1000\n"
FLOWS = "src,dst,bytes,start_s\n"
PATHS = "src,dst,data_path_switches,ack_path_switches\n"


def written(tmp_path, name, text):
    """A file with this text."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("a,b,gbps,delay_ns\n0,2,100,1000\n", "# hosts H switches S"),
        ("# hosts 2 switches 1\n0,2,100,1000\n", "the first row must be"),
        (TOPO + "0,x,100,1\n", "topo.csv:5: '0,x,100,1' is no cable"),
        (TOPO + "0,9,100,1\n", "topo.csv:5: there is no node 9"),
        (TOPO + "0,2,100,1000\n", "host host0 has 2 cables"),
        ("# hosts 2 switches 1\na,b,gbps,delay_ns\n0,2,0,1000\n1,2,100,1000\n", "rate must be"),
        ("# hosts 2 switches 1\na,b,gbps,delay_ns\n0,2,nan,1000\n1,2,100,1000\n", "rate must be"),
        ("# hosts 2 switches 1\na,b,gbps,delay_ns\n0,2,100,-1\n1,2,100,1000\n", "delay must be"),
        ("# hosts 3 switches 1\na,b,gbps,delay_ns\n0,3,100,1\n1,3,100,1000\n", "host host2 has 0 cables"),
        ("# hosts 0 switches 1\na,b,gbps,delay_ns\n", "needs hosts"),
        ("# hosts 999999999 switches 1\na,b,gbps,delay_ns\n", "more than"),
    ],
)
def test_topology_that_is_none(tmp_path, text, said):
    """Each mistake in topo.csv is named, with its line where there is one."""
    with pytest.raises(InputError, match=r"topo\.csv") as error:
        read_network(written(tmp_path, "topo.csv", text), SwitchSettings())
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0,1,100", "is no flow"),
        ("0,1,1e6,0", "is no flow"),
        ("0,7,100,0", "a flow to nowhere: 7 is no host"),
        ("0,2,100,0", "a flow to nowhere: 2 is no host"),
        ("1,1,100,0", "to itself"),
        ("0,1,0,0", "at least 1"),
        ("0,1,100,-1", "cannot start"),
        ("0,1,100,nan", "cannot start"),
    ],
)
def test_flows_that_are_none(tmp_path, row, said):
    """Each mistake in flows.csv is named with its line."""
    network = read_network(written(tmp_path, "topo.csv", TOPO), SwitchSettings())
    with pytest.raises(InputError, match=r"flows.csv:2: ") as error:
        read_flows(written(tmp_path, "flows.csv", FLOWS + row + "\n"), network)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0,1,2-2,2", "no cable joins 2 and 2"),
        ("0,1,,2", "no cable joins 0 and 1"),
        ("0,1,9,2", "no cable joins 0 and 9"),
        ("0,1,x,2", "is no path"),
        ("0,1,2", "is no path"),
    ],
)
def test_paths_that_are_none(tmp_path, row, said):
    """Each mistake in paths.csv is named with its line; a pair without a path, too."""
    network = read_network(written(tmp_path, "topo.csv", TOPO), SwitchSettings())
    flows = written(tmp_path, "flows.csv", FLOWS + "0,1,100,0\n")
    with pytest.raises(InputError, match=r"paths.csv:2: ") as error:
        read_flows(flows, network, written(tmp_path, "paths.csv", PATHS + row + "\n"))
    assert said in str(error.value)
    with pytest.raises(InputError, match="has no path from 0 to 1"):
        read_flows(flows, network, written(tmp_path, "paths.csv", PATHS + "1,0,2,2\n"))


def test_a_route_that_loops(tmp_path, fab):
    """It is refused in files and in the API."""
    topo = "# hosts 2 switches 3\na,b,gbps,delay_ns\n0,2,100,1\n1,3,100,1\n2,3,100,1\n3,4,100,1\n4,2,100,1\n"
    network = read_network(written(tmp_path, "topo.csv", topo), SwitchSettings())
    flows = written(tmp_path, "flows.csv", FLOWS + "0,1,100,0\n")
    with pytest.raises(InputError, match="loops"):
        read_flows(flows, network, written(tmp_path, "paths.csv", PATHS + "0,1,2-3-4-2-3,3-2\n"))
    loop = fab.path(network, 0, 2, 3, 4, 2, 3, 1)
    with pytest.raises(InputError, match="loops: it meets switch2 twice"):
        fab.run(network, [Flow(0, 1, 100, (loop,), fab.path(network, 1, 3, 2, 0))])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dst": 9}, "to nowhere"),
        ({"dst": 0}, "to itself"),
        ({"size_bytes": -1}, "up to 2^31 packets"),
        ({"size_bytes": 10**15}, "up to 2^31 packets"),
        ({"control": 3}, "names congestion control 3; there are 1"),
        ({"paths": ()}, "has no path"),
        ({"paths": ([0],)}, "ends at switch0"),
        ({"paths": ([3, 0],)}, "does not start at host0"),
        ({"paths": ([99],)}, "there is no link 99"),
        ({"after": (0,)}, "waits for a flow that is not there, or for itself"),
        ({"cls": 8}, "class must be 0 to 7"),
        ({"start_us": -1.0}, "a time must be"),
        ({"gap_us": float("nan")}, "a time must be"),
    ],
)
def test_a_flow_that_cannot_be(fab, change, said):
    """Each is named."""
    network = fab.chain([100, 100], 1000)
    (flow,) = fab.flows(network, [(0, 1, 1000)])
    with pytest.raises(InputError) as error:
        fab.run(network, [flow._replace(**change)])
    assert said in str(error.value)


def test_settings_that_cannot_be(fab):
    """Kmin above Kmax, a buffer smaller than its headroom, senseless numbers."""
    with pytest.raises(InputError, match="kmin_bytes = 5 is above kmax_bytes = 4"):
        EcnCurve(kmin_bytes=5, kmax_bytes=4, pmax=0.5)
    small = fab.star(4, 100, 1000, SwitchSettings(buffer_bytes=10_000))
    with pytest.raises(InputError, match=r"headroom and reserves of its ports take .* its buffer has 10000"):
        fab.run(small, fab.flows(small, [(0, 1, 1000)]))
    with pytest.raises(InputError, match="no flows"):
        fab.run(small, [])
    wrong_settings: list[dict[str, Any]] = [
        {"alpha": 0},
        {"buffer_bytes": 0},
        {"reserve_bytes": -1},
        {"headroom_bytes": -1},
    ]
    for wrong in wrong_settings:
        with pytest.raises(InputError, match="switch: "):
            SwitchSettings(**wrong)
    wrong_transports: list[dict[str, Any]] = [
        {"mtu_bytes": 0},
        {"timeout": 32},
        {"nack_interval_us": 0},
        {"adaptive_us": 5},
        {"retry_count": -1},
    ]
    for wrong in wrong_transports:
        with pytest.raises(InputError, match="transport: "):
            Transport(**wrong)
    network = fab.chain([100, 100], 1000)
    for cables, changes in (
        ([Cable(0, 0, 100, 1)], ()),
        ([Cable(0, 2, 100, 1, 1.0), Cable(2, 1, 100, 1)], ()),
        (network.cables, [Change(0, 9, up=False)]),
        (network.cables, [Change(float("inf"), 0, up=False)]),
    ):
        with pytest.raises(InputError):
            Network(network.names, 2, cables, changes=changes)
    with pytest.raises(InputError, match="no path leads from host0 to host1"):
        ShortestPaths(network, avoid=[1]).drawn(0, 1, 0)
    with pytest.raises(InputError, match="no link 77 to watch"):
        fab.run(network, fab.flows(network, [(0, 1, 1)]), watch_links=[77])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no key of HPCC's configuration in it"),
        ("CC_MOD 1\n", "config.txt:1: CC_MOD: no key"),
        ("CC_MODE\n", "config.txt:1: CC_MODE has no value"),
        ("CC_MODE x\n", "config.txt:1: CC_MODE x: not a number"),
        ("\nCC_MODE 7\n", "config.txt:2: CC_MODE 7: 1 (DCQCN) and 3 (HPCC) can be simulated"),
        ("L2_BACK_TO_ZERO 1\n", "only 0 can be simulated"),
        ("RATE_AI fast\n", "is no rate"),
        ("KMIN_MAP 2 100 400\n", "a count and that many pairs"),
        ("BUFFER_SIZE -1\n", "buffer_bytes must be above 0"),
        ("EWMA_GAIN 2\n", "gain must be above 0 and at most 1"),
        ("PACKET_PAYLOAD_SIZE 0\n", "mtu_bytes must be"),
    ],
)
def test_configurations_that_are_none(tmp_path, text, said):
    """Each mistake is named."""
    with pytest.raises(InputError) as error:
        read_hpcc_config(written(tmp_path, "config.txt", text))
    assert said in str(error.value)


def test_a_rate_that_the_configuration_does_not_know(tmp_path, fab):
    """Marking of a link whose rate has no entry is not guessed."""
    config = read_hpcc_config(
        written(
            tmp_path,
            "config.txt",
            "KMIN_MAP 1 25000000000 100\nKMAX_MAP 1 25000000000 400\nPMAX_MAP 1 25000000000 0.2\n",
        )
    )
    network = fab.chain([100, 100], 1000)
    network = replace(network, settings=config.settings)
    with pytest.raises(InputError, match="say nothing about links of 100 Gb/s"):
        fab.run(network, fab.flows(network, [(0, 1, 1000)]))

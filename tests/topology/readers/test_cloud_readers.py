"""What clouds tell of the network of their instances: EC2, Google Cloud, Oracle Cloud."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nettune.checks import Status
from nettune.errors import InputError
from topology.readers import Said, Source, read


def said_of(value: Any, *more: Any) -> Said:
    return read(Source("answer.json", "\n".join(json.dumps(part, indent=1) for part in (value, *more))))


def tiers(said: Said) -> dict[str, int]:
    fabric = said.to_fabric()
    return dict(zip(fabric.nodes.name, fabric.nodes.tier.tolist(), strict=True))


def cables(said: Said) -> set[tuple[str, str]]:
    return {(a, b) for (a, _), (b, _) in said.links}


def ec2(*instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Instances": list(instances), **more}


def instance(name: str, *nodes: str | None, **more: Any) -> dict[str, Any]:
    return {"InstanceId": name, "NetworkNodes": list(nodes), **more}


@pytest.mark.parametrize("depth", [1, 3, 4, 6])
def test_ec2_depth(depth: int) -> None:
    """NetworkNodes go from the root down, and there may be any number of layers."""
    said = said_of(ec2(instance("i-1", *[f"nn-{layer}" for layer in range(depth)])))
    assert tiers(said) == {"i-1": 0, **{f"nn-{layer}": depth - layer for layer in range(depth)}}
    assert said.logical


def test_ec2_capacity_block() -> None:
    """CapacityBlockId is an NVLink domain; null, and the text "null" of the documentation, are none."""
    said = said_of(
        ec2(
            instance("i-1", "a", CapacityBlockId="cr-1"),
            instance("i-2", "a", CapacityBlockId=None),
            instance("i-3", "a", CapacityBlockId="null"),
            instance("i-4", "a"),
        )
    )
    assert [said.nodes[f"i-{index}"].nvl_domain for index in range(1, 5)] == ["cr-1", "", "", ""]


def test_ec2_without_topology() -> None:
    """Instances that are stopped or of another type have null or no nodes: hosts whose place is UNKNOWN."""
    said = said_of(ec2(instance("i-1", "a"), {"InstanceId": "i-2", "NetworkNodes": None}, instance("i-3")))
    (finding,) = said.findings
    assert (finding.status, finding.required) == (Status.UNKNOWN, False)
    assert finding.evidence["names"] == ["i-2", "i-3"]
    assert len(said.to_fabric().hosts) == 3


def test_ec2_pages() -> None:
    """Appended pages and a list of pages are one answer; a NextToken on the last is told."""
    one, two = ec2(instance("i-1", "r", "a"), NextToken="x"), ec2(instance("i-2", "r", "b"))
    assert len(said_of(one, two).to_fabric().hosts) == len(said_of([one, two]).to_fabric().hosts) == 2
    assert said_of(one, two).findings == []
    assert "NextToken" in said_of(two, one).findings[0].what


def test_ec2_instance_moved() -> None:
    """The same instance under another leaf (an older answer appended) is told."""
    said = said_of(ec2(instance("i-1", "r", "a")), ec2(instance("i-1", "r", "b")))
    assert said.findings[0].what == "1 hosts hang under several switches: i-1"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"Instances": [\n{"InstanceId": "i"},\n{"InstanceId": 7}]}', 3, "must be a text"),
        ('{"Instances": [\n{"NetworkNodes": ["a"]}]}', 2, "no InstanceId"),
        ('{"Instances":\n{"NetworkNodes": ["a"]}}', 2, "must be a list"),
        ('{"Instances": [\n{"InstanceId": "i", "NetworkNodes":\n"a"}]}', 3, "must be a list"),
        ('{"Instances": [\n{"InstanceId": "i", "NetworkNodes": [\n[]]}]}', 3, "list of texts"),
        ('{"Instances": [{"InstanceId": "i", "NetworkNodes": ["a", "i"]}]}', None, "of a host and of a switch"),
        ('{"Instances": [{"InstanceId": "i", "NetworkNodes": ["a", "b"]},\n{"InstanceId": "j", "NetworkNodes": ["b", "a"]}]}', None, "no tree"),
        ('{"Instances": [{"InstanceId": "i",\n"NetworkNodes": ["a"', 2, "cut short"),
    ],
)  # fmt: skip
def test_ec2_refused(text: str, line: int | None, words: str) -> None:
    """What is not the answer of DescribeInstanceTopology is an error, with the line of the value."""
    with pytest.raises(InputError, match=words) as caught:
        read(Source("f", text), "ec2")
    assert caught.value.line == line


def test_ec2_describe_instances_is_something_else() -> None:
    """DescribeInstances, which has Reservations, is not taken for it."""
    with pytest.raises(InputError, match="not recognised"):
        said_of({"Reservations": [{"Instances": [{"InstanceId": "i"}]}]})


def gce(name: str, status: Any = None, machine: str = "a3-ultragpu-8g") -> dict[str, Any]:
    url = f"https://www.googleapis.com/compute/v1/projects/p/zones/z/machineTypes/{machine}"
    return {"kind": "compute#instance", "name": name, "machineType": url, "resourceStatus": status}


def place(cluster: str, block: str, subblock: str, host: str) -> dict[str, Any]:
    return {"physicalHostTopology": {"cluster": cluster, "block": block, "subblock": subblock, "host": host}}


def test_gcp_topology() -> None:
    """Sub-block, block, cluster; the physical host is the instance's own and left out."""
    said = said_of([gce("v1", place("c", "b", "s1", "h1")), gce("v2", place("c", "b", "s2", "h2"))])
    assert tiers(said) == {"v1": 0, "v2": 0, "s1": 1, "s2": 1, "b": 2, "c": 3}
    assert said.nodes["v1"].nvl_domain == ""


def test_gcp_nvl72() -> None:
    """On A4X a sub-block is one NVLink domain."""
    said = said_of([gce("v1", place("c", "b", "s1", "h1"), "a4x-highgpu-4g")])
    assert said.nodes["v1"].nvl_domain == "s1"


def test_gcp_physical_host() -> None:
    """The older form is /cluster/rack/host, of the API or of a list of names."""
    said = said_of([gce("v1", {"physicalHost": "/c/r/h1"}), {"name": "v2", "physical_host": "/c/r/h2"}])
    assert cables(said) == {("r", "v1"), ("r", "v2"), ("c", "r")}


def test_gcp_without_place() -> None:
    """Stopped instances and other types have no place: UNKNOWN, not a switch called unknown."""
    said = said_of(
        [
            gce("v1", place("c", "b", "s", "h")),
            gce("v2"),
            gce("v3", {"physicalHost": "unknown"}),
            gce("v4", {}),
        ]
    )
    assert said.findings[0].evidence["names"] == ["v2", "v3", "v4"]


def test_gcp_shapes() -> None:
    """A list, a page with items, an aggregated list by zone, and one instance."""
    one = gce("v1", place("c", "b", "s", "h"))
    for value in ([one], {"kind": "compute#instanceList", "items": [one]}, {"items": {"zones/z": {"instances": [one]}, "zones/y": {}}}, one):  # fmt: skip
        assert said_of(value).to_fabric().hosts == ("v1",)
    page = {"kind": "compute#instanceList", "items": [one], "nextPageToken": "x"}
    assert "nextPageToken" in said_of(page).findings[0].what


def test_gcp_refused() -> None:
    """A physical host of one part is no path; an instance needs a name."""
    with pytest.raises(InputError, match="not /CLUSTER/RACK/HOST"):
        said_of([gce("v1", {"physicalHost": "h1"})])
    with pytest.raises(InputError, match="no name"):
        said_of([gce("", place("c", "b", "s", "h"))])


def oci(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"host{number}", "instanceId": f"i{number}", "localBlockId": f"l{number % 2}", "networkBlockId": "n", "hpcIslandId": "p", **more}  # fmt: skip


def kebab(host: dict[str, Any]) -> dict[str, Any]:
    return {"".join(f"-{c.lower()}" if c.isupper() else c for c in key): value for key, value in host.items()}


def test_oci_hosts() -> None:
    """Local block, network block, HPC island; a GPU memory fabric is an NVLink domain."""
    said = said_of({"items": [oci(0, gpuMemoryFabricId="f"), oci(1), oci(2, gpuMemoryFabricId=None)]})
    assert tiers(said) == {"i0": 0, "i1": 0, "i2": 0, "l0": 1, "l1": 1, "n": 2, "p": 3}
    assert [said.nodes[f"i{index}"].nvl_domain for index in range(3)] == ["f", "", ""]


def test_oci_spellings() -> None:
    """The command line writes keys with dashes, under data; both are the same."""
    hosts = [oci(0), oci(1)]
    api = said_of({"items": hosts})
    for value in (
        hosts,
        {"data": {"items": [kebab(host) for host in hosts]}},
        {"data": [kebab(host) for host in hosts]},
    ):
        assert cables(said_of(value)) == cables(api)


def test_oci_idle_host() -> None:
    """A compute host without an instance is left out, with the reason."""
    said = said_of({"items": [oci(0), oci(1, instanceId=None)]})
    assert said.dropped == {"host/host1": "no instance runs on this compute host"}
    assert said.to_fabric().hosts == ("i0",)


def test_oci_missing_layer() -> None:
    """A layer that is not told is left out: the host hangs under the next one."""
    assert cables(said_of({"items": [oci(0, localBlockId=None)]})) == {("i0", "n"), ("n", "p")}


def test_oci_error_names_the_line() -> None:
    """Also where the text spells a key otherwise than the API."""
    with pytest.raises(InputError, match="localBlockId must be a text") as caught:
        read(Source("f", '[\n{"instance-id": "i",\n"local-block-id": 7}]'))
    assert caught.value.line == 2


def test_oci_metadata() -> None:
    """Metadata by host name; without RDMA data only rack and network block are known; one without name is refused."""
    rdma = {
        "customerLocalBlock": "l",
        "customerNetworkBlock": "n",
        "customerHPCIslandId": "p",
        "customerGpuMemoryFabric": "f",
    }
    said = said_of({"g1": {"rackId": "r", "rdmaTopologyData": rdma}, "g2": {"rackId": "r2", "networkBlockId": "n", "rdmaTopologyData": None}})  # fmt: skip
    assert cables(said) == {("g1", "l"), ("l", "n"), ("n", "p"), ("g2", "r2"), ("n", "r2")}
    assert said.nodes["g1"].nvl_domain == "f"
    with pytest.raises(InputError, match="without its name"):
        said_of({"rackId": "r", "rdmaTopologyData": rdma})

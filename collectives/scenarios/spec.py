"""The keys of `scenario.toml`.

name = "incast beside all-to-all"

[fabric]
kind = "leaf-spine"         # or "fat-tree", "file"
leaves = 4                  # leaf-spine: with hosts_per_leaf, spines, parallel_uplinks, uplink_gbps
hosts_per_leaf = 4
spines = 4
k = 8                       # fat-tree: ports of a switch
file = "fabric.json"        # file: anything that `nettune discover` reads; beside the scenario
host_gbps = 100             # also for links of a file whose speed is not known
delay_us = 1                # of a cable, one way; also for links of a file that have none

[switch]
buffer_bytes = "32M"        # shared by all ports
reserve_bytes = 4096        # of each port and priority beside it
headroom_bytes = 0          # of each port and priority; by the formula of its link's rate and delay where left out
alpha = 0.125               # a port and priority pauses its neighbour at this part of what is free
xon_offset_bytes = 3072     # and lets it go on so far below
pfc = true

[transport]
mtu_bytes = 4096            # payload of a full packet
header_bytes = 82           # Ethernet with preamble and gap 38, IPv4 20, UDP 8, BTH 12, ICRC 4
ack_every = 1               # packets
selective_repeat = false    # otherwise go-back-N
timeout = 20                # exponent: 4.096 us x 2^timeout, as NCCL_IB_TIMEOUT
retry_count = 7
adaptive_us = 2000          # first time-out of adaptive retransmission; left out: always the whole one

[congestion]                # other keys of the preset may stand here, see collectives.congestion.parameters
preset = "mlx5-default"     # paper, hpcc-runpy, mlx5-default, barre, swift, hpcc, hybrid, pfc-only

[ecn]                       # kmin_bytes, kmax_bytes and pmax may stand here
preset = "hpcc-runpy"       # paper, hpcc-runpy, cumulus, sonic

[paths]
mode = "ecmp"               # drawn for each connection from the routing; or "spray" (each packet), "flowlet"
flowlet_gap_us = 50

[[cable]]                   # what is wrong with a cable; as many as there are
between = ["leaf0", "spine1"]
nth = 0                     # of parallel ones
gbps = 50
loss = 1e-5                 # part of its packets, both ways
down_us = 500               # it goes down, packets on it are lost, flows keep their paths
up_us = 900

[run]
seeds = 3                   # port draws, marking and jitter; percentiles are over these
limit_ms = 10000            # of simulated time
sample_us = 0               # between two samples of queues and rates; 400 a run where left out

[[job]]
name = "gradients"          # job0, job1, ... where left out
kind = "collective"         # or "incast", "permutation", "flows", "step"
hosts = "h[0-15]"           # ranks in this order; all hosts where left out
ranks_per_host = 1          # ranks of a host take its NICs in turn
start_us = 0
jitter_us = 0               # each rank begins up to this much later
iterations = 1
compute_us = 0              # between two iterations of a rank
connections = 1             # queue pairs of each message
priority = 0
size = "8M"                 # of a collective, or of each flow
algorithm = "ring"          # collective: with op, channels, chunks
op = "all_reduce"
to = "h0"                   # incast: the receiver; all other hosts send
shift = 1                   # permutation: rank i sends to i + shift
file = "job.toml"           # step: the job; flows: CSV with src,dst,bytes,start_us; beside the scenario
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from nettune.errors import InputError
from nettune.units import parse_size

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


def _size(value: Any) -> Any:
    """`4M` as bytes; what is no size is pydantic's to refuse."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except InputError as error:
        raise ValueError(str(error)) from None


Size = Annotated[int, BeforeValidator(_size), Field(ge=1, le=2**50)]
SizeOrNone = Annotated[int, BeforeValidator(_size), Field(ge=0, le=2**50)]
File = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f]*$")]
Whole = Annotated[int, Field(ge=1, le=2**20)]
Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class FabricTable(BaseModel):
    """`[fabric]`."""

    model_config = _STRICT

    kind: Literal["leaf-spine", "fat-tree", "file"] = "leaf-spine"
    leaves: Whole = 4
    hosts_per_leaf: Whole = 4
    spines: Annotated[int, Field(ge=0, le=2**20)] = 4
    parallel_uplinks: Whole = 1
    uplink_gbps: Positive | None = None
    k: Whole = 4
    file: File = ""
    host_gbps: Positive = 100.0
    delay_us: Time = 1.0


class SwitchTable(BaseModel):
    """`[switch]`, as `collectives.fabric_sim.network.SwitchSettings`."""

    model_config = _STRICT

    buffer_bytes: Size = 32 * 2**20
    reserve_bytes: SizeOrNone = 4096
    headroom_bytes: SizeOrNone | None = None
    alpha: Positive = 0.125
    xon_offset_bytes: SizeOrNone = 3072
    pfc: bool = True


class TransportTable(BaseModel):
    """`[transport]`, as `collectives.fabric_sim.network.Transport`."""

    model_config = _STRICT

    mtu_bytes: Annotated[int, BeforeValidator(_size), Field(ge=64, le=60_000)] = 4096
    header_bytes: Annotated[int, Field(ge=0, le=5000)] = 82
    ack_every: Annotated[int, Field(ge=1, le=60_000)] = 1
    selective_repeat: bool = False
    timeout: Annotated[int, Field(ge=0, le=31)] = 20
    retry_count: Annotated[int, Field(ge=0, le=1_000_000)] = 7
    adaptive_us: Positive | None = None


class CableTable(BaseModel):
    """One `[[cable]]`."""

    model_config = _STRICT

    between: Annotated[list[str], Field(min_length=2, max_length=2)]
    nth: Annotated[int, Field(ge=0)] = 0
    gbps: Positive | None = None
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    down_us: Time | None = None
    up_us: Time | None = None


class PresetTable(BaseModel):
    """A preset, and those of its values that are changed; these are checked where the preset is made."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def sizes(cls, values: Any) -> Any:
        """Read bytes written as `100K`."""
        if not isinstance(values, dict):
            return values
        return {
            key: _size(value) if key.endswith("_bytes") or key == "byte_counter" else value
            for key, value in values.items()
        }


class CongestionTable(PresetTable):
    """`[congestion]`."""

    preset: str = "mlx5-default"


class EcnTable(PresetTable):
    """`[ecn]`."""

    preset: str = "hpcc-runpy"


class PathsTable(BaseModel):
    """`[paths]`."""

    model_config = _STRICT

    mode: Literal["ecmp", "spray", "flowlet"] = "ecmp"
    flowlet_gap_us: Positive = 50.0


class RunTable(BaseModel):
    """`[run]`."""

    model_config = _STRICT

    seeds: Annotated[int, Field(ge=1, le=1000)] = 3
    limit_ms: Positive = 10_000.0
    sample_us: Time = 0.0


class JobTable(BaseModel):
    """One `[[job]]`."""

    model_config = _STRICT

    name: Annotated[str, Field(max_length=60, pattern=r"^[^/#\x00-\x1f]*$")] = ""
    kind: Literal["collective", "incast", "permutation", "flows", "step"]
    hosts: str = ""
    ranks_per_host: Annotated[int, Field(ge=1, le=64)] = 1
    start_us: Time = 0.0
    jitter_us: Time = 0.0
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 1
    compute_us: Time = 0.0
    connections: Annotated[int, Field(ge=1, le=128)] = 1
    priority: Annotated[int, Field(ge=0, le=7)] = 0
    size: Size = 2**20
    algorithm: str = "ring"
    op: str = "all_reduce"
    channels: Annotated[int, Field(ge=1, le=64)] = 1
    chunks: Annotated[int, Field(ge=1, le=4096)] = 1
    to: str = ""
    shift: int = 1
    file: File = ""


class ScenarioFile(BaseModel):
    """The whole file."""

    model_config = _STRICT

    name: Annotated[str, Field(max_length=100)] = "scenario"
    fabric: FabricTable = FabricTable()
    switch: SwitchTable = SwitchTable()
    transport: TransportTable = TransportTable()
    congestion: CongestionTable = CongestionTable()
    ecn: EcnTable = EcnTable()
    paths: PathsTable = PathsTable()
    cable: list[CableTable] = []
    run: RunTable = RunTable()
    job: Annotated[list[JobTable], Field(min_length=1)]

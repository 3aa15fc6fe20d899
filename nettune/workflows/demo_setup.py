"""What the demo runs on: its fabrics, its jobs, and how much of each measurement fits into three minutes."""

from __future__ import annotations

from dataclasses import dataclass, field

from collectives.bench import Method
from collectives.job import JobSpec
from nettune.lab import LabSpec
from nettune.trainer.config import GPTConfig, TrainConfig
from sweeps.knob import Knob

# Two hosts each of four racks of a larger cluster: names as a scheduler hands them out, which sort as strings
# into another order than the cabling's.
HOST_NAMES = ("node1", "node2", "node9", "node10", "node17", "node18", "node25", "node26")
LINK_RATE = "200mbit"
MESSAGE_BYTES = 4 << 20
SIZES_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)

FAULTS = {
    "slow-link": "a link between a leaf and a spine at 40% of its rate",
    "one-way-slow": "one direction of a link at 40% of its rate",
    "lossy-link": "a link that drops 1% of its packets",
    "mtu": "one end of a link with a smaller MTU",
    "link-down": "a link without carrier",
    "flap": "a link that goes down for 50 ms twice a second",
    "straggler": "a host with a fifth of a CPU",
    "spine-out": "a spine that is out of service",
    "miswire": "a host's second rail cabled to the wrong leaf",
}


def main_fabric(name: str) -> LabSpec:
    """4 leaves x 2 hosts, 2 spines, full bisection."""
    return LabSpec(
        name=name,
        leaves=4,
        spines=2,
        hosts_per_leaf=2,
        host_rate=LINK_RATE,
        uplink_rate=LINK_RATE,
        host_names=HOST_NAMES,
    )


def second_fabric(name: str) -> LabSpec:
    """2 leaves x 4 hosts, 2 spines, uplinks at half the hosts' rate: 4:1 oversubscribed."""
    return LabSpec(
        name=name,
        leaves=2,
        spines=2,
        hosts_per_leaf=4,
        host_rate=LINK_RATE,
        uplink_rate="100mbit",
        host_names="node{n}",
    )


def rail_fabric(name: str) -> LabSpec:
    """2 pods x 4 hosts with two rails, each rail on a leaf of its own: a vote on cabling needs voters."""
    return LabSpec(
        name=name, leaves=4, spines=2, hosts_per_leaf=4, rails=2, rail_wiring="per-rail", host_rate=LINK_RATE,
        uplink_rate=LINK_RATE, host_names="node{n}",
    )  # fmt: skip


SECOND_JOB = JobSpec(name="pp2 x dp4", pp=2, dp=4, order="tp-pp-dp", dp_bytes=4 << 20, pp_bytes=256 << 10)
"""Pipeline neighbours have neighbouring ranks, so every gradient ring takes each second rank: leaf by leaf is wrong."""

TRAIN = TrainConfig(model=GPTConfig.from_depth(4), batch_per_rank=1)
KNOB = Knob("bucket_cap_mib", (25.0, 1.0, 0.5), 25.0)
"""DDP's bucket size; 25 MiB is torch's default and puts all gradients of this model into one all-reduce."""


@dataclass(frozen=True)
class Effort:
    """How much is measured; the default fits three minutes on two cores.

    Attributes:
        bench: of the comparison of orders.
        second: of the second fabric.
        sweep_inits: initialisations of each value of the knob.
        train_inits: initialisations of each order.
        train_steps: measured steps in each.
    """

    bench: Method = field(default_factory=lambda: Method(inits=5, repeats=2))
    second: Method = field(default_factory=lambda: Method(inits=5, repeats=2))
    sweep_inits: int = 3
    train_inits: int = 5
    train_steps: int = 4

"""A report with every kind of part, made up; run it to look at one: `python tests/reports/sample_report.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.stats import Interval, bootstrap_median
from reports.charts.busbw_against_size import SizeSeries, busbw_against_size
from reports.charts.fabric_map import MapView, fabric_maps
from reports.charts.heat_map import heat_map
from reports.charts.load_histogram import load_histogram
from reports.charts.measured_against_predicted import LinkRow, measured_against_predicted
from reports.charts.orders_bar import OrderBar, orders_bar
from reports.charts.step_breakdown import StepParts, step_breakdown
from reports.charts.sweep_curve import SweepPoint, sweep_curve
from reports.document import Column, Figure, Findings, KeyFigure, Report, Section, Table, Text, Verdict
from topology.builder import FabricBuilder
from topology.fabric import Fabric, NodeKind

LINK_GBPS = 0.1
ORDERS = ("nettune", "depth-first", "lexicographic", "random")


def clos(
    leaves: int = 4, hosts_per_leaf: int = 2, spines: int = 2, parallel: int = 1, rails: int = 1
) -> Fabric:
    """Hosts h0.., leaves, spines; with several rails each group of `rails` leaves shares its hosts."""
    builder = FabricBuilder()
    groups = leaves // rails
    for host in range(groups * hosts_per_leaf):
        builder.node(f"h{host}", NodeKind.HOST)
    for kind, count in (("leaf", leaves), ("spine", spines)):
        for number in range(count):
            builder.node(f"{kind}{number}", NodeKind.SWITCH)

    def cable(*ends: tuple[str, str]) -> None:
        for node, port in ends:
            rail = int(port[3:]) if port.startswith("eth") else -1
            builder.port(node, port, speed_gbps=LINK_GBPS, rail=rail)
        builder.link(*ends)

    for host in range(groups * hosts_per_leaf):
        for rail in range(rails):
            leaf = host // hosts_per_leaf * rails + rail
            cable((f"h{host}", f"eth{rail}"), (f"leaf{leaf}", f"d{host % hosts_per_leaf}"))
    for leaf in range(leaves):
        for uplink in range(spines * parallel):
            spine, lane = divmod(uplink, parallel)
            cable((f"leaf{leaf}", f"u{uplink}"), (f"spine{spine}", f"d{leaf * parallel + lane}"))
    return builder.build(["made up"])


def sample_report(seed: int = 0) -> Report:
    """All parts, numbers like those of the emulated fabric."""
    rng = np.random.default_rng(seed)
    fabric = clos()
    hosts = list(fabric.hosts)
    uplinks = np.array(["spine" in fabric.directed_name(link) for link in range(fabric.directed_count)])
    ours = np.where(uplinks, rng.choice([0.0, 7.34e6], fabric.directed_count), 7.34e6)
    random = np.where(uplinks, rng.integers(0, 5, fabric.directed_count) * 7.34e6, 7.34e6)
    centres = dict(zip(ORDERS, (0.0928, 0.0921, 0.0712, 0.0461), strict=True))
    inits = {
        name: rng.normal(centre, 0.002 + 0.06 * (0.0928 - centre), 5).tolist()
        for name, centre in centres.items()
    }
    bars = [
        OrderBar(name, bootstrap_median([[v] for v in inits[name]]), inits[name], name == "nettune")
        for name in ORDERS
    ]
    return Report(
        title="nettune demo: what the network gives, and what it gave before",
        subtitle="Emulated fabric: 4 leaves x 2 hosts, 2 spines, 100 Mbit/s links; 8 ranks, gloo over TCP; seed 0",
        verdict=Verdict(Status.PASS, "Nettune's order doubles the busbw of a random order and cuts the step by 31 %"),
        summary=[
            KeyFigure(
                "All-reduce busbw, 4 MiB",
                "92.8 Mbit/s",
                "95 % interval 91.0 to 93.4; random order 46.1 (43.0 to 61.2); 5 initialisations each",
                Status.PASS,
            ),
            KeyFigure("MFU", "+7.9 points", "95 % interval +6.8 to +8.9 against the random order", Status.PASS),
            KeyFigure("Step time", "0.482 s", "random order 0.701 s; -31 % (-34 to -28)", Status.PASS),
            KeyFigure("Share of the link rate", "93 %", "goal 85 %"),
        ],
        sections=[
            Section("Before and after", "The same ranks on the same hosts in another order.", [_before_after()]),
            Section(
                "Where the bytes go",
                "A random order sends most hops through the spines, where hashing piles them onto few cables.",
                [_maps(fabric, random, ours), *_loads(fabric, random, ours, uplinks, rng)],
            ),
            Section(
                "Bandwidth",
                "Each bar is the median over fresh initialisations, which draw new ports and so new paths.",
                [
                    orders_bar(bars, link_rate_gbps=LINK_GBPS, caption="Busbw at 4 MiB by order; dots are initialisations."),
                    busbw_against_size(_sizes(centres), link_rate_gbps=LINK_GBPS, caption="Busbw against message size."),
                    orders_bar(
                        [OrderBar("nettune", Interval(0.081, 0.079, 0.083), (0.08, 0.082), own=True),
                         OrderBar("depth-first", Interval(0.055, 0.05, 0.061), (0.05, 0.06))],
                        caption="Second fabric: two rails, PP x DP; depth-first is not best there.", wide=False,
                    ),
                    sweep_curve(
                        [SweepPoint(v, Interval(t, t - 0.011, t + 0.012))
                         for v, t in (("1", 0.531), ("2", 0.502), ("4", 0.482), ("8", 0.489), ("25", 0.517))],
                        knob="DDP bucket size [MiB]", kept="4", default="25", caption="Sweep of the bucket size.",
                    ),
                ],
            ),
            Section(
                "Training",
                "Communication that compute does not hide is what the order saves.",
                [
                    step_breakdown(
                        [StepParts("nettune", 0.391, 0.071, 0.02, Interval(0.253, 0.249, 0.257), own=True),
                         StepParts("random", 0.393, 0.286, 0.022, Interval(0.174, 0.166, 0.181))],
                        caption="Median step of rank 0, 40 steps each, interleaved.",
                    ),
                ],
            ),
            Section("Qualification", "Every host and link by real transfers.", [_heat(hosts, rng), Findings(_findings())]),
            Section("Method", "", [_method()]),
        ],
        meta={
            "command": "nettune demo --seed 0",
            "nettune": "0.1.0",
            "machine": "Linux 6.18, 2 CPU cores, Python 3.11, torch 2.13.0, gloo",
            "peak": "18.4 GFLOP/s over 8 ranks, float32 matrix product, all ranks at once",
        },
    )  # fmt: skip


def _maps(fabric: Fabric, random: np.ndarray, ours: np.ndarray) -> Figure:
    shuffled = [3, 6, 0, 5, 2, 7, 1, 4]
    return fabric_maps(
        fabric,
        [
            MapView("random order", random / 1e6, {f"h{i}": f"rank {r}" for i, r in enumerate(shuffled)}),
            MapView(
                "nettune's order",
                ours / 1e6,
                {f"h{i}": f"rank {i}" for i in range(8)},
                [ElementId.host("h5")],
            ),
        ],
        quantity="sent per all-reduce [MB]",
        caption="Bytes on every cable in each direction during one 4 MiB all-reduce, from the kernel's counters.",
    )


def _loads(
    fabric: Fabric, random: np.ndarray, ours: np.ndarray, uplinks: np.ndarray, rng: np.random.Generator
) -> list[Figure]:
    rows = [
        LinkRow(
            fabric.directed_name(link), float(ours[link]), float(ours[link] * rng.normal(1.012, 0.004) + 9e4)
        )
        for link in range(fabric.directed_count)
    ]
    return [
        measured_against_predicted(
            rows, caption="Predicted from the schedule and the hash, read from the counters."
        ),
        load_histogram(
            {"random": random[uplinks], "nettune": ours[uplinks]},
            own="nettune",
            caption="Load of the 16 uplink directions.",
            wide=True,
        ),
    ]


def _sizes(centres: dict[str, float]) -> list[SizeSeries]:
    sizes = [2**power for power in range(16, 23)]
    return [
        SizeSeries(
            name,
            sizes,
            [Interval(v, 0.95 * v, 1.03 * v) for v in (centre * size / (size + 120_000) for size in sizes)],
            name == "nettune",
        )
        for name, centre in centres.items()
    ]


def _heat(hosts: list[str], rng: np.random.Generator) -> Figure:
    matrix = rng.normal(0.0935, 0.0008, (8, 8))
    matrix[5, :] *= 0.5
    matrix[2, 3] = np.nan
    leaves = [f"leaf{index // 2}" for index in range(8)]
    caption = "One TCP stream at a time between each pair; h5 sends at half the rate to everybody."
    return heat_map(matrix, hosts, leaves=leaves, marked=["h5"], quantity="TCP bandwidth", caption=caption)


def _before_after() -> Table:
    columns = [
        Column("order"),
        Column("busbw 4M", "Mbit/s", "max", 1),
        Column("step time", "s", "min", 3),
        Column("MFU", "%", "max", 1),
        Column("peak link", "MB", "min"),
    ]
    rows = [
        ("nettune", Interval(92.8, 91.0, 93.4), 0.482, 25.3, 7.34),
        ("depth-first", Interval(92.1, 90.8, 93.0), 0.484, 25.2, 7.34),
        ("lexicographic", Interval(71.2, 61.0, 77.9), None, None, 14.7),
        ("random", Interval(46.1, 43.0, 61.2), 0.701, 17.4, 29.4),
    ]
    return Table(
        "Before and after: medians with 95 % intervals over initialisations", columns, rows, own=0, brief=True
    )


def _findings() -> list[Finding]:
    slow = Finding(
        check="link-rate",
        status=Status.FAIL,
        where=ElementId.nic("h5", "eth0"),
        what="sends at 46.8 Mbit/s to every host, nominal 100 Mbit/s; receives at 93.6",
        probability=0.97,
        fix="Drain h5; check its cable and its transmit settings.",
    )
    unread = Finding(
        check="mtu",
        status=Status.UNKNOWN,
        where=ElementId.link("leaf0", "u1", "spine1", "d0"),
        what="no answer from spine1 to probes of 9000 bytes",
        required=False,
        fix="Allow ICMP on spine1.",
    )
    good = [
        Finding(check="link-rate", status=Status.PASS, where=ElementId.host(f"h{i}"), what="93.5 Mbit/s")
        for i in range(8)
        if i != 5
    ]
    return [*good, unread, slow]


def _method() -> Text:
    return Text(
        "Orders were measured interleaved. The unit of replication is the initialisation of the communicator.",
        [
            "Intervals: two-stage bootstrap over initialisations, 95 %.",
            "MFU: 6 N D FLOP a step (weights times tokens) over the measured peak of all ranks together.",
            "busbw = algbw x 2 (n - 1) / n, as nccl-tests defines it.",
        ],
        "nettune bench --orders nettune,random --size 4M --inits 5\nnettune train --ab nettune,random",
    )


if __name__ == "__main__":
    from reports import html, text

    Path(sys.argv[1]).write_text(html.render(sample_report()), encoding="utf-8")
    text.write(text.render(sample_report(), footer=[f"report  {sys.argv[1]}"]), sys.stdout)

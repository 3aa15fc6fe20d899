"""Every number that a check compares with, each with where it came from; a file can set another value.

What is not here is derived: the rate of a port from its peers of the same model, the width of a PCIe link from the two
ends of it, settings from the majority, the power of an optical module from the range that it states itself.
"""

from __future__ import annotations

from nettune.qualify.thresholds import Threshold

LIMITS: dict[str, Threshold] = {
    "majority-share": Threshold(
        0.5, "share of votes", "a majority is more than half; at a tie nothing is claimed"
    ),
    "majority-voters": Threshold(3, "hosts", "two that differ do not say which is wrong"),
    "active-share": Threshold(
        0.66,
        "share of ports of a model",
        "second ports of a card are uncabled in halves; a lost rail is one of many",
    ),
    "flaps-per-day": Threshold(
        5, "events in 24 h", "azurehpc-health-checks: lost carrier 5 times in 24 h of syslog"
    ),
    "link-downed": Threshold(
        0, "events between two captures", "nvidia-resiliency-ext, NVSentinel: any is a fault"
    ),
    "symbol-errors": Threshold(120 / 3600, "errors/s", "NVSentinel symbol_error_fatal: 120 an hour"),
    "link-recoveries": Threshold(5 / 60, "events/s", "NVSentinel link_error_recovery: 5 a minute"),
    "receive-errors": Threshold(10, "errors/s", "NVSentinel port_rcv_errors: 10 a second"),
    "transmit-discards": Threshold(100, "packets/s", "NVSentinel port_xmit_discards: 100 a second"),
    "ack-timeouts": Threshold(1, "events/s", "NVSentinel local_ack_timeout_err: 1 a second"),
    "slow-restarts": Threshold(10, "events/s", "NVSentinel roce_slow_restart: 10 a second"),
    "receive-discards": Threshold(
        100, "packets", "oci-dr-hpc-v2 rx_discards: 100; here between two captures"
    ),
    "cnp-share": Threshold(
        0.05, "CNPs per received packet", "own figure: above it senders are slowed down nearly all the time"
    ),
    "effective-ber": Threshold(1e-12, "errors per bit", "oci-dr-hpc-v2: effective BER 1e-12"),
    "raw-ber": Threshold(1e-5, "errors per bit", "oci-dr-hpc-v2: raw BER 1e-5"),
    "raw-ber-harmless": Threshold(
        1e-7, "errors per bit", "oci-hpc: remarks on signal integrity do not count below"
    ),
    "optics-margin": Threshold(
        1.0, "dB", "sichek: power margins of 1 to 3 dB; beside the module's own alarm range"
    ),
    "correctable-aer": Threshold(100, "errors between two captures", "ROCm/cvs: more than 100 PCIe errors"),
    "read-request": Threshold(4096, "bytes", "sichek, oci-hpc: MaxReadReq of fast NICs"),
    "pcie-ratio": Threshold(
        0.99, "share of capability", "the kernel prints both figures; equal but for rounding"
    ),
    "ecc-correctable": Threshold(20_000_000, "errors", "azurehpc-health-checks: DRAM correctable"),
    "ecc-sram-correctable": Threshold(10_000, "errors", "azurehpc-health-checks: SRAM correctable"),
    "memlock": Threshold(64 << 20, "KiB", "as good as unlimited; 64 KiB, the default, stops ibv_reg_mr"),
    "shm": Threshold(8 << 20, "KiB", "ROCm/cvs node smoke test: /dev/shm of 8 GiB"),
    "rdma-mtu": Threshold(
        4200,
        "bytes",
        "IB MTU 4096 and its headers need about 4200 (unverified); below, verbs fall back to 2048 or less",
    ),
    "slow-warn": Threshold(
        0.035, "share below the usual", "ai-infrastructure-on-azure: GEMM 3.5% below is a warning"
    ),
    "slow-fail": Threshold(
        0.07, "share below the usual", "ai-infrastructure-on-azure: GEMM 7% below: the node is given back"
    ),
    "outlier": Threshold(
        3.0,
        "standard deviations",
        "ai-infrastructure-on-azure: beyond 3 drain; by the median deviation / 0.6745",
    ),
    "busy-cpu": Threshold(0.25, "share of CPUs", "own figure: system services of an idle host use less"),
    "busy-gpu": Threshold(0.10, "share of time", "own figure: an idle GPU shows 0%"),
    "less-memory": Threshold(
        0.03,
        "share below the usual",
        "own figure: less than one module of 32, more than what a kernel reserves",
    ),
    "prio-bytes": Threshold(
        1 << 30, "bytes", "own figure: less traffic says nothing about the priority in use"
    ),
}

"""Damaged and hostile captures: never a traceback, never a claim about a name that no element can have."""

from __future__ import annotations

import json
import os
import random

from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Status
from nettune.qualify.checks import Context, judge
from nettune.qualify.checks.parsers import (
    ethernet,
    gids,
    kernel,
    mlxlink,
    numbers,
    nvidia,
    pci,
    qos,
    rdma,
    topo,
)
from topology.capture import Captured, CaptureState, HostCapture

ROUNDS = int(os.environ.get("NETTUNE_FUZZ_CAPTURES", "300"))
PARSERS = (
    rdma.ibstat, rdma.ibstatus, rdma.devinfo, rdma.rdma_link, rdma.rdma_statistic, rdma.panic, gids.show_gids,
    gids.devinfo_gids, qos.mlnx_qos, qos.global_tclass, ethernet.statistics, ethernet.pause,
    ethernet.speed_gbps, ethernet.module_readings, lambda text: ethernet.bond("b", text), pci.lspci, nvidia.listed,
    nvidia.query, nvidia.nvlinks, nvidia.nvlink_errors, topo.gpu_links, mlxlink.mlxlink, kernel.xids, kernel.limited_links,
    kernel.link_downs, lambda text: list(kernel.messages(text)), numbers.whole, numbers.real, numbers.rate_gbps,
)  # fmt: skip
ODD = ("", "N/A", "-1", "99999999999999999999999999", "\x00", "\ud800", "4: ACTIVE", "²", "٣", "[]", "{}", "[{}]",
       "[" * 3000, '{"a":' * 500, "nan", "1e999", "0x", ": : :", "GPU 0:", "\t\t", "../../etc", "$(reboot)")  # fmt: skip


@given(st.text(max_size=400))
def test_parsers_read_any_text(text):
    """No parser raises on any text."""
    for parse in PARSERS:
        parse(text)


def test_parsers_read_cut_and_spliced_samples(shared):
    """No parser raises on pieces of real outputs put together wrongly."""
    rng = random.Random(7)
    folders = (
        "ibstat",
        "ibv_devinfo",
        "rdma_link",
        "show_gids",
        "mlnx_qos",
        "mlxlink",
        "lspci",
        "nvidia-smi-q",
        "dmesg",
    )
    texts = [
        path.read_text(errors="replace")[:20_000]
        for folder in folders
        for path in sorted((shared / "samples" / folder).glob("*.txt"))
    ]
    for _ in range(60):
        one, two = rng.choice(texts), rng.choice(texts)
        cut = one[rng.randrange(len(one) + 1) :][:4000] + two[: rng.randrange(4000)]
        for parse in PARSERS:
            parse(cut)


def mutated(rng, capture, donors):
    """Return a capture with some of its sources damaged."""
    tables = {}
    for table in ("files", "commands"):
        entries = dict(getattr(capture, table))
        for name in rng.sample(sorted(entries), min(len(entries), rng.randrange(1, 12))):
            text = entries[name].text
            kind = rng.randrange(8)
            if kind == 0:
                entries[name] = Captured(
                    rng.choice(list(CaptureState)), text[: rng.randrange(len(text) + 1)], "x"
                )
            elif kind == 1:
                del entries[name]
            elif kind == 2:
                entries[name] = Captured(CaptureState.OK, rng.choice(ODD))
            elif kind == 3:
                entries[name] = rng.choice(donors)
            elif kind == 4:
                place = rng.randrange(len(text) + 1)
                entries[name] = Captured(CaptureState.OK, text[:place] + rng.choice(ODD) + text[place:])
            elif kind == 5:
                entries[name] = Captured(
                    CaptureState.OK, "".join(rng.sample(text.splitlines(True), len(text.splitlines())))
                )
            elif kind == 6:
                renamed = name.replace("mlx5_1", rng.choice(("a b", "x--y", "é", "mlx5_1;ls"))).replace(
                    "eth1", "e 1"
                )
                entries[renamed] = entries.pop(name)
            else:
                digits = str(rng.randrange(1 << 40))
                entries[name] = Captured(
                    CaptureState.OK, "".join(digits if c.isdigit() else c for c in text)[:100_000]
                )
        tables[table] = entries
    return HostCapture(capture.host, capture.role, tables["files"], tables["commands"])


SWITCH = {
    "PORT": {f"Ethernet{n}": {"mtu": "9100", "alias": f"etp{n}"} for n in range(3)},
    "DSCP_TO_TC_MAP": {"R": {"26": "3", "48": "6"}},
    "TC_TO_QUEUE_MAP": {"R": {"3": "3"}},
    "WRED_PROFILE": {"ECN": {"ecn": "ecn_all"}},
    "QUEUE": {f"Ethernet{n}|3-4": {"wred_profile": "[WRED_PROFILE|ECN]"} for n in range(3)},
    "PORT_QOS_MAP": {f"Ethernet{n}": {"dscp_to_tc_map": "R", "pfc_enable": "3,4"} for n in range(3)},
    "DEVICE_NEIGHBOR": {
        "Ethernet1": {"name": "h1", "port": "eth2"},
        "Ethernet2": {"name": "leaf2", "port": "Ethernet2"},
    },
}
RUN = (
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "  1024  256  float  sum  -1  10.0  0.1  0.2  0  10.0  0.1  0.2  0\n# Out of bounds values : 0 OK\n"
)


def test_mutated_captures_are_judged_without_a_traceback(sound, capture_of, shared):
    """Captures with damaged, exchanged, cut and renamed sources give findings (NETTUNE_FUZZ_CAPTURES of them)."""
    rng = random.Random(11)
    lspci = (shared / "samples/lspci/lspci-vvv_full_host.txt").read_text()[60_000:90_000]
    more = {
        "all_reduce_perf -g 8": RUN,
        "nproc": "64\n",
        "nvidia-smi topo -m": "\tGPU0\tGPU1\nGPU0\t X \tNV18\n",
    }
    files = {
        "/proc/loadavg": "0.5 0.4 0.3 1/900 1\n",
        "/proc/meminfo": "MemTotal: 1024 kB\n",
        "/etc/nccl.conf": "NCCL_IB_TC=106\n",
    }
    captures = [
        sound(0, files=files, commands=more),
        sound(1, files=files, commands={"lspci -Dvvv": lspci, **more}),
        sound(2, layer="InfiniBand"),
        capture_of({"/etc/sonic/config_db.json": json.dumps(SWITCH)}, host="leaf2"),
    ]
    donors = [entry for capture in captures for entry in capture.commands.values()]
    env = {"NCCL_IB_HCA": "mlx5", "NCCL_IB_TC": "106", "NCCL_IB_GID_INDEX": "3"}
    for number in range(0, ROUNDS, len(captures)):
        damaged = [mutated(rng, capture, donors) for capture in captures]
        before = {capture.host: mutated(rng, capture, donors) for capture in captures}
        context = Context(
            before=before,
            baseline=before if number % 8 else {},
            job_env=env if number % 16 else None,
            switches={"leaf1": mutated_tables(rng), "leaf2": SWITCH} if number % 12 else {},
        )
        assert judge(damaged, context)


def mutated_tables(rng):
    """Return a config_db with a row or a value exchanged for something else."""
    config = json.loads(json.dumps(SWITCH))
    for _ in range(rng.randrange(1, 6)):
        table = rng.choice(list(config))
        odd = rng.choice(
            [None, 3, -1, [], {}, "x", "3-99999999", ["R"], {"R": "R"}, "\ud800", "a--b", "9" * 40]
        )
        if rng.randrange(2) and isinstance(config[table], dict) and config[table]:
            row = rng.choice(list(config[table]))
            if isinstance(config[table][row], dict) and config[table][row] and rng.randrange(2):
                config[table][row][rng.choice(list(config[table][row]))] = odd
            else:
                config[table][str(odd) if rng.randrange(2) else row] = odd
        else:
            config[table] = odd
    return config


def test_hostile_switch_configurations_are_read(capture_of):
    """Tables that are lists, numbers as names, references to nothing: findings, no traceback."""
    values: list[object] = [
        None,
        3,
        [],
        {},
        "x",
        {"Ethernet0|3": 1},
        {"Ethernet0": {"dscp_to_tc_map": ["a"], "pfc_enable": 4}},
    ]
    tables = ("PORT_QOS_MAP", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "QUEUE", "WRED_PROFILE")
    rng = random.Random(3)
    for _ in range(200):
        config = {table: rng.choice(values) for table in tables}
        context = Context(job_env={"NCCL_IB_TC": "106"}, switches={"leaf 1": config, "leaf2": config})
        assert judge([capture_of()], context)


def test_names_that_no_element_can_have_are_refused(capture_of):
    """A host with blanks or slashes in its name is left out with a finding; a shell's characters stay text."""
    text = "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n"
    captures = [
        capture_of(commands={"ibstat": text}, host=name) for name in ("a b", "a/b", "$(reboot)", "x;y", "x;y")
    ]
    findings = judge(captures)

    assert {f.where.node for f in findings if f.check == "port-state"} == {"$(reboot)", "x;y"}
    assert sum(f.check == "captures" and f.status is Status.UNKNOWN for f in findings) == 3


def test_nothing_to_judge_is_not_a_pass():
    """No capture, and a capture without anything, give UNKNOWN."""
    for captures in ([], [HostCapture("h0", "host")]):
        (finding,) = judge(captures)
        assert finding.status is Status.UNKNOWN
        assert finding.required

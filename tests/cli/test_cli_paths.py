"""`nettune discover paths`: text, JSON keys, the table, chosen ports, exit codes, and what is said of bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.lab


def test_what_will_be_sent_is_told_and_the_result_fits_80_columns(inside, small, home):
    """Packets, bytes, ports, DSCP, pace and time before anything is sent; then paths, fits, chosen ports, the table's file."""
    done = inside("discover", "paths", "--lab", small, "--ports", "32", "--steer", "4", "-o", "table.json")
    assert done.code == 0, done.stderr
    said = next(line for line in done.stderr.splitlines() if line.startswith("will send "))
    for words in (
        "192 UDP packets of 37 bytes",
        "at most 576",
        "port 4791, DSCP 26",
        "packets/s",
        "of 2 hosts, at most",
    ):
        assert words in said
    lines = done.stdout.splitlines()
    assert lines[0] == "Paths of source ports"
    assert any(line.split()[:4] == ["paths", "64", "of", "64"] for line in lines)
    assert "chosen ports" in done.stdout
    assert any(line.startswith("table   table.json") for line in lines)
    assert all(len(line) <= 80 for line in lines if not line.startswith(("report", "table", "run")))
    table = json.loads((home / "table.json").read_text(encoding="utf-8"))
    assert table["schema"] == "nettune.paths/1"
    for pair in table["steering"]["pairs"]:
        (known,) = (
            one["ports"] for one in table["pairs"] if (one["src"], one["dst"]) == (pair["src"], pair["dst"])
        )
        used = [known[str(port)][1] for port in pair["sports"]]
        assert {used.count(link) for link in used} == {2}


def test_json_keys(inside, small):
    """Paths by pair and port, the fits, the findings; steering only where asked for."""
    pair = "node1>node2"
    done = inside("discover", "paths", "--lab", small, "--pair", pair, "--pair", pair, "--ports", "8", "--protocol", "tcp",
                  "--dport", "5000", "--dscp", "0", "--output", "json")  # fmt: skip
    assert done.code == 0, done.stderr
    assert {
        "schema",
        "verb",
        "status",
        "exit_code",
        "probed",
        "learned",
        "findings",
        "paths",
        "table",
        "report",
    } <= set(done.json)
    assert "steering" not in done.json
    (only,) = done.json["paths"]
    assert (only["src"], only["dst"]) == ("host/node1/nic/eth0", "host/node2/nic/eth0")
    assert len(only["ports"]) == 8
    assert {len(path) for path in only["ports"].values()} == {4}
    assert (done.json["probed"]["flows"], done.json["probed"]["as_predicted"]) == (8, 8)


def test_the_fitted_hashes_can_be_linted(inside, small, home):
    """The run's result.json is a fabric with the hashes that probing found."""
    done = inside("discover", "paths", "--lab", small, "--output", "json")
    result = f"{done.json['run_dir']}/result.json"
    linted = inside("lint", "ecmp", "--fabric", result, "--output", "json")
    assert linted.code == 0, linted.stderr
    status = {finding["check"]: finding["status"] for finding in linted.json["findings"]}
    assert status["ecmp-polarization"] == "PASS"


def test_silent_routers_and_their_counters(inside, small, home):
    """No answer from any router: exit 2, and what else to try, which then finds every path; a file of readings does too."""
    from nettune.lab import Lab

    lab = Lab.load(small)
    rules = "table inet silent { chain out { type filter hook output priority 0 ; icmp type time-exceeded drop ; } ; }"
    asked = ["discover", "paths", "--lab", small, "--pair", "node1>node2", "--ports", "8", "--rate", "5000"]
    try:
        for switch in lab.switches:
            assert lab.exec(switch, ["nft", rules]).returncode == 0
        silent = inside(*asked)
        told = inside(*asked, "--by", "counters", "--steer", "2", "--output", "json")
    finally:
        for switch in lab.switches:
            lab.exec(switch, ["nft", "delete table inet silent"])
        lab.close()
    assert silent.code == 2
    assert "none has a path that is known to its end" in silent.stdout
    assert "--by counters" in silent.stdout
    assert told.code == 0, told.stderr
    assert "will send 960 UDP packets of 37 bytes" in told.stderr
    assert "read the counters of" in told.stderr
    assert (told.json["probed"]["complete"], told.json["probed"]["as_predicted"]) == (8, 8)
    (pair,) = told.json["paths"]
    rows = [
        f"node1,node2,{sport},100,{link.split('>')[0]},0,100"
        for sport, path in pair["ports"].items()
        for link in path[1:-1]
    ]
    (home / "readings.csv").write_text(
        "src,dst,sport,packets,port,before,after\n" + "\n".join(rows), encoding="utf-8"
    )
    read = inside("discover", "paths", "--lab", small, "--captures", "readings.csv", "--output", "json")
    assert read.code == 0, read.stderr
    assert "will send" not in read.stderr
    assert read.json["paths"] == told.json["paths"]


MISTAKES = {
    "no arrow": (["--pair", "node1"], "write it like 'h0>h5'"),
    "two arrows": (["--pair", "node1>node2>node1"], "write it like 'h0>h5'"),
    "empty pair": (["--pair", ""], "write it like 'h0>h5'"),
    "unknown host": (["--pair", "node1>node3"], "the fabric has no node 'node3'"),
    "unknown port": (["--pair", "node1:eth7>node2"], "the fabric has no port 'eth7' on 'node1'"),
    "a switch": (["--pair", "leaf0>node1"], "leaf0 is no host"),
    "several hosts": (["--pair", "node[1-2]>node10"], "'node[1-2]' is not one host"),
    "one host": (["--pair", "node1>node1"], "are of one host"),
    "past the last port": (["--ports", "60000"], "60000 source ports from 49152 on go past 65535"),
    "too much": (["--first-port", "1", "--ports", "65535", "--pair", "node1>node2", "--pair", "node2>node1"], "more than 1,000,000"),
    "no port": (["--ports", "0"], "greater than or equal to 1"),
    "protocol": (["--protocol", "icmp"], "'icmp' cannot be probed; choose one of tcp, udp"),
    "DSCP": (["--dscp", "64"], "less than or equal to 63"),
    "steer without ports": (["--steer", "9", "--ports", "8"], "--steer 9 needs as many --ports, not 8"),
    "seeds": (["--seeds", "9-3"], "write it like 70000 or 65536-131071"),
    "too many seeds": (["--seeds", "0-4294967295"], "at most 1,048,576 are tried at a time"),
    "method": (["--by", "snmp"], "--by 'snmp' is not known; choose one of ttl, counters"),
    "burst": (["--by", "counters", "--burst", "7"], "greater than or equal to 8"),
    "bursts too large": (["--by", "counters", "--burst", "100000"], "more than 1,000,000: ask for fewer ports or pairs, or smaller bursts"),
    "pair and readings": (["--captures", "r.csv", "--pair", "node1>node2"], "give --captures or --pair, not both"),
    "no such readings": (["--captures", "r.csv"], "r.csv: cannot be read: No such file or directory"),
    "folder": (["-o", "."], "is a folder; --out names a file"),
    "file of no fabric": (["--fabric", "nowhere.json"], "give --lab or --fabric, not both"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_one_line(inside, small, case):
    """Exit 2, nothing on stdout, and nothing is sent."""
    words, expected = MISTAKES[case]
    done = inside("discover", "paths", "--lab", small, *words)
    assert (done.code, done.stdout) == (2, "")
    assert expected in done.stderr.splitlines()[-1]
    assert "will send" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fabric_without_addresses_and_hosts_out_of_reach(inside, ran, home):
    """Over ssh each is one line that names the host or its port."""
    ran("discover")
    good = json.loads((home / "fabric.json").read_text(encoding="utf-8"))
    good["fabric"]["ports"]["address"] = [""] * len(good["fabric"]["ports"]["address"])
    (home / "plain.json").write_text(json.dumps(good), encoding="utf-8")
    asked = ["discover", "paths", "--pair", "node1>node2", "--ports", "1", "--fabric"]
    for file, expected in (
        ("plain.json", "host/node1/nic/eth0 has no IPv4 address (none)"),
        ("fabric.json", "error: node1: "),
    ):
        done = inside(*asked, file)
        assert (done.code, done.stdout) == (2, "")
        assert expected in done.stderr.splitlines()[-1]


def test_an_interrupt_ends_the_probing(small, home):
    """Ctrl-C while probes are sent: one line, exit 2, no prober is left."""
    words = ["discover", "paths", "--lab", small, "--rate", "2", "--ports", "100"]
    with subprocess.Popen(
        [sys.executable, "-m", "nettune", *words], cwd=home, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "80"},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any(line.startswith("probe ...") for line in lines)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert err.splitlines() == ["error: interrupted"]

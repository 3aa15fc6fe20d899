"""Findings for schedulers and monitors: what is written is what was found, and no name or word of a host can break out."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nettune.checks import Finding, Status
from nettune.elements import ElementId
from nettune.errors import InputError
from nettune.hosts import expand_hosts
from nettune.qualify.drains import decide
from nettune.qualify.outputs import DRAIN, EXCLUDE, EXCLUSIONS, METRICS, TAINT, files, statuses

EVIL = ["$(touch owned)", "`touch owned`", "a;touch owned", "a'b", 'a"b', "a\nscontrol", "a\\", "-x", "h[1-9]", "a,b", "é",
        "x\x1b[2J", 'h"} 1', "{}", "&", "|", "h0\u2028x", "=", "%host", "@all"]  # fmt: skip


def fault(host, what="is DOWN", check="port-state"):
    """A host's fault; None for a name that no element has."""
    try:
        return Finding(check=check, status=Status.FAIL, where=ElementId.host(host), what=what, fix="x")
    except InputError:
        return None


def written(findings, hosts, share=1.0):
    """The files."""
    return files(decide(findings, hosts, {}, share), findings, hosts, 1_700_000_000.5)


def commands(script):
    """Words of each command of a script, as a shell splits them."""
    orders = [line for line in script.splitlines() if not line.startswith(("#", "failed=0", "exit $failed"))]
    assert all(line.endswith(" || failed=1") for line in orders)
    return [shlex.split(line.removesuffix(" || failed=1")) for line in orders]


def test_what_is_written_for_plain_hosts():
    """One line a host, one hostlist, one value a host and check."""
    hosts = [f"g{n:03}" for n in range(1, 5)]
    findings = [fault("g001"), fault("g002", "width x8, x16 is expected", "pcie-link"),
                Finding(check="mtu", status=Status.WARN, where=ElementId.nic("g003", "eth0"), what="1500"),
                Finding(check="mtu", status=Status.PASS, where=ElementId.host("g004"), what="9000")]  # fmt: skip
    made = written(findings, hosts)

    assert commands(made[DRAIN]) == [
        ["scontrol", "update", "NodeName=g001", "State=DRAIN", "Reason=nettune port-state: is DOWN"],
        ["scontrol", "update", "NodeName=g002", "State=DRAIN",
         "Reason=nettune pcie-link: width x8, x16 is expected"],
    ]  # fmt: skip
    assert commands(made[TAINT])[0] == [
        *("kubectl", "taint", "nodes", "g001", "nettune/unfit=port-state:NoSchedule", "--overwrite")
    ]
    assert made[EXCLUDE] == "--exclude=g[001-002]\n"
    assert expand_hosts(made[EXCLUSIONS]) == ["g001", "g002"]
    for line in ('nettune_host_status{host="g001"} 3', 'nettune_host_status{host="g004"} 0',
                 'nettune_check_status{host="g003",check="mtu"} 1', 'nettune_host_drain{host="g002"} 1',
                 "nettune_drains_withheld 0", "nettune_qualify_timestamp_seconds 1700000000.5"):  # fmt: skip
        assert line in made[METRICS].splitlines()


def test_nothing_to_do_and_withheld():
    """No command is written then; what would have been done is there as comments, with the reason."""
    hosts = [f"g{n}" for n in range(4)]
    nothing = written([], hosts)
    withheld = written([fault(host) for host in hosts], hosts, 0.05)

    for made in (nothing, withheld):
        assert commands(made[DRAIN]) == commands(made[TAINT]) == []
        assert made[EXCLUDE] == made[EXCLUSIONS] == ""
    assert "# withheld: 4 of 4 hosts (100%) would be drained" in withheld[DRAIN]
    assert "# scontrol update NodeName=g0" in withheld[DRAIN]
    assert "nettune_drains_withheld 1" in withheld[METRICS]


def test_a_host_that_the_scheduler_does_not_know_keeps_no_other_in_service(tmp_path):
    """All orders are given; the exit status tells that one failed."""
    made = written([fault("g001"), fault("g002")], ["g001", "g002", "g003"])
    refused = 'scontrol() { echo "$2"; [ "$2" != NodeName=g001 ]; }\n'
    (tmp_path / "s.sh").write_text(refused + made[DRAIN])
    done = subprocess.run(["sh", tmp_path / "s.sh"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.split()) == (1, ["NodeName=g001", "NodeName=g002"])


def test_the_status_of_a_host_is_its_worst_that_counts():
    """A cable's fault is that of both ends; what is optional and unknown does not count; nothing known is no pass."""
    cable = ElementId.link("g1", "mlx5_0", "leaf1", "Eth1")
    unknown = Finding(
        check="loss", status=Status.UNKNOWN, where=ElementId.host("g2"), what="?", required=False
    )
    passed = Finding(check="mtu", status=Status.PASS, where=ElementId.host("g2"), what="9000")
    needed = replace(unknown, where=ElementId.host("g3"), required=True)
    fail = Finding(check="roce-cable", status=Status.FAIL, where=cable, what="MTU")
    found = statuses([unknown, passed, needed, fail], ["g1", "g2", "g3", "g4"])

    assert {host: str(status) for host, status in found.items()} == {
        "g1": "FAIL", "g2": "PASS", "g3": "UNKNOWN", "g4": "UNKNOWN",
    }  # fmt: skip


METRIC = re.compile(
    r'nettune_[a-z_]+(\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\})? [0-9.]+'
)


def check_all(made, tmp_path=None):
    """Every file keeps to its grammar."""
    for name in (DRAIN, TAINT):
        assert all(char.isprintable() or char == "\n" for char in made[name])
        for words in commands(made[name]):
            assert words[:3] in (["scontrol", "update", words[2]], ["kubectl", "taint", "nodes"])
            assert len(words) == (5 if words[0] == "scontrol" else 6)
            assert not any(word.startswith("-") for word in words[2:-1])
            # A shell that runs the script sees the very same words: nothing in them is an order to it.
        if tmp_path is not None:
            (tmp_path / "s.sh").write_text(
                'scontrol() { printf "%s\\n" "$@"; }; kubectl() { scontrol "$@"; }\n' + made[name]
            )
            done = subprocess.run(
                ["sh", tmp_path / "s.sh"], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            assert done.stdout.splitlines() == [word for words in commands(made[name]) for word in words[1:]]
    assert re.fullmatch(r"(--exclude=[A-Za-z0-9._,\[\]-]+\n)?", made[EXCLUDE])
    for line in made[METRICS].splitlines():
        assert line.startswith(("# HELP nettune_", "# TYPE nettune_")) or METRIC.fullmatch(line), line


def test_hostile_names_and_words_break_out_of_nothing(tmp_path):
    """Names with shell characters, quotes, brackets and controls; the same in what a check quotes from a capture."""
    findings = [one for name in EVIL if (one := fault(name, f"says {name}", f"c-{name}")) is not None]
    findings += [fault(f"n{place}", f"says {name}") for place, name in enumerate(EVIL)]
    hosts = [one.where.node for one in findings]
    check_all(written(findings, hosts), tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.sh"]


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.text(max_size=60)), max_size=6))
def test_any_names_and_words_keep_to_the_grammars(pairs):
    """Whatever Unicode has."""
    findings = [one for name, words in pairs if (one := fault(name, words, words or "c")) is not None]
    check_all(written(findings, [one.where.node for one in findings]))


def test_kubectl_takes_the_words(tmp_path):
    """The real program finds nothing wrong with them before it looks for its server."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    made = written([fault("g001.example.com", check="a b/c:d=e,f")], ["g001.example.com"])
    (words,) = commands(made[TAINT])
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(tmp_path)}
    server = ["--server", "http://127.0.0.1:1"]
    done = subprocess.run([*words, *server], capture_output=True, text=True, check=False, timeout=30, env=env)

    assert "refused" in done.stderr or "connect" in done.stderr
    bad = [*words[:4], "no taint!", *server]
    refused = subprocess.run(bad, capture_output=True, text=True, check=False, timeout=30, env=env)
    assert "refused" not in refused.stderr

"""ClusterShell's tree with real gateway processes, over a program that stands for ssh on this machine."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest

import nettune
from nettune.errors import InputError, NettuneError
from nettune.launch import Command, Outcome, strays
from nettune.launch.tree import through_gateways

# Gateways run what ClusterShell starts there; of the hosts one hangs, one floods, one has no Python, one is away.
SSH = """#!/bin/sh
while case "$1" in -*) true ;; *) false ;; esac; do shift; done
host=$1; shift
case $host in
  gw-away) echo "ssh: connect to host $host: no route" >&2; exit 255 ;;
  gw*) exec sh -c "$*" ;;
  hangs) exec sleep 600 ;;
  floods) exec cat /dev/zero ;;
  away) echo "ssh: connect to host away: no route" >&2; exit 255 ;;
  *) exec env WHERE="$host" sh -c "$*" ;;
esac
"""


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """The tree through two gateways, with a name for its processes."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("CLUSTERSHELL_GW_PYTHON_EXECUTABLE", sys.executable)
    monkeypatch.setenv("CLUSTERSHELL_GW_LOG_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(nettune.__file__).parent.parent))
    monkeypatch.setenv(strays.MARK, mark := os.urandom(8).hex())
    return mark, partial(through_gateways, ssh=(str(tmp_path / "ssh"),))


def commands(hosts, script, stdin=b"hello"):
    """The same for each host, with its name as a word."""
    return [Command(host, ["sh", "-c", script, "sh", host, "100%"], stdin=stdin) for host in hosts]


def test_every_host_answers_through_a_gateway(ask, gone):
    """Words, input and exit status pass, `%` and quotes unharmed; the word that is the host's name is its own."""
    mark, through = ask
    hosts = [f"n{number}" for number in range(20)]
    found: dict[str, Outcome] = {}
    script = """read line; echo "$WHERE $1 $2 '$line'"; echo loud >&2; exit 7"""
    through(["gw1", "gw2"], commands(hosts, script), 30.0, lambda one: found.setdefault(one.host, one))

    assert {(o.rc, o.timed_out, o.flooded) for o in found.values()} == {(7, False, False)}
    assert {host: sorted(o.stdout.splitlines()) for host, o in found.items()} == {
        host: sorted([f"{host} {host} 100% 'hello'", "loud"]) for host in hosts
    }
    gone(mark)


def test_odd_hosts_and_a_gateway_that_is_away_cost_only_themselves(ask, gone):
    """A host that hangs, floods or is away is told so; what the missing gateway had to ask the other asks."""
    mark, through = ask
    hosts = ["hangs", "floods", "away", "n1", "n2", "n3"]
    found: dict[str, Outcome] = {}
    through(
        ["gw-away", "gw1"],
        commands(hosts, "echo fine"),
        4.0,
        lambda one: found.setdefault(one.host, one),
        max_bytes=1 << 20,
    )

    assert set(found) == set(hosts)
    assert [found[host].stdout.strip() for host in ("n1", "n2", "n3")] == ["fine"] * 3
    assert found["hangs"].timed_out
    assert found["floods"].flooded
    assert (found["away"].rc, "no route" in found["away"].stderr) == (255, True)
    gone(mark)


def test_no_gateway_at_all(ask, gone):
    """One line, and nothing is left running."""
    mark, through = ask
    with pytest.raises(NettuneError, match=r"gw-away can be used: .*no route"):
        through(["gw-away"], commands(["n1"], "true"), 5.0, lambda _: None)
    gone(mark)


def test_an_error_of_the_caller_ends_everything(ask, gone):
    """A full disk or Ctrl-C while results come in."""
    mark, through = ask

    def full(_):
        raise NettuneError("the disk is full")

    with pytest.raises(NettuneError, match="disk is full"):
        through(["gw1"], commands(["hangs", "n1"], "true"), 60.0, full)
    gone(mark)


@pytest.mark.parametrize("name", ["a;reboot", "$(x)", "%h", "-oProxyCommand=x", "a b", "", "@all", "h[1-3]"])
def test_names_that_a_shell_would_obey_are_refused(ask, name):
    """Before anything is started."""
    _, through = ask
    with pytest.raises(InputError, match="cannot be reached"):
        through(["gw1"], commands([name], "true"), 5.0, lambda _: None)
    with pytest.raises(InputError, match="cannot be reached"):
        through([name], commands(["n1"], "true"), 5.0, lambda _: None)

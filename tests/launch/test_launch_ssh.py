"""The ssh launcher against a real sshd on this machine; what every launcher must do is in the contract tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from nettune.errors import InputError
from nettune.launch import Command, run, strays
from nettune.launch.ssh import OPTIONS, SshLauncher
from nettune.launch.tree import through_gateways
from nettune.qualify.bundle import read
from nettune.qualify.collecting import asking
from nettune.qualify.collecting import collect as collect_bundle
from topology.discovery.collect import collect

WORDS = ["two words", "$HOME", "`id`", "a;b", "it's", '"', "*", "\\n", "", "-x", "é"]


def test_words_arrive_as_they_are(ssh_launcher):
    """Blanks, quotes, variables and globs of a command are not looked at by the shell on the host."""
    (outcome,) = run(ssh_launcher, [Command("s2", ["printf", "%s\n", *WORDS])], 20)
    assert outcome.stdout.split("\n") == [*WORDS, ""]


def test_the_remote_command_dies_with_its_connection(ssh_launcher):
    """When the local ssh is killed, the command on the host and its children end too."""
    mark = f"{strays.MARK}=ssh-test-{time.monotonic_ns()}"
    argv = ssh_launcher.argv("s1", ["env", mark, "sh", "-c", "sleep 1000 & echo up; wait"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as local:
        assert local.stdout.readline() == "up\n"
        name = mark.partition("=")[2]
        assert strays.marked(name)
        local.send_signal(signal.SIGKILL)
    until = time.monotonic() + 20
    while strays.marked(name) and time.monotonic() < until:
        time.sleep(0.1)
    assert not strays.marked(name)


def test_a_host_that_is_off_is_told_in_one_outcome(ssh_launcher, sshd):
    """A host that cannot be reached gives ssh's status 255 and its reason; the others are not held up."""
    launcher = SshLauncher(["s1", "nowhere.invalid"], ["-F", str(sshd)])
    good, bad = run(launcher, [Command(host, ["true"]) for host in launcher.hosts()], 30)
    assert good.ok
    assert bad.rc == 255
    assert "nowhere.invalid" in bad.stderr


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "a b", "", "h\n1"])
def test_names_that_ssh_would_misread_are_refused(host):
    """A name that looks like an option, or has blanks, is no host."""
    with pytest.raises(InputError, match="no host name"):
        SshLauncher(["h1", host])


def test_captures_are_collected_over_ssh(ssh_launcher):
    """The collector is streamed to every host; what it prints is a capture of that name with devices and settings."""
    captures = collect(partial(run, ssh_launcher), ["s1", "s3"], extent="all")
    assert [capture.host for capture in captures] == ["s1", "s3"]
    for capture in captures:
        assert capture.json_of("ip -j addr")
        assert capture.text("/proc/cmdline")


def test_a_bundle_over_ssh(ssh_launcher, sshd, tmp_path):
    """Hosts that answer are in it, one that cannot be reached is named."""
    hosts = ["s1", "s2", "s3", "nowhere.invalid"]
    launcher = SshLauncher(hosts, ["-F", str(sshd)])
    told = collect_bundle(asking(launcher), hosts, tmp_path / "b.tar", timeout_s=30)

    assert (told.captured, list(told.failed)) == (3, ["nowhere.invalid"])
    assert sorted(capture.host for capture in read(tmp_path / "b.tar").captures) == ["s1", "s2", "s3"]


def test_a_bundle_through_a_gateway_over_ssh(sshd, tmp_path, monkeypatch):
    """Two real hops: ssh to the gateway, ClusterShell's gateway there, ssh from it to the hosts."""
    monkeypatch.setenv("CLUSTERSHELL_GW_PYTHON_EXECUTABLE", sys.executable)
    monkeypatch.setenv("CLUSTERSHELL_GW_LOG_DIR", str(tmp_path))
    ask = partial(through_gateways, ["s1"], ssh=("ssh", *OPTIONS, "-F", str(sshd)))
    hosts = ["s2", "s3", "nowhere.invalid"]
    told = collect_bundle(ask, hosts, tmp_path / "b.tar", timeout_s=30)

    assert (told.captured, list(told.failed)) == (2, ["nowhere.invalid"])
    assert "nowhere.invalid" in told.failed["nowhere.invalid"]

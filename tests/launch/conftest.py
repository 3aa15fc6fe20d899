"""Launchers under test, and a look for processes that should be gone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from nettune.errors import NettuneError
from nettune.launch import Entry, LocalLauncher, strays
from nettune.launch.ssh import SshLauncher

HERE = Path(__file__).resolve().parent


class PipedLauncher(LocalLauncher):
    """This machine as if it could only be reached by commands, with a login shell that greets."""

    name = "piped"

    def argv(self, host, command):
        return ["sh", "-c", 'echo "Welcome to $0"; exec "$@"', host, *super().argv(host, command)]

    def root_argv(self, command):
        return None


class QuietPipedLauncher(PipedLauncher):
    """The same without the greeting, which would be part of a command's output."""

    def argv(self, host, command):
        return LocalLauncher.argv(self, host, command)


class NamespaceLauncher:
    """Hosts that are network namespaces inside another mount and pid namespace, as a lab's are."""

    name = "namespaces"

    def __init__(self, holder, hosts):
        self._enter = ["nsenter", f"--target={holder}", "--mount", "--pid"]
        self._hosts = hosts

    def hosts(self):
        return list(self._hosts)

    def argv(self, host, command):
        self.entry(host)
        inner = ["nsenter", f"--net=/run/netns/{host}", "unshare", "--uts", "sh", "-c"]
        return [*self._enter, *inner, 'hostname "$0"; exec "$@"', host, *command]

    def root_argv(self, command):
        return [*self._enter, *command]

    def entry(self, host):
        if host not in self._hosts:
            raise NettuneError(f"unknown host {host!r}")
        return Entry(netns=f"/run/netns/{host}", hostname=host, cgroup_procs="/nowhere/cgroup.procs")


@pytest.fixture(scope="session", autouse=True)
def _work_importable():
    """Ranks import work functions by the caller's path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield


@pytest.fixture(scope="session")
def local_launcher():
    return LocalLauncher(["a", "b", "c", "d"])


@pytest.fixture(scope="session")
def piped_launcher():
    return QuietPipedLauncher(["a", "b", "c", "d"])


@pytest.fixture(scope="session")
def greeting_launcher():
    return PipedLauncher(["a", "b", "c", "d"])


@pytest.fixture(scope="session")
def namespaces():
    """Process id of a holder with four network namespaces in it; they vanish with the holder."""
    hosts = ["n1", "n2", "n3", "n4"]
    # Ready is told by closing standard output; --kill-child takes all that runs in the holder down with it.
    script = (
        "mount --make-rprivate / && mount -t tmpfs t /run && "
        + " && ".join(
            f"ip netns add {host} && ip -n {host} link add eth0 type veth peer name eth1" for host in hosts
        )
        + " && echo ready && exec sleep infinity >/dev/null"
    )
    argv = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
        script,
    ]
    holder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if holder.stdout.readline() != "ready\n":
            holder.kill()
            pytest.skip(f"no namespaces here: {holder.communicate()[1].strip()}")
        # `unshare --fork` stays outside; its child is the first process of the pid namespace.
        inside = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0]
        yield inside, hosts
    finally:
        holder.kill()
        holder.communicate()


@pytest.fixture
def namespaces_launcher(namespaces):
    return NamespaceLauncher(*namespaces)


@pytest.fixture(scope="session")
def lab():
    from nettune.lab import Lab, LabSpec

    lab = Lab.up(LabSpec(name="launch", leaves=2, hosts_per_leaf=2, spines=1))
    yield lab
    lab.down()


@pytest.fixture
def lab_launcher(lab):
    return lab.launcher()


@pytest.fixture(scope="session")
def sshd():
    """Configuration file of ssh for hosts s1 to s3, which are a real sshd of our own on this machine."""
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if program is None or shutil.which("ssh") is None:
        pytest.skip("ssh and sshd are not installed (Debian: openssh-client openssh-server)")
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        here = Path(folder)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", here / key], check=True)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        (here / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nAuthorizedKeysFile {here}/user.pub\n"
            f"PidFile {here}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "PermitRootLogin yes\nMaxStartups 100\nPrintMotd no\n"
        )
        (here / "ssh_config").write_text(
            f"Host s1 s2 s3\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {here}/user\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        daemon = subprocess.Popen(
            [program, "-D", "-e", "-f", here / "sshd_config"], stderr=subprocess.PIPE, text=True
        )
        try:
            line = daemon.stderr.readline()
            if "listening" not in line:
                daemon.kill()
                pytest.skip(f"sshd does not start here: {line.strip()}")
            yield here / "ssh_config"
        finally:
            daemon.terminate()
            daemon.communicate()


@pytest.fixture
def ssh_launcher(sshd):
    return SshLauncher(["s1", "s2", "s3"], ["-F", str(sshd)])


@pytest.fixture(scope="session")
def gone():
    """Assert that no living process carries a mark any more; a killed one needs a moment to be collected."""

    def check(mark):
        until = time.monotonic() + 5
        while left := strays.marked(mark):
            if time.monotonic() > until:
                names = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
                pytest.fail(f"left behind: {names}")
            time.sleep(0.01)

    return check

"""The life of a lab: all or nothing, whatever kills whom, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nettune.errors import InputError, NettuneError, UnavailableError
from nettune.lab import Lab, LabSpec, lab_available
from nettune.lab.frame.process import ProcessId, start_time
from nettune.lab.state import state_folder

pytestmark = pytest.mark.lab

# Becomes the reaper of its orphans, so that the holder can be found as its descendant.
UP = """
import ctypes, sys
ctypes.CDLL(None).prctl(36, 1)
from nettune.errors import NettuneError
from nettune.lab import Lab, LabSpec
spec = LabSpec(name=sys.argv[1], leaves=8, spines=8, hosts_per_leaf=int(sys.argv[2]))
print("start", flush=True)
try:
    Lab.up(spec)
except NettuneError as error:
    print(error)
    sys.exit(2)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(2)
print("up", flush=True)
"""
KINDS = ("net", "mnt", "pid", "uts", "user")


def namespaces(pid):
    return {namespace(pid, kind) for kind in KINDS} - {namespace("self", kind) for kind in KINDS}


def namespace(pid, kind):
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def users_of(wanted):
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        for kind in KINDS:
            with contextlib.suppress(OSError):
                if namespace(folder.name, kind) in wanted:
                    found.add(int(folder.name))
    return found


def outside():
    """What a lab might leave on the machine itself."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    queues = subprocess.run(["tc", "qdisc"], capture_output=True, text=True, check=True).stdout
    names = [path.name for path in Path("/run/netns").glob("*")]
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    return links.count("\n"), queues, sorted(names), mounts


def cgroups_of(pid):
    return list(Path("/sys/fs/cgroup").glob(f"**/nettune-{pid}-*"))


def descendants(pid):
    children: dict[int, set[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), set()).add(int(folder.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        new = children.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.01)


def test_down_leaves_nothing():
    """After down: no process in the lab's namespaces, no interface, queue, mount, name, cgroup or state."""
    before = outside()
    lab = Lab.up(LabSpec(name="gone"))
    holder = lab.holder_pid
    started = subprocess.Popen(lab.launcher().argv("h1", ["sleep", "60"]))
    lab.faults.apply("flap")
    lab.faults.apply("straggler", host="h1")
    # By number and start time: numbers of namespaces are used again at once by other labs.
    inside = users_of({*namespaces(holder), namespace(started.pid, "net")})
    family = [ProcessId(pid, start_time(pid) or 0) for pid in inside]
    assert {holder, started.pid} <= inside
    assert len(family) > 3

    lab.down()

    assert started.wait(timeout=5) != 0
    assert [process for process in family if process.alive] == []
    assert outside() == before
    assert cgroups_of(holder) == []
    assert not (state_folder() / "gone.json").exists()
    lab.down()  # again is harmless


def test_lab_is_found_and_taken_down_by_another_process():
    """`load` needs only the name; what is loaded can do all that the first object could."""
    with Lab.up(LabSpec(name="found", leaves=1, spines=0)):
        other = Lab.load("found")
        assert other.hosts == ["h0", "h1"]
        assert other.exec("h0", ["hostname"]).stdout == "h0\n"
        other.down()
        assert "found" not in Lab.names()
    with pytest.raises(InputError, match="no lab 'found' is up"):
        Lab.load("found")


def test_second_lab_of_a_name_is_refused():
    """`up` of a lab that is up is an error, and does the first no harm."""
    with Lab.up(LabSpec(name="twice", leaves=1, spines=0)) as lab:
        with pytest.raises(InputError, match="lab 'twice' is up already"):
            Lab.up(LabSpec(name="twice"))
        assert lab.exec("h0", ["hostname"]).returncode == 0


def test_two_labs_stand_side_by_side(transfer):
    """Same addresses, same names, no contact: each talks inside; taking one down leaves the other."""
    with Lab.up(LabSpec(name="left", leaves=1, spines=0)) as left:
        with Lab.up(LabSpec(name="right", leaves=1, spines=0)) as right:
            assert {"left", "right"} <= set(Lab.names())
            assert left.counters()["h0", "eth0"][2] < 100
            assert transfer(right, [("h0", "h1")], 0.3)[0] > 0.01
            assert right.counters()["h0", "eth0"][3] > 100
            assert left.counters()["h0", "eth0"][3] < 100
        assert transfer(left, [("h0", "h1")], 0.3)[0] > 0.01


@pytest.mark.parametrize("delay_s", [0.0, 0.04, 0.1, 0.2, 0.35])
def test_kill_9_in_the_middle_of_up_leaves_nothing(delay_s):
    """Whatever had been built when `up` was killed is gone by itself, and the name is free again."""
    before = outside()
    process = subprocess.Popen([sys.executable, "-c", UP, "killed", "8"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "start\n"
    time.sleep(delay_s)
    family = descendants(process.pid)
    process.kill()
    process.communicate()

    name_free = "killed" not in Lab.names()
    if name_free:  # it had not been finished: nobody but the kernel may have to clean up
        wait_until(lambda: not any(Path(f"/proc/{pid}/ns/net").exists() for pid in family))
    with contextlib.suppress(InputError):
        Lab.load("killed").down()
    with Lab.up(LabSpec(name="killed", leaves=1, spines=0)) as lab:
        assert lab.exec("h1", ["hostname"]).stdout == "h1\n"
    wait_until(lambda: outside() == before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_up_cleans_up_at_once(number):
    """Ctrl-C or SIGTERM in the middle of `up`: no holder and no state when it returns."""
    process = subprocess.Popen([sys.executable, "-c", UP, "stopped", "8"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "start\n"
    wait_until(lambda: descendants(process.pid) or process.poll() is not None)
    time.sleep(0.05)
    family = descendants(process.pid)
    process.send_signal(number)
    said = process.communicate(timeout=20)[0]

    assert family
    if "up" not in said.split():
        assert said == "interrupted\n"
        assert process.returncode == 2
        # A holder that had not told its pid yet ends by the end of its input, a moment after its parent.
        wait_until(lambda: not any(Path(f"/proc/{pid}/ns/net").exists() for pid in family))
        assert not (state_folder() / "stopped.json").exists()
    with contextlib.suppress(InputError):
        Lab.load("stopped").down()


def test_stale_lab_is_cleaned_by_the_next_command():
    """When the holder was killed, its state and the cgroups of its faults go with the next command."""
    lab = Lab.up(LabSpec(name="stale", leaves=1, spines=0))
    with contextlib.suppress(UnavailableError):
        lab.faults.apply("straggler", method="cgroup")
    lab.close()
    os.kill(lab.holder_pid, signal.SIGKILL)
    wait_until(lambda: "stale" not in Lab.names())
    assert (state_folder() / "stale.json").exists()

    with Lab.up(LabSpec(name="next", leaves=1, spines=0)):
        assert not (state_folder() / "stale.json").exists()
        assert cgroups_of(lab.holder_pid) == []
    with pytest.raises(NettuneError, match="not up any more"):
        lab.faults.active()
    with pytest.raises(NettuneError, match="the lab is gone"):
        lab.counters()


def test_command_that_does_not_end_is_killed_and_named():
    """`exec` with a time limit ends the command inside the lab too."""
    with Lab.up(LabSpec(name="slow", leaves=1, spines=0)) as lab:
        with pytest.raises(NettuneError, match="sleep on h0 did not end within"):
            lab.exec("h0", ["sleep", "61"], timeout_s=0.2)
        assert (
            "sleep 61" not in lab.exec("h0", ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout
        )


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="hides programs and fills disks by mounts, as root")


@needs_root
def test_full_disk_is_one_line_and_leaves_no_lab(tmp_path, monkeypatch):
    """The state cannot be written: `up` fails, and neither a holder nor half a file stays."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k,mode=700", "full", tmp_path], check=True)
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        folder = state_folder()
        (folder / "lock").touch()
        with contextlib.suppress(OSError), (tmp_path / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(b"x" * 4096):
                pass
        with pytest.raises(NettuneError, match="No space left on device"):
            Lab.up(LabSpec(name="full", leaves=1, spines=0))
        assert [path.name for path in folder.iterdir()] == ["lock"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@needs_root
def test_missing_ip_is_named():
    """Without iproute2 the one line says which program and which package."""
    places = {os.path.realpath(p) for p in (shutil.which("ip"), "/sbin/ip", "/usr/sbin/ip", "/bin/ip") if p}
    hide = " && ".join(f"mount --bind /dev/null {place}" for place in places if Path(place).exists())
    script = f'{hide} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", UP, "noip", "1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert done.stdout == "start\nthe program 'ip' is missing; install iproute2 to use a lab\n"


@pytest.mark.rootless
def test_refused_namespaces_name_the_setting():
    """Where an ordinary user may make no user namespace, the reason names the sysctl."""
    script = (
        "echo 0 > /proc/sys/user/max_user_namespaces"
        " && exec setpriv --bounding-set=-all --inh-caps=-all "
        f"{sys.executable} -c 'from nettune.lab import lab_available; print(lab_available())'"
    )
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout.startswith("(False, "), done.stderr
    assert "new namespaces are refused" in done.stdout
    assert "user.max_user_namespaces" in done.stdout


def test_available_here_is_true_and_leaves_nothing():
    """The probe builds a lab for real and is gone when it answers."""
    before = outside()
    family = descendants(os.getpid())

    assert lab_available() == (True, "")
    assert outside() == before
    assert descendants(os.getpid()) <= family

"""Print what this machine says of its network as one JSON line: a `nettune.capture/1` (see topology/capture.py).

This one file is sent over the standard input of `python3 -I -S -` to every node and imports nothing but the standard
library, so that nothing is installed there. Arguments: NAME (`-`: the machine's own), ROLE (host, switch or auto) and
EXTENT: `routes`, what layer-3 discovery needs, or `all`, with devices, drivers, counters, settings and kernel messages.

It must run on Python 3.6, hence annotations in quotes and no newer syntax. It opens files and starts commands that
only read; each command has a time-out and each output a bound.
"""
# ruff: noqa: I002 (the future import of annotations is a syntax error before Python 3.7)

import errno
import glob
import json
import os
import selectors
import subprocess
import sys
import time

TIMEOUT_S = 10.0
COMMAND_BYTES = 16 << 20
FILE_BYTES = 1 << 20
MAX_INTERFACES = 1024
AT_ONCE = 32

COMMANDS = (
    "ip -j -d -s -s link",
    "ip -j addr",
    "ip -j route show table all",
    "ip -j rule",
    "ip -j neigh",
    "tc -j -s qdisc",
    "nproc",
)
FILES = (
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv4/fib_multipath_hash_policy",
    "/proc/sys/net/ipv4/fib_multipath_hash_fields",
    "/proc/sys/net/ipv4/fib_multipath_hash_seed",
    "/proc/sys/net/ipv4/fib_multipath_use_neigh",
    "/proc/sys/net/ipv4/tcp_congestion_control",
    "/proc/net/dev",
    "/proc/loadavg",
)
# What `all` adds. None of it changes anything, asks another machine or takes long.
MORE_COMMANDS = (
    "lldpcli -f json0 show chassis",
    "lldpcli -f json0 show neighbors details",
    "lldpcli -f json0 show interfaces",
    "nvidia-smi -L",
    "nvidia-smi -q",
    "nvidia-smi topo -m",
    "nvidia-smi nvlink -s",
    "nvidia-smi nvlink -e",
    "rocm-smi --showtopo --json",
    "ibstat",
    "ibv_devinfo -v",
    "rdma -j link",
    "rdma -j statistic",
    "show_gids",
    "ofed_info -s",
    "lspci -Dvvv",
    "lscpu -J",
    "dmesg --time-format iso --level emerg,alert,crit,err,warn,notice,info",
    "lstopo-no-graphics --of xml",
    "systemctl is-active nvidia-fabricmanager",
    "df -Pk /dev/shm",
    "date +%s",
)
COMMANDS_OF_INTERFACE = (
    "ethtool {}",
    "ethtool -i {}",
    "ethtool -a {}",
    "ethtool -S {}",
    "ethtool -m {}",
    "mlnx_qos -i {}",
)
COMMANDS_OF_RDMA_DEVICE = ("mlxlink -d {} -m -c",)
MORE_FILES = (
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/self/limits",
    "/proc/self/mounts",
    "/proc/uptime",
    "/etc/os-release",
    "/etc/nccl.conf",
    "/etc/sonic/config_db.json",
    "/proc/net/bonding/*",
    "/proc/driver/nvidia/version",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "/sys/kernel/iommu_groups/*/type",
    "/sys/module/*/version",
    "/sys/class/net/*/*",
    "/sys/class/net/*/device/*_link_*",
    "/sys/class/net/*/device/numa_node",
    "/sys/class/net/*/ecn/roce_*/enable/*",
    "/sys/class/net/*/statistics/*",
    "/sys/class/infiniband/*/*",
    "/sys/class/infiniband/*/tc/*/traffic_class",
    "/sys/class/infiniband/*/ports/*/*",
    "/sys/class/infiniband/*/ports/*/counters/*",
    "/sys/class/infiniband/*/ports/*/hw_counters/*",
    "/sys/class/infiniband/*/ports/*/pkeys/0",
    "/sys/bus/pci/devices/*/class",
    "/sys/bus/pci/devices/*/vendor",
    "/sys/bus/pci/devices/*/device",
    "/sys/bus/pci/devices/*/numa_node",
    "/sys/bus/pci/devices/*/*_link_*",
    "/sys/bus/pci/devices/*/aer_dev_*",
)
# Where devices hang in the PCI tree and which interface belongs to which device.
LINKS = ("/sys/class/net/*/device", "/sys/class/infiniband/*/device", "/sys/bus/pci/devices/*")
GIDS = "/sys/class/infiniband/*/ports/*/gids/*"
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
MAX_FILES = 60000
# A program's refusal is told from its other errors by what it prints: its exit status is the same.
REFUSALS = ("permission denied", "operation not permitted")


def captured(state: "str", text: "str" = "", note: "str" = "") -> "dict[str, str]":
    """One entry of a capture."""
    return {"state": state, "text": text, "note": note}


def read(path: "str") -> "dict[str, str]":
    """Content of a small file, or why there is none."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib costs 5 ms at each of many starts)
            data = file.read(FILE_BYTES + 1)
    except OSError as error:
        note = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO}:
            return captured("absent", note=note)
        if error.errno in {errno.EACCES, errno.EPERM}:
            return captured("denied", note=note)
        return captured("error", note=note)
    text = data[:FILE_BYTES].decode("utf-8", "replace")
    if len(data) > FILE_BYTES:
        return captured("error", text, f"longer than {FILE_BYTES} bytes; cut")
    return captured("ok", text)


class Running:
    """A started command and what it has printed so far."""

    def __init__(self, line: "str", environment: "dict[str, str]") -> None:
        self.line = line
        self.printed = {1: bytearray(), 2: bytearray()}
        self.stopped = ""
        self.process = subprocess.Popen(
            line.split(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )

    def take(self, stream: "int", data: "bytes") -> None:
        """Keep a piece of output; a command that prints without end is stopped."""
        self.printed[stream] += data
        if len(self.printed[stream]) > COMMAND_BYTES:
            self.stop(f"printed more than {COMMAND_BYTES} bytes; stopped")

    def stop(self, why: "str") -> None:
        """End the command."""
        if not self.stopped:
            self.stopped = why
            self.process.kill()

    def result(self) -> "dict[str, str]":
        """The entry of the capture."""
        try:
            status = self.process.wait(1)
        except subprocess.TimeoutExpired:  # even SIGKILL waits for a process that hangs inside the kernel
            status = -9
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        text = bytes(self.printed[1]).decode("utf-8", "replace")
        said = " ".join(bytes(self.printed[2]).decode("utf-8", "replace").split())[:2000]
        if self.stopped:
            return captured("error", text[:COMMAND_BYTES], self.stopped)
        if status == 0:
            return captured("ok", text, said)
        refused = any(words in said.lower() for words in REFUSALS)
        return captured("denied" if refused else "error", text, said or f"exit status {status}")


def run(lines: "list[str]", timeout_s: "float" = TIMEOUT_S) -> "dict[str, dict[str, str]]":
    """Run commands side by side; command line -> entry of the capture."""
    environment = dict(os.environ, LC_ALL="C")
    # A login over ssh often has no system folders in its PATH.
    environment["PATH"] = environment.get("PATH", os.defpath) + ":/usr/sbin:/sbin:/usr/bin:/bin"
    os.environ["PATH"] = environment["PATH"]
    results = {}
    running = []
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for line in lines:
            try:
                command = Running(line, environment)
            except OSError as error:
                missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
                refused = error.errno in {errno.EACCES, errno.EPERM}
                state = "absent" if missing else "denied" if refused else "error"
                results[line] = captured(state, note=f"{line.split()[0]}: {os.strerror(error.errno or 0)}")
                continue
            running.append(command)
            for number, stream in ((1, command.process.stdout), (2, command.process.stderr)):
                if stream is not None:
                    selector.register(stream, selectors.EVENT_READ, (command, number))
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                break
            for key, _ in ready:
                command, number = key.data
                data = os.read(key.fd, 1 << 16)
                if data and not command.stopped:
                    command.take(number, data)
                else:
                    selector.unregister(key.fileobj)
        for key in list(selector.get_map().values()):
            key.data[0].stop(f"no end after {timeout_s:g} s; stopped")
    for command in running:
        results[command.line] = command.result()
    return results


def devices_with_classes(qdiscs: "str") -> "list[str]":
    """Interfaces whose root queue is htb: its rate is printed by `tc class` only."""
    try:
        found = [q["dev"] for q in json.loads(qdiscs or "[]") if q.get("root") and q.get("kind") == "htb"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return [name for name in found if isinstance(name, str)][:MAX_INTERFACES]


def interfaces() -> "list[str]":
    """Names of the network interfaces."""
    try:
        return sorted(os.listdir("/sys/class/net"))[:MAX_INTERFACES]  # noqa: PTH208 (as above)
    except OSError:
        return []


def interface_files() -> "list[str]":
    """Speed and address files of all interfaces.

    The address is there to tell whether the speed is of the interface that `ip` shows: /sys may have been mounted
    in another network namespace.
    """
    return [f"/sys/class/net/{name}/{leaf}" for name in interfaces() for leaf in ("address", "speed")]


def paths(pattern: "str") -> "list[str]":
    """Paths behind a pattern, in order; none is fine."""
    return sorted(glob.iglob(pattern))[:MAX_FILES]  # noqa: PTH207 (as above)


def matching(patterns: "tuple[str, ...]") -> "list[str]":
    """Regular files behind patterns, in order, without repeats."""
    found = {}  # type: dict[str, None]
    for pattern in patterns:
        for path in paths(pattern) if "*" in pattern else [pattern]:
            if "*" not in pattern or os.path.isfile(path):  # noqa: PTH113 (as above)
                found[path] = None
            if len(found) >= MAX_FILES:
                return list(found)
    return list(found)


def links() -> "dict[str, dict[str, str]]":
    """Where symbolic links of devices lead, as `readlink -f` would print it."""
    return {
        "readlink -f " + path: captured("ok", os.path.realpath(path) + "\n")
        for pattern in LINKS
        for path in paths(pattern)
    }


def gid_files() -> "dict[str, dict[str, str]]":
    """GIDs that are set, with their type and interface; the table of a port has 256 rows, nearly all zero."""
    files = {}
    for path in paths(GIDS):
        entry = read(path)
        if entry["text"].strip() not in ("", NO_GID):
            files[path] = entry
            port, _, index = path.partition("/gids/")
            for what in ("types", "ndevs"):
                attribute = f"{port}/gid_attrs/{what}/{index}"
                files[attribute] = read(attribute)
    return files


def side_by_side(lines: "list[str]") -> "dict[str, dict[str, str]]":
    """Run many commands, some at a time."""
    results = {}
    for first in range(0, len(lines), AT_ONCE):
        results.update(run(lines[first : first + AT_ONCE]))
    return results


def physical(names: "list[str]") -> "list[str]":
    """Those of the interfaces that have a device behind them."""
    return [name for name in names if os.path.exists(f"/sys/class/net/{name}/device")]  # noqa: PTH110 (as above)


def everything() -> "tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]":
    """Files and commands that `all` adds."""
    lines = list(MORE_COMMANDS)
    lines += [line.format(name) for name in physical(interfaces()) for line in COMMANDS_OF_INTERFACE]
    devices = sorted(os.path.basename(path) for path in paths("/sys/class/infiniband/*"))  # noqa: PTH119 (as above)
    lines += [line.format(name) for name in devices for line in COMMANDS_OF_RDMA_DEVICE]
    files = {path: read(path) for path in matching(MORE_FILES)}
    files.update(gid_files())
    commands = side_by_side(lines)
    commands.update(links())
    return files, commands


def capture(name: "str" = "-", role: "str" = "auto", extent: "str" = "routes") -> "dict[str, object]":
    """The whole capture."""
    commands = run(list(COMMANDS))
    classes = devices_with_classes(commands["tc -j -s qdisc"]["text"])
    commands.update(side_by_side(["tc class show dev " + device for device in classes]))
    files = {path: read(path) for path in (*FILES, *interface_files())}
    if extent == "all":
        more_files, more_commands = everything()
        files.update(more_files)
        commands.update(more_commands)
    if role == "auto":
        role = "switch" if files["/proc/sys/net/ipv4/ip_forward"]["text"].strip() == "1" else "host"
    if name == "-":
        name = files["/proc/sys/kernel/hostname"]["text"].strip() or os.uname().nodename
    return {"schema": "nettune.capture/1", "host": name, "role": role, "files": files, "commands": commands}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(capture(*sys.argv[1:4])) + "\n")

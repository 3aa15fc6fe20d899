"""Work functions that the tests of nettune.launch run in ranks."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from nettune.launch.agent import emit

_sums = [0]


def add(amount):
    """Keep a sum in this process."""
    _sums[0] += amount
    return _sums[0]


def identity():
    return {"pid": os.getpid(), "parent": os.getppid(), "hostname": socket.gethostname()}


def echo(value):
    return value


def repeat(text, times):
    return text * times


def variables(names):
    return [os.environ.get(name) for name in names]


def loaded(module):
    return module in sys.modules


def interfaces():
    """Names of the network devices of this process's namespace, by /proc/self/net."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return sorted(line.split(":")[0].strip() for line in lines)


def stream(count):
    for number in range(count):
        emit({"number": number})
    return count


def stream_from_threads(threads, count, width):
    def work(thread):
        for number in range(count):
            emit({"thread": thread, "number": number, "filler": "x" * width})

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def shout(text):
    print(text)
    print(text, file=sys.stderr)
    os.system(f"echo {text} from a child")
    return "heard"


def fail(rank, on):
    print("about to work")
    if rank == on:
        raise ValueError("no such rail")
    return rank


def leave():
    sys.exit(3)


def opaque():
    return object()


def draw():
    return random.random()


def hang_in_python(rank, on):
    while rank == on:
        time.sleep(0.01)
    return rank


def hang_in_c(rank, on):
    """Stick in C code with the interpreter's lock held: no Python code, no signal handler can run."""
    if rank == on:
        emit({"stuck": rank})
        ctypes.PyDLL(None).sleep(1000)
    return rank


def hang_somewhere(place):
    if place is not None:
        {"python": hang_in_python, "c": hang_in_c}[place](0, 0)


def die(rank, on):
    if rank == on:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1000)


def flee():
    """Leave two children behind: one in this group, one with a session of its own and no kin."""
    subprocess.Popen(["sleep", "1000"])
    subprocess.run(["sh", "-c", "setsid sleep 1001 & exit 0"], check=True)
    return os.getpid()


def hang_with_child():
    """Start a child, tell its number, and hang."""
    emit({"child": subprocess.Popen(["sleep", "1000"]).pid})
    time.sleep(1000)


def emit_later():
    """Start a thread that emits after the call, when that is an error."""
    told = []

    def work():
        time.sleep(0.1)
        try:
            emit({"late": True})
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    globals()["late"] = (thread, told)


def told_later():
    thread, told = globals()["late"]
    thread.join()
    return told


def torch_threads():
    import torch

    return {"torch": torch.get_num_threads(), "omp": os.environ["OMP_NUM_THREADS"]}


def all_reduce(rank, size, store, absent=None):
    """Sum 1 over all ranks by gloo; `absent` joins the group but not the collective."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    value = torch.ones(1000)
    if rank != absent:
        dist.all_reduce(value)
    total = float(value[0])
    if absent is None:
        dist.destroy_process_group()
    return total

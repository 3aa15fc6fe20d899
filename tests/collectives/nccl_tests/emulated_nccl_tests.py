"""Stands for the binaries of nccl-tests: prints what each version prints, and every failure; times come from a model.

The first word is the name of a binary, `all_reduce_perf`, then come its own. Ranks are told by mpirun, Hydra or srun as to any program; they meet in
the folder EMULATE_DIR. EMULATE_VERSION is that of nccl-tests, EMULATE_FAULT one of the words of `FAULTS` with `@SIZE` for
where it happens, EMULATE_RANK the rank that it happens to, EMULATE_MPI=0 a build without MPI, EMULATE_HOSTS names hosts to
print. No library is needed, and
nothing of nettune: `emulated(..)` of the tests and real launchers start it alike.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

FAULTS = ("hang", "die", "kill", "wrong", "torn", "socket", "gpus", "cuda", "nccl", "timeout")
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
UNCHECKED_IN_PLACE = ("alltoall", "sendrecv")
GB_PER_S, ALPHA_US = 40.0, 20.0
BLANK = "#"


def rank_and_size() -> tuple[int, int]:
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
                       ("SLURM_PROCID", "SLURM_NTASKS")):  # fmt: skip
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def read_size(text: str) -> int:
    factor = SIZES.get(text[-1:].upper(), 1)
    return int(float(text[:-1] if factor > 1 else text) * factor)


@dataclass
class Emulation:
    op: str
    words: list[str]
    version: tuple[int, ...]
    rank: int = 0
    size: int = 1
    options: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    busbw: list[float] = field(default_factory=list)
    wrong: int = 0

    def __post_init__(self) -> None:
        fault, _, at = os.environ.get("EMULATE_FAULT", "").partition("@")
        self.fault, self.fault_at = fault, read_size(at) if at else 0
        self.fault_rank = int(os.environ.get("EMULATE_RANK", self.size - 1))
        names = os.environ.get("EMULATE_HOSTS", socket.gethostname()).split(",")
        self.host = names[self.rank * len(names) // self.size]

    @property
    def old(self) -> bool:
        return self.version < (2, 13)

    @property
    def wide(self) -> bool:
        return self.version >= (2, 17, 5)

    @property
    def gpus(self) -> int:
        return int(self.options["-g"])

    @property
    def ranks(self) -> int:
        return self.size * self.gpus

    def say(self, text: str = "", end: str = "\n") -> None:
        if self.rank == 0:
            sys.stdout.write(text + end)
            sys.stdout.flush()

    def parse(self) -> None:
        known = {"-b": "32M", "-e": "32M", "-f": "1", "-i": "1M", "-n": "20", "-w": "1", "-g": "1", "-c": "1",
                 "-J": "", "-S": "0", "-I": "0", "-N": "1", "-T": "0", "-K": "0", "-o": "sum", "-d": "float"}  # fmt: skip
        self.options = dict(known)
        for flag, value in zip(self.words[::2], self.words[1::2], strict=False):
            if flag not in known:
                self.say(
                    f"USAGE: {self.op}_perf \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus per thread>] "
                )
                sys.exit(0)
            self.options[flag] = value

    def head(self) -> None:
        o = self.options
        begin, end, factor = read_size(o["-b"]), read_size(o["-e"]), int(o["-f"])
        if o["-J"] and self.wide:
            self.say(f"# Writing JSON output to {o['-J']}")
        if self.wide:
            number = ".".join(map(str, self.version))
            self.say(f"# nccl-tests version {number} nccl-headers=23203 nccl-library=23203")
        if self.version >= (2, 17):
            self.say(f"# Collective test starting: {self.op}_perf")
        step = f"{factor}(factor)" if factor > 1 else f"{read_size(o['-i'])}(bytes)"
        warm = o["-w"] if self.version >= (2, 17) else "5"
        line = f"# nThread 1 nGpus {o['-g']} minBytes {begin} maxBytes {end} step: {step} warmup iters: {warm} iters: {o['-n']}"
        line += "" if self.old else " agg iters: 1"
        line += f" validation: {o['-c']}" + ("" if self.old else " graph: 0")
        self.say(line + (" unalign: 0" if self.version >= (2, 18) else ""))
        self.say(f"{BLANK}\n# Using devices")
        if self.fault == "gpus":
            self.say(f" .. {self.host} pid {os.getpid()}: Test failure common.cu:1454")
            sys.stderr.write(f"Invalid number of GPUs: {o['-g']} requested but only 0 were found.\n"
                             "Please check the number of processes and GPUs per process.\n")  # fmt: skip
            sys.exit(5)
        self.devices()

    def devices(self) -> None:
        for rank, (pid, host) in enumerate(self.meet()):
            for gpu in range(self.gpus):
                number = rank * self.gpus + gpu
                bus = (
                    f"[0000:{0x1B + 0x11 * gpu:02x}:00]"
                    if self.version >= (2, 15)
                    else f"[0x{0x1B + gpu:02x}]"
                )
                group = "Group  0 " if self.version >= (2, 14) else ""
                blank = "  " if group else "   "
                self.say(
                    f"#{blank}Rank {number:2d} {group}Pid {pid:6d} on {host:>10} device {gpu:2d} {bus} NVIDIA FAKE H100"
                )
        if os.environ.get("NCCL_DEBUG") == "INFO":
            self.log()

    def log(self) -> None:
        prefix = f"{self.host}:{os.getpid()}:{os.getpid()} [0] NCCL INFO"
        self.say("NCCL version 2.32.3+cuda13.0")
        for name in ("NCCL_ALGO", "NCCL_PROTO"):
            if name in os.environ:
                self.say(f"{prefix} {name} set by environment to {os.environ[name]}")
        sockets = self.fault == "socket"
        if sockets:
            self.say(f"{prefix} NET/IB : No device found.")
            self.say(f"{prefix} NET/Socket : Using [0]eth0:10.0.0.1<0>")
        else:
            self.say(f"{prefix} NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>")
        self.say(f"{prefix} Using network {'Socket' if sockets else 'IB'}")
        ranks = f"rank 0 nranks {self.ranks} cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE"
        self.say(f"{prefix} ncclCommInitRank comm 0x5581 {ranks}")
        self.say(
            f"{prefix} 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer"
        )

    def meet(self) -> list[tuple[int, str]]:
        """Process ids and hosts of all ranks; rank 0 waits for them."""
        if self.size == 1:
            return [(os.getpid(), self.host)]
        folder = Path(os.environ["EMULATE_DIR"])
        (folder / f"rank{self.rank}.tmp").write_text(f"{os.getpid()} {self.host}", encoding="ascii")
        (folder / f"rank{self.rank}.tmp").rename(folder / f"rank{self.rank}")
        for _ in range(600):
            if all((folder / f"rank{rank}").exists() for rank in range(self.size)):
                break
            time.sleep(0.05)
        said = [(folder / f"rank{rank}").read_text(encoding="ascii").split() for rank in range(self.size)]
        return [(int(pid), host) for pid, host in said]

    def table_head(self) -> None:
        wide = " " if self.wide else ""
        rows = {
            True: ("#                                                     out-of-place                       in-place          ",
                   "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
                   "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       "),
            False: ("#                                                              out-of-place                       in-place          ",
                    f"#       size         count      type   redop    root     time   algbw   busbw {wide}#wrong     time   algbw   busbw {wide}#wrong{wide}",
                    f"#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            {wide}(us)  (GB/s)  (GB/s)       {wide * 2}"),
        }[self.old]  # fmt: skip
        stamp = "          timestamp" if self.options["-S"] == "1" else ""
        if self.options["-I"] == "1":
            more = "    i_min    i_max    i_p99    i_cv%"
            rows = (rows[0], rows[1].replace("#wrong", f"#wrong{more}"), rows[2])
        self.say(BLANK)
        for row in (rows[0], rows[1] + stamp, rows[2]):
            self.say(row)

    def numbers(self, value: float, width: int) -> str:
        power = len(str(int(value))) if value >= 1 else 0
        if not self.wide and width == 6:
            return f"{value:6.2f}"
        decimals = 2 if power < width - 2 else 1 if power < width - 1 else 0
        if not self.wide:
            decimals = 2 if value < 100 else 1 if value < 10000 else 0
        return f"{value:{width}.{decimals}f}"

    def half(self, size: int, *, in_place: bool) -> str:
        factor = {
            "all_reduce": 2 * (self.ranks - 1) / self.ranks,
            "broadcast": 1.0,
            "reduce": 1.0,
            "sendrecv": 1.0,
        }
        share = factor.get(self.op, (self.ranks - 1) / self.ranks) if self.ranks > 1 else 0.0
        gbytes_per_s = 3.0 if self.fault == "socket" else GB_PER_S
        if os.environ.get("NCCL_ALGO", "").lower().endswith("tree"):
            gbytes_per_s /= 2  # but quick for small ones
        alpha = ALPHA_US / (4 if os.environ.get("NCCL_ALGO", "").lower().endswith("tree") else 1)
        time_us = alpha + size * share / gbytes_per_s / 1e3
        algbw = size / time_us / 1e3
        self.busbw.append(algbw * share)
        unchecked = self.options["-c"] == "0" or (in_place and self.op in UNCHECKED_IN_PLACE)
        bad = 3 if self.fault == "wrong" and size >= self.fault_at and not unchecked else 0
        self.wrong += bool(bad)
        self.rows[-1]["in_place" if in_place else "out_of_place"] = {
            "time": time_us, "alg_bw": algbw, "bus_bw": algbw * share, "nwrong": None if unchecked else float(bad),
        }  # fmt: skip
        last = "N/A" if unchecked else "0e+00" if self.old else str(bad)
        width = 5 if not self.wide else 6
        text = f"  {self.numbers(time_us, 7)}  {self.numbers(algbw, 6)}  {self.numbers(algbw * share, 6)}  {last:>{width}}"
        if self.options["-I"] == "1":
            text += f"  {time_us:7.2f}  {time_us:7.2f}  {time_us:7.2f}     0.10"
        return text

    def table(self) -> None:
        o = self.options
        size, end, factor = read_size(o["-b"]), read_size(o["-e"]), int(o["-f"])
        redop = o["-o"] if self.op in REDUCING else "none"
        root = "0" if self.op in ROOTED else "-1"
        while size <= end:
            self.rows.append({"size": size, "count": size // 4, "type": o["-d"],
                              "redop": redop, "root": f"{root:>6}"})  # fmt: skip
            text = f"{size:12d}  {size // 4:12d}  {o['-d']:>8}  {redop:>6}  {root:>6}"
            if self.old:
                text = f"{size:12d}  {size // 4:12d}  {o['-d']:>6}"
                words = [redop] * (self.op in REDUCING) + [root] * (self.op in ROOTED)
                text += "".join(f"  {word:>6}" for word in words) or " " * 8
            # half a row waits in the buffer until its end, or until a message pushes it out
            self.trouble(size, text)
            stamp = "  2026-01-02 03:04:05" if o["-S"] == "1" else ""
            self.say(text + self.half(size, in_place=False) + self.half(size, in_place=True) + stamp)
            self.pace()
            size = size * factor if factor > 1 else size + read_size(o["-i"])

    def pace(self) -> None:
        time.sleep(float(os.environ.get("EMULATE_PACE_S", "0")))

    def wait_for_rank_0(self, size: int) -> None:
        """An operation begins on all ranks at once."""
        if self.size == 1:
            return
        begun = Path(os.environ["EMULATE_DIR"]) / f"size{size}"
        if self.rank == 0:
            begun.touch()
        for _ in range(600):
            if begun.exists():
                return
            time.sleep(0.05)

    def trouble(self, size: int, text: str) -> None:
        self.wait_for_rank_0(size)
        if size < self.fault_at or self.fault not in FAULTS:
            return
        mine = self.rank == self.fault_rank
        if self.fault == "torn":
            self.say(text, end="")
            os._exit(0)
        if self.fault == "hang" or (self.fault in {"die", "kill"} and not mine):
            time.sleep(3600)
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        messages = {
            "die": (
                3,
                "Test NCCL failure common.cu:514 'remote process exited or there was a network error / '",
            ),
            "nccl": (
                3,
                "Test NCCL failure common.cu:514 'unhandled system error / socketProgress: Connection closed'",
            ),
            "cuda": (2, "Test CUDA failure common.cu:400 'an illegal memory access was encountered'"),
            "timeout": (4, f"Test timeout ({self.options['-T']}s) common.cu:526"),
        }
        if self.fault in messages:
            code, message = messages[self.fault]
            half = text if self.rank == 0 else ""
            sys.stdout.write(
                f"{half}{self.host}: {message}\n .. {self.host} pid {os.getpid()}: Test failure common.cu:632\n"
            )
            sys.stdout.flush()
            os._exit(code)

    def foot(self) -> int:
        mean = sum(self.busbw) / len(self.busbw) if self.busbw else 0.0
        minimum = float(os.environ.get("NCCL_TESTS_MIN_BW", "0"))
        low = minimum > 0 and mean < 0.9 * minimum
        judged = ("FAILED" if low else "OK") if minimum > 0 else ""
        self.say(f"# Out of bounds values : {self.wrong} {'FAILED' if self.wrong else 'OK'}")
        self.say(f"# Avg bus bandwidth    : {mean:g} {judged}")
        self.say(BLANK)
        if self.version >= (2, 17):
            self.say(f"# Collective test concluded: {self.op}_perf\n{BLANK}" + ("\n" if self.wide else ""))
        if self.options["-J"] and self.rank == 0:
            self.json(mean, low if minimum > 0 else None)
        if self.wrong or low:
            self.say(f" .. {self.host} pid {os.getpid()}: Test failure common.cu:1454")
            return 7 if self.wide else 1
        return 0

    def json(self, mean: float, low: bool | None) -> None:
        o = self.options
        config = {"nthreads": 1, "ngpus": self.gpus, "minimum_bytes": read_size(o["-b"]), "maximum_bytes": read_size(o["-e"]),
                  "step_factor": int(o["-f"]), "warmup_iters": int(o["-w"]), "iterations": int(o["-n"]),
                  "aggregated_iterations": 1, "validation": int(o["-c"]), "graph": 0, "blocking_collectives": "false",
                  "per_iter_timing": "false", "parallel_init": "false",
                  "devices": [{"rank": 0, "group": 0, "pid": os.getpid(), "hostname": self.host, "device": 0,
                               "device_hex": "0000:1b:00", "device_info": "NVIDIA FAKE H100"}]}  # fmt: skip
        data = {"version": 3 if self.version >= (2, 19, 6) else 1, "start_time": "2026-01-02 03:04:05",
                "args": [f"{self.op}_perf", *self.words], "env": [f"{k}={v}" for k, v in os.environ.items()],
                "nccl_version": 23203, "config": config, "results": self.rows,
                "out_of_bounds": {"count": self.wrong, "okay": "false" if self.wrong else "true"},
                "average_bus_bandwidth": {"bandwidth": mean, "okay": {None: "unchecked", True: "false", False: "true"}[low]},
                "errors": [""], "end_time": "2026-01-02 03:04:06"}  # fmt: skip
        path = Path(o["-J"])
        path = path if not path.exists() else Path(f"{path}.0")
        path.write_text(json.dumps(data), encoding="utf-8")

    def main(self) -> int:
        self.parse()
        self.head()
        self.table_head()
        self.table()
        return self.foot()


def main() -> int:
    op = sys.argv[1].removesuffix("_mpi").removesuffix("_perf")
    version = tuple(int(part) for part in os.environ.get("EMULATE_VERSION", "2.19.6").split("."))
    rank, size = rank_and_size()
    if os.environ.get("EMULATE_MPI") == "0":
        rank, size = 0, 1
    return Emulation(op, sys.argv[2:], version, rank, size).main()


if __name__ == "__main__":
    sys.exit(main())

"""Mutated outputs: no traceback, and no pass where the output itself says FAILED, counts wrong elements, or has no end.

300 in the suite; NETTUNE_FUZZ=10000 for more. What must not pass is told by expressions of this file, not by the parser.
"""

from __future__ import annotations

import json
import os
import random
import re

import pytest

from collectives.nccl_tests.ending import Ending
from collectives.nccl_tests.jsonform import looks_like_json
from collectives.nccl_tests.verdict import judge
from collectives.outputs import runs_in
from collectives.perftest import PerfRun, looks_like_perftest
from collectives.perftest_verdict import judge_perftest
from nettune.checks import Finding, exit_code

COUNT = int(os.environ.get("NETTUNE_FUZZ", "300"))

PERFTEST = """\
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
 Number of qps   : 1            Transport type : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             380.50             379.41              0.723667
 8388608    5000             390.12             389.77              0.005808
---------------------------------------------------------------------------------------
"""
WRONG = re.compile(
    r"(?m)^\s*\d{1,18}\s+\d{1,18}\s+[a-z]\w+\s+[a-z]\w+\s+-?\d+(?:\s+\d+\.\d\d){3}\s+(\d+|N/A)(?:\s+\d+\.\d\d){3}\s+(\d+|N/A)\s*$"
)
PIECES = ("FAILED", "0 OK", "nan", "inf", "-1", "N/A", "\0", "\x1b[31m", "é", "\ud7ff", "9" * 400, "1e999", "...", "#", "{", '"', ",",
          "[1,0]<stdout>:", "0: ", " .. vm pid 1: Test failure x.cu:1\n", "vm: Test NCCL failure x.cu:1 'gone'", "Test timeout (3s)",
          "h:1:2 [0] NCCL INFO Channel 00\n", "h:1:2 [0] NCCL WARN x", "# nThread 1 nGpus 8 minBytes 8 maxBytes 9 step: 2(factor)\n",
          "# Avg bus bandwidth    : 1 \n", "# Out of bounds values : 0 OK\n", "\r\n", "\t", "    1048576  262144  float  sum  -1 ")  # fmt: skip


def mutant(seeds: list[str], number: int) -> str:
    """One to four changes to an output."""
    draw = random.Random(number)
    text = seeds[number % len(seeds)]
    for _ in range(draw.randint(1, 4)):
        lines = text.splitlines(keepends=True)
        at = draw.randrange(len(lines)) if lines else 0
        place = draw.randint(0, len(text))
        kind = draw.randrange(11)
        if kind == 0 and lines:
            text = "".join(lines[:at] + lines[at + 1 :])
        elif kind == 1 and lines:
            text = "".join([*lines[:at], lines[at], *lines[at:]])
        elif kind == 2:
            text = text[:place]
        elif kind == 3:
            text = text[:place] + draw.choice(PIECES) + text[place:]
        elif kind == 4 and lines:
            other = draw.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            text = "".join(lines)
        elif kind == 5 and text:
            spot = draw.randrange(len(text))
            text = text[:spot] + chr(draw.randint(32, 126)) + text[spot + 1 :]
        elif kind == 6:
            digits = [match.start() for match in re.finditer(r"\d", text)]
            if digits:
                spot = draw.choice(digits)
                text = text[:spot] + draw.choice("0123456789") + text[spot + 1 :]
        elif kind == 7 and lines:
            words = lines[at].split(" ")
            words[draw.randrange(len(words))] = draw.choice(PIECES)
            text = "".join([*lines[:at], " ".join(words), *lines[at + 1 :]])
        elif kind == 8:
            text = text[place:]
        elif kind == 9:
            other_text = draw.choice(seeds)
            text = text[:place] + other_text[draw.randint(0, len(other_text)) :]
        else:
            text = re.sub(r"(?m)^", draw.choice(("[1,0]<stdout>:", "0: ", "[0] ", "    ")), text)
    return text


def must_not_pass(text: str) -> str:
    """Why an output cannot be a pass; empty where this file knows no reason."""
    if looks_like_json(text):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return "no whole JSON"
        return "" if "average_bus_bandwidth" in data and "out_of_bounds" in data else "no footer"
    plain = re.sub(r"(?m)^(?: *\[1,0\]<stdout>:| *0: |\[0\] )+", "", text)
    if looks_like_perftest(text):
        last = [match.end() for match in re.finditer(r"(?m)^\s*\d+\s+\d+\s+[\d.]+\s+[\d.]+\s+[\d.]+", plain)]
        if not last or not re.search(r"-{40,}", plain[last[-1] :]):
            return "no line under the table"
        if not re.search(r"(?m)^\s*# nThread\s+\d+\s+nGpus\s+\d+\s+minBytes", plain):
            return ""
    if re.search(r"(?m)^\s*#(?!\s+Rank).*FAILED", plain):
        return "FAILED"
    if any(word.isdecimal() and int(word) > 0 for row in WRONG.findall(plain) for word in row):
        return "#wrong"
    if not re.search(r"# Out of bounds values", plain) or not re.search(r"# Avg bus bandwidth", plain):
        return "no footer"
    return ""


def verdict(text: str, exit_status: int | None) -> list[Finding]:
    ending = Ending(exit_code=exit_status)
    return [
        one
        for run in runs_in(text)
        for one in (judge_perftest(run) if isinstance(run, PerfRun) else judge(run, None, ending))
    ]


@pytest.fixture
def seeds(emulated, tmp_path):
    """Outputs of all versions and several operations, right and wrong, JSON, perftest."""
    found = [
        PERFTEST,
        PERFTEST.replace("Gb/sec", "MB/sec").replace("379.41", "45228.24").replace("389.77", "46463.51"),
    ]
    found += [
        emulated(op, version=version, NCCL_DEBUG="INFO")[1]
        for version in ("2.9", "2.14", "2.17.1", "2.19.6")
        for op in ("all_reduce", "alltoall", "broadcast")
    ]
    found += [emulated(fault="wrong@2M")[1], emulated(NCCL_TESTS_MIN_BW="400")[1]]
    found += [
        emulated("all_reduce", "-b", "1M", "-e", "4M", "-f", "2", "-g", "8", *words)[1]
        for words in (("-S", "1"), ("-I", "1"))
    ]
    emulated("all_reduce", "-b", "1M", "-e", "4M", "-f", "2", "-g", "8", "-J", str(tmp_path / "j"))
    return [*found, (tmp_path / "j").read_text(encoding="utf-8")]


def test_mutated_outputs(seeds):
    """Findings for every mutant; each names what to do; none passes that this file knows a reason against."""
    passed = 0
    for number in range(COUNT):
        text = mutant(seeds, number)
        status = random.Random(-number).choice((None, None, 0, 0, 1, 3, 7, -9))
        findings = verdict(text, status)
        assert findings, number
        code = exit_code(findings)
        for one in findings:
            assert Finding.from_json(json.loads(json.dumps(one.to_json()))) == one
        reason = must_not_pass(text) or ("exit code" if status and not looks_like_perftest(text) else "")
        assert not (reason and code == 0), (number, reason)
        passed += code == 0
    assert 0 < passed < COUNT / 2

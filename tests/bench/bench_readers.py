"""Reading and analysing an ibnetdiscover dump of a three-tier fabric with 8 rails.

4,096 hosts are 429,000 lines, 2,560 switches and 98,304 cables. Run it on one core (`taskset -c 0`) to compare with the
target: read, turned into a `Fabric` and analysed in 10 s and 1 GB.
"""

from __future__ import annotations

import importlib.util
import resource
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from topology.discovery.analysis import analyse
from topology.readers import Source, read

SIZES = [512, 1024, 2048, 4096]


@cache
def dump(hosts: int) -> Any:
    """Make the text once a size."""
    path = Path(__file__).resolve().parent.parent / "topology" / "readers" / "ib_dump.py"
    spec = importlib.util.spec_from_file_location("ib_dump", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ibnetdiscover_dump(hosts)


@pytest.mark.parametrize("hosts", SIZES)
def test_read(benchmark, hosts):
    """Text to what it says."""
    source = Source("dump", dump(hosts).text)
    benchmark.extra_info["lines"] = source.text.count("\n")
    said = benchmark.pedantic(lambda: read(source), rounds=3)
    assert len(said.links) == dump(hosts).links


@pytest.mark.parametrize("hosts", SIZES)
def test_read_and_analyse(benchmark, hosts):
    """Text to findings."""
    source = Source("dump", dump(hosts).text)
    assert benchmark.pedantic(lambda: analyse(read(source).to_fabric()), rounds=3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    benchmark.extra_info["peak_mib"] = peak >> 10
    assert peak < 1 << 20

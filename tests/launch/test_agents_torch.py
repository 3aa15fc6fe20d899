"""Ranks with torch: one import for all, no threads at the fork, real collectives and a missing peer."""

from __future__ import annotations

from pathlib import Path

import pytest

from nettune.launch import AgentError, Agents, LocalLauncher

pytest.importorskip("torch")

HOSTS = [f"t{n}" for n in range(4)]


@pytest.fixture(scope="module")
def agents(gone):
    """Ranks that the first test leaves whole and the second breaks."""
    with Agents(LocalLauncher(HOSTS), HOSTS, preload=["torch", "torch.distributed"], threads=2) as started:
        yield started
    gone(started.mark)


def test_torch_is_loaded_once_and_ranks_work(agents, tmp_path):
    """No thread pool was alive at the fork, torch has the threads asked for, and gloo sums over all ranks."""
    warm = agents._transport.warm
    assert warm["threads"] == 1
    assert len(list(Path(f"/proc/{warm['warm']}/task").iterdir())) == 1
    assert agents.call("launch_work:loaded", {"module": "torch"}) == [True] * 4
    assert agents.call("launch_work:torch_threads") == [{"torch": 2, "omp": "2"}] * 4
    for turn in range(2):
        work = {"size": 4, "store": str(tmp_path / f"store{turn}")}
        sums = agents.call("launch_work:all_reduce", lambda rank, work=work: {"rank": rank, **work})
        assert sums == [4.0] * 4


def test_missing_peer_of_a_collective_is_seen(agents, tmp_path):
    """Ranks stuck in a collective are named with it, and the one that did not join is told as done."""
    work = {"size": 4, "store": str(tmp_path / "store"), "absent": 2}
    with pytest.raises(AgentError) as caught:
        agents.call("launch_work:all_reduce", lambda rank: {"rank": rank, **work}, timeout_s=2.5)
    line = str(caught.value)
    assert line.startswith("ranks 0-1,3 (t0 t1 t3) did not answer within 2.5 s, in ")
    assert "all_reduce" in line
    assert line.endswith("(others: done)")
    assert "in all_reduce" in caught.value.details

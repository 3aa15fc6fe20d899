"""Two real gloo ranks: the same learning as one process, a breakdown that adds up, and named failures."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from collectives.communicator import call_to_join
from nettune.errors import InputError, NettuneError
from nettune.launch import Agents, LocalLauncher
from nettune.trainer import train
from nettune.trainer.config import TrainConfig
from nettune.trainer.data import Batches
from nettune.trainer.mfu import PARTS
from nettune.trainer.model import build_model
from nettune.trainer.overlap import BucketTimeline

WORLD = 2
SETUP = "nettune.trainer.train:setup"
CONFIG = {"model": {"depth": 2, "seq_len": 32}, "batch_per_rank": 2, "bucket_cap_mib": 0.25}


class Ranks:
    """Two rank agents and short words for what the tests do with them."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents

    def call(self, function: str, ranks: list[int] | None = None, **kwargs: Any) -> list[Any]:
        return self.agents.call(f"nettune.trainer.{function}", kwargs, ranks=ranks, timeout_s=40)

    def setup(self, config: dict[str, Any] | None = None, timeout_s: float = 20.0) -> list[Any]:
        """All ranks, with a store that rank 0 serves before."""
        return call_to_join(
            self.agents, SETUP, range(WORLD), ["lo"] * WORLD, timeout_s=timeout_s, config=config or CONFIG
        )

    def setup_at(
        self,
        port: int,
        configs: list[dict[str, Any]],
        ranks: list[int] | None = None,
        timeout_s: float = 20.0,
    ) -> list[Any]:
        """These ranks, each with its config, at a port that a launcher chose: rank 0 serves when it joins."""
        shared = {
            "world_size": WORLD,
            "master_addr": "127.0.0.1",
            "master_port": port,
            "iface": "lo",
            "timeout_s": timeout_s,
        }
        return self.agents.call(
            SETUP, lambda rank: {**shared, "rank": rank, "config": configs[rank]}, ranks=ranks, timeout_s=40
        )

    def train(self, config: dict[str, Any] | None = None, steps: int = 4) -> list[Any]:
        """A fresh model from its seed, trained from its first step."""
        self.call("train:teardown", keep_model=False)
        self.setup(config)
        results = self.call("train:run", steps=steps, warmup=0)
        self.call("train:teardown", keep_model=False)
        return results


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def agents() -> Iterator[Agents]:
    with Agents(LocalLauncher(), ["localhost"] * WORLD, preload=["nettune.trainer.train"]) as made:
        yield made


@pytest.fixture
def ranks(agents: Agents) -> Iterator[Ranks]:
    made = Ranks(agents)
    made.call("train:teardown", keep_model=False)
    yield made
    made.call("train:teardown", keep_model=False)


def losses(result: dict[str, Any]) -> list[float]:
    return [step["loss"] for step in result["steps"]]


def test_two_ranks_learn_as_one_process_with_both_batches(ranks: Ranks) -> None:
    """Mean loss of the ranks equals the loss of one process on the combined batch, step by step."""
    results = ranks.train(steps=6)
    together = [sum(pair) / WORLD for pair in zip(*map(losses, results), strict=True)]

    config = TrainConfig.from_json(CONFIG)
    model = build_model(config.model, config.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.0)
    shards = [Batches(rank=r, world_size=WORLD, batch=2, seq_len=32, seed=0) for r in range(WORLD)]
    alone = []
    for step in range(6):
        tokens, targets = (torch.cat(parts) for parts in zip(*(shard(step) for shard in shards), strict=True))
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        alone.append(loss.item())
    assert together == pytest.approx(alone, abs=2e-4)
    assert losses(results[0]) != losses(results[1])
    assert results[0]["weights_digest"] == results[1]["weights_digest"]


def test_loss_falls(ranks: Ranks) -> None:
    """Forty steps take more than a nat off the loss of a uniform guess."""
    results = ranks.train(steps=40)
    assert sum(losses(results[0])[-5:]) / 5 < losses(results[0])[0] - 1.0


def test_seed_decides_the_run(ranks: Ranks) -> None:
    """Same seed: the same losses and weights, bit by bit; another seed: others."""
    first, again, other = ranks.train(), ranks.train(), ranks.train({**CONFIG, "seed": 5})
    assert losses(first[0]) == losses(again[0])
    assert first[0]["weights_digest"] == again[0]["weights_digest"]
    assert losses(first[0]) != losses(other[0])


def test_bucket_size_changes_the_messages_and_not_the_gradients(ranks: Ranks) -> None:
    """One bucket or many: between two ranks the sums are the same to the last bit, so the training is too."""
    many, one = ranks.train(), ranks.train({**CONFIG, "bucket_cap_mib": 25})
    assert len(many[0]["bucket_bytes"]) > 1
    assert len(one[0]["bucket_bytes"]) == 1
    gradient_bytes = TrainConfig.from_json(CONFIG).model.gradient_bytes
    assert sum(many[0]["bucket_bytes"]) == sum(one[0]["bucket_bytes"]) == gradient_bytes
    assert many[0]["weights_digest"] == one[0]["weights_digest"]


def test_breakdown_adds_up_and_exposed_is_part_of_communication(ranks: Ranks) -> None:
    """Parts of a step add up to it, none is negative, and 0 <= exposed <= in flight <= step."""
    ranks.setup()
    [first, _] = ranks.call("train:run", steps=5)
    for step in first["steps"]:
        assert sum(step[part] for part in PARTS) == pytest.approx(step["step_s"], rel=1e-9)
        assert all(step[part] >= 0 for part in PARTS)
        assert 0 <= step["exposed_comm_s"] <= step["comm_s"] + 1e-9
        assert 0 < step["comm_s"] <= step["step_s"]
        assert step["tokens"] == 64
    assert first["ddp_logging"] is None or first["ddp_logging"]["backward_comm_s"] > 0


def test_a_rank_that_comes_late_is_waited_for_in_exposed_time(ranks: Ranks) -> None:
    """Rank 0 alone on a heavy batch: its peer computes less and shows the wait as exposed communication."""
    light = {**CONFIG, "model": {"depth": 2, "seq_len": 128}, "batch_per_rank": 1}
    # Two configs that differ in the batch only: the weights agree.
    ranks.setup_at(free_port(), [{**light, "batch_per_rank": 64}, light])
    heavy, idle = ranks.call("train:run", steps=3)
    for busy_step, idle_step in zip(heavy["steps"], idle["steps"], strict=True):
        computed = busy_step["step_s"] - busy_step["exposed_comm_s"]
        waited = idle_step["exposed_comm_s"]
        assert waited > busy_step["exposed_comm_s"]
        assert waited > 0.5 * computed


def test_compute_is_measured_without_touching_the_model(ranks: Ranks) -> None:
    """Steps without communication have no communication, and the next step goes on from the same weights."""
    ranks.train()
    ranks.setup()
    before = ranks.call("train:run", steps=2, warmup=0)
    computed = ranks.call("train:measure_compute", steps=3)
    after = ranks.call("train:run", steps=2, warmup=0)
    assert [len(result["steps"]) for result in computed] == [3, 3]
    assert all(set(step) == {"step_s", *PARTS} - {"exposed_comm_s"} for step in computed[0]["steps"])
    straight = ranks.train(steps=4)
    assert losses(before[0]) + losses(after[0]) == losses(straight[0])


def test_a_new_initialisation_goes_on_with_the_kept_model(ranks: Ranks) -> None:
    """Torn down and set up with another bucket size, training continues; with another seed it starts anew."""
    ranks.setup()
    first = ranks.call("train:run", steps=2, warmup=0)
    ranks.call("train:teardown")
    again = ranks.setup({**CONFIG, "bucket_cap_mib": 25})
    assert [result["step"] for result in again] == [2, 2]
    second = ranks.call("train:run", steps=2, warmup=0)
    ranks.call("train:teardown")
    assert losses(first[0]) + losses(second[0]) == losses(ranks.train(steps=4)[0])
    assert ranks.setup({**CONFIG, "seed": 1})[0]["step"] == 0


def test_teardown_closes_the_connections(ranks: Ranks) -> None:
    """Initialisations leave no open file behind: the next ones start from new connections only."""
    open_files = []
    for _ in range(3):
        ranks.setup()
        ranks.call("train:run", steps=2, warmup=0)
        ranks.call("train:teardown")
        listed = ranks.agents.call("os:listdir", {"path": "/proc/self/fd"}, timeout_s=40)
        open_files.append([len(names) for names in listed])
    assert open_files[1] == open_files[0]
    assert open_files[2] == open_files[0]


def test_steps_are_streamed(ranks: Ranks) -> None:
    """With `stream` the caller gets each step's record while the run goes on."""
    events: list[tuple[int, dict[str, Any]]] = []
    ranks.setup()
    results = ranks.agents.call(
        "nettune.trainer.train:run",
        {"steps": 2, "warmup": 1, "stream": True},
        timeout_s=40,
        on_event=lambda rank, event: events.append((rank, event)),
    )
    mine = [event for rank, event in events if rank == 0]
    assert mine == [{"event": "step", **step} for step in results[0]["steps"]]


def test_ranks_with_other_weights_are_named(ranks: Ranks) -> None:
    """A rank that starts from another seed is an error at setup, not a silently wrong run."""
    with pytest.raises(NettuneError, match="rank 1 holds other weights than rank 0"):
        ranks.setup_at(free_port(), [{**CONFIG, "seed": rank} for rank in range(WORLD)])


@pytest.mark.parametrize(
    ("present", "message"), [(0, "rank 1 did not join within 1.5 s"), (1, "found no rank 0 at 127.0.0.1")]
)
def test_a_missing_rank_is_named_within_the_timeout(ranks: Ranks, present: int, message: str) -> None:
    """Setting up without one of the ranks ends in one line that names it, and the rank can be used again."""
    with pytest.raises(NettuneError, match=message) as caught:
        ranks.setup_at(free_port(), [CONFIG] * WORLD, ranks=[present], timeout_s=1.5)
    assert "\n" not in str(caught.value)
    assert len(ranks.setup()) == WORLD


def test_a_second_setup_without_a_teardown_is_refused(ranks: Ranks) -> None:
    """A rank whose group is up says so, and the group stays as it is."""
    ranks.setup()
    with pytest.raises(NettuneError, match="a process group is up already; leave it first"):
        ranks.setup()
    assert len(ranks.call("train:run", steps=1)) == WORLD


def test_ranks_do_not_wait_for_a_name_server(ranks: Ranks) -> None:
    """Ranks that train have the resolver's short time-outs, whoever served the store."""
    ranks.setup()
    assert ranks.agents.call("os:getenv", {"key": "RES_OPTIONS"}) == ["timeout:1 attempts:1"] * WORLD


def test_a_rank_that_stays_away_from_an_all_reduce_is_an_error(ranks: Ranks) -> None:
    """A step whose peer never comes ends at the group's timeout in one line; a new setup works."""
    ranks.setup(timeout_s=3)
    with pytest.raises(
        NettuneError, match="rank 0 of 2: an all-reduce of the gradients did not finish"
    ) as caught:
        ranks.call("train:run", ranks=[0], steps=1)
    assert "\n" not in str(caught.value)
    ranks.call("train:teardown", keep_model=False)
    ranks.setup()
    assert len(ranks.call("train:run", steps=1)) == WORLD


def test_calls_out_of_order_are_refused() -> None:
    """Running before a setup, and a rank outside the job, are one line."""
    with pytest.raises(NettuneError, match="call setup first"):
        train.run(steps=1)
    with pytest.raises(NettuneError, match="call setup first"):
        train.measure_compute(steps=1)
    with pytest.raises(InputError, match=r"rank 2 is not in 0\.\.1"):
        train.setup(rank=2, world_size=2, master_addr="127.0.0.1", master_port=1)
    assert train.teardown() == {"rank": None}


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6))
def test_timeline_counts_each_moment_once(spans: list[tuple[int, int]]) -> None:
    """Time in flight is the union of the buckets' spans; exposed is what of it follows the last launch."""
    timeline = BucketTimeline(2)
    pairs = sorted((start, start + length) for start, length in spans)
    timeline._launched = [float(start) for start, _ in pairs]
    timeline._done = [float(end) for _, end in reversed(pairs)]
    moments = {moment for start, end in pairs for moment in range(start, end)}
    last = pairs[-1][0]
    assert timeline.times() == (len(moments), sum(moment >= last for moment in moments))

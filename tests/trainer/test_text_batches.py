"""The built-in text and its batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nettune.errors import InputError
from nettune.trainer.data import Batches, text, text_digest


def batches(rank: int, world_size: int = 4, seed: int = 0) -> Batches:
    return Batches(rank=rank, world_size=world_size, batch=3, seq_len=64, seed=seed)


def test_text_is_there_and_large_enough() -> None:
    """Every Python has at least half a megabyte of it, mostly printable."""
    whole = np.frombuffer(text(), dtype=np.uint8)
    assert len(whole) > 500_000
    assert np.mean((whole == 10) | ((whole >= 32) & (whole < 127))) > 0.98
    assert len(text_digest()) == 16


@given(st.integers(1, 64), st.integers(0, 2**40), st.integers(0, 10**6))
def test_batches_follow_from_seed_rank_and_step(world_size: int, seed: int, step: int) -> None:
    """Two makers with the same numbers give the same batch; targets are the tokens one later; all is in the share."""
    rank = world_size - 1
    first = batches(rank, world_size, seed)
    tokens, targets = first(step)
    again, _ = batches(rank, world_size, seed)(step)
    assert torch.equal(tokens, again)
    assert tokens.shape == targets.shape == (3, 64)
    assert tokens.dtype == torch.int64
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    assert first.share.tobytes().find(bytes(tokens[0].tolist())) >= 0


def test_shares_are_disjoint() -> None:
    """Ranks cut the text without overlap, and draw other batches at other steps and from other seeds."""
    shares = [batches(rank).share for rank in range(4)]
    assert b"".join(share.tobytes() for share in shares) == text()[: sum(map(len, shares))]
    assert len({batches(0, seed=seed)(step)[0].numpy().tobytes() for seed in (0, 1) for step in (0, 1)}) == 4


def test_too_many_ranks_are_refused() -> None:
    """A share too short for one sequence, and a rank outside the job, are said so."""
    with pytest.raises(InputError, match="too few for 100000 ranks"):
        batches(0, 100_000)
    with pytest.raises(InputError, match=r"not in 0\.\.3"):
        batches(4)

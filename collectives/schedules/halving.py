"""Recursive halving and doubling: partners at distances 1, 2, 4, ...; volumes of a ring, log2 n rounds.

Source: Thakur, Rabenseifner, Gropp 2005, sections 4.1 (doubling), 4.2 (halving) and 4.5 (both, Rabenseifner's
all-reduce); ranks beyond a power of two are folded into their neighbours as in MPICH: of the first 2(n - 2^k) ranks,
the even ones hand their data to the odd ones and get the result from them.
"""

from __future__ import annotations

import numpy as np

from collectives.schedules.compose import all_reduce_of, for_op
from collectives.schedules.schedule import Ints, Op, Round, Schedule
from nettune.errors import InputError


def halving_doubling(op: Op, ranks: int) -> Schedule:
    """all_gather by doubling, reduce_scatter by halving, all_reduce by halving, then doubling.

    Each rank sends (n-1)/n of the buffer (all_reduce twice that) for n a power of two. Otherwise a folded rank of an
    all-reduce sends and receives the whole message once, and its partner that much more.

    Raises:
        InputError: no rank.
    """
    if ranks < 1:
        raise InputError(f"halving_doubling: {ranks} ranks; use 1 or more")
    if op is Op.ALL_REDUCE:
        # The odd rank of a folded pair keeps the block for both.
        return all_reduce_of(_doubling(ranks, _core(ranks)))
    return for_op(_doubling(ranks, np.arange(ranks)), op)


def _core(ranks: int) -> Ints:
    """(2^k,) ranks that take part in halving and doubling."""
    size = 1 << (ranks.bit_length() - 1)
    extra = ranks - size
    place = np.arange(size)
    return np.where(place < extra, 2 * place + 1, place + extra)


def _doubling(ranks: int, home: Ints) -> Schedule:
    """All-gather of chunks that ranks `home` have: fold, doubling of the core, unfold."""
    core = _core(ranks)
    size, extra = len(core), ranks - len(core)
    folded = 2 * np.arange(extra)
    # The place in the core where each chunk is after the fold.
    place_of = np.searchsorted(core, home + ((home < 2 * extra) & (home % 2 == 0)))
    at_fold = np.flatnonzero(np.isin(home, folded))
    levels = size.bit_length() - 1
    before = 1 if len(at_fold) else 0

    def make(number: int) -> Round:
        if number < before:
            return Round.of(home[at_fold], home[at_fold] + 1, at_fold)
        level = number - before
        if level < levels:
            place = np.arange(size)
            sends = (place_of >> level) == (place >> level)[:, None]
            at, chunk = np.nonzero(sends)
            return Round.of(core[at], core[at ^ (1 << level)], chunk)
        at, chunk = np.nonzero(home != folded[:, None])
        return Round.of(folded[at] + 1, folded[at], chunk)

    share = np.full(len(home), 1 / len(home))
    count = before + levels + (1 if extra else 0)
    return Schedule.of(Op.ALL_GATHER, ranks, count, make, share=share, home=home, name="halving-doubling")

"""Point to point: pairs of ranks that send one message each, all at once (pipeline stages, pairwise probes)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collectives.schedules.schedule import Op, Round, Schedule
from nettune.errors import InputError


def p2p(ranks: int, pairs: Sequence[tuple[int, int]]) -> Schedule:
    """One round; chunk i is the whole message (share 1) of pair i, from its first rank to its second.

    Raises:
        InputError: a pair joins a rank to itself or names no rank.
    """
    for src, dst in pairs:
        if src == dst or not (0 <= src < ranks and 0 <= dst < ranks):
            raise InputError(f"p2p: {src} to {dst} joins no two of {ranks} ranks")
    sources, targets = tuple(src for src, _ in pairs), tuple(dst for _, dst in pairs)
    step = Round.of(np.array(sources, np.int64), np.array(targets, np.int64), np.arange(len(pairs)))
    return Schedule.of_rounds(
        Op.P2P,
        ranks,
        [step] if pairs else [],
        share=[1.0] * len(pairs),
        home=sources,
        target=targets,
        name="p2p",
    )

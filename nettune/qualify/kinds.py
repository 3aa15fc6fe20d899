"""Kinds of fault of a link, named as the checks that report them."""

from __future__ import annotations

import enum


class Kind(enum.StrEnum):
    """One kind; its value is the name of the check."""

    RATE = "link-rate"
    LOSS = "link-loss"
    MTU = "link-mtu"
    FLAP = "link-flap"
    DEAD = "link-dead"

"""Byte-level text that every Python has, and batches of it that follow from (seed, rank, step) alone.

The text is the source of some modules of the standard library: English and code, about 1 MB, nothing to download.
It differs between versions of Python, so `text_digest` goes into the records.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util

import numpy as np
import torch
from torch import Tensor

from nettune.errors import InputError

# Long, well commented modules; found without importing them, and read through their loader, so that a zipped
# standard library works too. A module that a build leaves out is skipped.
_MODULES = (
    "argparse", "ast", "bdb", "calendar", "codecs", "configparser", "copy", "csv", "datetime", "decimal", "difflib",
    "dis", "doctest", "enum", "fractions", "ftplib", "functools", "gettext", "heapq", "imaplib", "inspect",
    "ipaddress", "locale", "mailbox", "mimetypes", "optparse", "pdb", "pickle", "pickletools", "platform", "plistlib",
    "pydoc", "random", "shutil", "smtplib", "socket", "ssl", "statistics", "subprocess", "tarfile", "tempfile",
    "textwrap", "threading", "tokenize", "traceback", "turtle", "typing", "uuid", "zipfile",
)  # fmt: skip


@functools.cache
def text() -> bytes:
    """The whole text.

    Raises:
        InputError: this Python ships without sources.
    """
    parts = []
    for name in _MODULES:
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        source = getattr(loader, "get_source", lambda _name: None)(name)
        if source:
            parts.append(source)
    if not parts:
        raise InputError(
            "this Python ships its standard library without sources; the trainer needs them as text"
        )
    return "\n".join(parts).encode()


def text_digest() -> str:
    """First 16 hex digits of the SHA-256 of the text."""
    return hashlib.sha256(text()).hexdigest()[:16]


class Batches:
    """The batches of one rank: windows at random places of the rank's own share of the text.

    Shares are contiguous and disjoint, so no two ranks ever see the same byte.
    """

    def __init__(self, *, rank: int, world_size: int, batch: int, seq_len: int, seed: int) -> None:
        if not 0 <= rank < world_size:
            raise InputError(f"rank {rank} is not in 0..{world_size - 1}")
        whole = np.frombuffer(text(), dtype=np.uint8)
        share = len(whole) // world_size
        if share < seq_len + 1:
            raise InputError(
                f"the text has {len(whole)} bytes: too few for {world_size} ranks of sequences of {seq_len}"
            )
        self.share = whole[rank * share : (rank + 1) * share]
        self._batch, self._seq_len, self._seed, self._rank = batch, seq_len, seed, rank

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Tokens and next tokens of one step, each int64 (batch, seq_len)."""
        random = np.random.default_rng((self._seed, self._rank, step))
        starts = random.integers(0, len(self.share) - self._seq_len, self._batch)
        windows = self.share[starts[:, None] + np.arange(self._seq_len + 1)].astype(np.int64)
        whole = torch.from_numpy(windows)
        return whole[:, :-1].contiguous(), whole[:, 1:].contiguous()

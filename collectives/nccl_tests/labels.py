"""Labels that launchers and log collectors put before each line: taken off, and the rank in them kept."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LABELS = (
    # kubectl logs --timestamps, journald: a time of ISO 8601
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)? "),
    # Open MPI 4 `[1,0]<stdout>:`, 5 `[prterun-host-1234@1,0]<stdout>: `, in documents with blanks before
    re.compile(r"\s*\[[^\]\s]{0,128}?\d+,(?P<rank>\d{1,7})\]<std(?:out|err)>\s?:\s?"),
    # srun -l `0: `, ` 12: `
    re.compile(r"\s{0,6}(?P<rank>\d{1,7}): "),
    # Hydra -prepend-rank `[0] `
    re.compile(r"\[(?P<rank>\d{1,7})\] "),
)
_FIRST = tuple("0123456789[ \t")
"""What every label begins with."""


def unlabelled(line: str) -> tuple[str, int | None]:
    """(the line without labels, colours and line end, rank in a label)."""
    text = line.rstrip("\r\n")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    rank = None
    if not text.startswith(_FIRST):
        return text, None
    for label in _LABELS:
        found = label.match(text)
        if found is not None:
            text = text[found.end() :]
            if "rank" in found.groupdict():
                rank = int(found["rank"])
    return text, rank

"""Text files from people, read whole: a device or a file of another kind ends in a line, not in the memory's end."""

from __future__ import annotations

from pathlib import Path

from nettune.errors import InputError

MOST_BYTES = 512 * 2**20


def read_text(file: Path) -> str:
    """The file's text.

    Raises:
        InputError: it cannot be read, is no UTF-8 text, or has more than `MOST_BYTES`.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"has more than {MOST_BYTES >> 20} MiB", file)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file) from None
    except UnicodeDecodeError:
        raise InputError("is no UTF-8 text", file) from None

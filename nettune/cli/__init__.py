"""The command line: one module a verb; each parses, calls, hands the result to a renderer and never computes."""

from __future__ import annotations

import sys


def main() -> None:
    """Console script."""
    if sys.argv[1:2] == ["simulate"]:
        from nettune.cli.quick import ran

        code = ran(sys.argv[1:])
        if code is not None:
            raise SystemExit(code)
    from nettune.cli.main import main as whole

    whole()


__all__ = ["main"]

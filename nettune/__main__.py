"""`python -m nettune` is `nettune`."""

from __future__ import annotations

from nettune.cli import main

main()

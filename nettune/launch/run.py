"""Running commands on hosts: output streamed, exit codes collected, nothing left behind."""
from __future__ import annotations
def run():
    raise NotImplementedError

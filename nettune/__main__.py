"""`python -m nettune` is `nettune`."""

from nettune.cli import main

main()

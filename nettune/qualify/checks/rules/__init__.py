"""The rules, one family a module; each module's RULES are listed in `nettune.qualify.checks.registry`."""

"""Injected faults: one module a kind, each with a size, a default target and an undo."""

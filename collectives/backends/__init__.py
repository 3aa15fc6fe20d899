"""Backends that carry out collectives; their functions run inside rank agents and are named by text from outside."""

from __future__ import annotations

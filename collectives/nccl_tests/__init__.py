"""NVIDIA/nccl-tests and ROCm/rccl-tests: finding and running them, reading what they print, judging it."""

from __future__ import annotations

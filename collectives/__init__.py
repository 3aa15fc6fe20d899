"""Collectives: schedules, a job's traffic, backends that run them, and how they are measured."""

from __future__ import annotations

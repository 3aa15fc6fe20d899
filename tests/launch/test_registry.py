"""Launchers by name."""

from __future__ import annotations

import pytest

from nettune.errors import NettuneError
from nettune.launch import Launcher, LocalLauncher, create, names, register, registry


def test_local_launcher_by_name():
    """The launcher of this machine is there under its name, with its options."""
    made = create("local", hosts=["a", "b"])
    assert isinstance(made, LocalLauncher)
    assert isinstance(made, Launcher)
    assert made.hosts() == ["a", "b"]


def test_unknown_name_lists_the_known():
    """A wrong name is one line with the choice."""
    with pytest.raises(NettuneError, match=r"unknown launcher 'rsh': choose one of .*local"):
        create("rsh")


def test_register_adds_and_refuses_a_second_meaning(monkeypatch):
    """A launcher can be added from outside, twice with the same meaning, never with another."""
    monkeypatch.setattr(registry, "_TARGETS", dict(registry._TARGETS))
    register("mine", "nettune.launch.local:LocalLauncher")
    register("mine", "nettune.launch.local:LocalLauncher")
    assert "mine" in names()
    assert create("mine").hosts() == ["localhost"]
    with pytest.raises(ValueError, match="already"):
        register("mine", "somewhere:Else")

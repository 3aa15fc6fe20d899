"""The srun launcher's command line; that real srun obeys it is tested on a lab, with the other launchers."""

from __future__ import annotations

import pytest

from nettune.errors import InputError, NettuneError
from nettune.launch import create


def test_one_step_on_one_node():
    """The words of the command stand last, as they are."""
    launcher = create("slurm", hosts=["g1", "g2"])
    argv = launcher.argv("g2", ["sh", "-c", "echo $1"])

    assert argv[0] == "srun"
    assert "--nodelist=g2" in argv
    assert argv[-3:] == ["sh", "-c", "echo $1"]
    assert (launcher.hosts(), launcher.root_argv([])) == (["g1", "g2"], None)
    assert launcher.entry("g1").netns is None
    with pytest.raises(NettuneError, match="g3"):
        launcher.argv("g3", ["true"])


@pytest.mark.parametrize("name", ["g[1-3]", "-x", "a,b", "", "g1 g2", "g1;x"])
def test_names_that_srun_would_take_for_something_else(name):
    """Hostlists, options and blanks are refused."""
    with pytest.raises(InputError, match="no name of a Slurm node"):
        create("slurm", hosts=[name])

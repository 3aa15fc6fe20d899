"""What every launcher must do. To add one: its fixture in conftest.py, its name in KINDS."""

from __future__ import annotations

import pytest

from nettune.errors import NettuneError
from nettune.launch import AgentError, Agents, Command, Launcher, run

KINDS = ["local", "piped", "namespaces", "ssh", pytest.param("lab", marks=pytest.mark.lab)]


@pytest.mark.parametrize("kind", KINDS)
class TestLauncherContract:
    """Run against each launcher."""

    @pytest.fixture
    def launcher(self, kind, request):
        return request.getfixturevalue(f"{kind}_launcher")

    def test_follows_the_protocol(self, launcher):
        """It has a name and at least two different hosts, and gives them as a list of its own."""
        assert isinstance(launcher, Launcher)
        assert launcher.name
        hosts = launcher.hosts()
        assert len(set(hosts)) == len(hosts) >= 2
        hosts.clear()
        assert launcher.hosts()

    def test_commands_run_with_streams_and_status(self, launcher):
        """Input, both outputs, the environment and the exit status pass through on every host."""
        script = 'read line; echo "$line $COLOR"; echo oops >&2; exit 7'
        commands = [
            Command(host, ["sh", "-c", script], {"COLOR": "red blue"}, f"hello {host}\n".encode())
            for host in launcher.hosts()
        ]
        outcomes = run(launcher, commands, 20)
        assert [(o.host, o.rc, o.stdout, o.stderr) for o in outcomes] == [
            (host, 7, f"hello {host} red blue\n", "oops\n") for host in launcher.hosts()
        ]

    def test_command_that_is_not_there(self, launcher):
        """A program that the host lacks gives 127, as over ssh."""
        (outcome,) = run(launcher, [Command(launcher.hosts()[0], ["nettune-no-such-program"])], 20)
        assert outcome.rc == 127

    def test_time_out_ends_the_command_on_the_host(self, launcher):
        """A command that takes too long is stopped, and says so; what it had said is kept."""
        (outcome,) = run(launcher, [Command(launcher.hosts()[1], ["sh", "-c", "echo start; sleep 1000"])], 2)
        assert (outcome.rc, outcome.timed_out, outcome.stdout) == (None, True, "start\n")

    def test_unknown_host(self, launcher):
        """A host that the launcher does not know is one line, before anything starts."""
        with pytest.raises(NettuneError, match="nowhere"):
            run(launcher, [Command("nowhere", ["true"])], 5)
        with pytest.raises(NettuneError, match="nowhere"):
            Agents(launcher, [launcher.hosts()[0], "nowhere"])

    def test_agents_live_on_their_hosts(self, launcher, gone):
        """Ranks keep state between calls, are on the host of their place, and leave nothing behind."""
        hosts = launcher.hosts()[:2]
        placement = [hosts[1], hosts[0], hosts[1]]
        with Agents(launcher, placement, env=lambda rank: {"PLACE": placement[rank]}) as agents:
            assert agents.call("launch_work:add", {"amount": 2}) == [2, 2, 2]
            assert agents.call("launch_work:add", lambda rank: {"amount": rank}) == [2, 3, 4]
            assert agents.call("launch_work:variables", {"names": ["PLACE"]}) == [
                [host] for host in placement
            ]
            if launcher.root_argv(["true"]) is not None:
                self.check_entered(launcher, placement, agents)
            mark = agents.mark
        gone(mark)

    @staticmethod
    def check_entered(launcher, placement, agents):
        identities = agents.call("launch_work:identity")
        devices = agents.call("launch_work:interfaces")
        for rank, host in enumerate(placement):
            entry = launcher.entry(host)
            if entry.hostname is not None:
                assert identities[rank]["hostname"] == entry.hostname
            if entry.netns is not None:
                (shown,) = run(launcher, [Command(host, ["cat", "/proc/self/net/dev"])], 20)
                there = sorted(line.split(":")[0].strip() for line in shown.stdout.splitlines()[2:])
                assert devices[rank] == there
                assert "eth0" in there

    def test_hung_rank_is_named_and_stopped(self, launcher, gone):
        """A rank that hangs is named with its host, and is gone afterwards."""
        hosts = launcher.hosts()[:2]
        with Agents(launcher, hosts) as agents:
            with pytest.raises(AgentError, match=f"rank 1 on {hosts[1]} did not answer within 1 s"):
                agents.call("launch_work:hang_in_c", lambda rank: {"rank": rank, "on": 1}, timeout_s=1.0)
            assert agents.call("launch_work:echo", {"value": 5}, ranks=[0]) == [5]
        gone(agents.mark)

    def test_killed_rank_is_named(self, launcher, gone):
        """A rank that is killed is named with its host and signal, long before the time-out."""
        hosts = launcher.hosts()[:2]
        with (
            Agents(launcher, hosts) as agents,
            pytest.raises(AgentError, match=f"rank 0 on {hosts[0]} was killed by SIGKILL"),
        ):
            agents.call("launch_work:die", lambda rank: {"rank": rank, "on": 0}, timeout_s=500)
        gone(agents.mark)

    def test_nothing_outlives_the_agents(self, launcher, gone):
        """Children of ranks end with them, also those with a session of their own."""
        with Agents(launcher, launcher.hosts()[:2]) as agents:
            agents.call("launch_work:flee")
        gone(agents.mark)

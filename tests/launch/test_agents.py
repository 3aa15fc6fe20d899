"""Persistent agents: calls, events, errors, and who is named in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from nettune.errors import NettuneError, UnavailableError
from nettune.launch import AgentError, Agents, LocalLauncher

HOSTS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module", params=["local", "greeting"])
def launcher(request):
    """Ranks forked from one warm process, and ranks behind a command each."""
    return request.getfixturevalue(f"{request.param}_launcher")


@pytest.fixture(scope="module")
def agents(launcher, gone):
    """Ranks that many tests share, which must leave them whole."""
    with Agents(launcher, HOSTS) as started:
        yield started
    gone(started.mark)


@pytest.fixture
def own(launcher, gone):
    """Ranks for one test, which may count with them or break them."""
    with Agents(launcher, HOSTS) as started:
        yield started
    gone(started.mark)


@pytest.fixture
def mine(local_launcher, gone):
    """The same where it does not matter how the ranks were started."""
    with Agents(local_launcher, HOSTS) as started:
        yield started
    gone(started.mark)


def by_rank(rank):
    return {"rank": rank, "on": 2}


def test_results_stand_in_the_order_of_the_ranks_asked(mine):
    """A call on some ranks, in any order, returns their results in that order; the others stay untouched."""
    assert mine.call("launch_work:echo", lambda rank: {"value": rank * 10}, ranks=[3, 0, 2]) == [30, 0, 20]
    assert mine.call("launch_work:add", {"amount": 1}, ranks=[1]) == [1]
    assert mine.call("launch_work:add", {"amount": 1}) == [1, 2, 1, 1]


def test_each_rank_is_one_process_that_stays(agents):
    """Every rank has a process of its own, the same in every call, and it is not the caller."""
    first = [identity["pid"] for identity in agents.call("launch_work:identity")]
    assert [identity["pid"] for identity in agents.call("launch_work:identity")] == first
    assert len({*first, os.getpid()}) == 5


def test_values_pass_both_ways(agents):
    """JSON values come back as they went, tuples as lists, text with any character."""
    value = {"a": [1, 2.5, None, True], "b": "ü\n\0\u2028", "c": {"d": []}}
    assert agents.call("launch_work:echo", {"value": value}, ranks=[0]) == [value]


def test_large_arguments_and_results(agents):
    """Arguments and results of several megabytes pass, from all ranks at once."""
    results = agents.call("launch_work:repeat", {"text": "x" * 2_000_000, "times": 2})
    assert [len(result) for result in results] == [4_000_000] * 4


def test_events_arrive_in_order_before_the_result(agents):
    """Each rank's events arrive in the order of their emission, all of them, and with the rank's number."""
    seen: dict[int, list[int]] = {rank: [] for rank in range(4)}
    result = agents.call(
        "launch_work:stream", {"count": 500}, on_event=lambda rank, event: seen[rank].append(event["number"])
    )
    assert result == [500] * 4
    assert seen == {rank: list(range(500)) for rank in range(4)}


def test_events_from_several_threads_stay_whole(agents):
    """Threads of a work function may emit at once; no frame is mixed with another."""
    seen = []
    agents.call(
        "launch_work:stream_from_threads",
        {"threads": 4, "count": 20, "width": 50_000},
        ranks=[0],
        on_event=lambda rank, event: seen.append((event["thread"], event["number"], len(event["filler"]))),
    )
    assert sorted(seen) == [(thread, number, 50_000) for thread in range(4) for number in range(20)]


def test_emit_after_the_call_is_an_error_there(agents):
    """An event that belongs to no call is refused where it is emitted, and disturbs no later call."""
    agents.call("launch_work:emit_later")
    time.sleep(0.2)
    told = agents.call("launch_work:told_later")
    assert told == [["emit() works only while a call runs in an agent"]] * 4


def test_exception_names_rank_host_type_and_message(agents):
    """An exception in a rank is one line; its traceback and the rank's output are in the details."""
    with pytest.raises(AgentError) as caught:
        agents.call("launch_work:fail", by_rank)
    error = caught.value
    assert str(error) == "rank 2 on c raised ValueError: no such rail (others: done)"
    assert (error.ranks, error.hosts) == ((2,), ("c",))
    assert [state.state for state in error.states] == ["done", "done", "raised", "done"]
    assert 'raise ValueError("no such rail")' in error.details
    assert "[rank 2 c] about to work" in error.details
    assert "_answer" not in error.details


def test_ranks_work_on_after_an_exception(own):
    """A rank whose function raised, or called sys.exit, takes the next call."""
    with pytest.raises(AgentError, match="raised ValueError"):
        own.call("launch_work:fail", by_rank)
    with pytest.raises(AgentError, match=r"rank \d on \w raised SystemExit: 3 \(then also ranks ") as caught:
        own.call("launch_work:leave")
    assert sorted(caught.value.ranks) == [0, 1, 2, 3]
    assert own.call("launch_work:add", {"amount": 1}) == [1] * 4


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("launch_work:no_such", "raised AttributeError: module 'launch_work' has no attribute 'no_such'"),
        ("no_such_module:work", "raised ModuleNotFoundError: No module named 'no_such_module'"),
        ("launch_work.add", "raised ValueError: a work function is written package.module:function"),
        (
            "launch_work:opaque",
            "raised TypeError: the result of launch_work:opaque is not JSON: builtins.object",
        ),
        ("launch_work:echo", "raised TypeError: echo() missing 1 required positional argument: 'value'"),
    ],
)
def test_wrong_function_is_told(agents, function, words):
    """A function that is not there, or gives what cannot be sent, is an error of that rank."""
    with pytest.raises(AgentError) as caught:
        agents.call(function, ranks=[1])
    assert str(caught.value).startswith(f"rank 1 on b {words}")


def test_arguments_that_are_not_json_start_nothing(mine):
    """Arguments that cannot be sent are an error here, before any rank begins."""
    with pytest.raises(TypeError, match="not JSON"):
        mine.call("launch_work:add", lambda rank: {"amount": 1 if rank < 3 else object()})
    assert mine.call("launch_work:add", {"amount": 1}) == [1] * 4


@pytest.mark.parametrize("ranks", [[4], [-1], [1, 1]])
def test_ranks_that_do_not_exist(agents, ranks):
    """A rank out of range, or twice, is refused."""
    with pytest.raises(NettuneError, match="ranks must be different numbers below 4"):
        agents.call("launch_work:identity", ranks=ranks)


@pytest.mark.parametrize("function", ["hang_in_python", "hang_in_c"])
def test_hung_rank_is_named_with_its_place(own, function):
    """A rank that hangs, in Python or in C with the lock held, is named with the line where it hangs."""
    with pytest.raises(AgentError) as caught:
        own.call(f"launch_work:{function}", by_rank, timeout_s=1.0)
    line = str(caught.value)
    assert line.startswith(f"rank 2 on c did not answer within 1 s, in {function} (launch_work.py:")
    assert line.endswith("(others: done)")
    assert [state.state for state in caught.value.states] == ["done", "done", "hung", "done"]
    with pytest.raises(AgentError, match="rank 2 on c did not answer in time before this call"):
        own.call("launch_work:add", {"amount": 1})
    assert own.call("launch_work:add", {"amount": 1}, ranks=[0, 1, 3]) == [1, 1, 1]


def test_ranks_that_hang_in_different_places_are_told_apart(mine):
    """Where several hang, the line says which of them hang where: the odd one out is seen."""
    places = [None, "python", "python", "c"]
    with pytest.raises(AgentError) as caught:
        mine.call("launch_work:hang_somewhere", lambda rank: {"place": places[rank]}, timeout_s=1.0)
    line = str(caught.value)
    assert line.startswith("ranks 1-3 (b c d) did not answer within 1 s (")
    assert "ranks 1-2 in hang_in_python (launch_work.py:" in line
    assert "rank 3 in hang_in_c (launch_work.py:" in line
    assert caught.value.ranks == (1, 2, 3)


def test_killed_rank_is_named_at_once_and_the_others_stopped(own):
    """SIGKILL of one rank ends the call long before its time-out; ranks that wait for it are stopped."""
    with pytest.raises(AgentError) as caught:
        own.call("launch_work:die", by_rank, timeout_s=500)
    assert str(caught.value).startswith("rank 2 on c was killed by SIGKILL")
    assert "stopped: 0-1,3" in str(caught.value)
    assert caught.value.ranks == (2,)
    assert [state.state for state in caught.value.states] == ["stopped", "stopped", "died", "stopped"]


def test_rank_killed_between_calls_is_named_by_the_next(own):
    """A rank that died while idle is named by the next call that wants it."""
    pid = own.call("launch_work:identity", ranks=[1])[0]["pid"]
    os.kill(pid, 11)
    # The death may be noticed before the call, or by it.
    with pytest.raises(AgentError, match="rank 1 on b was killed by SIGSEGV"):
        own.call("launch_work:echo", {"value": 1})


def test_stopped_rank_is_named_and_can_be_ended(mine):
    """A rank that the kernel holds still (SIGSTOP) gives no stack, but is named and ended all the same."""
    pid = mine.call("launch_work:identity", ranks=[3])[0]["pid"]
    os.kill(pid, 19)
    with pytest.raises(AgentError, match=r"rank 3 on d did not answer within 1.5 s \(others: done\)"):
        mine.call("launch_work:repeat", {"text": "x" * 1_000_000, "times": 0}, timeout_s=1.5)


def test_error_in_on_event_stops_the_busy_ranks(own):
    """An exception of the caller's function comes through, and the busy ranks are stopped."""

    def on_event(rank, event):
        raise KeyError(event["stuck"])

    with pytest.raises(KeyError):
        own.call("launch_work:hang_in_c", by_rank, on_event=on_event)
    with pytest.raises(AgentError, match="rank 2 on c was stopped in the middle of a call before this call"):
        own.call("launch_work:echo", {"value": 1}, ranks=[2])


def test_closed_agents_refuse_calls(own):
    """After close, which may come twice, a call is one line."""
    own.close()
    own.close()
    with pytest.raises(NettuneError, match="closed"):
        own.call("launch_work:identity")


def test_environment_of_each_rank(launcher):
    """The environment may depend on the rank; numeric libraries get the number of threads."""
    names = ["WHO", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
    with Agents(launcher, HOSTS[:2], env=lambda rank: {"WHO": f"r{rank}"}, threads=3) as agents:
        assert agents.call("launch_work:variables", {"names": names}) == [
            ["r0", "3", "3", "3"],
            ["r1", "3", "3", "3"],
        ]
    with Agents(launcher, HOSTS[:1], env={"WHO": "all"}) as agents:
        assert agents.call("launch_work:variables", {"names": names[:2]}) == [["all", "1"]]


def test_ranks_draw_different_random_numbers(launcher):
    """Forked from one process or not, ranks do not share a random state."""
    with Agents(launcher, HOSTS, preload=["random"]) as agents:
        assert len(set(agents.call("launch_work:draw"))) == 4


def test_preload_is_there_before_the_first_call(launcher):
    """A preloaded module is imported, and only what was asked for."""
    with Agents(launcher, HOSTS[:2], preload=["wave"]) as agents:
        assert agents.call("launch_work:loaded", {"module": "wave"}) == [True, True]
        assert agents.call("launch_work:loaded", {"module": "numpy"}) == [False, False]


def test_missing_torch_is_one_line_with_the_command(launcher, monkeypatch, gone):
    """Without torch on the path, the error names the extra to install."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    with pytest.raises(UnavailableError) as caught:
        Agents(launcher, HOSTS, preload=["torch"])
    line = "the agents need the Python module torch, which is missing: pip install 'nettune[train]'"
    assert str(caught.value) == line


def test_preload_that_fails_shows_why(launcher, tmp_path, monkeypatch):
    """A module whose import raises is named with its exception, and the traceback is kept."""
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('no driver')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        NettuneError, match="importing broken_module in the agents failed: RuntimeError: no driver"
    ) as e:
        Agents(launcher, HOSTS[:2], preload=["broken_module"])
    assert "broken_module.py" in e.value.details


def test_start_that_takes_too_long_is_told(launcher, tmp_path, monkeypatch):
    """Imports that do not end are named as such, and nothing is left."""
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AgentError, match=r"ranks 0-1 \(a b\) did not start within 0.5 s"):
        Agents(launcher, HOSTS[:2], preload=["slow_module"], start_timeout_s=0.5)


def test_missing_program_of_the_launcher(launcher, monkeypatch):
    """A launcher whose own program is absent is one line with its name."""
    wrap = "argv" if launcher.root_argv(["true"]) is None else "root_argv"
    monkeypatch.setattr(type(launcher), wrap, lambda *_: ["nettune-no-such-ssh"])
    with pytest.raises(UnavailableError, match="cannot run nettune-no-such-ssh: No such file"):
        Agents(launcher, HOSTS[:1])


def test_launcher_that_fails_is_quoted(launcher, monkeypatch):
    """What the launcher's program said before it failed is in the error."""
    broken = ["sh", "-c", "echo Permission denied >&2; exit 255"]
    wrap = "argv" if launcher.root_argv(["true"]) is None else "root_argv"
    monkeypatch.setattr(type(launcher), wrap, lambda *_: broken)
    with pytest.raises(NettuneError, match="ended with exit status 255") as caught:
        Agents(launcher, HOSTS[:1])
    assert "Permission denied" in str(caught.value)


def test_entry_that_fails_names_the_rank(local_launcher, monkeypatch):
    """A host that cannot be entered is named with its rank and the reason."""
    from nettune.launch import Entry

    monkeypatch.setattr(
        type(local_launcher), "entry", lambda _, host: Entry(netns="/no/such/ns" if host == "b" else None)
    )
    with pytest.raises(AgentError) as caught:
        Agents(local_launcher, HOSTS)
    words = "rank 1 on b could not start: cannot open the network namespace /no/such/ns: No such file or directory"
    assert str(caught.value) == words


def test_output_of_ranks_never_reaches_stdout(launcher):
    """What ranks print, also from their children, stays off the caller's standard output."""
    kind = "None" if launcher.root_argv(["true"]) is None else "list(command)"
    program = (
        "import json\n"
        "from nettune.launch import Agents, LocalLauncher\n"
        "class Here(LocalLauncher):\n"
        "    def root_argv(self, command):\n"
        f"        return {kind}\n"
        "with Agents(Here(), ['localhost'] * 2) as agents:\n"
        "    print(json.dumps(agents.call('launch_work:shout', {'text': 'noise'})))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["heard", "heard"]
    assert done.stderr == ""


def test_many_agents_from_one_warm_process(gone):
    """64 ranks are children of one process, and all answer."""
    launcher = LocalLauncher([f"host{n}" for n in range(64)])
    with Agents(launcher, launcher.hosts()) as agents:
        identities = agents.call("launch_work:identity")
        assert len({identity["pid"] for identity in identities}) == 64
        assert len({identity["parent"] for identity in identities}) == 1
    gone(agents.mark)

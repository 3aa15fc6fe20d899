"""Settings side by side on real ranks: interleaved, checked, recorded, kept when a rank dies; and their JSON."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from collectives.bench import Method
from collectives.benchresult import ranking, ratio, to_json
from collectives.measuring import Case, Measured, Place, measure
from collectives.schedules import Op
from collectives.setting import Setting
from nettune.errors import InputError
from nettune.launch import AgentError
from nettune.records import Measurement

pytestmark = pytest.mark.slow

HOSTS = ["h0", "h1", "h2", "h3"]
KIB = 1 << 10
CASE = {
    "size_bytes", "count", "type", "redop", "root", "time_us", "p5_us", "p95_us", "algbw_gbytes_per_s",
    "busbw_gbytes_per_s", "wrong", "inits_us", "predicted_us", "residual", "unsteered_us", "bound_us", "optimal", "doubts",
}  # fmt: skip


def settings(*texts):
    return [Setting.parse(text) for text in texts]


def quick(**more):
    return Method(**{"inits": 2, "repeats": 2, "iface": "lo", "timeout_s": 20, **more})


def test_settings_are_interleaved_checked_and_recorded(agents):
    """Initialisation i of every setting runs before i + 1 of any, each with every size; JSON has the promised keys."""
    records: list[Measurement] = []
    lines: list[str] = []
    case = Case(Op.ALL_REDUCE, (KIB, 64 * KIB))
    done = measure(
        agents, settings("builtin", "ring", "double_tree+rounds"), {"": Place(HOSTS)}, case, quick(),
        record=records.append, progress=lines.append,
    )  # fmt: skip
    assert [line.split(",")[0] for line in lines] == ["builtin", "ring", "double_tree+rounds"] * 2
    data = json.loads(json.dumps(to_json(done, case, backend="gloo", warmup=1)))
    assert set(data) == {"schema", "op", "type", "ranks", "backend", "cap_gbps", "settings", "ranking"}
    assert (data["schema"], data["op"], data["ranks"]) == ("nettune.collectives/1", "all_reduce", 4)
    for setting in data["settings"]:
        assert set(setting) == {
            "name",
            "algorithm",
            "steered",
            "order",
            "cases",
            "links",
            "contaminated",
            "plan",
        }
        for one, size in zip(setting["cases"], case.sizes_bytes, strict=True):
            assert set(one) == CASE
            assert (one["size_bytes"], one["count"], one["wrong"]) == (size, size // 4, 0)
            assert one["time_us"]["lo"] <= one["time_us"]["median"] <= one["time_us"]["hi"]
            assert [len(init) for init in one["inits_us"]] == [2, 2]
            assert one["busbw_gbytes_per_s"] == pytest.approx(1.5 * size / one["time_us"]["median"] / 1e3)
    assert len([one for one in records if one.metric == "time"]) == 3 * 2 * 2 * 2
    gain = ratio(done[0], done[1], KIB)
    assert gain is not None
    assert gain.lo <= gain.median <= gain.hi


@pytest.mark.parametrize(
    ("op", "count"), [(Op.ALL_GATHER, KIB), (Op.ALL_TO_ALL, KIB), (Op.BROADCAST, 4 * KIB)]
)
def test_other_operations(agents, op, count):
    """Counts are nccl-tests': one rank's part where the operation has parts."""
    case = Case(op, (16 * KIB,), "int32")
    name = {Op.ALL_GATHER: "bruck", Op.ALL_TO_ALL: "pairwise", Op.BROADCAST: "binomial"}[op]
    done = measure(agents, settings("builtin", name), {"": Place(HOSTS)}, case, quick(inits=1))
    for setting in to_json(done, case, backend="gloo", warmup=1)["settings"]:
        (one,) = setting["cases"]
        assert (one["count"], one["wrong"], one["redop"]) == (count, 0, "none")
        assert one["root"] == (0 if op is Op.BROADCAST else -1)


def test_what_was_measured_before_a_rank_died_is_kept(mortal_agents):
    """The error names the rank; sizes that were done stay in the list that was handed in."""
    results: list[Measured] = []
    records: list[Measurement] = []
    case = Case(Op.ALL_REDUCE, (KIB, 1 << 20))
    victim = mortal_agents.call("os:getpid", ranks=[2])[0]

    def record(one):
        records.append(one)
        if len(records) == 1:
            threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()

    with pytest.raises(AgentError, match="h2 was killed"):
        measure(
            mortal_agents, settings("ring"), {"": Place(HOSTS)}, case, quick(repeats=100_000 // 100), record=record,
            results=results,
        )  # fmt: skip
    assert [one.size_bytes for one in results[0].taken] == [KIB]
    assert to_json(results, case, backend="gloo", warmup=1)["settings"][0]["cases"][0]["size_bytes"] == KIB


def test_sockets_of_a_schedule_are_closed(agents):
    """At the end of its initialisation, not when memory is collected one day: files of a process are few."""

    def files():
        return [
            len(agents.call("os:listdir", {"path": "/proc/self/fd"}, ranks=[rank])[0]) for rank in range(4)
        ]

    measure(agents, settings("builtin"), {"": Place(HOSTS)}, Case(Op.ALL_REDUCE, (KIB,)), quick(inits=1))
    before = files()
    measure(
        agents, settings("ring:channels=2", "double_tree+rounds"), {"": Place(HOSTS)}, Case(Op.ALL_REDUCE, (KIB,)),
        quick(inits=2, repeats=1),
    )  # fmt: skip
    assert files() == before


def test_every_rank_sends_to_the_next(agents):
    """nccl-tests' sendrecv: the bus bandwidth is the algorithm's."""
    case = Case(Op.P2P, (16 * KIB,))
    (setting,) = to_json(
        measure(agents, settings("builtin"), {"": Place(HOSTS)}, case, quick(inits=1)),
        case,
        backend="gloo",
        warmup=1,
    )["settings"]
    (one,) = setting["cases"]
    assert (one["wrong"], one["count"], one["root"]) == (0, 4 * KIB, -1)
    assert one["busbw_gbytes_per_s"] == one["algbw_gbytes_per_s"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rings+steer", "steering needs a fabric"),
        ("hybrid", "give the share of the rings"),
        ("bruck", "no schedule 'bruck' for 'all_reduce'"),
        ("ring:direction=0", "direction 0"),
    ],
)
def test_what_cannot_be_measured_is_said_first(agents, text, message):
    """Before the first initialisation, in one line."""
    with pytest.raises(InputError, match=message):
        measure(agents, settings("builtin", text), {"": Place(HOSTS)}, Case(Op.ALL_REDUCE, (KIB,)), quick())


def test_ranking_counts_pairs_that_are_predicted_apart():
    """Of three settings, two pairs differ by more than a tenth; one of them was measured the other way round."""

    def setting(model, time):
        return {"cases": [{"size_bytes": 8, "predicted_us": model, "time_us": {"median": time}}]}

    assert ranking([setting(100.0, 90.0), setting(105.0, 80.0), setting(200.0, 85.0)]) == {
        "pairs": 2,
        "as_predicted": 1,
    }

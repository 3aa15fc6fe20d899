"""Running a scenario: every seed draws ports, jitter and marks anew."""

from __future__ import annotations

from collections.abc import Callable

from collectives.scenarios.build import Scenario
from collectives.scenarios.outcome import Outcome, SeedOutcome
from collectives.scenarios.translate import lay_out, simulation

_SAMPLES = 400


def simulate_scenario(
    scenario: Scenario, *, seed: int = 0, progress: Callable[[str], None] | None = None
) -> Outcome:
    """Simulate all seeds of a scenario; the first one once more, for samples of queues and rates over all of its time.

    Args:
        scenario: what is simulated.
        seed: of the first; the others follow it.
        progress: takes one line now and then.

    Raises:
        InputError: what the simulator refuses.
        UnknownPathError: a flow has no route.
        NettuneError: queues outgrow the memory.
    """
    count = scenario.spec.run.seeds
    outcomes = []
    for number in range(count):
        told = _teller(progress, f"seed {number + 1} of {count}")
        outcomes.append(_run(scenario, seed + number, None, told))
    period = scenario.spec.run.sample_us or max(outcomes[0].ran_us / _SAMPLES, 0.01)
    sampled = _run(scenario, seed, period, _teller(progress, "queues and rates"))
    return Outcome((sampled, *outcomes[1:]))


def _run(
    scenario: Scenario, seed: int, sample_us: float | None, progress: Callable[[int, int], None] | None
) -> SeedOutcome:
    layout = lay_out(scenario, seed)
    result = simulation(scenario, layout, sample_us=sample_us).run(seed, progress)
    return SeedOutcome.of(layout, result, scenario.routing.fabric.directed_count)


def _teller(progress: Callable[[str], None] | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda left, now_ps: progress(f"{what}: {now_ps / 1e9:.2f} ms simulated, {left} messages left")

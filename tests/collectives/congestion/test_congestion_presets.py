"""Parameters of congestion control and their presets."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from collectives.congestion.parameters import CONTROLS, CongestionControl, Dcqcn, EcnCurve, FixedRate
from collectives.congestion.presets import ECN_PRESETS, PRESETS, control, ecn_curve, mlx5_default
from nettune.errors import InputError


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("gbps", [10, 100, 800])
def test_every_preset_makes_valid_parameters(name: str, gbps: float) -> None:
    """A preset is one of the known algorithms at every rate."""
    made = control(name, gbps)
    assert isinstance(made, CongestionControl)
    assert type(made) is CONTROLS[made.kind]


def test_mlx5_gain_is_what_the_keep_weight_leaves() -> None:
    """DCE_TCP_G 1019 of 1024 is kept, so the gain is 5/1024; both switches of the NIC are as shipped."""
    made = mlx5_default(100)
    assert made.gain == 5 / 1024
    assert made.byte_counter == 32767
    assert made.clamp_target_after_increase
    assert not made.clamp_target


def test_hpcc_preset_scales_with_the_link() -> None:
    """run.py has 5 and 50 Mb/s, 100 and 400 KB at 25 Gb/s; the values of the reference run at 100 Gb/s."""
    made = control("hpcc-runpy", 100)
    assert isinstance(made, Dcqcn)
    assert (made.additive_increase_mbps, made.hyper_increase_mbps, made.gain) == (20, 200, 0.00390625)
    assert ecn_curve("hpcc-runpy", 100) == EcnCurve(kmin_bytes=400_000, kmax_bytes=1_600_000, pmax=0.2)


def test_mlx5_and_paper_do_not_scale() -> None:
    """Their sources give one value for every rate."""
    for name in ("paper", "mlx5-default"):
        assert control(name, 10) == control(name, 400)


def test_barre_lies_inside_the_ranges_of_its_table() -> None:
    """CNP 0..2 us, cut 1..4 us, timer 20..100 us, R_AI 8..20 Mb/s, decrease to 80..98%."""
    made = control("barre", 400)
    assert isinstance(made, Dcqcn)
    assert 0 <= made.cnp_interval_us <= 2
    assert 1 <= made.rate_decrease_interval_us <= 4
    assert 20 <= made.increase_timer_us <= 100
    assert 8 <= made.additive_increase_mbps <= 20
    assert 0.80 <= made.decrease_to_at_least <= 0.98


def test_marking_is_linear_between_its_thresholds() -> None:
    """0 up to Kmin, pmax at Kmax, 1 above; a step where both are equal."""
    curve = EcnCurve(kmin_bytes=100, kmax_bytes=200, pmax=0.2)
    assert [curve.probability(q) for q in (0, 100, 150, 200, 201)] == [0, 0, 0.1, 0.2, 1]
    step = EcnCurve(kmin_bytes=100, kmax_bytes=100, pmax=1)
    assert [step.probability(q) for q in (100, 101)] == [0, 1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kmin_bytes": 300_000}, "is above kmax_bytes"),
        ({"pmax": 1.5}, "pmax must be 0 or more and at most 1"),
        ({"kmax_bytes": float("nan")}, "kmax_bytes must be"),
        ({"kmni_bytes": 1}, "did you mean 'kmin_bytes'"),
    ],
)
def test_curves_that_cannot_mark_are_refused(changed: dict[str, float], message: str) -> None:
    """Kmin above Kmax, a probability above 1, no number, an unknown key: one line each."""
    with pytest.raises(InputError, match=message):
        ecn_curve("paper", 40, changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gain": 1019}, "gain must be above 0 and at most 1"),
        ({"min_rate_mbps": 0}, "min_rate_mbps must be above 0"),
        ({"increase_timer_us": -1}, "increase_timer_us must be above 0"),
        ({"increase_timer_us": 1e-6}, "increase_timer_us must be at least 0.01"),
        ({"rate_decrease_interval_us": 0}, "must be above 0 where cuts are periodic"),
        ({"gian": 0.1}, "did you mean 'gain'"),
        ({"byte_counter": 1.5}, "byte_counter: 1.5 is no int"),
        ({"clamp_target": 1}, "clamp_target: 1 is no bool"),
        ({"gain": True}, "gain: True is no float"),
    ],
)
def test_parameters_outside_of_their_range_are_refused(changed: dict[str, float], message: str) -> None:
    """A gain in a vendor's encoding, zero rates, unknown names, wrong types: one line each."""
    with pytest.raises(InputError, match=message):
        control("mlx5-default", 100, changed)


def test_unknown_presets_name_the_near_one() -> None:
    """A typing error is told apart from a name that is nowhere near."""
    with pytest.raises(InputError, match="did you mean 'mlx5-default'"):
        control("mlx5-defualt", 100)
    with pytest.raises(InputError, match="known: paper, hpcc-runpy, cumulus, sonic"):
        ecn_curve("zzz", 100)


def test_a_fixed_rate_must_be_a_rate() -> None:
    """0 Gb/s would never end."""
    with pytest.raises(InputError, match="rate_gbps must be above 0"):
        FixedRate(rate_gbps=0)


def test_every_number_is_checked() -> None:
    """Each field of each algorithm refuses a negative value."""
    for name in PRESETS:
        made = control(name, 100)
        for field in fields(made):  # type: ignore[arg-type] # a protocol of dataclasses
            value = getattr(made, field.name)
            if value is not None and not isinstance(value, bool):
                with pytest.raises(InputError, match=field.name):
                    replace(made, **{field.name: -1})  # type: ignore[type-var] # as above


@pytest.mark.parametrize("name", ECN_PRESETS)
def test_every_curve_marks_somewhere(name: str) -> None:
    """Marking curves are valid at every rate."""
    for gbps in (10, 400):
        curve = ecn_curve(name, gbps)
        assert curve.probability(curve.kmax_bytes + 1) == 1

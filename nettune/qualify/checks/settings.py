"""What the operator says: profile, other limits, checks to leave out, expected counts; read from a TOML file.

profile = "training"          # or "strict": every check is required; or "survey": none is

[limits]
effective-ber = 1e-11         # names of limits.py

[checks]
acs = "off"                   # required, optional, warn (at most WARN), off

[expect]
gpus = 8
data_nics = ["mlx5_0", "mlx5_3"]
rate_gbps = 400
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nettune.errors import InputError
from nettune.qualify.checks.limits import LIMITS
from nettune.qualify.thresholds import Threshold
from nettune.tables import line_of, read_toml

PROFILES = ("training", "strict", "survey")
MODES = ("required", "optional", "warn", "off")
_EXPECTED: dict[str, type | tuple[type, ...]] = {"gpus": int, "rate_gbps": (int, float), "data_nics": list}


@dataclass(frozen=True)
class Settings:
    """The operator's word.

    Attributes:
        profile: `training`: core checks are required; `strict`: all; `survey`: none.
        limits: those that differ from LIMITS.
        modes: check -> one of MODES.
        gpus, rate_gbps, data_nics: what every host must have; None where it is to be derived.
    """

    profile: str = "training"
    limits: Mapping[str, Threshold] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    rate_gbps: float | None = None
    data_nics: frozenset[str] | None = None

    def limit(self, name: str) -> Threshold:
        """A limit, the operator's or the built-in one."""
        return self.limits.get(name) or LIMITS[name]

    def required(self, check: str, *, core: bool) -> bool:
        """Whether an UNKNOWN of a check keeps the verdict from being a pass."""
        mode = self.modes.get(check)
        if mode in {"required", "optional"}:
            return mode == "required"
        return {"training": core, "strict": True, "survey": False}[self.profile]


def read_settings(path: Path | str, checks: Iterable[str]) -> Settings:
    """Settings of a TOML file.

    Args:
        path: the file.
        checks: names of all checks.

    Raises:
        InputError: `FILE:LINE: what is wrong`.
    """
    table, text = read_toml(path)
    known = set(checks)

    def wrong(key: str, what: str) -> InputError:
        return InputError(f"{key}: {what}", path, line_of(key, text))

    for key in table.keys() - {"profile", "limits", "checks", "expect"}:
        raise wrong(key, "unknown key; known: profile, limits, checks, expect")
    profile = table.get("profile", "training")
    if profile not in PROFILES:
        raise wrong("profile", f"must be one of {', '.join(PROFILES)}, not {profile!r:.60}")
    sections = {}
    for name in ("limits", "checks", "expect"):
        sections[name] = table.get(name, {})
        if not isinstance(sections[name], dict):
            raise wrong(name, f"is a table: write [{name}] and its keys below")
    limits = {}
    for key, value in sections["limits"].items():
        if key not in LIMITS:
            raise wrong(key, f"is no limit; known: {', '.join(LIMITS)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise wrong(key, f"must be a number of at least 0, not {value!r:.60}")
        limits[key] = Threshold(float(value), LIMITS[key].unit, f"set in {Path(path).name}")
    for key, value in sections["checks"].items():
        if key not in known:
            raise wrong(key, f"is no check; known: {', '.join(sorted(known))}")
        if value not in MODES:
            raise wrong(key, f"must be one of {', '.join(MODES)}, not {value!r:.60}")
    expect = sections["expect"]
    for key, value in expect.items():
        if key not in _EXPECTED:
            raise wrong(key, f"unknown key; known: {', '.join(_EXPECTED)}")
        if isinstance(value, bool) or not isinstance(value, _EXPECTED[key]):
            raise wrong(key, f"has the wrong kind of value: {value!r:.60}")
        if isinstance(value, list) and not all(isinstance(name, str) for name in value):
            raise wrong(key, "is a list of device names")
    return Settings(
        profile,
        limits,
        dict(sections["checks"]),
        expect.get("gpus"),
        expect.get("rate_gbps"),
        frozenset(expect["data_nics"]) if "data_nics" in expect else None,
    )

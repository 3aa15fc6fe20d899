"""The alpha-beta-gamma model of a schedule, and its constants from measurements.

A collective takes rounds x alpha + bytes x beta + reduced bytes x gamma: alpha is what a round costs whatever it carries,
beta the time of a byte on the wire (1 / bandwidth), gamma that of a byte that is added up. Bytes are those of the busiest
rank in each round, so a ring all-reduce of n ranks has 2(n-1) rounds, 2(n-1)/n of the message on the wire and (n-1)/n of
it reduced (Thakur, Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19, 2005; from memory).

Paths of different classes (same host, same leaf, across spines) have constants of their own; gamma is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectives.schedules import Schedule
from nettune.errors import InputError
from nettune.schemas import check_schema

Floats = NDArray[np.float64]

MODEL_SCHEMA = "nettune.alpha-beta/1"
_SIZES_AT_LEAST = 3  # two constants fit any two sizes; the third can contradict them
_MORE_THAN_CONSTANTS = 2
_HUBER = 1.345  # 95% of the efficiency of least squares where errors are normal (Huber 1981; from memory)
_MAD_TO_SIGMA = 1.4826
_LEAST_SCALE = 1e-12  # a perfect fit has no scale
_TURNS = 50
_SAME_SHAPE = 1e-9  # singular values below: columns that are multiples of each other
_STILL = 1e-4  # relative: far below any interval
_RESAMPLES = 200


@dataclass(frozen=True)
class Terms:
    """What multiplies the constants: rounds, and shares of the message size on the wire and reduced."""

    rounds: float
    wire_share: float
    reduced_share: float


def terms(schedule: Schedule) -> Terms:
    """Rounds and the busiest rank's share of the message in each of them, summed: to send and to receive, and to add."""
    share = np.array(schedule.share, dtype=np.float64)
    rounds, wire, reduced = 0, 0.0, 0.0
    for step in schedule.rounds():
        if not len(step):
            continue
        rounds += 1
        carried = share[step.chunk]
        sent = np.bincount(step.src, carried)
        received = np.bincount(step.dst, carried)
        wire += float(max(sent.max(), received.max()))
        if step.reduce.any():
            reduced += float(np.bincount(step.dst[step.reduce], carried[step.reduce]).max())
    return Terms(float(rounds), wire, reduced)


@dataclass(frozen=True)
class Point:
    """One measured time.

    Attributes:
        size_bytes: message size.
        time_us: measured.
        terms: of the schedule that was run; one message over one hop by default, as between two ranks.
        path: class of the paths that it used.
        init: initialisation of the communicator; intervals are drawn over these, see `nettune.stats`.
    """

    size_bytes: float
    time_us: float
    terms: Terms = Terms(1.0, 1.0, 0.0)
    path: str = "all"
    init: int = 0


@dataclass(frozen=True)
class Constant:
    """A constant with the limits of its interval; the limits are None where one initialisation gave all points.

    Percentile limits, nominally 95%; simulated with 12 initialisations they covered the truth in 90 of 100 experiments.
    """

    value: float
    lo: float | None = None
    hi: float | None = None


@dataclass(frozen=True)
class Model:
    """Fitted constants and how well they fit.

    Attributes:
        alpha_us: per round, by path class.
        beta_us_per_byte: by path class.
        gamma_us_per_byte: per reduced byte.
        points: number of points.
        residuals: (measured - predicted) / measured of each point, in their order.

    Raises:
        InputError: alpha and beta are of different paths.
    """

    alpha_us: Mapping[str, Constant]
    beta_us_per_byte: Mapping[str, Constant]
    gamma_us_per_byte: Constant
    points: int
    residuals: tuple[float, ...]

    def __post_init__(self) -> None:
        if set(self.alpha_us) != set(self.beta_us_per_byte):
            raise InputError("alpha-beta: alpha and beta are of different paths")

    @property
    def worst_residual(self) -> float:
        """Largest relative error over all points."""
        return max(map(abs, self.residuals), default=0.0)

    @property
    def median_residual(self) -> float:
        """Median of the absolute relative errors."""
        return float(np.median(np.abs(self.residuals))) if self.residuals else 0.0

    def time_us(self, work: Terms, size_bytes: float, path: str = "all") -> float:
        """Predicted time.

        Raises:
            InputError: no constants for that path class.
        """
        if path not in self.alpha_us:
            raise InputError(f"no measurements of path {path!r}; known: {', '.join(self.alpha_us)}")
        return (
            work.rounds * self.alpha_us[path].value
            + work.wire_share * size_bytes * self.beta_us_per_byte[path].value
            + work.reduced_share * size_bytes * self.gamma_us_per_byte.value
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON form, with `schema`."""

        def one(constant: Constant) -> list[float | None]:
            return [constant.value, constant.lo, constant.hi]

        return {
            "schema": MODEL_SCHEMA,
            "alpha_us": {path: one(value) for path, value in self.alpha_us.items()},
            "beta_us_per_byte": {path: one(value) for path, value in self.beta_us_per_byte.items()},
            "gamma_us_per_byte": one(self.gamma_us_per_byte),
            "points": self.points,
            "residuals": list(self.residuals),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Model:
        """The inverse of `to_json`.

        Raises:
            InputError: another schema, missing keys, values of a wrong type.
        """
        check_schema(data, MODEL_SCHEMA)

        def one(entry: Sequence[float | None]) -> Constant:
            value, lo, hi = entry
            if value is None or not 0 <= value < inf:
                raise ValueError("a constant has no value of 0 or more")
            return Constant(
                float(value), None if lo is None else float(lo), None if hi is None else float(hi)
            )

        try:
            alpha = {str(path): one(entry) for path, entry in data["alpha_us"].items()}
            beta = {str(path): one(entry) for path, entry in data["beta_us_per_byte"].items()}
            residuals = tuple(map(float, data["residuals"]))
            return cls(alpha, beta, one(data["gamma_us_per_byte"]), int(data["points"]), residuals)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InputError(f"not an alpha-beta model: {type(error).__name__}: {error}") from error


def fit(points: Sequence[Point], seed: int = 0) -> Model:
    """Constants, none below 0, that fit relative errors best; outliers count less the further they are (Huber).

    Relative, because times span decades and the small messages are what alpha is about. Intervals: initialisations are
    drawn again with replacement 200 times, since repeats of one are not independent.

    Raises:
        InputError: fewer than three sizes on a path, hardly more points than constants, points that cannot tell the
            constants apart, a time or a size that is not above 0.
    """
    paths = sorted({point.path for point in points})
    _refuse_few(points, paths)
    table = _design(points, paths)
    measured = np.array([point.time_us for point in points], dtype=np.float64)
    used: NDArray[np.bool_] = np.any(table > 0, axis=0)
    # Columns of one size: rounds are single numbers, bytes are millions.
    units = np.sqrt(((table[:, used] / measured[:, None]) ** 2).sum(axis=0))
    columns = table[:, used] / units
    if np.linalg.matrix_rank(columns / measured[:, None], tol=_SAME_SHAPE) < len(units):
        raise InputError(
            "these points cannot tell the constants apart; add sizes, or schedules of other shapes"
        )
    typical = _typical(table, measured)
    values = np.zeros(table.shape[1])
    values[used] = _robust(columns, measured, typical) / units
    low, high = _limits(points, columns, measured, typical, seed)

    def constant(column: int) -> Constant:
        if low is None or high is None or not used[column]:
            return Constant(float(values[column]))
        place = int(used[:column].sum())
        return Constant(
            float(values[column]), float(low[place] / units[place]), float(high[place] / units[place])
        )

    residuals = (measured - table @ values) / measured
    return Model(
        {path: constant(2 * row) for row, path in enumerate(paths)},
        {path: constant(2 * row + 1) for row, path in enumerate(paths)},
        constant(2 * len(paths)),
        len(points),
        tuple(residuals.tolist()),
    )


def _refuse_few(points: Sequence[Point], paths: Sequence[str]) -> None:
    if not all(0 < point.time_us < inf and 0 < point.size_bytes < inf for point in points):
        raise InputError("alpha-beta: a time or a size is not above 0, or no number")
    if not all(0 <= term < inf for point in points for term in vars(point.terms).values()):
        raise InputError("alpha-beta: what multiplies the constants is negative or no number")
    for path in paths or [""]:
        sizes = {point.size_bytes for point in points if point.path == path}
        if len(sizes) < _SIZES_AT_LEAST:
            raise InputError(
                f"alpha-beta: path {path!r} has {len(sizes)} sizes; a fit needs {_SIZES_AT_LEAST} or more"
            )
    needed = 2 * len(paths) + any(point.terms.reduced_share > 0 for point in points) + _MORE_THAN_CONSTANTS
    if len(points) < needed:
        raise InputError(f"alpha-beta: {len(points)} points are too few; these paths need {needed} or more")


def _design(points: Sequence[Point], paths: Sequence[str]) -> Floats:
    """(points, 2 x paths + 1): rounds and wire bytes of each path class, then reduced bytes."""
    table = np.zeros((len(points), 2 * len(paths) + 1))
    for row, point in enumerate(points):
        column = 2 * paths.index(point.path)
        table[row, column] = point.terms.rounds
        table[row, column + 1] = point.terms.wire_share * point.size_bytes
        table[row, -1] = point.terms.reduced_share * point.size_bytes
    return table


def _typical(table: Floats, measured: Floats) -> Floats:
    """For each point the median of all points that should take equally long: a first guess that no outlier moves."""
    _, index = np.unique(table, axis=0, return_inverse=True)
    index = index.ravel()
    medians = np.array([np.median(measured[index == kind]) for kind in range(int(index.max()) + 1)])
    return medians[index]


def _robust(table: Floats, measured: Floats, typical: Floats) -> Floats:
    """Non-negative x with table @ x near the measured, in units of what is predicted, by Huber's weights.

    Not in units of what was measured: a time that is far too short would then count the most.
    """
    from scipy.optimize import nnls

    scale, weights = typical, np.ones(len(table))
    found = np.zeros(table.shape[1])
    for _ in range(_TURNS):
        root = np.sqrt(weights) / scale
        new: Floats = nnls(table * root[:, None], measured * root)[0]
        predicted = table @ new
        scale = np.where(predicted > 0, predicted, typical)
        errors = np.abs(measured / scale - 1)
        spread = max(_MAD_TO_SIGMA * float(np.median(errors)), _LEAST_SCALE)
        weights = np.minimum(1.0, _HUBER * spread / np.maximum(errors, _LEAST_SCALE))
        if np.allclose(new, found, rtol=_STILL, atol=0):
            return new
        found = new
    return found


def _limits(
    points: Sequence[Point], table: Floats, measured: Floats, typical: Floats, seed: int
) -> tuple[Floats | None, Floats | None]:
    """2.5% and 97.5% of each constant over draws of initialisations; draws that cannot tell constants apart are skipped."""
    inits = np.array([point.init for point in points])
    names = np.unique(inits)
    if len(names) < 2:
        return None, None
    members = [np.flatnonzero(inits == name) for name in names]
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(_RESAMPLES):
        rows = np.concatenate([members[number] for number in rng.integers(0, len(names), len(names))])
        if np.linalg.matrix_rank(table[rows] / measured[rows, None], tol=_SAME_SHAPE) == table.shape[1]:
            drawn.append(_robust(table[rows], measured[rows], typical[rows]))
    if not drawn:
        return None, None
    low, high = np.quantile(np.array(drawn), (0.025, 0.975), axis=0)
    return low, high

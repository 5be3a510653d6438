"""Weighted information about a robot from the logs of one day, a hierarchical model, and levels from day to day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from math import lgamma
from typing import Any

import numpy as np

from dynid.base import Bool, Float, Int, dataclass, locked
from dynid.fleet.plan import TypeModel
from dynid.fleet.store import is_done
from dynid.fleet.task import unpacked

# Smallest residual of a joint relative to its torque; no log is exact.
_EXACT = 1e-4


@dataclass(frozen=True, eq=False)
class Weights:
    """Noise of the equations of a type, for each joint.

    Attributes
    ----------
    sigma : ndarray, shape (n,), N m or N
        Standard deviation of residuals.
    design : ndarray, shape (n,)
        Factor by which autocorrelation increases variances.
    torque : ndarray, shape (n,), N m or N
        Root mean square of the measured torque.

    """

    sigma: Float
    design: Float
    torque: Float

    @staticmethod
    def of(model: TypeModel, rows: Sequence[Mapping[str, Any]]) -> Weights:
        """Compute weights from the rows of many logs: pooled sigmas, median design effects."""
        count = np.array([row["count"] for row in rows], dtype=np.float64)
        sigma = np.array([row["sigma"] for row in rows])
        square = np.zeros(model.robot.n)
        for row in rows:
            for j, R in enumerate(unpacked(row["R"], [len(columns) for columns in model.layout])):
                square[j] += float(R[:, -1] @ R[:, -1])
        total = np.maximum(count.sum(axis=0), 1.0)
        torque = np.sqrt(square / total)
        pooled = np.sqrt(np.sum(count * sigma**2, axis=0) / total)
        return Weights(
            np.maximum(pooled, _EXACT * torque), np.median([row["design"] for row in rows], axis=0), torque
        )

    def widened(self, noise: float) -> Weights:
        """Multiply the covariances by a factor."""
        return replace(self, design=self.design * noise)

    def of_log(self, row: Mapping[str, Any]) -> Float:
        """Return the weight (n,) of an equation; a log with more noise than usual counts less."""
        return np.asarray(1.0 / (np.maximum(row["sigma"], self.sigma) ** 2 * self.design))


@dataclass(frozen=True, eq=False)
class Day:
    """Log-likelihood of the logs of one robot and day: -1/2 (x - x0)' A (x - x0) + h' (x - x0).

    x (m,) contains the kept parameters and then the gain error of each joint's torque (0.01 = 1 % too large).
    x0 is the type's model with zero gain errors.

    Attributes
    ----------
    day : date
        The day.
    A : ndarray, shape (m, m)
        Information matrix.
    h : ndarray, shape (m,)
        Score at x0.

    """

    day: date
    A: Float
    h: Float

    def widened(self, noise: float) -> Day:
        """Multiply the covariance by a factor."""
        return Day(self.day, self.A / noise, self.h / noise)


def information(model: TypeModel, weights: Weights, row: Mapping[str, Any]) -> tuple[Float, Float]:
    """Return information matrix A and score h of one log at the type's model."""
    k, n = len(model.kept), model.robot.n
    A, h = np.zeros((k + n, k + n)), np.zeros(k + n)
    place = {int(c): i for i, c in enumerate(model.kept)}
    weight = weights.of_log(row)
    for j, (R, columns) in enumerate(
        zip(
            unpacked(row["R"], [len(kept) for kept in model.layout]),
            model.layout,
            strict=True,
        )
    ):
        kept_index = np.array([place[int(c)] for c in columns])
        predicted = R[:, :-1] @ model.value[kept_index]
        lines = np.column_stack([R[:, :-1], predicted])
        at = np.append(kept_index, k + j)
        A[np.ix_(at, at)] += weight[j] * (lines.T @ lines)
        h[at] += weight[j] * (lines.T @ (R[:, -1] - predicted))
    return A, h


def days(model: TypeModel, weights: Weights, rows: Sequence[Mapping[str, Any]]) -> list[Day]:
    """Combine the logs of a robot by day, in order; failed logs are left out."""
    robot_days: list[Day] = []
    for row in rows:
        if not is_done(row):
            continue
        A, h = information(model, weights, row)
        day = row["time"].date()
        if robot_days and robot_days[-1].day == day:
            robot_days[-1] = Day(day, robot_days[-1].A + A, robot_days[-1].h + h)
        else:
            robot_days.append(Day(day, A, h))
    return robot_days


def spread_out(items: Sequence[Any], most: int) -> list[Any]:
    """Select at most `most` items, evenly spaced."""
    if len(items) <= most:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, most).round().astype(int)]


def batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of `size` items; the last may be shorter."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


# Type, serial number, day: a hierarchical model of the parameters, with variances estimated from the fleet.

# Rounds of expectation and maximisation; variances of a simulated fleet are then within a few per cent.
ROUNDS = 40
# Over-relaxation of a round; from 2 on it need not converge (Lange 1995).
OVER = 1.8
# Initial standard deviations between robots and between days, and their lower bound, in standard errors of one day.
_BETWEEN, _WITHIN, _LEAST = 10.0, 1.0, 1e-2
# Relative size of the information of a day below which a direction is not identifiable.
_NOTHING = 1e-9
# Fewest robots from which a variance between robots is estimated; with fewer the initial value is kept.
FEW_ROBOTS = 5


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Hierarchical model x_day ~ N(x_serial, diag day), x_serial ~ N(mean, diag serial), relative to the type's model.

    Attributes
    ----------
    mean : ndarray, shape (m,)
        Mean of the type.
    serial : ndarray, shape (m,)
        Variances between robots.
    day : ndarray, shape (m,)
        Variances between days of one robot.
    noise : float
        Factor by which the covariances A^-1 of days are too small, because model errors depend on the motion.

    """

    mean: Float
    serial: Float
    day: Float
    noise: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mean", "serial", "day"):
            object.__setattr__(self, name, locked(getattr(self, name), (len(self.mean),), name))


@dataclass(frozen=True, eq=False)
class State:
    """Estimate of x_serial for S robots: mean (S, m) and information (S, m, m), the inverse covariance."""

    mean: Float
    information: Float

    @staticmethod
    def new(hierarchy: Hierarchy, count: int) -> State:
        """Return the state of robots without data."""
        return State(
            np.tile(hierarchy.mean, (count, 1)), np.tile(np.diag(1.0 / hierarchy.serial), (count, 1, 1))
        )

    @property
    def covariance(self) -> Float:
        """Covariance (S, m, m)."""
        return inverse(self.information)

    def later(self, variance: Float) -> State:
        """Return the state after x_serial has walked with a variance (S, m)."""
        if not variance.any():
            return self
        covariance = self.covariance
        np.einsum("sii->si", covariance)[:] += variance
        return State(self.mean, inverse(covariance))

    def after(self, hierarchy: Hierarchy, A: Float, h: Float) -> State:
        """Update the state with one more day of each robot, A (S, m, m) and h (S, m)."""
        day_information, score = without_day(hierarchy, A, h)
        information = self.information + day_information
        step = score - np.einsum("sij,sj->si", day_information, self.mean)
        return State(self.mean + np.linalg.solve(information, step[:, :, None])[:, :, 0], information)


def inverse(matrices: Float) -> Float:
    """Invert positive definite matrices (S, m, m) whose rows may have different units."""
    size = 1.0 / np.sqrt(np.einsum("sii->si", matrices))
    scale = size[:, :, None] * size[:, None, :]
    return np.asarray(np.linalg.inv(matrices * scale) * scale)


def without_day(hierarchy: Hierarchy, A: Float, h: Float) -> tuple[Float, Float]:
    """Return information A (I + D A)^-1 and score (I + A D)^-1 h about x_serial, with x_day integrated out."""
    C = _day_covariance(hierarchy.day, A)
    AC = A @ C
    return A - AC @ A, h - np.einsum("sij,sj->si", AC, h)


def _day_covariance(day: Float, A: Float) -> Float:
    """Return (D^-1 + A)^-1 for any D >= 0."""
    root = np.sqrt(day)
    B = np.eye(len(day)) + root[:, None] * A * root
    return np.asarray(root[:, None] * np.linalg.inv(B) * root)


def _extended_step(before: Float, after: Float) -> Float:
    """Extend a step of variances on a logarithmic scale; plain steps are short where variances are small."""
    return before * (after / before) ** OVER


def fit_hierarchy(robots: Sequence[Sequence[Day]], gains: int, daily: Bool | None = None) -> Hierarchy:
    """Estimate mean, variances and noise of a type by expectation and maximisation.

    Parameters
    ----------
    robots : sequence of sequence of Day
        Days of each robot.
    gains : int
        Number of last entries of x whose mean stays zero, because a gain common to all robots is not identifiable.
    daily : ndarray of bool, shape (m,), optional
        Entries that may vary from day to day; all by default. Model errors make every estimate depend on the motion in
        poorly identified directions, which counts as noise and not as a change of the robot.

    Returns
    -------
    Hierarchy
        The estimate.

    References
    ----------
    Dempster, Laird and Rubin 1977; Laird and Ware 1982 for random effects.

    """
    every = [day for days in robots for day in days]
    m = len(every[0].h)
    average = np.mean([day.A for day in every], axis=0)
    error = 1.0 / np.maximum(np.diag(average), 1e-300)
    floor = _LEAST**2 * error
    serial, day = _BETWEEN**2 * error, _WITHIN**2 * error
    if daily is not None:
        day = np.where(daily, day, floor)
    mean, noise = np.zeros(m), 1.0
    fixed = np.arange(m) >= m - gains
    A = [np.array([day.A for day in days]) for days in robots]
    h = [np.array([day.h for day in days]) for days in robots]
    inverses = [
        np.linalg.pinv(_scaled(information, error), rcond=_NOTHING, hermitian=True) for information in A
    ]
    rank = sum(float(np.einsum("sij,sji->", _scaled(a, error), b)) for a, b in zip(A, inverses, strict=True))
    for _ in range(ROUNDS):
        hierarchy = Hierarchy(mean, serial, day, noise)
        means, squares, within, missed = [], [], np.zeros(m), 0.0
        for whole_A, whole_h, pseudo in zip(A, h, inverses, strict=True):
            own_A, own_h = whole_A / noise, whole_h / noise
            C = _day_covariance(day, own_A)
            CA = C @ own_A
            information = np.sum(own_A - own_A @ CA, axis=0)
            score = np.sum(own_h - np.einsum("sij,si->sj", CA, own_h), axis=0)
            P = inverse((np.diag(1.0 / serial) + information)[None])[0]
            x = mean + P @ (score - information @ mean)
            means.append(x)
            squares.append(np.diag(P))
            moved = np.einsum("sij,sj->si", C, own_h - own_A @ x)
            # Covariance of x_day: its conditional covariance, and that of the robot's x_serial.
            stays = np.eye(m) - CA
            spread = CA @ P @ np.swapaxes(CA, 1, 2)
            within += np.sum(np.einsum("sii->si", C + spread) + moved**2, axis=0)
            rest = (whole_h - np.einsum("sij,sj->si", whole_A, x + moved)) * np.sqrt(error)
            missed += float(np.einsum("si,sij,sj->", rest, pseudo, rest))
            missed += float(np.einsum("sij,sji->", whole_A, C + stays @ P @ np.swapaxes(stays, 1, 2)))
        day = np.maximum(_extended_step(day, within / len(every)), floor)
        day = day if daily is None else np.where(daily, day, floor)
        noise = max(missed / rank, 1.0)
        if len(robots) >= FEW_ROBOTS:
            mean = np.where(fixed, 0.0, np.mean(means, axis=0))
            between = np.mean((np.array(means) - mean) ** 2 + squares, axis=0)
            serial = np.maximum(_extended_step(serial, between), floor)
    return hierarchy


def _scaled(A: Float, error: Float) -> Float:
    return np.asarray(A * np.sqrt(np.outer(error, error)))


# Levels: one quantity of a robot from day to day, which may walk, seen through scatter with heavy tails.

# Points of a grid of levels and their distance, in standard deviations of a day's prediction; the grid then spans
# +-30 of them, and a walk and a likelihood of that width are integrated to 1 %.
_POINTS, _DISTANCE = 121, 0.5
# Least ratio of a day's scatter to the standard deviation of expected changes. A larger ratio than the true one ignores
# changes that are much smaller than those that are looked for.
_LEAST_SCATTER = 0.05
# Days without a log after which a level is not assumed to have walked further.
_LONGEST_GAP = 30
# Candidates for degrees of freedom, for the variance of the walk in a day relative to that of a day's scatter, and for
# the correlation of the scatter of two successive days. With f degrees of freedom a single day, however far off, has at
# most the evidence (4/3)^((f + 1) / 2) that the level has moved half-way: 90 for 30, where days are normal in practice.
FREEDOMS = (2.0, 3.0, 4.0, 6.0, 10.0, 30.0)
WALKS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
MEMORIES = (0.0, 0.25, 0.5, 0.7, 0.9)
# First days of a robot that say more about the robot than about days.
FIRST_DAYS = 5


@dataclass(frozen=True, eq=False)
class Scatter:
    """How r quantities of a robot scatter from day to day: an autoregression about a level that walks.

    With values y, levels x and Student's t e: y_t - x_t = memory (y_(t-1) - x_(t-1)) + e_t.

    Attributes
    ----------
    std : ndarray, shape (r,)
        Typical standard deviation of a day's value according to the hierarchical model.
    scale : ndarray, shape (r,)
        Scale of the scatter relative to the standard deviation of each day according to the model.
    freedom : ndarray, shape (r,)
        Degrees of freedom.
    walk : ndarray, shape (r,)
        Variance of the walk in one calendar day, relative to (scale std)^2.
    memory : ndarray, shape (r,)
        Correlation of the scatter of two successive days.
    trend : ndarray, shape (r,)
        1 if a level is predicted to continue its trend, 0 if not.

    """

    std: Float
    scale: Float
    freedom: Float
    walk: Float
    memory: Float
    trend: Float

    @staticmethod
    def normal(std: Float) -> Scatter:
        """Return the scatter of normal, independent days as in the hierarchical model."""
        zeros = np.zeros(len(std))
        return Scatter(std, np.ones(len(std)), np.full(len(std), FREEDOMS[-1]), zeros, zeros, zeros)

    def where(
        self, mask: Bool, scale: Float, freedom: float, walk: float, memory: float, trend: float
    ) -> Scatter:
        """Replace the scatter of some quantities."""
        new: dict[str, Any] = {
            "scale": scale, "freedom": freedom, "walk": walk, "memory": memory, "trend": trend,
        }  # fmt: skip
        return replace(
            self, **{name: np.where(mask, value, getattr(self, name)) for name, value in new.items()}
        )

    @property
    def predicted(self) -> Float:
        """Scale (r,) of a value about the prediction from many earlier days, one day apart."""
        steady = _steady(self.walk, self.memory)
        return np.asarray(self.scale * self.std * np.sqrt((1.0 - self.memory**2) * (1.0 + steady)))


def _steady(walk: Float, memory: Float | float) -> Float:
    """Return the steady variance of a level's prediction relative to that of a value about its prediction."""
    ratio = walk * (1.0 - memory) / (1.0 + memory)
    return np.asarray(0.5 * (ratio + np.sqrt(ratio**2 + 4.0 * ratio)))


def _trend_gain(walk: Float, memory: Float | float) -> Float:
    """Return the share of a level's correction by which its slope per day is corrected, for critical damping.

    With gains K of the level and b of the slope, the poles of the filter coincide if b = K^2 / 2 for small K.
    Source: Kalata 1984.
    """
    steady = _steady(walk, memory)
    return np.asarray(0.5 * steady / (1.0 + steady))


def fit_scatter(values: Float, stds: Float, gaps: Float, std: Float, left_out: float) -> Scatter:
    """Estimate the scatter of r quantities, each by the likelihood of its one-day predictions.

    Parameters
    ----------
    values, stds : ndarray, shape (S, T, r)
        Values of S robots on T days and their standard deviations according to the model; nan after a robot's last day.
    gaps : ndarray, shape (S, T)
        Calendar days since the log before.
    std : ndarray, shape (r,)
        Typical standard deviations.
    left_out : float
        Share of the robots, those that fit worst, that is left out since they may have changed.

    Returns
    -------
    Scatter
        The most likely one of FREEDOMS, WALKS and MEMORIES.

    """
    best, greatest = Scatter.normal(std), np.full(len(std), -np.inf)
    for memory, walk, trend in product(MEMORIES, WALKS, (0.0, 1.0)):
        if trend and not walk:
            continue
        z, spread = _predictions(values, stds, gaps, std, walk, memory, trend)
        for freedom in (FREEDOMS[1], FREEDOMS[-1]):
            scale, total = _student_fit(z, spread, freedom, left_out)
            best = best.where(total > greatest, scale, freedom, walk, memory, trend)
            greatest = np.maximum(total, greatest)
    for walk, memory, trend in sorted(set(zip(best.walk, best.memory, best.trend, strict=True))):
        chosen = (best.walk == walk) & (best.memory == memory) & (best.trend == trend)
        z, spread = _predictions(values, stds, gaps, std, walk, memory, trend)
        for freedom in FREEDOMS:
            scale, total = _student_fit(z, spread, freedom, left_out)
            best = best.where(chosen & (total > greatest), scale, freedom, walk, memory, trend)
            greatest = np.where(chosen, np.maximum(total, greatest), greatest)
    return best


def _predictions(
    values: Float, stds: Float, gaps: Float, std: Float, walk: float, memory: float, trend: float
) -> tuple[Float, Float]:
    """Return errors of one-day predictions (T, S, r) relative to their standard deviations, and these."""
    S, T, r = values.shape
    level, variance, slope = values[:, 0].copy(), stds[:, 0] ** 2, np.zeros((S, r))
    z, spread = np.full((T, S, r), np.nan), np.full((T, S, r), np.nan)
    rate = trend * float(_trend_gain(np.array(walk), memory))
    for t in range(1, T):
        gap = np.minimum(gaps[:, t, None], _LONGEST_GAP)
        kept = memory**gap
        ahead, level = variance + walk * std**2 * gap, level + slope * gap
        spread[t] = np.sqrt((1.0 - kept) ** 2 * ahead + (1.0 - kept**2) * stds[:, t] ** 2)
        z[t] = (values[:, t] - kept * values[:, t - 1] - (1.0 - kept) * level) / spread[t]
        gain = (1.0 - kept) * ahead / spread[t] ** 2
        correction, variance = gain * z[t] * spread[t], (1.0 - (1.0 - kept) * gain) * ahead
        level = level + correction
        if 2.0 * rate * t > 1.0:
            slope = slope + rate * correction / gap
    return z[FIRST_DAYS:], spread[FIRST_DAYS:]


def _student_fit(z: Float, spread: Float, freedom: float, left_out: float) -> tuple[Float, Float]:
    """Return the likeliest scales (r,) of Student's t, and the log-likelihoods (r,) of the robots that fit best."""
    scale = np.maximum(np.nanmedian(np.abs(z), axis=(0, 1)), 1e-12)
    for _ in range(10):
        weighted = (freedom + 1.0) * z**2 / (freedom + (z / scale) ** 2)
        scale = np.maximum(np.sqrt(np.nanmean(weighted, axis=(0, 1))), 1e-12)
    log = np.nansum(log_student(z / scale, freedom) - np.log(scale * spread), axis=0)
    return scale, np.asarray(np.sort(log, axis=0)[int(left_out * len(log)) :].sum(axis=0))


def log_student(z: Float, freedom: Float | float) -> Float:
    """Return the logarithm of the density of Student's t."""
    freedom = np.asarray(freedom)
    constant = np.vectorize(lgamma)(0.5 * freedom + 0.5) - np.vectorize(lgamma)(0.5 * freedom)
    return np.asarray(
        constant - 0.5 * np.log(np.pi * freedom) - 0.5 * (freedom + 1.0) * np.log1p(z**2 / freedom)
    )


def _blurred(variance: float, points: int = _POINTS, distance: float = _DISTANCE) -> Float:
    """Return (points, points) probabilities to move from one level to another; rows add up to one."""
    cells = np.arange(points)[:, None] - np.arange(points)
    if variance < distance**2 / 2:
        # Three points have the exact variance, where samples of a normal density have none.
        step = 0.5 * variance / distance**2
        matrix = np.where(cells == 0, 1.0 - 2.0 * step, np.where(np.abs(cells) == 1, step, 0.0))
    else:
        matrix = np.exp(-0.5 * (cells * distance) ** 2 / variance)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


class Levels:
    """Levels of r quantities of S robots, and the evidence that each has stepped: Shiryaev-Roberts sums.

    The density of a level without a change is filtered day by day on a grid. A second one is the sum, over the first
    days of a change, of the densities after a step from N(0, spread^2) on that day, each relative to the probability of
    the values without a change. Its integral is the sum of Bayes factors.
    """

    def __init__(self, scatter: Scatter, spread: Float, count: int) -> None:
        self.scatter, self.spread = scatter, spread
        self.unit = np.maximum(scatter.predicted, _LEAST_SCATTER * spread)
        r = len(spread)
        self.last, self.slope = np.zeros((r, count)), np.zeros((r, count))
        self.trend_gain = scatter.trend * _trend_gain(scatter.walk, scatter.memory)
        self.seen = np.zeros(count)
        walk = scatter.walk * (scatter.scale * scatter.std / self.unit) ** 2
        self.walk = np.array([_blurred(float(variance)) for variance in walk])
        self.jump = np.array([_blurred(float(variance)) for variance in (spread / self.unit) ** 2])
        self.grid = _DISTANCE * (np.arange(_POINTS) - _POINTS // 2)
        self.density = np.zeros((r, count, _POINTS))
        self.changed = np.zeros((r, count, _POINTS))
        self.origin = np.zeros((r, count))
        self.new = np.ones((r, count), dtype=np.bool_)

    def ahead(self, now: Int, gaps: Float) -> tuple[Float, Float]:
        """Predict the levels of robots after a gap in days; return mean and variance (S, r)."""
        for day in range(int(np.minimum(gaps, _LONGEST_GAP).max(initial=0))):
            some = now[gaps > day]
            self.density[:, some] = self.density[:, some] @ self.walk
            self.changed[:, some] = self.changed[:, some] @ self.walk
        self.origin[:, now] += self.slope[:, now] * np.minimum(gaps, _LONGEST_GAP)
        density = self.density[:, now]
        mean = density @ self.grid
        variance = np.maximum(density @ self.grid**2 - mean**2, 0.0)
        return ((self.origin[:, now] + mean) * self.unit[:, None]).T, (variance * self.unit[:, None] ** 2).T

    def see(self, now: Int, gaps: Float, values: Float, stds: Float) -> tuple[Float, Float]:
        """Process values (S, r) of a day; return evidence and log-density of the values without a change.

        The log-density is nan where a quantity begins.
        The evidence is of changes that began before this day: a single day that differs is no change that lasts.
        """
        value, new = (values / self.unit).T, self.new[:, now]
        kept = np.where(new, 0.0, self.scatter.memory[:, None] ** np.minimum(gaps, _LONGEST_GAP))
        self.origin[:, now] = np.where(new, value, self.origin[:, now])
        self.density[:, now] = np.where(new[:, :, None], 1.0 / _POINTS, self.density[:, now])
        before = self.density[:, now]
        far = 0.5 * _POINTS * _DISTANCE
        offset = np.clip(value - self.origin[:, now], -far, far)
        last = np.clip(self.last[:, now] - self.origin[:, now], -far, far)
        scale = (stds * self.scatter.scale / self.unit).T * np.sqrt(1.0 - kept**2)
        scale = np.maximum(scale, _DISTANCE)[:, :, None]
        rest, kept = (offset - kept * last)[:, :, None], kept[:, :, None]
        likely = self._likely(rest - (1.0 - kept) * self.grid, scale)
        density = before * likely
        total = density.sum(axis=2, keepdims=True)
        # On the first day of a step the scatter of the day before is that about the earlier level.
        earlier = (before @ self.grid)[:, :, None]
        stepped = (before @ self.jump) * self._likely(rest + kept * earlier - self.grid, scale)
        lasting = self.changed[:, now] * likely / total
        changed = lasting + np.where(new[:, :, None], 0.0, stepped) / total
        self.density[:, now], self.changed[:, now] = density / total, np.minimum(changed, 1e200)
        self.last[:, now] = value
        # The first days correct a level that is hardly known, which is no trend.
        self.seen[now] += 1
        known = 2.0 * self.trend_gain[:, None] * self.seen[now] > 1.0
        correction = (self.density[:, now] - before) @ self.grid / np.maximum(gaps, 1.0)
        self.slope[:, now] += np.where(known, self.trend_gain[:, None] * correction, 0.0)
        # A quantity begins anew until a day determines it within the grid.
        self.new[:, now] = new & (far < 3.0 * (stds / self.unit).T)
        self._recentre(now)
        log_density = np.log(total[:, :, 0]) - np.log(self.unit)[:, None]
        return lasting.sum(axis=2).T, np.where(new, np.nan, log_density).T

    def _likely(self, error: Float, scale: Float) -> Float:
        return np.asarray(np.exp(log_student(error / scale, self.scatter.freedom[:, None, None])) / scale)

    def predicted(self, now: Int, gaps: Float, level: Float) -> Float:
        """Predict values (S, r) if the levels are `level`."""
        kept = np.where(
            self.new[:, now].T, 0.0, self.scatter.memory ** np.minimum(gaps, _LONGEST_GAP)[:, None]
        )
        return np.asarray(level + kept * (self.last[:, now].T * self.unit - level))

    def restart(self, robot: int, quantities: Bool) -> None:
        """Begin again after a change of a robot that may have changed some quantities (r,)."""
        self.changed[:, robot] = 0.0
        self.slope[quantities, robot] = 0.0
        self.new[quantities, robot] = True

    def _recentre(self, now: Int) -> None:
        """Move grids whose level is far from their centre."""
        cells = np.round(self.density[:, now] @ self.grid / _DISTANCE).astype(np.int64)
        for k, i in np.argwhere(np.abs(cells) > _POINTS // 8):
            robot, cell = int(now[i]), int(cells[k, i])
            source = np.arange(_POINTS) + cell
            inside = (source >= 0) & (source < _POINTS)
            for array in (self.density, self.changed):
                array[k, robot] = np.where(inside, array[k, robot][np.clip(source, 0, _POINTS - 1)], 0.0)
            self.density[k, robot] /= self.density[k, robot].sum()
            self.origin[k, robot] += cell * _DISTANCE


@dataclass(frozen=True, eq=False)
class Starts:
    """Possible first days of a step: logarithms of their Bayes factors, mean and variance of the last level."""

    log: Float
    mean: Float
    variance: Float


def starts(
    scatter: Scatter,
    k: int,
    spread: float,
    values: Float,
    stds: Float,
    gaps: Float,
    before: tuple[Float, Float, Float],
) -> Starts:
    """Compare the days on which a step of quantity k may have begun.

    Parameters
    ----------
    scatter : Scatter
        Scatter of all quantities.
    k : int
        The quantity.
    spread : float
        Standard deviation of expected steps.
    values : ndarray, shape (T + 1,)
        Values of the days, after that of the day before them.
    stds, gaps : ndarray, shape (T,)
        Standard deviations of the values according to the model, and calendar days since the log before.
    before : tuple of ndarray, shape (T,)
        Mean and variance of the level without a change, predicted for each day, and log-density of the value.

    Returns
    -------
    Starts
        For each of the T days.

    """
    mean, variance, log_density = before
    T, last, values = len(stds), values[:-1], values[1:]
    unit = max(float(scatter.predicted[k]), _LEAST_SCATTER * spread)
    reach = np.concatenate([values[stds <= 3.0 * np.median(stds)], mean])
    low, high = float(reach.min()) - 5.0 * unit, float(reach.max()) + 5.0 * unit
    grid = np.linspace(low, high, _POINTS)
    distance = float(grid[1] - grid[0])
    walk = _blurred(float(scatter.walk[k] * (scatter.scale[k] * scatter.std[k]) ** 2), distance=distance)
    density, log = np.zeros((T, _POINTS)), np.zeros(T)
    for t in range(T):
        for _ in range(int(min(gaps[t], _LONGEST_GAP)) if t else 0):
            density[:t] = density[:t] @ walk
        density[t] = np.exp(-0.5 * (grid - mean[t]) ** 2 / (variance[t] + spread**2))
        density[t] /= density[t].sum()
        kept = float(scatter.memory[k] ** min(gaps[t], _LONGEST_GAP))
        scale = float(stds[t] * scatter.scale[k]) * np.sqrt(1.0 - kept**2)
        scale = max(scale, distance, _LEAST_SCATTER * spread * _DISTANCE)
        error = np.tile(values[t] - kept * last[t] - (1.0 - kept) * grid, (t + 1, 1))
        error[t] = values[t] - kept * (last[t] - mean[t]) - grid
        seen = density[: t + 1] * np.exp(log_student(error / scale, float(scatter.freedom[k]))) / scale
        total = seen.sum(axis=1)
        log[: t + 1] += np.log(total) - log_density[t]
        density[: t + 1] = seen / total[:, None]
    level = density @ grid
    return Starts(log, level, np.maximum(density @ grid**2 - level**2, 0.0))

"""Weighted information about parameters and gains of a robot from the logs of one day, and a hierarchical model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from dynid.base import Bool, Float, dataclass, locked
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

"""From the rows of a store to days: what the logs of one robot and day say of its parameters and gains, weighted."""

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

# Least share of a joint's torque that its residual is taken for: no log is exact.
_EXACT = 1e-4


@dataclass(frozen=True, eq=False)
class Weights:
    """Noise of the equations of a type's logs, by joint.

    sigma: (n,) standard deviation of residuals.    design: (n,) by how much autocorrelation widens variances.
    torque: (n,) root mean square of the measured torque.
    """

    sigma: Float
    design: Float
    torque: Float

    @staticmethod
    def of(model: TypeModel, rows: Sequence[Mapping[str, Any]]) -> Weights:
        """From the rows of many logs: pooled sigmas, median design effects."""
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
        """Covariances so many times as large."""
        return replace(self, design=self.design * noise)

    def of_log(self, row: Mapping[str, Any]) -> Float:
        """(n,) weight of an equation; a log noisier than usual counts less."""
        return np.asarray(1.0 / (np.maximum(row["sigma"], self.sigma) ** 2 * self.design))


@dataclass(frozen=True, eq=False)
class Day:
    """The logs of one robot and day: -1/2 (x - x0)' A (x - x0) + h' (x - x0) is their log-likelihood.

    x: (m,) the kept parameters, then by how much each joint's torque is measured too large (0.01 = 1 %).
    x0: the type's model, gains zero.    A: (m, m).    h: (m,).
    """

    day: date
    A: Float
    h: Float

    def widened(self, noise: float) -> Day:
        """The same with a covariance so many times as large."""
        return Day(self.day, self.A / noise, self.h / noise)


def information(model: TypeModel, weights: Weights, row: Mapping[str, Any]) -> tuple[Float, Float]:
    """A and h of one log, about the type's model."""
    k, n = len(model.kept), model.robot.n
    A, h = np.zeros((k + n, k + n)), np.zeros(k + n)
    place = {int(c): i for i, c in enumerate(model.kept)}
    weight = weights.of_log(row)
    for j, (R, columns) in enumerate(
        zip(
            unpacked(row["R"], [len(columns_of_joint) for columns_of_joint in model.layout]),
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
    """The days of one robot on which it has a factor, in order."""
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
    """At most so many items, evenly spread over their order."""
    if len(items) <= most:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, most).round().astype(int)]


def batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Lists of so many items."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


# Type, serial number, day: a hierarchical model of the parameters, its variances found from the fleet
# itself.

# Rounds of expectation and maximisation, after which variances of a simulated fleet are within a few per cent.
ROUNDS = 40
# Over-relaxation of a round; below 2, from which on it need not converge (Lange 1995).
OVER = 1.8
# First guess of what differs between robots and between days, in standard errors of one day, and the least of both.
_BETWEEN, _WITHIN, _LEAST = 10.0, 1.0, 1e-2
# Directions below this share of the greatest information of a day say nothing.
_NOTHING = 1e-9
# Fewest robots of a type from which a variance between robots is estimated; fewer keep the first guess.
FEW_ROBOTS = 5


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """x_day ~ N(x_serial, diag day), x_serial ~ N(type, diag serial), all about the type's model.

    mean: (m,) of the type.    serial, day: (m,) variances between robots and between days of one robot.
    noise: by how much the days' covariances A^-1 are too small, as errors of the model depend on the motion.
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
    """What is known of some robots: mean (S, m) and information (S, m, m), the inverse covariance, of x_serial."""

    mean: Float
    information: Float

    @staticmethod
    def new(hierarchy: Hierarchy, count: int) -> State:
        """Robots of which only the type is known."""
        return State(
            np.tile(hierarchy.mean, (count, 1)), np.tile(np.diag(1.0 / hierarchy.serial), (count, 1, 1))
        )

    @property
    def covariance(self) -> Float:
        """(S, m, m)."""
        return inverse(self.information)

    def after(self, hierarchy: Hierarchy, A: Float, h: Float) -> State:
        """The state after one more day of each robot, A (S, m, m), h (S, m)."""
        day_information, score = without_day(hierarchy, A, h)
        information = self.information + day_information
        step = score - np.einsum("sij,sj->si", day_information, self.mean)
        return State(self.mean + np.linalg.solve(information, step[:, :, None])[:, :, 0], information)


def inverse(matrices: Float) -> Float:
    """Inverses of positive definite matrices (S, m, m), whose lines may differ in units."""
    size = 1.0 / np.sqrt(np.einsum("sii->si", matrices))
    scale = size[:, :, None] * size[:, None, :]
    return np.asarray(np.linalg.inv(matrices * scale) * scale)


def without_day(hierarchy: Hierarchy, A: Float, h: Float) -> tuple[Float, Float]:
    """What days say of x_serial once what differs between days is integrated out: A (I + D A)^-1, (I + A D)^-1 h."""
    C = _day_covariance(hierarchy.day, A)
    AC = A @ C
    return A - AC @ A, h - np.einsum("sij,sj->si", AC, h)


def _day_covariance(day: Float, A: Float) -> Float:
    """(D^-1 + A)^-1, for any D >= 0."""
    root = np.sqrt(day)
    B = np.eye(len(day)) + root[:, None] * A * root
    return np.asarray(root[:, None] * np.linalg.inv(B) * root)


def _beyond(before: Float, after: Float) -> Float:
    """Further along a step of variances, which is short where they are small; on the scale of logarithms."""
    return before * (after / before) ** OVER


def fit_hierarchy(robots: Sequence[Sequence[Day]], gains: int, daily: Bool | None = None) -> Hierarchy:
    """Type mean, variances and noise that make the days of some robots most likely, by expectation and maximisation.

    gains: number of trailing entries of x whose type mean stays zero: a gain common to all robots is no gain.
    daily: (m,) what may differ from day to day, None = all. What the model lacks makes all estimates depend on the
        motion, in directions that the motion determines badly: that is noise, not a change of the robot.
    Source: Dempster, Laird and Rubin 1977; Laird and Ware 1982 for random effects.
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
    A = [np.array([item.A for item in days]) for days in robots]
    h = [np.array([item.h for item in days]) for days in robots]
    inverses = [np.linalg.pinv(_scaled(item, error), rcond=_NOTHING, hermitian=True) for item in A]
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
            # Covariance of x of the day: what the day leaves open, and what the robot does.
            stays = np.eye(m) - CA
            spread = CA @ P @ np.swapaxes(CA, 1, 2)
            within += np.sum(np.einsum("sii->si", C + spread) + moved**2, axis=0)
            rest = (whole_h - np.einsum("sij,sj->si", whole_A, x + moved)) * np.sqrt(error)
            missed += float(np.einsum("si,sij,sj->", rest, pseudo, rest))
            missed += float(np.einsum("sij,sji->", whole_A, C + stays @ P @ np.swapaxes(stays, 1, 2)))
        day = np.maximum(_beyond(day, within / len(every)), floor)
        day = day if daily is None else np.where(daily, day, floor)
        noise = max(missed / rank, 1.0)
        if len(robots) >= FEW_ROBOTS:
            mean = np.where(fixed, 0.0, np.mean(means, axis=0))
            between = np.mean((np.array(means) - mean) ** 2 + squares, axis=0)
            serial = np.maximum(_beyond(serial, between), floor)
    return hierarchy


def _scaled(A: Float, error: Float) -> Float:
    return np.asarray(A * np.sqrt(np.outer(error, error)))

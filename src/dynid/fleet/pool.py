"""From the rows of a store to days: what the logs of one robot and day say of its parameters and gains, weighted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.fleet.model import TypeModel
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
            for j, R in enumerate(unpacked(row["R"], [len(one) for one in model.layout])):
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
        zip(unpacked(row["R"], [len(one) for one in model.layout]), model.layout, strict=True)
    ):
        own = np.array([place[int(c)] for c in columns])
        predicted = R[:, :-1] @ model.value[own]
        lines = np.column_stack([R[:, :-1], predicted])
        at = np.append(own, k + j)
        A[np.ix_(at, at)] += weight[j] * (lines.T @ lines)
        h[at] += weight[j] * (lines.T @ (R[:, -1] - predicted))
    return A, h


def days(model: TypeModel, weights: Weights, rows: Sequence[Mapping[str, Any]]) -> list[Day]:
    """The days of one robot on which it has a factor, in order."""
    found: list[Day] = []
    for row in rows:
        if not is_done(row):
            continue
        A, h = information(model, weights, row)
        day = row["time"].date()
        if found and found[-1].day == day:
            found[-1] = Day(day, found[-1].A + A, found[-1].h + h)
        else:
            found.append(Day(day, A, h))
    return found


def spread_out(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many items, evenly spread over their order."""
    if len(items) <= most:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, most).round().astype(int)]


def batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Lists of so many items."""
    batch: list[Any] = []
    for one in items:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch

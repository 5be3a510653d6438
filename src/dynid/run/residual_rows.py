"""Residuals gathered batch by batch, in room that is there once."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.estimate.residuals import Residuals
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples


class ResidualRows:
    """Rows of residuals.

    room: for so many, where their number is known.    stretches: whether parts of segments are kept, each a segment of
    its own.
    """

    def __init__(self, robot: RobotModel, room: int, stretches: bool) -> None:
        self._robot, self._stretches, self._count = robot, stretches, 0
        self._lines = np.empty((5 * robot.n, room))
        self._times: list[Float] = []
        self._trajectory: list[Int] = []
        self._segment: list[Int] = []
        self._warmth: list[Float] = []
        self._counted: list[Bool] = []
        self._names: dict[str, int] = {}
        self._runs: dict[tuple[str, int, int], int] = {}

    def add(self, samples: Samples, index: Int, lines: Float, stretch: Int, opened: Bool | None) -> None:
        """Appends some samples of a batch, in the order of `index`.

        lines: (5 n, T) measured and predicted torque, positions, velocities and standard deviations of the prediction.
        stretch: (T,) number of the part of the segment.    opened: (T, n) whose equation counts; None = all.
        """
        self._append(lines)
        self._counted.append(
            np.ones((len(index), self._robot.n), dtype=np.bool_) if opened is None else opened
        )
        if samples.temperature is not None:
            self._warmth.append(samples.temperature[index])
        self._times.append(samples.t[index])
        name = self._names.setdefault(samples.trajectory, len(self._names))
        self._trajectory.append(np.full(len(index), name))
        if not self._stretches:
            self._segment.append(np.full(len(index), samples.segment))
            return
        parts, own = np.unique(stretch, return_inverse=True)
        names = ((samples.trajectory, samples.segment, part) for part in parts.tolist())
        numbers = [self._runs.setdefault(one, len(self._runs)) for one in names]
        self._segment.append(np.array(numbers, dtype=np.int64)[own])

    def residuals(self, rate: float) -> Residuals:
        """All of them.    rate: Hz."""
        measured, predicted, q, dq, std = np.split(self._lines[:, : self._count], 5)
        return Residuals(
            trajectories=tuple(self._names),
            joint_names=self._robot.joint_names,
            t=np.concatenate(self._times),
            trajectory=np.concatenate(self._trajectory),
            segment=np.concatenate(self._segment),
            measured=measured.T,
            predicted=predicted.T,
            q=q.T,
            dq=dq.T,
            std=std.T,
            rate=rate,
            temperature=np.concatenate(self._warmth) if self._warmth else None,
            counted=None if all(one.all() for one in self._counted) else np.concatenate(self._counted),
        )

    def _append(self, lines: Float) -> None:
        end = self._count + lines.shape[1]
        if end > self._lines.shape[1]:
            grown = np.empty((len(self._lines), max(end, 2 * self._lines.shape[1])))
            grown[:, : self._count] = self._lines[:, : self._count]
            self._lines = grown
        self._lines[:, self._count : end] = lines
        self._count = end

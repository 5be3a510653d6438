"""The five schemes of Chavez-Olivares et al. 2012 as they print them, and the fit by recursive least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from dynid.base import Float
from dynid.estimate import ParameterTrajectory, RecursiveLeastSquares, TrajectoryRecorder
from dynid.rows import Equations, Rows
from dynid.signals import Samples
from dynid_studies import rotradi_equations as closed
from dynid_studies.rotradi import NAMES, POLE, STEP, TERMS, THETA, arm, lift

VARIANCE = 1e6
BATCH = 40


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimate of the 21 parameters, and how it came about."""

    theta: Float
    trajectory: ParameterTrajectory

    @property
    def error(self) -> float:
        """Median error of the parameters, %."""
        return float(100 * np.median(np.abs(self.theta - THETA) / np.abs(THETA)))


def fit(psi: Float, y: Float) -> Fit:
    """Recursive least squares (6) to (8) from P = 1e6 I: psi (T, g, 21), y (T, g)."""
    estimate, recorder = RecursiveLeastSquares(np.arange(21), variance=VARIANCE), TrajectoryRecorder(NAMES)
    for first in range(0, len(y), BATCH):
        part = slice(first, first + BATCH)
        lines = np.concatenate([psi[part], y[part, :, None]], axis=2).reshape(-1, 22).T
        estimate.update(Equations((np.arange(21),), (np.ascontiguousarray(lines),)))
        recorder.note_least_squares(STEP * (first + len(y[part])), estimate)
    return Fit(estimate.value, recorder.trajectory)


def fit_rows(rows: Rows, samples: Samples) -> Fit:
    """The same with the general equations of dynid, for the same 21 parameters."""
    return fit(*_lines(rows, samples))


def recursive_against_batch(rows: Rows, samples: Samples) -> float:
    """Greatest difference of the recursion from the batch solution with the same prior, of the greatest parameter."""
    psi, y = _lines(rows, samples)
    A, b = psi.reshape(-1, 21), y.ravel()
    batch = np.linalg.solve(np.eye(21) / VARIANCE + A.T @ A, A.T @ b)
    return float(np.abs(fit(psi, y).theta - batch).max() / np.abs(batch).max())


def _lines(rows: Rows, samples: Samples) -> tuple[Float, Float]:
    robot, to_full = arm(), lift()
    equations = rows.equations(robot, TERMS, samples, np.ones(len(to_full), dtype=np.bool_))
    lines = zip(equations.columns, equations.panels, strict=True)
    psi, y = zip(*((panel[:-1].T @ to_full[columns], panel[-1]) for columns, panel in lines), strict=True)
    return np.stack(psi, axis=1), np.stack(y, axis=1)


def fit_printed(scheme: str, samples: Samples, correct: bool = False) -> Fit:
    """A scheme as printed: (33) to (37) with zero-order-hold filters; correct: (34) with its right f2 parts."""
    q, v, a, tau = samples.q, samples.dq, samples.ddq, samples.tau
    supplied = (v * tau).sum(axis=1, keepdims=True)
    if scheme == "dynamic":
        return fit(closed.torque_regressor(q, v, a), tau)
    if scheme == "filtered dynamic":
        momentum = closed.momentum(q, v)
        force = closed.force(q, v) if correct else closed.force_printed(q, v)
        return fit(_f1(momentum - momentum[0]) + _f2(force), _f2(tau))
    if scheme == "power":
        return fit(closed.power(q, v, a)[:, None], supplied)
    stored = closed.energy(q, v)
    stored, lost = stored - stored[0], np.zeros_like(stored)
    lost[:, 15::2], lost[:, 16::2] = v**2, np.abs(v)
    if scheme == "energy":
        return fit((stored + _integral(lost))[:, None], _integral(supplied))
    return fit((_f1(stored) + _f2(lost))[:, None], _f2(supplied))


def ramp_of_printed_filter() -> float:
    """What the printed f1 makes of a unit ramp in the end: 1 would be right."""
    t = STEP * np.arange(4000, dtype=np.float64)
    return float(_f1(t)[-1])


def _f1(x: Float) -> Float:
    return np.asarray(lfilter([POLE, -POLE], [1.0, -np.exp(-STEP * POLE)], x, axis=0))


def _f2(x: Float) -> Float:
    e = np.exp(-STEP * POLE)
    return np.asarray(lfilter([0.0, 1.0 - e], [1.0, -e], x, axis=0))


def _integral(x: Float) -> Float:
    steps = 0.5 * STEP * (x[1:] + x[:-1])
    return np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(steps, axis=0)])

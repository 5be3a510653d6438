"""Friction of every joint over its speed: curve, 95 % interval, and the samples."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.estimate.scores import Residuals
from dynid.run.result import Identification
from dynid.terms.term import Of, states

__all__ = ["SpeedCurve", "speed_curves"]

# Points of a curve, closer to each other near zero speed, where friction bends.
CURVE_POINTS = 101


@dataclass(frozen=True, eq=False)
class SpeedCurve:
    """Friction of a joint over its speed.

    Attributes
    ----------
    joint : str
    speed, torque, half : ndarray, shape (n_points,)
        Speed of the joint with all other joints at rest, rad/s (m/s); torque of the model and half width of
        its 95 % interval, nan where unknown, N m (N).
    sample_speed, sample_torque, load : ndarray, shape (n_samples,)
        Samples: measured torque less all other predicted torque, and the size of that other torque, N m (N).
    temperature : ndarray, shape (n_samples,), degC, optional
        Temperature of the drive; None = not logged.

    """

    joint: str
    speed: Float
    torque: Float
    half: Float
    sample_speed: Float
    sample_torque: Float
    load: Float
    temperature: Float | None


def speed_curves(run: Identification, residuals: Residuals, most: int) -> list[SpeedCurve]:
    """Friction of every joint over its speed, with at most `most` samples per joint.

    Friction is the torque of all parameters of joints: friction, offset, and springs at the mean position. Empty where
    it is not a function of the speed alone, because the model reads further channels or the base floats.
    """
    if run.terms.channels() or run.robot.floats:
        return []
    curves = []
    for j, name in enumerate(residuals.joint_names):
        counted = np.flatnonzero(residuals.counts(j))
        counted = counted[:: max(-(-len(counted) // most), 1)]
        fastest = float(np.abs(residuals.dq[:, j]).max(initial=0.0))
        share = np.linspace(-1.0, 1.0, CURVE_POINTS)
        speed = fastest * share * np.abs(share)
        measured, predicted, dq = (
            signal[counted, j] for signal in (residuals.measured, residuals.predicted, residuals.dq)
        )
        friction = _torque(run, residuals, dq, j)
        warmth = None if residuals.temperature is None else residuals.temperature[counted, j]
        curves.append(
            SpeedCurve(
                name,
                speed,
                _torque(run, residuals, speed, j),
                _half_width(run, residuals, speed, j),
                dq,
                friction + measured - predicted,
                np.abs(predicted - friction),
                warmth if warmth is not None and np.isfinite(warmth).any() else None,
            )
        )
    return curves


def _regressor(run: Identification, residuals: Residuals, speed: Float, joint: int, links: bool) -> Float:
    """Rows of a joint that moves alone at constant speed, shape (n_points, n_parameters)."""
    columns = run.estimate.columns
    q = np.broadcast_to(residuals.q.mean(axis=0), (len(speed), run.robot.n))
    dq = np.zeros(q.shape)
    dq[:, joint] = speed
    warmth = None if residuals.temperature is None else np.broadcast_to(_mean(residuals.temperature), q.shape)
    samples, _ = states(run.robot, run.terms, q, dq, np.zeros(q.shape), temperature=warmth)
    wanted = run.estimate.base.mask if links else np.array([column.of is Of.JOINT for column in columns])
    regressor = run.terms.torque_regressor(run.robot, samples, wanted).dense(len(columns))
    return np.asarray(regressor.reshape(len(speed), -1, len(columns))[:, joint])


def _mean(temperature: Float) -> Float:
    known = np.isfinite(temperature)
    return np.asarray(np.where(known, temperature, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def _torque(run: Identification, residuals: Residuals, speed: Float, joint: int) -> Float:
    rows = _regressor(run, residuals, speed, joint, links=False)
    drive = np.array([column.of is Of.JOINT for column in run.estimate.columns])
    return np.asarray(rows[:, drive] @ run.estimate.parameters[drive])


def _half_width(run: Identification, residuals: Residuals, speed: Float, joint: int) -> Float:
    """Half width of the 95 % interval of the friction that is odd in the speed.

    (Y(q, v) - Y(q, -v)) / 2 at zero acceleration contains no gravity, inertia or Coriolis torque, so its
    covariance is due to friction alone.
    """
    estimate = run.estimate
    if not np.isfinite(estimate.covariance).all():
        return np.full(len(speed), np.nan)
    forward, backward = (_regressor(run, residuals, v, joint, links=True) for v in (speed, -speed))
    odd = (forward - backward)[:, estimate.base.independent] / 2.0
    variance = np.einsum("tp,pq,tq->t", odd, estimate.covariance, odd)
    return np.asarray(estimate.quantile() * np.sqrt(np.maximum(variance, 0.0)))

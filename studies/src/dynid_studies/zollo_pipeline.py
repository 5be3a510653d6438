"""The way of Zollo et al. 2014 from a reference to parameters: control, encoders, filter, equations, least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import butter, sosfiltfilt

from dynid.base import Bool, Float
from dynid.factor import BaseMap
from dynid.robot import RobotModel
from dynid.rows import ElasticRows
from dynid.signals import Samples
from dynid.simulation import (
    Coupling,
    Elasticity,
    FixedStep,
    Friction,
    GravityPD,
    Plant,
    SimulatedMotion,
    Tabulated,
    pd_gains,
    sample_times,
    simulate,
)
from dynid.terms import Terms
from dynid.trajectories import BasisTrajectory, SplineBasis
from dynid_studies.zollo_arms import GATE, TERMS, Arm

RATE = 1000.0
COUNT = 2 * np.pi / 1250000
CUTOFF, ORDER = 20.0, 5
ENDS = 100  # samples at either end, where the filter settles
BANDWIDTH = 3.0  # Hz, of the control where gains are not given


@dataclass(frozen=True, eq=False)
class Run:
    """A simulated motion, its exact samples, and the plant and gains that it was made with."""

    motion: SimulatedMotion
    samples: Samples
    plant: Plant
    gains: tuple[Float, Float]

    @property
    def keep(self) -> Bool:
        """Samples in which all motors are faster than the gate."""
        return np.asarray((np.abs(self.motion.dtheta) > GATE).all(axis=1))

    @property
    def bend(self) -> Float:
        """Motor less link position, (T, n) rad."""
        return np.asarray(self.motion.theta - self.motion.q)


def reference(n: int, duration: float, pieces: int, reach: float, seed: int) -> BasisTrajectory:
    """A random B-spline of fifth order that rests at both ends."""
    basis = SplineBasis(duration, pieces)
    X = np.zeros((basis.size, n))
    X[1:] = reach * np.random.default_rng(seed).uniform(-1.0, 1.0, (basis.size - 1, n))
    return BasisTrajectory(basis, X)


def drive(
    arm: Arm,
    friction: Friction,
    spline: BasisTrajectory,
    steps: int = 1,
    gains: tuple[Float, Float] | None = None,
) -> Run:
    """The arm under PD control with on-line gravity compensation along a B-spline, sampled at 1 kHz.

    steps: of the integration from sample to sample.    gains: (n,) each; None = those of a bandwidth of 3 Hz.
    """
    plant = Plant(
        arm.robot,
        inertia=arm.bodies,
        elasticity=Elasticity(arm.stiffness, np.zeros(arm.robot.n)),
        coupling=Coupling.FULL,
        friction=friction,
    )
    chosen = pd_gains(plant.rigid, BANDWIDTH) if gains is None else gains
    step = 1.0 / (RATE * steps)
    path = Tabulated(spline, 0.5 * step)
    start = plant.at_rest(path.motion(np.zeros(1))[0])[0]
    times = sample_times(spline.duration - 1 / RATE, RATE)
    motion = simulate(plant, GravityPD(plant, path, *chosen), start, times, FixedStep(step))
    plain = Samples.from_motion(motion.q, motion.dq, motion.ddq, motion.tau)
    exact = replace(plain, theta=motion.theta, dtheta=motion.dtheta, ddtheta=motion.ddtheta)
    return Run(motion, exact, plant, chosen)


def encoders(run: Run, noise: float = 0.0, forward: bool = False) -> Samples:
    """The paper's signals: encoder counts, Butterworth of order 5 and 20 Hz without phase, differences."""
    m = run.motion
    rng = np.random.default_rng(0)
    both = np.hstack([m.q, m.theta])
    both = np.round((both + noise * rng.standard_normal(both.shape)) / COUNT) * COUNT
    both = sosfiltfilt(butter(ORDER, CUTOFF, fs=RATE, output="sos"), both, axis=0)

    def slope(x: Float) -> Float:
        difference = np.diff(x, axis=0, append=x[-1:]) if forward else np.gradient(x, axis=0)
        return np.asarray(difference * RATE)

    rates = slope(both)
    pushes = slope(rates)
    n = m.q.shape[1]
    plain = Samples.from_motion(both[:, :n], rates[:, :n], pushes[:, :n], m.tau)
    return replace(plain, theta=both[:, n:], dtheta=rates[:, n:], ddtheta=pushes[:, n:])


def equations(robot: RobotModel, terms: Terms, samples: Samples) -> tuple[Float, Float]:
    """Link and motor equations, (T, 2n, p), and their left sides, (T, 2n): zero and the motors' torque."""
    p, n = len(terms.columns(robot)), robot.n
    rows = ElasticRows(form="link").equations(robot, terms, samples, np.ones(p, dtype=np.bool_))
    W, y = np.zeros((2 * n, len(samples), p)), np.zeros((2 * n, len(samples)))
    for g, (columns, panel) in enumerate(zip(rows.columns, rows.panels, strict=True)):
        # The rows' groups are the motors, then the links.
        row = (g + n) % (2 * n)
        W[row][:, columns], y[row] = panel[:-1].T, panel[-1]
    return W.transpose(1, 0, 2), y.T


def fast(samples: Samples, gate: float) -> Bool:
    """Samples away from the ends in which all motors are faster than the gate, (T,)."""
    keep: Bool = np.asarray((np.abs(samples.motor.dq) > gate).all(axis=1))
    keep[:ENDS] = keep[-ENDS:] = False
    return keep


def base_estimate(arm: Arm, base: BaseMap, samples: Samples, gate: float) -> Float:
    """The paper's fit, eq. 42: base parameters (b,) from fast samples, both equations alike.

    Columns are scaled to unit length before the solution.
    """
    W, y = equations(arm.robot, TERMS, samples)
    keep = fast(samples, gate)
    A, b = W[keep][:, :, base.independent].reshape(-1, base.rank), y[keep].reshape(-1)
    size = np.linalg.norm(A, axis=0)
    return np.asarray(np.linalg.lstsq(A / size, b, rcond=None)[0] / size)


def relative_errors(estimated: Float, real: Float) -> Float:
    """Return (estimated - real) / real, 0 where the real value is 0."""
    kept = np.abs(real) > 1e-9 * np.abs(real).max()
    return np.asarray(np.where(kept, (estimated - real) / np.where(kept, real, 1.0), 0.0))


def signed_mean(errors: Float) -> float:
    """The paper's normalised mean error: errors of opposite signs cancel."""
    return abs(float(errors.mean()))


def unsigned_mean(errors: Float) -> float:
    """Mean of the errors' sizes."""
    return float(np.abs(errors).mean())


def unsigned_median(errors: Float) -> float:
    """Median of the errors' sizes: parameters near zero, whose relative error is large, do not decide it."""
    return float(np.median(np.abs(errors)))

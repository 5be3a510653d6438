"""Logs of a small arm with one effect each, fitted, as evidence for diagnoses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import lfilter

from dynid.arrays import Float
from dynid.diagnosis.evidence import Evidence
from dynid.estimate import WLS, Regression
from dynid.excite.trajectory import FourierTrajectory
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.data_base import data_base
from dynid.rows import TorqueRows
from dynid.robot.model import RobotModel
from dynid.scores import Origin
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.settings import DEFAULT_TERMS
from dynid.simulate.rigid import inverse
from dynid.terms.term import Terms
from dynid.validation import score

RATE, CUTOFF = 200.0, 8.0


@dataclass(frozen=True, eq=False)
class Motion:
    """True motion and torque of a simulated robot, t (T,), the rest (T, n)."""

    t: Float
    q: Float
    dq: Float
    tau: Float


Effect = Callable[[Motion, np.random.Generator], Float]


def nothing(motion: Motion, rng: np.random.Generator) -> Float:
    """No effect: the model is complete."""
    return np.zeros_like(motion.tau)


def evidence_of(
    robot: RobotModel,
    effect: Effect = nothing,
    seed: int = 0,
    seconds: float = 30.0,
    terms: Terms = DEFAULT_TERMS,
    noise: float = 0.01,
    correlation: float = 0.9,
    speed: float = 1.0,
) -> Evidence:
    """Simulates a motion with an added torque and noise, fits the terms, and returns what is left.

    noise: standard deviation as a share of each joint's torque.    correlation: between neighbouring samples.
    """
    rng = np.random.default_rng([seed, 77])
    limits = replace(robot.limits, velocity=speed * robot.limits.velocity)
    path = FourierTrajectory.random(replace(robot, limits=limits), seconds, 5, int(rng.integers(2**31)), 0.1)
    t = np.arange(0.0, seconds, 1.0 / RATE)
    q, dq, ddq = path.motion(t)
    columns = DEFAULT_TERMS.columns(robot)
    theta = np.array([0.0 if np.isnan(column.prior) else column.prior for column in columns])
    tau = inverse(robot, DEFAULT_TERMS, theta, q, dq, ddq)
    added = effect(Motion(t, q, dq, tau), rng)
    white = rng.normal(size=tau.shape) * np.sqrt(1.0 - correlation**2)
    coloured = lfilter([1.0], [1.0, -correlation], white, axis=0)
    size = noise * np.sqrt(np.mean(tau**2, axis=0))
    keep = (np.abs(dq).max(axis=1) > 0.02) & (t > 0.5) & (t < seconds - 0.5)
    samples = replace(Samples.from_motion(q, dq, ddq, tau + added + size * coloured, RATE), keep=keep)
    return fitted(robot, samples, terms, seconds)


def fitted(robot: RobotModel, samples: Samples, terms: Terms, seconds: float) -> Evidence:
    """Weighted least squares and its residuals."""
    structural = structural_base(robot, terms, TorqueRows())
    parallel = ParallelFilter(RATE, CUTOFF, 4, 5)
    assembly = Assembly(robot, terms, TorqueRows(), structural.mask, parallel, seconds / 40)
    factors = assembly.factors([samples])
    base = data_base(structural, factors)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    estimate = WLS().fit(Regression(terms.columns(robot), base, kept, np.ones(len(base.names))))
    residuals = score(assembly, estimate, [samples], Origin.TRAINING, 1, None).residuals
    if residuals is None:
        raise RuntimeError("a fit without residuals")
    return Evidence(robot, terms, estimate, residuals, CUTOFF)

"""Logs of a small arm with one effect in its torque, and their fit: test data of diagnoses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.signal import lfilter

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.estimate.least_squares import WLS
from dynid.estimate.prior import regression_of
from dynid.estimate.scores import Origin
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.identification.settings import DEFAULT_TERMS
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.scoring import score
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.simulation.motion import inverse
from dynid.spatial.inertia import from_com
from dynid.terms.term import Terms
from dynid.trajectories.trajectory import FourierTrajectory

# Hz: sampling rate, and cutoff frequency of the equations.
RATE, CUTOFF = 200.0, 8.0
# s: time left out at both ends; and rad/s: speed below which samples count as rest.
EDGE, REST = 0.5, 0.02


@dataclass(frozen=True, eq=False)
class TrueMotion:
    """Motion and torque of a simulated robot without noise; t (T,), the others (T, n)."""

    t: Float
    q: Float
    dq: Float
    tau: Float

    @property
    def size(self) -> Float:
        """Root mean square torque per joint, (n,)."""
        return np.asarray(np.sqrt(np.mean(self.tau**2, axis=0)))


AddedTorque = Callable[[TrueMotion, np.random.Generator], Float]


def small_arm() -> RobotModel:
    """Arm with a vertical first joint, a shoulder and an elbow, with friction and limits."""
    T = np.tile(np.eye(4), (3, 1, 1))
    T[0, 2, 3], T[1, 2, 3], T[2, 0, 3] = 0.3, 0.2, 0.4
    bodies = [
        from_com(mass, np.array(com), mass * np.diag([0.012, 0.015, 0.01]))
        for mass, com in ((6.0, (0.03, 0.01, 0.1)), (4.0, (0.2, 0.02, 0.03)), (2.5, (0.15, -0.02, 0.01)))
    ]
    names = ("column", "shoulder", "elbow")
    return RobotModel(
        name="small arm",
        body_names=("trunk", "upper_arm", "forearm"),
        tree_joint_names=names,
        joint_names=names,
        parent=np.array([-1, 0, 1]),
        joint_types=(JointType.REVOLUTE,) * 3,
        T_parent_joint=T,
        axis=np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
        inertia_prior=np.array(bodies),
        gravity=np.array([0.0, 0.0, -9.81]),
        limits=Limits(np.full(3, -2.2), np.full(3, 2.2), np.full(3, 1.8), np.full(3, 100.0)),
        drive=Drive.direct(3),
        projection=np.eye(3),
        projection_offset=np.zeros(3),
        friction_prior=np.array([[1.2, 1.5], [1.5, 1.8], [0.8, 0.9]]),
    )


def nothing(motion: TrueMotion, rng: np.random.Generator) -> Float:
    """No additional torque."""
    return np.zeros_like(motion.tau)


def analysis_of(
    robot: RobotModel,
    added: AddedTorque = nothing,
    seed: int = 0,
    *,
    seconds: float = 30.0,
    terms: Terms = DEFAULT_TERMS,
    noise: float = 0.01,
    correlation: float = 0.9,
    speed: float = 1.0,
    truth: RobotModel | None = None,
) -> ResidualAnalysis:
    """Simulate a random motion with additional torque, fit the terms, and return the residuals.

    Parameters
    ----------
    robot : RobotModel
        Robot of the model.
    added : callable
        Additional torque of a motion.
    seed : int
        Seed.
    seconds : float, s
        Duration.
    terms : Terms
        Terms to fit.
    noise : float
        Standard deviation of measured torque, as a share of each joint's.
    correlation : float
        Correlation of the noise between samples.
    speed : float
        Share of the joints' speed limits.
    truth : RobotModel, optional
        Robot that moves; None = `robot`.

    Returns
    -------
    ResidualAnalysis
        Residuals of the fit.

    """
    real = truth or robot
    rng = np.random.default_rng([seed, 77])
    slowed = replace(real, limits=replace(real.limits, velocity=speed * real.limits.velocity))
    path = FourierTrajectory.random(slowed, seconds, 5, int(rng.integers(2**31)), 0.1)
    t = np.arange(0.0, seconds, 1.0 / RATE)
    q, dq, ddq = path.motion(t)
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(real)])
    tau = inverse(real, DEFAULT_TERMS, theta, q, dq, ddq)
    motion = TrueMotion(t, q, dq, tau)
    white = np.sqrt(1.0 - correlation**2) * rng.normal(size=tau.shape)
    coloured = noise * motion.size * lfilter([1.0], [1.0, -correlation], white, axis=0)
    samples = Samples.from_motion(q, dq, ddq, tau + added(motion, rng) + coloured, RATE)
    keep = (np.abs(dq).max(axis=1) > REST) & (t > EDGE) & (t < seconds - EDGE)
    return fitted(robot, replace(samples, keep=keep), terms)


def fitted(robot: RobotModel, samples: Samples, terms: Terms) -> ResidualAnalysis:
    """Weighted least squares on samples of RATE, and its residuals below CUTOFF."""
    structural = structural_base(robot, terms, TorqueRows())
    parallel = ParallelFilter(RATE, CUTOFF, 4, 5)
    length = len(samples) / RATE / 40
    assembly = Assembly(robot, terms, TorqueRows(), structural.mask, parallel, Blocking(length))
    factors = assembly.factors([samples])
    estimate = WLS().fit(regression_of(robot, terms, structural, factors))
    residuals = score(assembly, estimate, [samples], Origin.TRAINING, 1, None)[0].residuals
    if residuals is None:
        raise RuntimeError("a fit without residuals")
    return ResidualAnalysis(robot, terms, estimate, residuals, CUTOFF, source_rate=RATE)

"""What torque limits keep free for what is not known of the torque: by the covariance of a run, or by a share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dynid.arrays import Float, Int, locked
from dynid.errors import UsageError
from dynid.estimate.estimator import Estimate
from dynid.excite.limits import Bounds
from dynid.excite.trajectory import Trajectory
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

SIGMAS = 3.0
DRAWS, STATES = 200, 1500
_FLOOR = 1e-9


@dataclass(frozen=True, eq=False)
class TorqueSpread:
    """Deviation of the torque about a model's, sigma^2 = y Cov y' + r^2 for a line y of the regressor.

    covariance: (p, p) of the parameters, zero where they are not identified by themselves.
    residual: r (n,), N m (N), level of what the model left.    sigmas: z, how many deviations limits keep free.
    complete: whether the run told every base parameter that a motion can tell.
    Raises UsageError for numbers that are not finite or below zero.
    """

    covariance: Float
    residual: Float
    sigmas: float = SIGMAS
    complete: bool = True

    def __post_init__(self) -> None:
        p = len(self.covariance)
        object.__setattr__(self, "covariance", locked(self.covariance, (p, p), "covariance"))
        object.__setattr__(self, "residual", locked(self.residual, (None,), "residual"))
        good = np.isfinite(self.covariance).all() and np.isfinite(self.residual).all()
        if not (good and (self.residual >= 0).all() and np.isfinite(self.sigmas) and self.sigmas >= 0):
            raise UsageError(
                "torque-spread",
                found=f"{self.sigmas} deviations, or a covariance that is not finite",
                expected="finite numbers, 0 or more deviations",
            )

    @staticmethod
    def of(estimate: Estimate, residual: Float, rank: int, sigmas: float = SIGMAS) -> TorqueSpread | None:
        """That of an estimate; None where it states no covariance.    rank: of the structural base."""
        if not np.isfinite(estimate.covariance).all() or not estimate.covariance.any():
            return None
        whole = np.zeros((len(estimate.columns),) * 2)
        at = estimate.base.independent
        whole[np.ix_(at, at)] = estimate.covariance
        return TorqueSpread(whole, residual, sigmas, len(at) >= rank)

    @property
    def rate(self) -> float:
        """Share of torques that stay within a limit that they come nearest to, at one instant: Phi(z)."""
        return 0.5 * (1.0 + math.erf(self.sigmas / math.sqrt(2.0)))

    @cached_property
    def root(self) -> Float:
        """(p, r) with root root' the covariance; a draw of the parameters is root times normal numbers."""
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > 0
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))

    def panels(self, robot: RobotModel, terms: Terms, q: Float, dq: Float, ddq: Float) -> Panels:
        """The regressor in the columns that have a covariance."""
        known = np.diag(self.covariance) > 0
        return terms.torque_regressor(robot, Samples.from_motion(q, dq, ddq), known)

    def std(self, robot: RobotModel, terms: Terms, q: Float, dq: Float, ddq: Float) -> Float:
        """Deviations (T, n) along a motion."""
        found = self.panels(robot, terms, q, dq, ddq)
        lines = [
            self._std(j, *pair)[0] for j, pair in enumerate(zip(found.columns, found.values, strict=True))
        ]
        return np.stack(lines, axis=1)

    def slope(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        """Deviations (T,) of a joint and its derivatives (w, T) by the entries of its line of the regressor."""
        sigma, spread = self._std(joint, columns, values)
        return sigma, spread / sigma

    def _std(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        spread = self.covariance[np.ix_(columns, columns)] @ values
        square = np.einsum("wt,wt->t", values, spread)
        return np.sqrt(np.maximum(square, 0.0) + self.residual[joint] ** 2 + _FLOOR**2), spread


@dataclass(frozen=True)
class JointReserve:
    """What a plan keeps free of one joint's torque limit.

    peak: greatest torque of the model.    largest: greatest reserve, N m (N).    limit: inf = none.
    """

    joint: str
    peak: float
    largest: float
    limit: float

    @property
    def share(self) -> float:
        """The greatest reserve as a share of the limit."""
        return self.largest / self.limit


@dataclass(frozen=True)
class Reserve:
    """How a plan's torque limits allow for what is not known.

    kind: "covariance", "share" or "covariance and share".    share: of the model's torque.
    drawn, within: parameter sets drawn from the covariance, and those whose torque keeps all limits all the time.
    """

    kind: str
    sigmas: float
    share: float
    rate: float
    joints: tuple[JointReserve, ...]
    drawn: int = 0
    within: int = 0

    def describe(self) -> dict[str, Any]:
        """Plain data for plan.json."""
        joints = [
            {
                "joint": one.joint,
                "peak": one.peak,
                "largest": one.largest,
                "share_of_limit": one.share if math.isfinite(one.limit) else None,
            }
            for one in self.joints
        ]
        known = {"sigmas": self.sigmas, "rate": self.rate, "drawn": self.drawn, "within": self.within}
        return {"kind": self.kind, "share": self.share, "joints": joints} | (known if self.drawn else {})


def reserve_of(robot: RobotModel, terms: Terms, bounds: Bounds, trajectory: Trajectory) -> Reserve | None:
    """What a motion's torque limits keep free, by joint; None where torque is not bounded."""
    if bounds.theta is None:
        return None
    q, dq, ddq = trajectory.motion(np.linspace(0.0, trajectory.duration, STATES))
    tau = terms.torque(robot, Samples.from_motion(q, dq, ddq), bounds.theta)
    kept = bounds.reserve(robot, terms, q, dq, ddq, tau)
    joints = tuple(
        JointReserve(
            name, float(np.abs(tau[:, j]).max()), float(kept[:, j].max()), float(bounds.limits.torque[j])
        )
        for j, name in enumerate(robot.joint_names)
    )
    spread = bounds.spread
    if spread is None:
        return Reserve("share", 0.0, bounds.uncertainty, 0.0, joints)
    within = _within(spread, spread.panels(robot, terms, q, dq, ddq), tau, bounds.limits.torque)
    kind = "covariance and share" if bounds.uncertainty > 0 else "covariance"
    return Reserve(kind, spread.sigmas, bounds.uncertainty, spread.rate, joints, DRAWS, within)


def _within(spread: TorqueSpread, panels: Panels, tau: Float, limit: Float) -> int:
    # Drawn models that keep the limits of all joints over the whole motion.
    normal = np.random.default_rng(0).standard_normal((spread.root.shape[1], DRAWS))
    change = spread.root @ normal
    good = np.ones(DRAWS, dtype=np.bool_)
    for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
        torque = tau[:, j, None] + values.T @ change[columns]
        good &= np.abs(torque).max(axis=0) <= limit[j]
    return int(good.sum())

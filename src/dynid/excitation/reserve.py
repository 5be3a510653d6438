"""What torque limits keep free for what is not known of the torque: by the covariance of a run, or by a share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.excitation.limits import Bounds
from dynid.excitation.torque_spread import TorqueSpread
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.terms.term import Terms
from dynid.trajectories.trajectory import Trajectory

DRAWS, STATES = 200, 1500


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
    q, dq, ddq = trajectory.motion(np.linspace(0.0, trajectory.duration, STATES))
    predicted = bounds.torque(robot, terms, q, dq, ddq)
    if predicted is None:
        return None
    tau, kept = predicted
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

"""What torque limits keep free for what is not known of the torque: by the covariance of a run, or by a share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dynid.base.records import dataclass
from dynid.excitation.left_out import Whole, samples_at, stretches
from dynid.excitation.limits import Bounds
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms
from dynid.trajectories.trajectory import Trajectory

DRAWS, STATES = 200, 1500


@dataclass(frozen=True)
class JointReserve:
    """What a plan keeps free of one joint's torque limit.

    peak: greatest torque of the model.    largest: greatest reserve, N m (N).    limit: inf = none.
    left_out: greatest part of the torque that the search left out of the model.
    """

    joint: str
    peak: float
    largest: float
    limit: float
    left_out: float = 0.0

    @property
    def share(self) -> float:
        """The greatest reserve as a share of the limit."""
        return self.largest / self.limit


@dataclass(frozen=True)
class Reserve:
    """How a plan's torque limits allow for what is not known.

    kind: "covariance", "share" or "covariance and share".    share: of the model's torque.
    drawn, within: parameter sets drawn from the covariance, and those whose torque keeps all limits all the time.
    left_out: terms that the search left out of the model and that count here.
    """

    kind: str
    sigmas: float
    share: float
    rate: float
    joints: tuple[JointReserve, ...]
    drawn: int = 0
    within: int = 0
    left_out: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Plain data for plan.json."""
        joints = [
            {
                "joint": one.joint,
                "peak": one.peak,
                "largest": one.largest,
                "share_of_limit": one.share if math.isfinite(one.limit) else None,
            }
            | ({"left_out": one.left_out} if self.left_out else {})
            for one in self.joints
        ]
        known = {"sigmas": self.sigmas, "rate": self.rate, "drawn": self.drawn, "within": self.within}
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        found = {"kind": self.kind, "share": self.share, "joints": joints}
        return found | (known if self.drawn else {}) | left_out


def reserve_of(robot: RobotModel, terms: Terms, bounds: Bounds, trajectory: Trajectory) -> Reserve | None:
    """What a motion's torque limits keep free, by joint; None where torque is not bounded.

    What the search left out of the model counts, but for what is of the log.
    """
    whole, spread, limit = Whole(terms), bounds.spread, bounds.limits.torque
    peak, largest, more = np.zeros((3, robot.n))
    good, change = np.ones(DRAWS, dtype=np.bool_), np.zeros((0, DRAWS))
    if spread is not None:
        change = spread.root @ np.random.default_rng(0).standard_normal((spread.root.shape[1], DRAWS))
    for samples, own in _looked_at(whole, trajectory):
        if (predicted := bounds.torque(robot, whole.model, samples)) is None:
            return None
        tau, kept = (part[own] for part in predicted)
        peak, largest = (np.maximum(a, np.abs(b).max(axis=0)) for a, b in ((peak, tau), (largest, kept)))
        if whole.checked:
            added = whole.added(robot, samples, np.asarray(bounds.theta))[own]
            more = np.maximum(more, np.abs(added).max(axis=0))
        if spread is not None:
            panels = spread.panels(robot, whole.model, samples)
            for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                torque = tau[:, j, None] + values[:, own].T @ change[columns]
                good &= np.abs(torque).max(axis=0) <= limit[j]
    numbers = zip(
        robot.joint_names, peak.tolist(), largest.tolist(), limit.tolist(), more.tolist(), strict=True
    )
    joints = tuple(JointReserve(*one) for one in numbers)
    if spread is None:
        return Reserve("share", 0.0, bounds.uncertainty, 0.0, joints, left_out=whole.checked)
    kind = "covariance and share" if bounds.uncertainty > 0 else "covariance"
    return Reserve(
        kind, spread.sigmas, bounds.uncertainty, spread.rate, joints, DRAWS, int(good.sum()), whole.checked
    )


def _looked_at(whole: Whole, trajectory: Trajectory) -> Iterable[tuple[Samples, slice]]:
    if whole.checked:
        return stretches(trajectory)
    t = np.linspace(0.0, trajectory.duration, STATES)
    return [(samples_at(t, *trajectory.motion(t)), slice(None))]

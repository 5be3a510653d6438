"""Smooth torque as a function of the joint's own position: undeclared cables, hoses and springs."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Role, panels_of
from dynid.terms.residual_tests import Feature, FeatureGroup, Remains, TermWords, Words
from dynid.terms.term import Column, Selection, Term, by_joint

# Number of harmonics of smooth functions of position; more periods per turn are ripple.
HARMONICS = 3


def _position_features(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """The first three harmonics of the joint's own angle, or the first three powers of a slide's position."""
    q = remains.motion.q[:, joint]
    words = Words(
        "residual follows position",
        "A smooth function of this joint's position explains {figures}.",
        "Check gravity and [base] in the robot file. Terms: torsion_spring for a spring of the joint, spring or "
        "gas_spring for a counterbalance between links, channel for a cable of known torque, position_friction for "
        "friction that varies with position.",
        "smooth function of position",
    )
    columns = slow_features(q, remains.robot.prismatic[joint])
    return (Feature(columns, lambda *_: words, q, f"position, {remains.angle(joint)}"),)


@dataclass(frozen=True)
class PositionWaves(Term):
    """Smooth torque of a joint's own position: sin k q and cos k q, k = 1..count; powers 1..2 count if prismatic.

    It is never chosen automatically; it shields other effects from being chosen in its place.

    Attributes
    ----------
    count : int
        Number of harmonics.

    """

    count: int = 2
    name: str = "position_waves"
    selection = Selection(Role.SHIELD, proposed=by_joint("position"))
    words = TermWords(
        group=FeatureGroup(
            "follows-position",
            "residual against position",
        ),
        features=_position_features,
    )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """2 count columns per joint."""
        return tuple(
            Column(f"wq{j + 1}_{k + 1}", "N" if robot.prismatic[j] else "N m", self.name, j, moved_by=(j,))
            for j in range(robot.n)
            for k in range(2 * self.count)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Functions of each joint's position, on this joint."""
        lines_by_joint = {}
        for j in range(robot.n):
            q, first = samples.q[:, j], 2 * self.count * j
            orders = range(1, self.count + 1)
            lines = (
                [q**k for k in range(1, 2 * self.count + 1)]
                if robot.prismatic[j]
                else [f(k * q) for k in orders for f in (np.sin, np.cos)]
            )
            keep = np.flatnonzero(wanted[first : first + 2 * self.count])
            lines_by_joint[j] = first + keep, np.array(lines)[keep]
        return panels_of(robot, samples, lines_by_joint)


def slow_features(q: Float, prismatic: bool) -> Float:
    """Smooth functions (N, k) of positions (N,): sines and cosines of k q, k = 1..3; powers 1..3 if prismatic."""
    if prismatic:
        x = (q - q.mean()) / max(float(np.ptp(q)), 1e-12)
        return np.stack([x, x**2, x**3], axis=1)
    waves = [f(k * q) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)]
    return np.stack(waves, axis=1)

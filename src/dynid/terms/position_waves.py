"""Slow torque of a joint's own position: what cables, hoses and springs leave that nobody described."""

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

# Of slow functions of position; waves with more periods a turn are ripple.
HARMONICS = 3


def _position_features(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """The first three harmonics of the joint's own angle, or the first three powers of a slide's position."""
    q = remains.motion.q[:, joint]
    words = Words(
        "residual follows position",
        "A slow function of this joint's position explains {figures}.",
        "Check gravity and [base] in the robot file; a spring of the joint is a torsion_spring, a counterbalance "
        "between links a spring or gas_spring, a cable or hose of known torque a channel, friction that varies "
        "over the turn position_friction.",
        "slow function of position",
    )
    columns = slow_features(q, bool(remains.robot.prismatic[joint]))
    return (Feature(columns, lambda *_: words, q, f"position, {remains.angle(joint)}"),)


@dataclass(frozen=True)
class PositionWaves(Term):
    """Slow torque of a joint's own position: sin k q and cos k q, k = 1..count, or powers 1..2 count of a slide.

    No model is offered it automatically; other effects must not stand for it.
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
        """2 count a joint."""
        return tuple(
            Column(f"wq{j + 1}_{k + 1}", "N" if robot.prismatic[j] else "N m", self.name, j, moved_by=(j,))
            for j in range(robot.n)
            for k in range(2 * self.count)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Each wave on its own joint."""
        found = {}
        for j in range(robot.n):
            q, first = samples.q[:, j], 2 * self.count * j
            orders = range(1, self.count + 1)
            lines = (
                [q**k for k in range(1, 2 * self.count + 1)]
                if robot.prismatic[j]
                else [f(k * q) for k in orders for f in (np.sin, np.cos)]
            )
            keep = np.flatnonzero(wanted[first : first + 2 * self.count])
            found[j] = first + keep, np.array(lines)[keep]
        return panels_of(robot, samples, found)


def slow_features(q: Float, prismatic: bool) -> Float:
    """Slow functions of position (N,): sines and cosines of k q, k = 1..3, or powers 1..3 of a slide, (N, k)."""
    if prismatic:
        x = (q - q.mean()) / max(float(np.ptp(q)), 1e-12)
        return np.stack([x, x**2, x**3], axis=1)
    waves = [f(k * q) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)]
    return np.stack(waves, axis=1)

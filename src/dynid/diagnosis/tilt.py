"""A base that leans: gravity in another direction than the description says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Float
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import ALARM
from dynid.kernel import gravity_torque
from dynid.terms.term import Of


@dataclass(frozen=True, eq=False)
class Tilt:
    """Lean of the base.    degrees: its size.    std: of that.    gravity: (3,) direction found, m/s^2.

    share: (n,) of each joint's residual that it explains.    p_value: of no lean at all.
    """

    degrees: float
    std: float
    gravity: Float
    share: Float
    p_value: float

    @property
    def certain(self) -> bool:
        """Whether the base leans beyond chance."""
        return self.p_value < ALARM


def find_tilt(evidence: ResidualAnalysis) -> Tilt | None:
    """The lean of the base that explains most of the residuals, to first order; None where no torque shows it.

    Gravity g + |g| (a u + b v), u and v across g, adds a g_u(q) + b g_v(q) to the torque of the identified bodies;
    a and b are tested on what the model leaves.
    """
    robot = evidence.robot
    size = float(np.linalg.norm(robot.gravity))
    bodies = identified_bodies(evidence)
    if bodies is None or size == 0 or not evidence.enough:
        return None
    u, v = across(robot.gravity)
    q = robot.tree_motion(evidence.motion.q, evidence.motion.dq, evidence.motion.ddq)[0]
    torque = [
        gravity_torque(replace(robot.tree, gravity=size * one), bodies, q) @ robot.projection
        for one in (u, v)
    ]
    effect = evidence.test_features(np.stack([one.T for one in torque], axis=2))
    if effect is None:
        return None
    lean = float(np.linalg.norm(effect.coefficient))
    along = effect.coefficient / max(lean, 1e-300)
    std = float(np.sqrt(np.sum((along * effect.std) ** 2)))
    gravity = robot.gravity + size * (effect.coefficient[0] * u + effect.coefficient[1] * v)
    gravity = gravity * (size / np.linalg.norm(gravity))
    return Tilt(
        float(np.degrees(np.arctan(lean))), float(np.degrees(std)), gravity, effect.share, effect.p_value
    )


def identified_bodies(evidence: ResidualAnalysis) -> Float | None:
    """Ten parameters (nb, 10) of each body as chosen by the estimate; None for a model without rigid bodies."""
    own = [i for i, column in enumerate(evidence.estimate.columns) if column.of is Of.BODY]
    if len(own) != 10 * evidence.robot.n_bodies:
        return None
    return np.asarray(evidence.estimate.parameters[own].reshape(-1, 10))


def across(direction: Float) -> tuple[Float, Float]:
    """Two unit vectors (3,) at right angles to a direction (3,) and to each other."""
    unit = direction / np.linalg.norm(direction)
    other = np.eye(3)[int(np.argmin(np.abs(unit)))]
    u = np.cross(unit, other)
    u = u / np.linalg.norm(u)
    return u, np.cross(unit, u)

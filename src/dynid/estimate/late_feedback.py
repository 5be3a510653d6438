"""What drives that close their own loops are not known to do: by how much they read their motion late."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.factor.base import BaseMap
from dynid.robot.model import RobotModel
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Column, Terms

# s, standard deviation: drives close their own loops some thousand times a second and hold the torque in between, which
# is late by half a period on average; how often they do so is not known.
LATE_FEEDBACK = 5e-4


def bases_of(robot: RobotModel, terms: Terms) -> list[tuple[MotionBasis | None, Column]]:
    """What each parameter multiplies, where that is a motion of its joint alone."""
    return [
        (term.exports_as if isinstance(term, JointTerm) else None, column)
        for term in terms
        for column in term.columns(robot)
    ]


def of_late_feedback(robot: RobotModel, terms: Terms, base: BaseMap) -> Float:
    """Covariance (b, b) from what no log of commands shows: the delay of the drives' own feedback.

    Feedback that is late by some time takes kp times it off the viscous friction that is found, and kd times it off
    the armature.    Zero where a computer closes the loop, whose delay is found.
    """
    servo = robot.drive.servo
    if servo is None or not servo.on_board or not servo.known:
        return np.zeros((base.rank, base.rank))
    lines = []
    for j in range(robot.n):
        taken: dict[MotionBasis | None, float] = {
            MotionBasis.SPEED: servo.kp[j],
            MotionBasis.ACCELERATION: servo.kd[j],
        }
        of_term = [
            taken.get(basis, 0.0) if column.owner == j else 0.0 for basis, column in bases_of(robot, terms)
        ]
        lines.append(base.reduce(np.array(of_term)))
    found = LATE_FEEDBACK * np.array(lines)
    return np.asarray(found.T @ found)

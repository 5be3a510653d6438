"""The chain rule from motion to regressors and torques: exact for rigid bodies, differences for the other terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.arrays import Float
from dynid.kernel import Panels
from dynid.kernel.adjoint import pairs, torque_gradient, torque_jacobian
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Term, Terms

STEP = 1e-5
# Terms in which a joint's torque depends on one quantity (0, 1, 2 for q, dq, ddq) of that joint alone, or on none, so
# that all joints are shifted at once.
ALONE: dict[type[Term], tuple[int, ...]] = {Viscous: (1,), Coulomb: (1,), Offset: (), RotorInertia: (2,)}


@dataclass(frozen=True, eq=False)
class MotionGradient:
    """What each value of a motion does to a weighted regressor, or to the torque of a model."""

    robot: RobotModel
    terms: Terms

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of parameters of each term."""
        return tuple(len(term.columns(self.robot)) for term in self.terms)

    def of_contraction(self, q: Float, dq: Float, ddq: Float, weights: Panels) -> Float:
        """Gradient (3, T, n) with respect to q, dq, ddq of the sum of the regressor's entries times their weights.

        weights: per joint the columns that occur, and (w_j, T) weights of theirs.
        """
        total = np.zeros((3, *q.shape))
        first = 0
        whole = np.zeros((self.robot.n, sum(self.widths), len(q)))
        for j, (columns, values) in enumerate(zip(weights.columns, weights.values, strict=True)):
            whole[j, columns] = values
        for term, width in zip(self.terms, self.widths, strict=True):
            lines = whole[:, first : first + width]
            if any(((columns >= first) & (columns < first + width)).any() for columns in weights.columns):
                if isinstance(term, RigidBody):
                    total += self._rigid(q, dq, ddq, lines)
                else:
                    total += self._other(term, q, dq, ddq, lines)
            first += width
        return total

    def of_torque(self, q: Float, dq: Float, ddq: Float, theta: Float) -> tuple[Float, Float]:
        """Torque (T, n) of the model and its derivatives (3, T, n, n): quantity, sample, motion joint, torque joint."""
        robot = self.robot
        tau = self.terms.torque(robot, Samples.from_motion(q, dq, ddq), theta)
        total = np.zeros((3, *q.shape, robot.n))
        first = 0
        for term, width in zip(self.terms, self.widths, strict=True):
            part = theta[first : first + width]
            first += width
            if isinstance(term, RigidBody):
                J = torque_jacobian(robot.tree, part.reshape(-1, 10), *robot.tree_motion(q, dq, ddq))
                P = robot.projection
                total += np.einsum("xj,ktxy,yi->ktji", P, J, P, optimize=True) if robot.has_mimic else J
            elif part.any():
                for k, joints, ahead, behind in _shifted(term, q, dq, ddq):
                    change = term.torque(robot, ahead, part) - term.torque(robot, behind, part)
                    if len(joints) > 1:
                        total[k][:, joints, joints] += change / (2.0 * STEP)
                    else:
                        total[k][:, joints[0]] += change / (2.0 * STEP)
        return tau, total

    def _rigid(self, q: Float, dq: Float, ddq: Float, lines: Float) -> Float:
        robot = self.robot
        if robot.has_mimic:
            lines = np.tensordot(robot.projection, lines, axes=1)
        body, joint = pairs(robot.tree)
        weights = lines.reshape(len(lines), robot.n_bodies, 10, len(q))[joint, body]
        found = torque_gradient(robot.tree, *robot.tree_motion(q, dq, ddq), weights)
        return found @ robot.projection if robot.has_mimic else found

    def _other(self, term: Term, q: Float, dq: Float, ddq: Float, lines: Float) -> Float:
        wanted = np.asarray(lines.any(axis=(0, 2)))
        total = np.zeros((3, *q.shape))
        for k, joints, ahead, behind in _shifted(term, q, dq, ddq):
            change = np.zeros((len(q), self.robot.n))
            for sign, samples in ((1.0, ahead), (-1.0, behind)):
                panels = term.torque_regressor(self.robot, samples, wanted)
                for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                    change[:, j] += sign * (lines[j, columns] * values).sum(axis=0)
            slope = change / (2.0 * STEP)
            total[k][:, joints] += slope if len(joints) > 1 else slope.sum(axis=1, keepdims=True)
        return total


def _shifted(
    term: Term, q: Float, dq: Float, ddq: Float
) -> Iterator[tuple[int, list[int], Samples, Samples]]:
    # The quantity and the joints that are shifted, and the motion a step ahead and a step behind.
    n = q.shape[1]
    kinds = ALONE.get(type(term)) if n > 1 else None
    groups = [[j] for j in range(n)] if kinds is None else [list(range(n))]
    for k in range(3) if kinds is None else kinds:
        for joints in groups:
            step = np.zeros(n)
            step[joints] = STEP
            sides = []
            for sign in (1.0, -1.0):
                motion = [q, dq, ddq]
                motion[k] = motion[k] + sign * step
                sides.append(Samples.from_motion(motion[0], motion[1], motion[2]))
            yield k, joints, sides[0], sides[1]

"""The chain rule from motion to regressors and torques: exact for rigid bodies and plain friction, else differences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import cast

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.kernel.adjoint import pairs, torque_gradient, torque_jacobian, torque_lines
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm, joint_indices
from dynid.terms.term import Term, Terms

STEP = 1e-5


@dataclass(frozen=True, eq=False)
class Part:
    """The lines of one term among those of a regressor, as far as torque depends on them.

    rows: (k,) where they stand.    joints: (k,) whose torque they are.    columns: (k,) parameters within the term.
    slots: (P, 10) the rows by pair of body and joint and by parameter, for rigid bodies whose joints all move freely.
    """

    term: Term
    rows: Int
    joints: Int
    columns: Int
    slots: Int | None


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the lines of a regressor stand in one array (R, T): joint after joint.

    columns: per joint (w_j,) the parameters, in the order of its lines.    parts: the same term by term.
    """

    columns: tuple[Int, ...]
    parts: tuple[Part, ...]

    @staticmethod
    def of(robot: RobotModel, terms: Terms, widths: tuple[int, ...], columns: tuple[Int, ...]) -> Layout:
        """The layout of given columns; widths: number of parameters of each term."""
        whole, parts, first = np.concatenate(columns), [], 0
        joints = np.repeat(np.arange(robot.n), [len(own) for own in columns])
        for term, width in zip(terms, widths, strict=True):
            rows = np.flatnonzero((whole >= first) & (whole < first + width))
            own = whole[rows] - first
            if isinstance(term, JointTerm) and term.exports_as is not None:
                acting = np.array(joint_indices(robot, term.joints), dtype=np.int64)[own] == joints[rows]
                rows, own = rows[acting], own[acting]
            if len(rows):
                free = term.of_bodies and not robot.has_mimic
                slots = _slots(robot, rows, joints[rows], own) if free else None
                parts.append(Part(term, rows, joints[rows], own, slots))
            first += width
        return Layout(columns, tuple(parts))

    @cached_property
    def ends(self) -> Int:
        """The rows ends[j] to ends[j + 1] are those of joint j, (n + 1,)."""
        return np.cumsum([0, *map(len, self.columns)])

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """The rows of every joint."""
        return tuple(slice(a, b) for a, b in pairwise(self.ends.tolist()))


@dataclass(frozen=True, eq=False)
class MotionGradient:
    """What each value of a motion does to a weighted regressor, or to the torque of a model."""

    robot: RobotModel
    terms: Terms

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of parameters of each term."""
        return tuple(len(term.columns(self.robot)) for term in self.terms)

    def regressor(self, q: Float, dq: Float, ddq: Float, wanted: Bool) -> tuple[Layout, Float]:
        """The wanted (p,) columns of the torque regressor as lines (R, T), and where each stands; motion (T, n)."""
        samples = Samples.from_motion(q, dq, ddq)
        if not self._plain:
            panels = self.terms.torque_regressor(self.robot, samples, wanted)
            layout = Layout.of(self.robot, self.terms, self.widths, panels.columns)
            return layout, np.concatenate(panels.values)
        layout = _plain_layout(self, wanted.tobytes())
        lines = np.empty((layout.ends[-1], len(q)))
        for part in layout.parts:
            if part.slots is not None:
                torque_lines(self.robot.tree, q, dq, ddq, part.slots, lines)
            else:
                lines[part.rows] = self._basis(part, samples)
        return layout, lines

    def of_contraction(self, q: Float, dq: Float, ddq: Float, weights: Panels) -> Float:
        """Gradient (3, T, n) with respect to q, dq, ddq of the sum of the regressor's entries times their weights.

        weights: per joint the columns that occur, and (w_j, T) weights of theirs.
        """
        layout = Layout.of(self.robot, self.terms, self.widths, weights.columns)
        values, samples = np.empty((layout.ends[-1], len(q))), Samples.from_motion(q, dq, ddq)
        for part in layout.parts:
            if _basis_of(part.term) is not None:
                values[part.rows] = self._basis(part, samples)
        return self.of_lines(q, dq, ddq, layout, values, np.concatenate(weights.values))

    def of_lines(
        self, q: Float, dq: Float, ddq: Float, layout: Layout, values: Float, weights: Float
    ) -> Float:
        """The same for weights (R, T) and values (R, T) of the regressor, both as a layout says.

        Of the values only those of terms whose slope is known by formula are read.
        """
        total = np.zeros((3, self.robot.n, len(q)))
        for part in layout.parts:
            if part.term.of_bodies:
                total += self._rigid(q, dq, ddq, part, weights)
            elif isinstance(part.term, JointTerm) and part.term.exports_as is not None:
                slope = part.term.exports_as.slope(values[part.rows], part.term.width)
                if slope is not None:
                    total[slope[0], part.joints] += slope[1] * weights[part.rows]
            else:
                total += self._other(q, dq, ddq, part, weights)
        return total.transpose(0, 2, 1)

    def of_torque(self, q: Float, dq: Float, ddq: Float, theta: Float) -> tuple[Float, Float]:
        """Torque (T, n) of the model and its derivatives (3, T, n, n): quantity, sample, motion joint, torque joint."""
        robot, samples = self.robot, Samples.from_motion(q, dq, ddq)
        tau = self.terms.torque(robot, samples, theta)
        total = np.zeros((3, *q.shape, robot.n))
        first = 0
        for term, width in zip(self.terms, self.widths, strict=True):
            part = theta[first : first + width]
            first += width
            if not part.any():
                continue
            if term.of_bodies:
                J = torque_jacobian(robot.tree, part.reshape(-1, 10), *robot.tree_motion(q, dq, ddq))
                P = robot.projection
                total += np.einsum("xj,ktxy,yi->ktji", P, J, P, optimize=True) if robot.has_mimic else J
            elif isinstance(term, JointTerm) and term.exports_as is not None:
                joints = list(joint_indices(robot, term.joints))
                values = term.basis(robot, term.seen(samples))[:, joints]
                slope = term.exports_as.slope(values, term.width)
                if slope is not None:
                    total[slope[0]][:, joints, joints] += slope[1] * part
            else:
                for k, joint, ahead, behind in _shifted(q, dq, ddq):
                    change = term.torque(robot, ahead, part) - term.torque(robot, behind, part)
                    total[k][:, joint] += change / (2.0 * STEP)
        return tau, total

    @cached_property
    def _plain(self) -> bool:
        # Whether the same lines occur for every motion and each is known by one formula.
        known = (term.of_bodies or _basis_of(term) is not None for term in self.terms)
        return not self.robot.has_mimic and all(known)

    def _basis(self, part: Part, samples: Samples) -> Float:
        # The values (k, T) of a part whose term acts joint by joint.
        term = cast(JointTerm, part.term)
        return np.asarray(term.basis(self.robot, term.seen(samples)).T[part.joints])

    def _rigid(self, q: Float, dq: Float, ddq: Float, part: Part, weights: Float) -> Float:
        robot = self.robot
        if part.slots is not None:
            return torque_gradient(robot.tree, q, dq, ddq, part.slots, weights)
        dense = np.zeros((robot.n, 10 * robot.n_bodies, len(q)))
        dense[part.joints, part.columns] = weights[part.rows]
        body, joint = pairs(robot.tree)
        dense = np.tensordot(robot.projection, dense, axes=1)
        own = dense.reshape(robot.n_bodies, robot.n_bodies, 10, len(q))[joint, body].reshape(-1, len(q))
        slots = np.arange(len(own)).reshape(-1, 10)
        found = torque_gradient(robot.tree, *robot.tree_motion(q, dq, ddq), slots, own)
        return np.asarray(robot.projection.T @ found)

    def _other(self, q: Float, dq: Float, ddq: Float, part: Part, weights: Float) -> Float:
        term, n = part.term, self.robot.n
        dense = np.zeros((n, len(term.columns(self.robot)), len(q)))
        dense[part.joints, part.columns] = weights[part.rows]
        wanted = np.zeros(dense.shape[1], dtype=np.bool_)
        wanted[part.columns] = True
        total = np.zeros((3, n, len(q)))
        for k, joint, ahead, behind in _shifted(q, dq, ddq):
            for sign, samples in ((1.0, ahead), (-1.0, behind)):
                panels = term.torque_regressor(self.robot, samples, wanted)
                for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                    total[k, joint] += sign / (2.0 * STEP) * (dense[j, columns] * values).sum(axis=0)
        return total


def _basis_of(term: Term) -> MotionBasis | None:
    """What the torque of a term is a line in, where it depends on one quantity of its own joint alone."""
    return term.exports_as if isinstance(term, JointTerm) else None


@lru_cache(maxsize=32)
def _plain_layout(chain: MotionGradient, wanted: bytes) -> Layout:
    # The columns of these terms are the same for any motion, so one sample gives them.
    rest = np.zeros((1, chain.robot.n))
    mask = np.frombuffer(wanted, dtype=np.bool_)
    panels = chain.terms.torque_regressor(chain.robot, Samples.from_motion(rest, rest, rest), mask)
    return Layout.of(chain.robot, chain.terms, chain.widths, panels.columns)


def _slots(robot: RobotModel, rows: Int, joints: Int, columns: Int) -> Int:
    body, joint = pairs(robot.tree)
    place = np.full((robot.n_bodies, robot.n_bodies), -1)
    place[body, joint] = np.arange(len(body))
    pair = place[columns // 10, joints]
    slots = np.full((len(body), 10), -1)
    slots[pair[pair >= 0], columns[pair >= 0] % 10] = rows[pair >= 0]
    return slots


def _shifted(q: Float, dq: Float, ddq: Float) -> Iterator[tuple[int, int, Samples, Samples]]:
    # The quantity and the joint that are shifted, and the motion a step ahead and a step behind.
    for k in range(3):
        for joint in range(q.shape[1]):
            sides = []
            for sign in (1.0, -1.0):
                motion = [q, dq, ddq]
                motion[k] = motion[k] + sign * STEP * (np.arange(q.shape[1]) == joint)
                sides.append(Samples.from_motion(motion[0], motion[1], motion[2]))
            yield k, joint, sides[0], sides[1]

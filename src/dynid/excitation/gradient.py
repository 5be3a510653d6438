"""The chain rule from motion to regressors and torques: exact for rigid bodies and plain friction, else differences."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from typing import cast

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.excitation.differences import TermLines
from dynid.excitation.left_out import LeftOut
from dynid.kernel.adjoint import pairs, torque_gradient, torque_lines
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm, joint_indices
from dynid.terms.rigid_body import torque_slopes
from dynid.terms.term import Term, Terms


@dataclass(frozen=True, eq=False)
class Part:
    """The lines of one term among those of a regressor.

    rows: (k,) where they stand.    joints: (k,) whose torque they are.    columns: (k,) parameters within the term.
    slots: (P, 10) the rows by pair of body and joint and by parameter, for rigid bodies whose joints all move freely.
    lines: all of the term's with their derivatives, None where these are known line by line.
    """

    term: Term
    rows: Int
    joints: Int
    columns: Int
    slots: Int | None
    lines: TermLines | None = None

    @cached_property
    def places(self) -> Int:
        """Where they stand among all lines of the term, (k,)."""
        return (
            np.zeros(0, dtype=np.int64)
            if self.lines is None
            else self.lines.places(self.joints, self.columns)
        )


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the lines of a regressor stand in one array (R, T): joint after joint.

    columns: per joint (w_j,) the parameters, in the order of its lines.    parts: the same term by term.
    """

    columns: tuple[Int, ...]
    parts: tuple[Part, ...]

    @staticmethod
    def of(chain: MotionGradient, columns: tuple[Int, ...]) -> Layout:
        """The layout of given columns."""
        whole, parts, first, robot = np.concatenate(columns), [], 0, chain.robot
        joints = np.repeat(np.arange(robot.n), [len(own) for own in columns])
        for k, (term, width) in enumerate(zip(chain.terms, chain.widths, strict=True)):
            rows = np.flatnonzero((whole >= first) & (whole < first + width))
            own = whole[rows] - first
            if len(rows):
                free = term.of_bodies and not robot.has_mimic
                slots = _slots(robot, rows, joints[rows], own) if free else None
                parts.append(Part(term, rows, joints[rows], own, slots, chain.lines[k]))
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

    @cached_property
    def lines(self) -> tuple[TermLines | None, ...]:
        """The lines of each term with their derivatives; None where these are known line by line."""
        return tuple(None if _is_known(term) else TermLines.of(self.robot, term) for term in self.terms)

    def regressor(self, q: Float, dq: Float, ddq: Float, wanted: Bool) -> tuple[Layout, Float]:
        """The wanted (p,) columns of the torque regressor as lines (R, T), and where each stands; motion (T, n)."""
        samples = Samples.from_motion(q, dq, ddq)
        if not self._plain:
            panels = self.terms.torque_regressor(self.robot, samples, wanted)
            return self.layout(panels.columns), np.concatenate(panels.values)
        layout = _plain_layout(self, wanted.tobytes())
        lines = np.empty((layout.ends[-1], len(q)))
        for part in layout.parts:
            if part.slots is not None:
                torque_lines(self.robot.tree, q, dq, ddq, part.slots, lines)
            else:
                lines[part.rows] = self._basis(part, samples)
        return layout, lines

    def layout(self, columns: tuple[Int, ...]) -> Layout:
        """Where lines of the given columns stand, by joint; one object for the same columns."""
        return _layout(self, tuple(own.tobytes() for own in columns))

    def of_contractions(self, q: Float, dq: Float, ddq: Float, layout: Layout, weights: Float) -> Float:
        """Gradients (c, 3, T, n) of the sums of the regressor's lines times weights (c, R, T)."""
        samples, found = Samples.from_motion(q, dq, ddq), np.zeros((len(weights), 3, *q.shape))
        values = np.empty((layout.ends[-1], len(q)))
        for part in layout.parts:
            if _basis_of(part.term) is not None:
                values[part.rows] = self._basis(part, samples)
        for one, own in zip(found, weights, strict=True):
            # Most of them weigh few samples, those next to a bound.
            at = np.flatnonzero(own.any(axis=0))
            one[:, at] = self._of_formulas(q[at], dq[at], ddq[at], layout, values[:, at], own[:, at])
        return found + self._of_others((q, dq, ddq), layout, weights)

    def of_lines(
        self, q: Float, dq: Float, ddq: Float, layout: Layout, values: Float, weights: Float
    ) -> Float:
        """Gradient (3, T, n) of one such sum, of weights (R, T) and values (R, T) of the regressor.

        Of the values only those of terms whose slope is known by formula are read.
        """
        found = self._of_formulas(q, dq, ddq, layout, values, weights)
        return np.asarray(found + self._of_others((q, dq, ddq), layout, weights[None])[0])

    def _of_formulas(
        self, q: Float, dq: Float, ddq: Float, layout: Layout, values: Float, weights: Float
    ) -> Float:
        total = np.zeros((3, self.robot.n, len(q)))
        for part in layout.parts:
            if part.term.of_bodies:
                total += self._rigid(q, dq, ddq, part, weights)
            elif (basis := _basis_of(part.term)) is not None:
                slope = basis.slope(values[part.rows], cast(JointTerm, part.term).width)
                if slope is not None:
                    total[slope[0], part.joints] += slope[1] * weights[part.rows]
        return total.transpose(0, 2, 1)

    def _of_others(self, motion: tuple[Float, Float, Float], layout: Layout, weights: Float) -> Float:
        total = np.zeros((len(weights), 3, self.robot.n, len(motion[0])))
        for part in layout.parts:
            if part.lines is not None:
                total += part.lines.contracted(motion, part.places, weights[:, part.rows])
        return total.transpose(0, 1, 3, 2)

    def of_torque(self, q: Float, dq: Float, ddq: Float, theta: Float) -> tuple[Float, Float]:
        """Torque (T, n) of the model and its derivatives (3, T, n, n): quantity, sample, motion joint, torque joint."""
        robot, samples = self.robot, Samples.from_motion(q, dq, ddq)
        tau = self.terms.torque(robot, samples, theta)
        total = np.zeros((3, *q.shape, robot.n))
        for lines, (term, part) in zip(self.lines, self.terms.with_values(robot, theta), strict=True):
            if not part.any():
                continue
            if term.of_bodies:
                total += torque_slopes(robot, part.reshape(-1, 10), q, dq, ddq)
            elif isinstance(term, JointTerm) and term.exports_as is not None:
                joints = list(joint_indices(robot, term.joints))
                values = term.basis(robot, term.seen(samples))[:, joints]
                slope = term.exports_as.slope(values, term.width)
                if slope is not None:
                    total[slope[0]][:, joints, joints] += slope[1] * part
            elif lines is not None:
                slopes = lines.slopes((q, dq, ddq))
                for k in np.flatnonzero(part[lines.columns]):
                    total[..., lines.joints[k]] += part[lines.columns[k]] * slopes[:, :, k].transpose(0, 2, 1)
        return tau, total

    @cached_property
    def _plain(self) -> bool:
        # Whether the same lines occur for every motion and each is known by one formula.
        return not self.robot.has_mimic and all(_is_known(term) for term in self.terms)

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


def _basis_of(term: Term) -> MotionBasis | None:
    """What the torque of a term is a line in, where it depends on one quantity of its own joint alone."""
    return term.exports_as if isinstance(term, JointTerm) else None


def _is_known(term: Term) -> bool:
    """Whether formulas give a term's lines and their derivatives, or it has no line."""
    return term.of_bodies or isinstance(term, LeftOut) or _basis_of(term) is not None


@lru_cache(maxsize=32)
def _layout(chain: MotionGradient, columns: tuple[bytes, ...]) -> Layout:
    return Layout.of(chain, tuple(np.frombuffer(one, dtype=np.int64) for one in columns))


@lru_cache(maxsize=32)
def _plain_layout(chain: MotionGradient, wanted: bytes) -> Layout:
    # The columns of these terms are the same for any motion, so one sample gives them.
    rest = np.zeros((1, chain.robot.n))
    mask = np.frombuffer(wanted, dtype=np.bool_)
    panels = chain.terms.torque_regressor(chain.robot, Samples.from_motion(rest, rest, rest), mask)
    return chain.layout(panels.columns)


def _slots(robot: RobotModel, rows: Int, joints: Int, columns: Int) -> Int:
    body, joint = pairs(robot.tree)
    place = np.full((robot.n_bodies, robot.n_bodies), -1)
    place[body, joint] = np.arange(len(body))
    pair = place[columns // 10, joints]
    slots = np.full((len(body), 10), -1)
    slots[pair[pair >= 0], columns[pair >= 0] % 10] = rows[pair >= 0]
    return slots

"""Derivatives of regressors and torques by the motion: exact for rigid bodies and plain friction, else differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import cast

import numpy as np

from dynid.base import Bool, Float, Int, dataclass
from dynid.factor import random_states
from dynid.kernel import Panels
from dynid.kernel.adjoint import pairs, torque_gradient, torque_lines
from dynid.robot import RobotModel
from dynid.signals import Samples, samples_at
from dynid.terms import (
    Column,
    JointTerm,
    Kind,
    MotionBasis,
    Term,
    Terms,
    empty_panels,
    joint_indices,
    torque_slopes,
)
from dynid.terms.forms import motion_slopes, parameter_count, seen_by, torque_of
from dynid.trajectories import Trajectory

# Derivatives of a term's regressor by the motion, by central differences of many shifted motions at once.

# rad or m and their rates: shift of q, dq and ddq. Friction reverses within about 1e-2 rad/s, so that the truncation
# error is 1e-8 of the derivative, and the rounding error of torque 1e-9.
STEP = 1e-6
# Random states that show on which values a line depends, their lowest relative speed and acceleration, and the relative
# change of a line below which it is rounding.
STATES, SLOWEST, ROUNDING = 200, 1e-3, 1e-12

Motion = tuple[Float, Float, Float]


@dataclass(frozen=True, eq=False)
class Input:
    """A value of a motion.    kind: 0, 1, 2 for q, dq, ddq.    rows: lines (r,) of a regressor that depend on it."""

    kind: int
    joint: int
    rows: Int


@dataclass(frozen=True, eq=False)
class TermLines:
    """The lines of a term's regressor (R, T), joint after joint, with their derivatives.

    joints, columns: (R,) joint whose torque each line is, and parameter.
    together: inputs that are shifted at once, since no line depends on two of them.
    """

    robot: RobotModel
    term: Term
    joints: Int
    columns: Int
    together: tuple[tuple[Input, ...], ...]

    @staticmethod
    def of(robot: RobotModel, term: Term) -> TermLines:
        """The lines of a term.

        Their inputs are found by trial: one value of many random states is exchanged for another's.
        """
        motion = _states(robot)
        panels = term.torque_regressor(
            robot,
            seen_by(term, Samples.from_motion(*motion)),
            np.ones(parameter_count(term, robot), dtype=np.bool_),
        )
        joints = np.repeat(np.arange(robot.n), [len(entries) for entries in panels.columns])
        term_lines = TermLines(robot, term, joints, np.concatenate(panels.columns), ())
        if motion_slopes(term, robot, Samples.from_motion(*motion)) is not None:
            return term_lines
        exchanged = [_exchanged(motion, kind, joint) for kind in range(3) for joint in range(robot.n)]
        before, *after = np.split(term_lines._values([motion, *exchanged]), 1 + len(exchanged), axis=1)
        dust = ROUNDING * np.abs(before).max(axis=1, initial=0.0)
        rows = [np.flatnonzero(np.abs(lines - before).max(axis=1) > dust) for lines in after]
        inputs = [Input(*divmod(i, robot.n), entries) for i, entries in enumerate(rows) if len(entries)]
        return replace(term_lines, together=_independent_groups(inputs))

    def places(self, joints: Int, columns: Int) -> Int:
        """Indices among the lines of those (r,) of given joints and parameters."""
        every = {pair: k for k, pair in enumerate(zip(self.joints, self.columns, strict=True))}
        return np.array([every[pair] for pair in zip(joints, columns, strict=True)], dtype=np.int64)

    def slopes(self, motion: Motion) -> Float:
        """Derivatives (3, n, R, T) with respect to q, dq, ddq of a motion, (T, n) each."""
        # Torque and its uncertainty need the derivatives for the same motion.
        if self._latest and all(a is b for a, b in zip(self._latest[0][0], motion, strict=True)):
            return self._latest[0][1]
        known = motion_slopes(self.term, self.robot, seen_by(self.term, Samples.from_motion(*motion)))
        derivatives = self._differences(motion) if known is None else known
        self._latest[:] = [(motion, derivatives)]
        return derivatives

    def contracted(self, motion: Motion, places: Int, weights: Float) -> Float:
        """Derivatives (c, 3, n, T) of sums of some lines (r,) times weights (c, r, T)."""
        slopes = self.slopes(motion)
        total = np.zeros((len(weights), *slopes.shape[:2], slopes.shape[3]))
        for c, weight_lines in enumerate(weights):
            used = np.flatnonzero(weight_lines.any(axis=1))
            for k, weight in zip(places[used], weight_lines[used], strict=True):
                total[c] += slopes[:, :, k] * weight
        return total

    @cached_property
    def _latest(self) -> list[tuple[Motion, Float]]:
        return []

    def _differences(self, motion: Motion) -> Float:
        T, n = motion[0].shape
        total = np.zeros((3, n, len(self.joints), T))
        if not self.together:
            return total
        shifted = [_shifted(motion, group, step) for group in self.together for step in (STEP, -STEP)]
        values = self._values(shifted).reshape(-1, len(self.together), 2, T)
        slopes = (values[:, :, 0] - values[:, :, 1]) / (2.0 * STEP)
        for k, group in enumerate(self.together):
            for value in group:
                total[value.kind, value.joint, value.rows] = slopes[value.rows, k]
        return total

    def _values(self, motions: Sequence[Motion]) -> Float:
        # Lines (R, T) of several motions of equal length, concatenated.
        q, dq, ddq = (np.concatenate(parts) for parts in zip(*motions, strict=True))
        samples = Samples.from_motion(q, dq, ddq)
        every = np.ones(parameter_count(self.term, self.robot), dtype=np.bool_)
        panels = self.term.torque_regressor(self.robot, seen_by(self.term, samples), every)
        return np.concatenate(panels.values)


def _states(robot: RobotModel) -> Motion:
    # Slow states are among them, since friction at low speed is zero at the others.
    rng, states = np.random.default_rng(0), random_states(robot, STATES, 0)
    sizes = [SLOWEST ** rng.uniform(size=(STATES, robot.n)) for _ in range(2)]
    return states.q, states.dq * sizes[0], states.ddq * sizes[1]


def _exchanged(motion: Motion, kind: int, joint: int) -> Motion:
    q, dq, ddq = changed = [np.array(part) for part in motion]
    changed[kind][:, joint] = np.roll(changed[kind][:, joint], 1)
    return q, dq, ddq


def _shifted(motion: Motion, group: tuple[Input, ...], step: float) -> Motion:
    q, dq, ddq = changed = [np.array(part) for part in motion]
    for value in group:
        changed[value.kind][:, value.joint] += step
    return q, dq, ddq


def _independent_groups(inputs: Sequence[Input]) -> tuple[tuple[Input, ...], ...]:
    # Greedy grouping: each input joins the first group with which it shares no line.
    groups: list[list[Input]] = []
    for value in inputs:
        free = (group for group in groups if not any(np.intersect1d(value.rows, x.rows).size for x in group))
        group = next(free, None)
        if group is None:
            groups.append(group := [])
        group.append(value)
    return tuple(map(tuple, groups))


# Terms that the search omits, and with which the finished motion is checked.

# Hz: rate for terms that need derivatives over time. Torque of a designed motion has frequencies below 5 Hz, for which
# central differences give the second derivative to 1e-4.
RATE = 1000.0
# Samples that are processed together, and additional ones on both sides, since differences at the ends are one-sided.
STRETCH, BESIDE = 8000, 50


@dataclass(frozen=True)
class LeftOut(Term):
    """A term that needs derivatives over time, in a design: its parameters, without its torque.

    Samples of a design are a tenth of a cycle apart, too far to differentiate.
    """

    of: Term
    name: str = "left_out"

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The columns of the term."""
        return self.of.columns(robot)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Empty panels, since the design omits the torque of the term."""
        return empty_panels(robot, samples)


@dataclass(frozen=True)
class Whole:
    """The complete model of a design, and the terms that the search omits."""

    terms: Terms

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the omitted terms."""
        return tuple(term.of.name for term in self.terms if isinstance(term, LeftOut))

    @cached_property
    def checked(self) -> tuple[str, ...]:
        """Names of omitted terms that the check of the finished motion includes.

        A delay of the log is not among them, since it is no torque of the robot.
        """
        every = (term.of for term in self.terms if isinstance(term, LeftOut))
        return tuple(term.name for term in every if term.traits.kind is not Kind.LOG)

    @cached_property
    def model(self) -> Terms:
        """The terms of the design with these included."""
        back = (
            term.of if isinstance(term, LeftOut) and term.of.traits.kind is not Kind.LOG else term
            for term in self.terms
        )
        return Terms(tuple(back)) if self.checked else self.terms

    def added(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        """Torque (T, n) of these terms alone, for values (p,) of all parameters."""
        total = np.zeros((len(samples), robot.n))
        for (term, values), back in zip(self.terms.with_values(robot, theta), self.model, strict=True):
            if back is not term and values.any():
                total += torque_of(back, robot, seen_by(back, samples), values)
        return total

    def parameters(self, robot: RobotModel) -> Bool:
        """Mask (p,) of the parameters of omitted terms."""
        parts = [np.full(len(term.columns(robot)), isinstance(term, LeftOut)) for term in self.terms]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])


def stretches(trajectory: Trajectory, rate: float = RATE) -> Iterator[tuple[Samples, slice]]:
    """Samples of a motion at a rate, stretch by stretch, and the slice of each that belongs to no other stretch.

    `Samples.t` is the motion's time.
    """
    count = int(np.floor(trajectory.duration * rate)) + 1
    for first in range(0, count, STRETCH):
        low, last = max(first - BESIDE, 0), min(first + STRETCH, count)
        t = np.arange(low, min(last + BESIDE, count)) / rate
        yield samples_at(t, *trajectory.motion(t)), slice(first - low, last - low)


@dataclass(frozen=True, eq=False)
class Part:
    """Select the lines of one term from a regressor.

    rows: (k,) their rows.    joints: (k,) joint of each.    columns: (k,) parameter within the term.
    slots: (P, 10) rows by pair of link and joint and by parameter, for rigid bodies whose joints all move freely.
    lines: all lines of the term with their derivatives, None where formulas give these.
    """

    term: Term
    rows: Int
    joints: Int
    columns: Int
    slots: Int | None
    lines: TermLines | None = None

    @cached_property
    def places(self) -> Int:
        """Their indices among all lines of the term, (k,)."""
        return (
            np.zeros(0, dtype=np.int64)
            if self.lines is None
            else self.lines.places(self.joints, self.columns)
        )


@dataclass(frozen=True, eq=False)
class Layout:
    """Order of the lines of a regressor in one array (R, T): joint after joint.

    columns: per joint (w_j,) the parameters, in the order of its lines.    parts: the same term by term.
    """

    columns: tuple[Int, ...]
    parts: tuple[Part, ...]

    @staticmethod
    def of(chain: MotionGradient, columns: tuple[Int, ...]) -> Layout:
        """The layout of given columns."""
        whole, parts, first, robot = np.concatenate(columns), [], 0, chain.robot
        joints = np.repeat(np.arange(robot.n), [len(indices) for indices in columns])
        for k, (term, width) in enumerate(zip(chain.terms, chain.widths, strict=True)):
            rows = np.flatnonzero((whole >= first) & (whole < first + width))
            indices = whole[rows] - first
            if len(rows):
                free = term.traits.kind is Kind.BODIES and not robot.has_mimic
                slots = _slots(robot, rows, joints[rows], indices) if free else None
                parts.append(Part(term, rows, joints[rows], indices, slots, chain.lines[k]))
            first += width
        return Layout(columns, tuple(parts))

    @cached_property
    def ends(self) -> Int:
        """Rows ends[j] to ends[j + 1] belong to joint j, (n + 1,)."""
        return np.cumsum([0, *map(len, self.columns)])

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Slice of rows of every joint."""
        return tuple(slice(a, b) for a, b in pairwise(self.ends.tolist()))


@dataclass(frozen=True, eq=False)
class MotionGradient:
    """Derivatives of a weighted regressor, or of the torque of a model, with respect to each value of a motion."""

    robot: RobotModel
    terms: Terms

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of parameters of each term."""
        return tuple(len(term.columns(self.robot)) for term in self.terms)

    @cached_property
    def lines(self) -> tuple[TermLines | None, ...]:
        """The lines of each term with their derivatives; None where formulas give these."""
        return tuple(None if _is_known(term) else TermLines.of(self.robot, term) for term in self.terms)

    def regressor(self, q: Float, dq: Float, ddq: Float, wanted: Bool) -> tuple[Layout, Float]:
        """The torque regressor as lines.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        wanted : ndarray of bool, shape (n_parameters,)
            Columns to compute.

        Returns
        -------
        layout : Layout
            Order of the lines.
        lines : ndarray, shape (n_lines, n_samples)
            The lines.

        """
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
        """Layout of lines with given columns per joint; one object for the same columns."""
        return _layout(self, tuple(indices.tobytes() for indices in columns))

    def of_contractions(self, q: Float, dq: Float, ddq: Float, layout: Layout, weights: Float) -> Float:
        """Gradients of sums of the regressor's lines times weights.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        layout : Layout
            Layout of the lines.
        weights : ndarray, shape (n_sums, n_lines, n_samples)
            Weights of each sum.

        Returns
        -------
        ndarray, shape (n_sums, 3, n_samples, n_joints)
            Derivatives with respect to q, dq and ddq.

        """
        samples, gradients = Samples.from_motion(q, dq, ddq), np.zeros((len(weights), 3, *q.shape))
        values = np.empty((layout.ends[-1], len(q)))
        for part in layout.parts:
            if _basis_of(part.term) is not None:
                values[part.rows] = self._basis(part, samples)
        for gradient, weight in zip(gradients, weights, strict=True):
            # Most weights are zero except next to a limit.
            at = np.flatnonzero(weight.any(axis=0))
            gradient[:, at] = self._by_formulas(q[at], dq[at], ddq[at], layout, values[:, at], weight[:, at])
        return gradients + self._by_differences((q, dq, ddq), layout, weights)

    def of_lines(
        self, q: Float, dq: Float, ddq: Float, layout: Layout, values: Float, weights: Float
    ) -> Float:
        """Gradient of one sum of the regressor's lines times weights.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        layout : Layout
            Layout of the lines.
        values : ndarray, shape (n_lines, n_samples)
            The lines; only those of terms with a formula for their slope are read.
        weights : ndarray, shape (n_lines, n_samples)
            Weights.

        Returns
        -------
        ndarray, shape (3, n_samples, n_joints)
            Derivatives with respect to q, dq and ddq.

        """
        gradient = self._by_formulas(q, dq, ddq, layout, values, weights)
        return np.asarray(gradient + self._by_differences((q, dq, ddq), layout, weights[None])[0])

    def _by_formulas(
        self, q: Float, dq: Float, ddq: Float, layout: Layout, values: Float, weights: Float
    ) -> Float:
        total = np.zeros((3, self.robot.n, len(q)))
        for part in layout.parts:
            if part.term.traits.kind is Kind.BODIES:
                total += self._rigid(q, dq, ddq, part, weights)
            elif (basis := _basis_of(part.term)) is not None:
                slope = basis.slope(values[part.rows], cast(JointTerm, part.term).width)
                if slope is not None:
                    total[slope[0], part.joints] += slope[1] * weights[part.rows]
        return total.transpose(0, 2, 1)

    def _by_differences(self, motion: tuple[Float, Float, Float], layout: Layout, weights: Float) -> Float:
        total = np.zeros((len(weights), 3, self.robot.n, len(motion[0])))
        for part in layout.parts:
            if part.lines is not None:
                total += part.lines.contracted(motion, part.places, weights[:, part.rows])
        return total.transpose(0, 1, 3, 2)

    def of_torque(self, q: Float, dq: Float, ddq: Float, theta: Float) -> tuple[Float, Float]:
        """Torque of the model, and its derivatives with respect to the motion.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        theta : ndarray, shape (n_parameters,)
            Parameters.

        Returns
        -------
        tau : ndarray, shape (n_samples, n_joints)
            Torque.
        gradient : ndarray, shape (3, n_samples, n_joints, n_joints)
            Derivatives: quantity (q, dq, ddq), sample, joint of the motion, joint of the torque.

        """
        robot, samples = self.robot, Samples.from_motion(q, dq, ddq)
        tau = self.terms.torque(robot, samples, theta)
        total = np.zeros((3, *q.shape, robot.n))
        for lines, (term, part) in zip(self.lines, self.terms.with_values(robot, theta), strict=True):
            if not part.any():
                continue
            if term.traits.kind is Kind.BODIES:
                total += torque_slopes(robot, part.reshape(-1, 10), q, dq, ddq)
            elif isinstance(term, JointTerm) and term.traits.basis is not None:
                joints = list(joint_indices(robot, term.joints))
                values = term.basis(robot, seen_by(term, samples))[:, joints]
                slope = term.traits.basis.slope(values, term.width)
                if slope is not None:
                    total[slope[0]][:, joints, joints] += slope[1] * part
            elif lines is not None:
                slopes = lines.slopes((q, dq, ddq))
                for k in np.flatnonzero(part[lines.columns]):
                    total[..., lines.joints[k]] += part[lines.columns[k]] * slopes[:, :, k].transpose(0, 2, 1)
        return tau, total

    @cached_property
    def _plain(self) -> bool:
        # Whether the lines are the same for every motion, and a formula gives each.
        return not self.robot.has_mimic and all(_is_known(term) for term in self.terms)

    def _basis(self, part: Part, samples: Samples) -> Float:
        # Values (k, T) of a part whose term acts joint by joint.
        term = cast(JointTerm, part.term)
        return np.asarray(term.basis(self.robot, seen_by(term, samples)).T[part.joints])

    def _rigid(self, q: Float, dq: Float, ddq: Float, part: Part, weights: Float) -> Float:
        robot = self.robot
        if part.slots is not None:
            return torque_gradient(robot.tree, q, dq, ddq, part.slots, weights)
        dense = np.zeros((robot.n, 10 * robot.n_bodies, len(q)))
        dense[part.joints, part.columns] = weights[part.rows]
        body, joint = pairs(robot.tree)
        dense = np.tensordot(robot.projection, dense, axes=1)
        weight_lines = dense.reshape(robot.n_bodies, robot.n_bodies, 10, len(q))[joint, body].reshape(
            -1, len(q)
        )
        slots = np.arange(len(weight_lines)).reshape(-1, 10)
        gradient = torque_gradient(robot.tree, *robot.tree_motion(q, dq, ddq), slots, weight_lines)
        return np.asarray(robot.projection.T @ gradient)


def _basis_of(term: Term) -> MotionBasis | None:
    """Quantity that the torque of a term is proportional to, if it depends on one quantity of its own joint only."""
    return term.traits.basis


def _is_known(term: Term) -> bool:
    """Whether formulas give the lines of a term and their derivatives, or it has no line."""
    return term.traits.kind is Kind.BODIES or isinstance(term, LeftOut) or _basis_of(term) is not None


@lru_cache(maxsize=32)
def _layout(chain: MotionGradient, columns: tuple[bytes, ...]) -> Layout:
    return Layout.of(chain, tuple(np.frombuffer(data, dtype=np.int64) for data in columns))


@lru_cache(maxsize=32)
def _plain_layout(chain: MotionGradient, wanted: bytes) -> Layout:
    # The columns do not depend on the motion, so one sample is enough.
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

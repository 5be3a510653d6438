"""Derivatives of a term's regressor with respect to motion by central differences, many shifted motions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.factor.base import random_states
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Term

# Shift of q, dq and ddq, in rad or m and their rates: friction turns over within some 1e-2 rad/s, so that what is
# neglected is 1e-8 of the derivative, and the last digits of torque are 1e-9 of it.
STEP = 1e-6
# States at which it is tried whether a line depends on a value, their least speed and acceleration beside the usual
# ones, and the change of a line below which it is rounding.
STATES, SLOWEST, ROUNDING = 200, 1e-3, 1e-12

Motion = tuple[Float, Float, Float]


@dataclass(frozen=True, eq=False)
class Input:
    """A value of a motion.    kind: 0, 1, 2 for q, dq, ddq.    joint: whose.    rows: lines (r,) that depend on it."""

    kind: int
    joint: int
    rows: Int


@dataclass(frozen=True, eq=False)
class TermLines:
    """The lines of a term's regressor (R, T), joint after joint, with their derivatives.

    joints, columns: (R,) whose torque each line is, and of which parameter.
    together: inputs that are shifted at once, as no line depends on two of them.
    """

    robot: RobotModel
    term: Term
    joints: Int
    columns: Int
    together: tuple[tuple[Input, ...], ...]

    @staticmethod
    def of(robot: RobotModel, term: Term) -> TermLines:
        """The lines of a term.

        What they depend on is found by trial: one value of many random states is exchanged for another's.
        """
        motion = _states(robot)
        panels = term.torque_regressor(
            robot,
            term.seen(Samples.from_motion(*motion)),
            np.ones(term.parameter_count(robot), dtype=np.bool_),
        )
        joints = np.repeat(np.arange(robot.n), [len(own) for own in panels.columns])
        found = TermLines(robot, term, joints, np.concatenate(panels.columns), ())
        if term.motion_slopes(robot, Samples.from_motion(*motion)) is not None:
            return found
        exchanged = [_exchanged(motion, kind, joint) for kind in range(3) for joint in range(robot.n)]
        before, *after = np.split(found._values([motion, *exchanged]), 1 + len(exchanged), axis=1)
        dust = ROUNDING * np.abs(before).max(axis=1, initial=0.0)
        rows = [np.flatnonzero(np.abs(lines - before).max(axis=1) > dust) for lines in after]
        inputs = [Input(*divmod(i, robot.n), own) for i, own in enumerate(rows) if len(own)]
        return replace(found, together=_apart(inputs))

    def places(self, joints: Int, columns: Int) -> Int:
        """Which of the lines are those (r,) of some joints and parameters."""
        every = {pair: k for k, pair in enumerate(zip(self.joints, self.columns, strict=True))}
        return np.array([every[pair] for pair in zip(joints, columns, strict=True)], dtype=np.int64)

    def slopes(self, motion: Motion) -> Float:
        """Derivatives (3, n, R, T) with respect to q, dq, ddq of a motion, (T, n) each."""
        # Torque and its spread ask for those of one motion one after the other.
        if self._latest and all(a is b for a, b in zip(self._latest[0][0], motion, strict=True)):
            return self._latest[0][1]
        known = self.term.motion_slopes(self.robot, self.term.seen(Samples.from_motion(*motion)))
        found = self._differences(motion) if known is None else known
        self._latest[:] = [(motion, found)]
        return found

    def contracted(self, motion: Motion, places: Int, weights: Float) -> Float:
        """Derivatives (c, 3, n, T) of sums of some lines (r,) times weights (c, r, T)."""
        slopes = self.slopes(motion)
        total = np.zeros((len(weights), *slopes.shape[:2], slopes.shape[3]))
        for c, own in enumerate(weights):
            used = np.flatnonzero(own.any(axis=1))
            for k, weight in zip(places[used], own[used], strict=True):
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
            for one in group:
                total[one.kind, one.joint, one.rows] = slopes[one.rows, k]
        return total

    def _values(self, motions: Sequence[Motion]) -> Float:
        # The lines (R, T) of motions of equal length one after the other.
        q, dq, ddq = (np.concatenate(parts) for parts in zip(*motions, strict=True))
        samples = Samples.from_motion(q, dq, ddq)
        every = np.ones(self.term.parameter_count(self.robot), dtype=np.bool_)
        found = self.term.torque_regressor(self.robot, self.term.seen(samples), every)
        return np.concatenate(found.values)


def _states(robot: RobotModel) -> Motion:
    # Slow ones among them: friction of low speed is zero at the others.
    rng, states = np.random.default_rng(0), random_states(robot, STATES, 0)
    sizes = [SLOWEST ** rng.uniform(size=(STATES, robot.n)) for _ in range(2)]
    return states.q, states.dq * sizes[0], states.ddq * sizes[1]


def _exchanged(motion: Motion, kind: int, joint: int) -> Motion:
    q, dq, ddq = changed = [np.array(part) for part in motion]
    changed[kind][:, joint] = np.roll(changed[kind][:, joint], 1)
    return q, dq, ddq


def _shifted(motion: Motion, group: tuple[Input, ...], step: float) -> Motion:
    q, dq, ddq = changed = [np.array(part) for part in motion]
    for one in group:
        changed[one.kind][:, one.joint] += step
    return q, dq, ddq


def _apart(inputs: Sequence[Input]) -> tuple[tuple[Input, ...], ...]:
    # Greedily: each joins the first group none of whose lines it moves.
    groups: list[list[Input]] = []
    for one in inputs:
        free = (group for group in groups if not any(np.intersect1d(one.rows, x.rows).size for x in group))
        group = next(free, None)
        if group is None:
            groups.append(group := [])
        group.append(one)
    return tuple(map(tuple, groups))

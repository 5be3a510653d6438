"""Variable projection: shapes are estimated, coefficients are eliminated exactly at every trial value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.scipy_functions import least_squares
from dynid.choose.separable import JointProblem, ReducedProblem
from dynid.terms.curve import JointMotion, ShapedTerm
from dynid.terms.term import Terms

STEP = 1e-4
RANDOM_STARTS = 2
REFINED = 2


@dataclass(frozen=True, eq=False)
class Scale:
    """Shapes on the scale they are estimated on, every one from 0 to 1."""

    low: Float
    high: Float
    positive: Bool

    @staticmethod
    def of(term: ShapedTerm, motion: JointMotion) -> Scale:
        """From the term's bounds for a motion."""
        bounds = term.range_of(motion)
        return Scale(bounds[:, 0], bounds[:, 1], np.array([shape.positive for shape in term.shapes]))

    def value(self, u: Float) -> Float:
        """Shapes (s,) of a point in the unit cube."""
        a, b = self._ends()
        x = a + u * (b - a)
        return np.where(self.positive, np.exp(np.where(self.positive, x, 0.0)), x)

    def unit(self, shape: Float) -> Float:
        """The point in the unit cube of shapes (s,), clipped to it."""
        a, b = self._ends()
        x = np.where(self.positive, np.log(np.where(self.positive, shape, 1.0)), shape)
        return np.clip((x - a) / (b - a), 0.0, 1.0)

    def _ends(self) -> tuple[Float, Float]:
        def scaled(x: Float) -> Float:
            return np.where(self.positive, np.log(np.where(self.positive, x, 1.0)), x)

        return scaled(self.low), scaled(self.high)


@dataclass(frozen=True, eq=False)
class Found:
    """The best shapes of a search: values (s,) and cost."""

    shape: Float
    cost: float


def variable_projection(
    own: JointProblem,
    problem: ReducedProblem,
    fixed: Float,
    term: ShapedTerm,
    place: tuple[int, Float | None],
    motion: JointMotion,
    seed: int,
) -> Found:
    """Shapes of a term on one joint with the least residual, every coefficient eliminated.

    fixed: (c, rows) trial lines that stay.    place: the joint, and shapes to start from alone (None = several starts:
    those of the term, its present ones and seeded random ones; the best two are refined).
    """
    joint, present = place
    robot = own.separable.assembly.robot
    scale = Scale.of(term, motion)

    latest: dict[bytes, Float] = {}

    def residual(u: Float) -> Float:
        key = u.tobytes()
        if key not in latest:
            lines = own.trial(Terms((term.of_joint(robot, joint, scale.value(u)),)))
            latest.clear()
            latest[key] = problem.project(np.concatenate([fixed, lines]))[1]
        return latest[key]

    def jacobian(u: Float) -> Float:
        return forward_difference(residual, u)

    if present is not None:
        starts = [scale.unit(present)]
    else:
        rng = np.random.default_rng(seed)
        starts = [scale.unit(start) for start in term.starts(motion)]
        starts += [rng.uniform(0.05, 0.95, len(scale.low)) for _ in range(RANDOM_STARTS)]
        costs = [float(np.sum(residual(start) ** 2)) for start in starts]
        starts = [starts[i] for i in np.argsort(costs, kind="stable")[:REFINED]]
    found: list[Found] = []
    for start in starts:
        inside = np.clip(start, 1e-6, 1.0 - 1e-6)
        done = least_squares(
            residual, inside, jac=jacobian, bounds=(0.0, 1.0), xtol=1e-5, ftol=1e-8, max_nfev=30
        )
        u = np.asarray(done.x)
        found.append(Found(scale.value(u), 2.0 * float(done.cost)))
    return min(found, key=lambda one: one.cost)


def forward_difference(residual: Callable[[Float], Float], u: Float) -> Float:
    """Derivative of a residual (rows,) in the unit cube, (rows, s), by one-sided differences that stay inside."""
    here = residual(u)
    columns = []
    for k in range(len(u)):
        step = STEP if u[k] + STEP <= 1.0 else -STEP
        moved = u.copy()
        moved[k] += step
        columns.append((residual(moved) - here) / step)
    return np.stack(columns, axis=1)

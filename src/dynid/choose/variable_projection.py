"""Variable projection: shapes are estimated, coefficients are eliminated exactly at every trial value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.box_least_squares import least_squares_in_box
from dynid.base.records import dataclass
from dynid.choose.separable import JointProblem, ReducedProblem
from dynid.terms.curve import JointMotion, ShapedTerm
from dynid.terms.term import Terms

STEP = 1e-4
RANDOM_STARTS = 2
REFINED = 2


@dataclass(frozen=True, eq=False)
class Scale:
    """Those of a joint's shapes (s,) that are estimated, f of them, on a scale from 0 to 1 each.

    low, high: bounds (f,).    positive: which are on a logarithmic scale, (f,).    free: which of all these are, (s,).
    """

    low: Float
    high: Float
    positive: Bool
    free: Bool

    @staticmethod
    def of(term: ShapedTerm, motion: JointMotion, free: Bool) -> Scale:
        """From the term's bounds for a motion."""
        low, high = term.range_of(motion)[free].T
        return Scale(low, high, np.array([shape.positive for shape in term.shapes])[free], free)

    def value(self, u: Float) -> Float:
        """Estimated shapes (f,) of a point in the unit cube."""
        a, b = self._ends()
        x = a + u * (b - a)
        return np.where(self.positive, np.exp(np.where(self.positive, x, 0.0)), x)

    def unit(self, shape: Float) -> Float:
        """The point in the unit cube of shapes (s,), clipped to it."""
        a, b = self._ends()
        own = shape[self.free]
        x = np.where(self.positive, np.log(np.where(self.positive, own, 1.0)), own)
        return np.clip((x - a) / (b - a), 0.0, 1.0)

    def _ends(self) -> tuple[Float, Float]:
        def scaled(x: Float) -> Float:
            return np.where(self.positive, np.log(np.where(self.positive, x, 1.0)), x)

        return scaled(self.low), scaled(self.high)


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search for a joint's shapes begins.

    shape: (s,) present values, which those stay at that are given.    free: (s,) which are estimated.
    fresh: whether to begin with several starts, those of the term, the present ones and seeded random ones, of which
    the best two are refined; else with the present ones alone.
    """

    joint: int
    shape: Float
    free: Bool
    fresh: bool


@dataclass(frozen=True, eq=False)
class Found:
    """The best shapes of a search: values (s,) and cost."""

    shape: Float
    cost: float


def variable_projection(
    own: JointProblem,
    problem: ReducedProblem,
    fixed: Mapping[str, Float],
    term: ShapedTerm,
    start: Start,
    motion: JointMotion,
    seed: int,
    bounded: Collection[str] = (),
) -> Found:
    """Shapes of a term on one joint with the least residual, every coefficient eliminated.

    fixed: lines (rows,) by name of columns that are solved for beside the trial's.
    bounded: names of columns, of `fixed` and of the term, whose coefficients are not negative.
    """
    joint, robot = start.joint, own.separable.assembly.robot
    scale = Scale.of(term, motion, start.free)

    alone = term.of_joint(robot, joint)
    own_names = tuple(column.name for column in alone.columns(robot))
    signed = np.array([name in bounded for name in (*fixed, *own_names)], dtype=np.bool_)
    latest: dict[bytes, Float] = {}
    held = problem.left(np.reshape([*fixed.values()], (len(fixed), len(problem.scale))))

    def shape_at(u: Float) -> Float:
        shape = start.shape.copy()
        shape[start.free] = scale.value(u)
        return shape

    def residual(u: Float) -> Float:
        key = u.tobytes()
        if key not in latest:
            lines = own.trial(Terms((alone.with_shape_table(shape_at(u)[None, :]),)), own_names)
            latest.clear()
            latest[key] = problem.project(np.vstack([held, problem.left(lines)]), signed)[1]
        return latest[key]

    def jacobian(u: Float) -> Float:
        return forward_difference(residual, u)

    if start.fresh:
        rng = np.random.default_rng(seed)
        points = [scale.unit(shape) for shape in term.starts(motion)]
        points += [rng.uniform(0.05, 0.95, len(scale.low)) for _ in range(RANDOM_STARTS)]
        costs = [float(np.sum(residual(point) ** 2)) for point in points]
        points = [points[i] for i in np.argsort(costs, kind="stable")[:REFINED]]
    else:
        points = [scale.unit(start.shape)]
    found: list[Found] = []
    for point in points:
        u, cost = least_squares_in_box(residual, jacobian, point)
        found.append(Found(shape_at(u), cost))
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

"""Intervals that include the uncertainty of estimated shapes: a linearised joint block jackknife."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.choose.search import Fitted, NonlinearFit, Search, ShapeEstimate
from dynid.choose.separable import Scale, SeparableProblem
from dynid.estimate.estimator import Estimate
from dynid.estimate.uncertainty import block_jackknife
from dynid.factor.factor import Factors, stack
from dynid.kernel import Panels, solve_triangular
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import (
    ShapedTerm,
    of_joints,
    shape_name,
    shape_table,
    shape_unit,
    shapes_of,
    subject,
    with_shape_table,
)
from dynid.terms.exports import Reads, Traits
from dynid.terms.term import Column, Side, Term, Terms, joint_indices

DEPENDENT = 1e-6
STEP = 1e-4
EDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Slope:
    """d tau_j / d shape of one joint's term at its estimate.

    `theta` (c,) are the term's coefficients; `step` is that of the difference.
    """

    term: ShapedTerm
    joint: int
    index: int
    theta: Float
    step: float


@dataclass(frozen=True, eq=False)
class Slopes(Term):
    """One column per estimated shape, the derivative of the torque with respect to it."""

    slopes: tuple[Slope, ...]
    name: str = "slopes"

    def __post_init__(self) -> None:
        reads = reduce(or_, (slope.term.traits.reads for slope in self.slopes), Reads.SAMPLE)
        object.__setattr__(self, "traits", Traits(side=Side.MOTOR, reads=reads))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column per shape."""
        return tuple(
            Column(f"d {subject(s.term)} {shape_name(s.term, s.index, s.joint)}", "1", self.name, s.joint)
            for s in self.slopes
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Central differences of the wanted curves, in the equations of the curves."""
        columns: list[list[int]] = [[] for _ in range(robot.n)]
        values: list[list[Float]] = [[] for _ in range(robot.n)]
        for i, slope in enumerate(self.slopes):
            if wanted[i]:
                for joint, line in _differences(slope, robot, samples):
                    columns[joint].append(i)
                    values[joint].append(line)
        return Panels(
            columns=tuple(np.array(c, dtype=np.int64) for c in columns),
            values=tuple(np.array(v).reshape(len(v), len(samples)) for v in values),
        )


def _differences(slope: Slope, robot: RobotModel, samples: Samples) -> Iterator[tuple[int, Float]]:
    """Joints that a shape acts on, and the derivatives (T,) of their torques."""
    shape = shape_table(slope.term, robot)
    ends = []
    for sign in (1.0, -1.0):
        moved = shape.copy()
        moved[0, slope.index] += sign * slope.step
        term = with_shape_table(slope.term, moved)
        ends.append(term.torque_regressor(robot, samples, np.ones(len(slope.theta), dtype=np.bool_)))
    for joint, columns in enumerate(ends[0].columns):
        if len(columns):
            change = ends[0].values[joint] - ends[1].values[joint]
            yield joint, slope.theta[columns] @ change / (2.0 * slope.step)


def with_shape_uncertainty(
    fitted: Fitted, nonlinear: NonlinearFit, search: Search, trial: Search
) -> tuple[Estimate, tuple[ShapeEstimate, ...]]:
    """The estimate and its shapes, with a covariance that includes the uncertainty of the shapes.

    The residual is linearised in the shapes at the estimate, so that the block jackknife of the linear parameters holds
    for all parameters together. If the shapes were estimated on a share of the equations, their variance, and their
    part in the variance of the others, is divided by the share. A shape at an edge of its range, or without effect, has
    std nan. `search` has all samples, `trial` those on which the shapes were estimated.
    """
    estimate = fitted.estimate
    if not nonlinear.estimated:
        return estimate, ()
    known = fitted if trial.share >= 1.0 else trial.fit(nonlinear.terms)
    separable = trial.separable(known)
    shapes, slopes = _described(fitted, nonlinear, separable)
    # A share of every block shows the uncertainty of the shapes as well as the whole log.
    base = np.array_equal(known.regression.base.independent, fitted.regression.base.independent)
    source, batches = (known, trial.batches) if base else (fitted, search.batches)
    kept = sum(len(numbers) for numbers in separable.block_of)
    share = min(kept / max(sum(factor.count for factor in source.factors.total), 1), 1.0)
    inside = [i for i, slope in enumerate(slopes) if slope is not None]
    chosen = tuple(slope for slope in slopes if slope is not None)
    if not chosen:
        return estimate, tuple(shapes)
    covariance, free = _joint_covariance(source, Slopes(chosen), batches, search.threads)
    b = estimate.base.rank
    for i, owner in enumerate(inside):
        if i in free:
            at = b + free.index(i)
            shapes[owner] = _with_std(shapes[owner], chosen[i], float(np.sqrt(covariance[at, at] / share)))
        else:
            shapes[owner] = replace(shapes[owner], note="without effect on the torque")
    plain = _jackknife(source, source, [])
    widened = widened_by(np.asarray(estimate.covariance), covariance[:b, :b] - plain, share)
    return replace(estimate, covariance=widened), tuple(shapes)


def _with_std(shape: ShapeEstimate, slope: Slope, std: float) -> ShapeEstimate:
    vague = shapes_of(slope.term)[slope.index].positive and std > abs(shape.value)
    return replace(shape, std=std, note="not determined by the data" if vague else "")


def _described(
    fitted: Fitted, nonlinear: NonlinearFit, separable: SeparableProblem
) -> tuple[list[ShapeEstimate], list[Slope | None]]:
    """Every estimated shape without its std, and its slope; None at an edge of its range."""
    robot = separable.assembly.robot
    names = [c.name for c in fitted.estimate.columns]
    theta = fitted.estimate.full_vector
    shapes: list[ShapeEstimate] = []
    slopes: list[Slope | None] = []
    for position, free in nonlinear.estimated.items():
        term = nonlinear.terms.terms[position]
        if not isinstance(term, ShapedTerm):
            continue
        for joint, estimated in zip(joint_indices(robot, term.joints), free, strict=True):
            if not estimated.any():
                continue
            joint_term = of_joints(term, robot, (joint,))
            scale = Scale.of(joint_term, separable.motion(joint, joint_term), estimated)
            coefficients = np.array([theta[names.index(c.name)] for c in joint_term.columns(robot)])
            shape = shape_table(joint_term, robot)[0]
            places = zip(
                np.flatnonzero(estimated).tolist(), scale.unit(shape), scale.low, scale.high, strict=True
            )
            for k, at, low, high in places:
                edge = not EDGE < at < 1.0 - EDGE
                shapes.append(
                    _shape_estimate(joint_term, joint, k, float(shape[k]), (low, high), robot, edge)
                )
                size = abs(shape[k]) if shapes_of(joint_term)[k].positive else high - low
                hidden = edge or not coefficients.any()
                slopes.append(
                    None if hidden else Slope(joint_term, joint, k, coefficients, STEP * float(size))
                )
    return shapes, slopes


def _shape_estimate(
    term: ShapedTerm,
    joint: int,
    k: int,
    value: float,
    bounds: tuple[float, float],
    robot: RobotModel,
    edge: bool,
) -> ShapeEstimate:
    return ShapeEstimate(
        name=shape_name(term, k, joint),
        term=term.name,
        joint=robot.joint_names[joint],
        unit=shape_unit(term, robot, k, joint),
        value=value,
        std=np.nan,
        lower=float(bounds[0]),
        upper=float(bounds[1]),
        note="at an edge of its range" if edge else "",
    )


def _joint_covariance(
    fitted: Fitted, slopes: Slopes, batches: Iterable[Samples], threads: int
) -> tuple[Float, list[int]]:
    """Covariance (b + k, b + k) of base parameters and of the slopes independent of them, and the slopes' indices."""
    assembly = fitted.assembly
    k = len(slopes.slopes)
    wider = replace(
        assembly,
        terms=Terms((*assembly.terms.terms, slopes)),
        wanted=np.append(assembly.wanted, np.ones(k, dtype=np.bool_)),
    )
    known = wider.unchanged(assembly, fitted.factors)
    wide = replace(fitted, assembly=wider, factors=wider.factors(batches, threads, known=known))
    kept: list[int] = list(range(k))
    while kept:
        R = _triangle(fitted, wide, kept)
        size = np.linalg.norm(R, axis=0)
        # A slope without effect on the log counts as dependent.
        distance = np.divide(np.abs(np.diag(R)), size, out=np.zeros_like(size), where=size > 0)
        weak = [i for i, d in zip(kept, distance[-len(kept) :], strict=True) if not d > DEPENDENT]
        if not weak:
            break
        kept = [i for i in kept if i not in weak]
    return _jackknife(fitted, wide, kept), kept


def _columns(fitted: Fitted, kept: list[int]) -> Int:
    p = len(fitted.estimate.columns)
    return np.append(fitted.regression.base.independent, p + np.array(kept, dtype=np.int64))


def _selected(fitted: Fitted, wide: Fitted, kept: list[int]) -> Factors:
    mask = np.zeros(wide.factors.parameter_count, dtype=np.bool_)
    mask[_columns(fitted, kept)] = True
    return wide.factors.select(mask)


def _triangle(fitted: Fitted, wide: Fitted, kept: list[int]) -> Float:
    columns = _columns(fitted, kept)
    return _with_target(fitted, wide, kept)[: len(columns), : len(columns)]


def _with_target(fitted: Fitted, wide: Fitted, kept: list[int]) -> Float:
    factors, weights = _selected(fitted, wide, kept), np.asarray(fitted.estimate.weights)
    return stack(factors.total, _columns(fitted, kept), weights)


def _jackknife(fitted: Fitted, wide: Fitted, kept: list[int]) -> Float:
    """Covariance about the least-squares optimum of the linearised equations.

    The search for shapes ends near the optimum: a remaining gradient that comes from a single block would otherwise
    count as disagreement between blocks.
    """
    columns = _columns(fitted, kept)
    count = len(columns)
    triangle = _with_target(fitted, wide, kept)
    R = triangle[:count, :count]
    theta = np.append(
        fitted.estimate.full_vector, np.zeros(wide.factors.parameter_count - len(fitted.estimate.columns))
    )
    theta[columns] = solve_triangular(R, triangle[:count, count])
    inverse = solve_triangular(R, np.eye(count))
    weights = np.asarray(fitted.estimate.weights)
    return block_jackknife(_selected(fitted, wide, kept), columns, theta, inverse, weights)[0]


def widened_by(covariance: Float, change: Float, share: float) -> Float:
    """Add to a covariance (b, b) the change due to estimated shapes, computed on a share of the equations.

    With all equations the sum is that of a joint fit. With a share, `change` is divided by it and scatters more, so
    that only its increase of the uncertainty counts.
    """
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1.0)
    if share >= 1.0:
        return _positive(covariance + change, size)
    return np.asarray(covariance + _positive(change / share, size))


def _positive(matrix: Float, size: Float) -> Float:
    """Nearest positive semidefinite matrix, with rows and columns in units of `size` (b,)."""
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(size, size))

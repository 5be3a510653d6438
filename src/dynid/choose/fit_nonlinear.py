"""From a model with open choices to one with every shape at its best: loads, forms of friction, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.choose.bodies_as_load import with_loads
from dynid.choose.bounds import bounded_columns
from dynid.choose.friction_forms import choose_forms, worth_of_shapes
from dynid.choose.search import Fitted, NonlinearFit, Search, base_names
from dynid.choose.separable import Lines, SeparableProblem, joint_problem
from dynid.choose.shaped import nominal
from dynid.choose.variable_projection import Scale, Start, variable_projection
from dynid.robot.model import RobotModel
from dynid.terms.column import Of
from dynid.terms.curve import ShapedTerm
from dynid.terms.joint_term import joint_indices
from dynid.terms.term import Term, Terms

PASSES = 4
CONVERGED = 2e-3


def refuse_open_inside(terms: Terms) -> None:
    """Raises UsageError for an open choice inside another term, where no search reaches it."""
    for term in terms:
        inner = getattr(term, "of", None)
        if isinstance(inner, Term) and inner.is_open and not getattr(inner, "shapes", ()):
            raise UsageError(
                "open-inside",
                found=f"term '{inner.name}' with an open choice inside '{term.name}'",
                expected="its values",
                do="give every nonlinear parameter, or take the term out",
            )


def fit_nonlinear(terms: Terms, search: Search, start: Terms | None = None) -> NonlinearFit:
    """Makes every choice of a model: loads first, then forms of friction joint by joint, then all shapes together.

    start: the same terms with shapes to begin with, where they are known roughly.    Deterministic for a seed.
    """
    refuse_open_inside(terms)
    terms = with_loads(terms, search.robot, lambda model: search.fit(nominal(model, search.robot)).estimate)
    chosen, tried, choices = choose_forms(terms, search)
    estimated: dict[int, Bool] = {}
    for i, term in enumerate(chosen):
        if isinstance(term, ShapedTerm) and term.shapes:
            unknown = np.isnan(term.shape_table(search.robot))
            alive = term.alive(search.robot, search.moved).reshape(len(unknown), -1)
            unknown &= np.asarray(alive.any(axis=1))[:, None]
            if unknown.any():
                estimated[i] = unknown
    near = tried if start is None else start
    first = nominal(chosen, search.robot) if near is None else near
    found = refine(NonlinearFit(first, estimated), search, fresh=near is None)
    # Shapes that come with a start were compared with their rivals before.
    worth = worth_of_shapes(terms, found, search) if start is None else ()
    return replace(found, choices=(*choices, *worth))


def refine(
    nonlinear: NonlinearFit,
    search: Search,
    fresh: bool,
    blocks: Sequence[int] | None = None,
    constant: ConstantPart | None = None,
) -> NonlinearFit:
    """Seeks every open shape in turn, with all coefficients eliminated, until none changes any more.

    fresh: whether to begin with several starts, and not with the present values alone.
    blocks: to fit on, in a single pass; None = all.    constant: of a fit to begin with, if there is one.
    """
    now = constant
    for round_number in range(PASSES if nonlinear.estimated else 0):
        if now is None:
            now = constant_part_of(search.fit(nonlinear.terms), nonlinear, search)
        elif round_number > 0:
            now = now.of(search.fit(nonlinear.terms, now.fitted), nonlinear, search)
        terms, change = _one_pass(nonlinear, search, now, fresh and round_number == 0, blocks)
        nonlinear = replace(nonlinear, terms=terms)
        if change < CONVERGED or blocks is not None:
            break
    return nonlinear


@dataclass(frozen=True, eq=False)
class ConstantPart:
    """A separable problem with the lines of all terms whose shapes are not estimated, and the target."""

    fitted: Fitted
    separable: SeparableProblem
    static: Lines

    def of(self, fitted: Fitted, nonlinear: NonlinearFit, search: Search) -> ConstantPart:
        """That of another fit: the lines stay, where the same columns count."""
        names, before = base_names(fitted.estimate), self.fitted.factors
        columns = zip(fitted.factors.total, before.total, strict=True)
        if names != self.separable.names or any(not np.array_equal(a.columns, b.columns) for a, b in columns):
            return constant_part_of(fitted, nonlinear, search)
        weights = np.asarray(fitted.estimate.weights)
        separable = replace(self.separable, assembly=fitted.assembly, factors=fitted.factors, weights=weights)
        return ConstantPart(fitted, separable, self.static)


def constant_part_of(fitted: Fitted, nonlinear: NonlinearFit, search: Search) -> ConstantPart:
    """The constant part of a fit."""
    separable = search.separable(fitted)
    rest = Terms(tuple(t for i, t in enumerate(nonlinear.terms) if i not in nonlinear.estimated))
    return ConstantPart(fitted, separable, separable.lines(rest, target=True))


def _one_pass(
    nonlinear: NonlinearFit, search: Search, constant: ConstantPart, fresh: bool, blocks: Sequence[int] | None
) -> tuple[Terms, float]:
    separable, static = constant.separable, constant.static
    terms, change = nonlinear.terms, 0.0
    # Friction below zero would stand for what a shape misses, and the fit that is reported has none of it.
    columns = terms.columns(search.robot)
    bounded = bounded_columns(columns, constant.fitted.estimate)
    every = range(len(separable.factors.blocks)) if blocks is None else blocks
    for position, free in nonlinear.estimated.items():
        for row in np.flatnonzero(free.any(axis=1)).tolist():
            term = terms.terms[position]
            if not isinstance(term, ShapedTerm):
                continue
            joint = joint_indices(search.robot, term.joints)[row]
            trial = Terms((term.of_joint(search.robot, joint),))
            extra = _without(terms, nonlinear.estimated, position, joint, search.robot)
            own = joint_problem(separable, static, extra, separable.lines(trial))
            mine = {column.name for column in columns if column.of is Of.JOINT and column.owner == joint}
            rest, held = own.without(own.alone_here(bounded & mine))
            motion = separable.motion(joint, term)
            table = term.shape_table(search.robot)
            start = Start(joint, table[row], free[row], fresh)
            found = variable_projection(
                rest, rest.reduced(every), held, term, start, motion, search.seed + joint, bounded
            )
            scale = Scale.of(term, motion, free[row])
            change = max(change, float(np.abs(scale.unit(found.shape) - scale.unit(table[row])).max()))
            table = table.copy()
            table[row] = found.shape
            terms = _replaced(terms, position, term.with_shape_table(table))
    return terms, change


def _without(terms: Terms, estimated: dict[int, Bool], position: int, joint: int, robot: RobotModel) -> Terms:
    """The estimated terms, less one of them on one joint."""
    kept: list[Term] = []
    for i in estimated:
        term = terms.terms[i]
        if i != position or not isinstance(term, ShapedTerm):
            kept.append(term)
            continue
        others = [j for j in joint_indices(robot, term.joints) if j != joint]
        if others:
            kept.append(term.of_joints(robot, others))
    return Terms(tuple(kept))


def _replaced(terms: Terms, position: int, term: Term) -> Terms:
    return Terms(tuple(term if i == position else t for i, t in enumerate(terms)))

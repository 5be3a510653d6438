"""From a model with open choices to one with every shape at its best: loads, forms of friction, shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.choose.friction_forms import choose_forms, worth_of_shapes
from dynid.choose.search import Fitted, NonlinearFit, Search, base_names, nominal
from dynid.choose.separable import Lines, Scale, SeparableProblem, Start, joint_problem, variable_projection
from dynid.choose.subset_regression import bounded_columns
from dynid.choose.wide_model import Labelled
from dynid.estimate.estimator import Estimate, Estimator
from dynid.estimate.scores import LeftOut, Origin, Scores, Sums
from dynid.estimate.source import LogSource
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, judged_equations, moved_once
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import ShapedTerm, of_joints, shape_table, shapes_of, with_shape_table
from dynid.terms.exports import Column, Kind, Of, Side
from dynid.terms.forms import (
    alive_columns,
    has_open_choice,
    load_slope,
    motor_regressor,
    needs_bodies,
    seen_by,
    with_bodies,
)
from dynid.terms.term import Term, Terms, joint_indices

# Friction that depends on the load of the links estimated with it: Newton's method on both together.

# Converged when no parameter changes by more than STEP of its standard deviation or, for exact logs, by more than
# ROUNDING of the largest one. Newton's method takes four to ten fits.
STEP, ROUNDING, ROUNDS = 1e-2, 1e-9, 40


def with_loads(terms: Terms, robot: RobotModel, fit: Callable[[Terms], Estimate]) -> Terms:
    """Set the inertias in load-dependent friction to those that fit best together with its load share.

    tau = Y pi + f |Y pi| s is linearised about (pi, f): (1 + f s sign(Y pi)) Y pi + (change of f) |Y pi| s. `fit` is
    that of a linear model. Raises SolverError if the iteration does not converge.
    """
    if not any(needs_bodies(term) for term in terms):
        return terms
    first = fit(Terms(tuple(term for term in terms if not needs_bodies(term))))
    bodies = _bodies(first, robot)
    names = [c.name for term in terms if needs_bodies(term) for c in term.columns(robot)]
    share = dict.fromkeys(names, 0.0)
    before = np.zeros(0)
    for _ in range(ROUNDS):
        loaded = Terms(tuple(with_bodies(term, bodies) for term in terms))
        estimate = fit(_tangent(terms, loaded, share, robot))
        values = dict(zip(estimate.names, estimate.value.tolist(), strict=True))
        share = {name: value + values.get(name, 0.0) for name, value in share.items()}
        current = np.array([share.get(name, value) for name, value in values.items()])
        bodies = _bodies(estimate, robot)
        room = np.maximum(STEP * estimate.std, ROUNDING * np.abs(current).max())
        if len(before) == len(current) and (np.abs(current - before) <= room).all():
            return Terms(tuple(with_bodies(term, bodies) for term in terms))
        before = current
    raise SolverError(
        "load-friction",
        found=f"link inertias that still change after {ROUNDS} fits together with the friction that they load",
        expected="inertias and load shares that converge",
        do="give the inertias as inertia = [...] of load_friction, or in the model file with load = 'prior'",
    )


@dataclass(frozen=True)
class LoadedBodies(Term):
    """A term of the links, each joint's torque multiplied by 1 + the slope of its load-dependent friction.

    `loads` are terms that know their link inertias, with the shares about which they are linear.
    """

    of: Term
    loads: tuple[tuple[Term, tuple[float, ...]], ...]
    name: str = "rigid_body"

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Columns of the links."""
        return self.of.columns(robot)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Columns of the links, multiplied by each joint's factor."""
        return self._times(1.0 + self._slope(robot, samples, (Side.MOTOR, Side.LINK)), robot, samples, wanted)

    def _slope(self, robot: RobotModel, samples: Samples, sides: tuple[Side, ...]) -> Float:
        slope = np.zeros_like(samples.dq)
        for term, share in self.loads:
            if term.traits.side in sides:
                slope = slope + load_slope(term, robot, seen_by(term, samples), np.array(share))
        return slope

    def _times(self, factor: Float, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        panels = self.of.torque_regressor(robot, samples, wanted)
        return Panels(panels.columns, tuple(lines * factor[:, j] for j, lines in enumerate(panels.values)))


@motor_regressor.register(LoadedBodies)
def _(term: LoadedBodies, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """Load-dependent friction of the links at the motors."""
    return term._times(term._slope(robot, samples, (Side.MOTOR,)), robot, samples, wanted)


def _tangent(terms: Terms, loaded: Terms, share: dict[str, float], robot: RobotModel) -> Terms:
    loads = tuple(
        (now, tuple(share[c.name] for c in term.columns(robot)))
        for term, now in zip(terms, loaded, strict=True)
        if needs_bodies(term)
    )
    return Terms(
        tuple(LoadedBodies(term, loads) if term.traits.kind is Kind.BODIES else term for term in loaded)
    )


def _bodies(estimate: Estimate, robot: RobotModel) -> tuple[float, ...]:
    inertia = np.zeros(10 * robot.n_bodies)
    bodies = [i for i, c in enumerate(estimate.columns) if c.of is Of.BODY]
    inertia[: len(bodies)] = estimate.parameters[bodies]
    return tuple(float(x) for x in inertia)


PASSES = 4
CONVERGED = 2e-3


def refuse_open_inside(terms: Terms) -> None:
    """Raise UsageError for an open choice inside another term, which no search reaches."""
    for term in terms:
        inner = getattr(term, "of", None)
        if isinstance(inner, Term) and has_open_choice(inner) and not getattr(inner, "shapes", ()):
            raise UsageError(
                "open-inside",
                found=f"term '{inner.name}' with an open choice inside '{term.name}'",
                expected="its values",
                do="give every nonlinear parameter, or take the term out",
            )


def fit_nonlinear(terms: Terms, search: Search, start: Terms | None = None) -> NonlinearFit:
    """Make every choice of a model: loads first, then forms of friction per joint, then all shapes together.

    `start` has the same terms with approximate shapes. The result is deterministic for a seed.
    """
    refuse_open_inside(terms)
    terms = with_loads(terms, search.robot, lambda model: search.fit(nominal(model, search.robot)).estimate)
    chosen, tried, choices = choose_forms(terms, search)
    estimated: dict[int, Bool] = {}
    for i, term in enumerate(chosen):
        if isinstance(term, ShapedTerm) and shapes_of(term):
            unknown = np.isnan(shape_table(term, search.robot))
            alive = alive_columns(term, search.robot, search.moved).reshape(len(unknown), -1)
            unknown &= np.asarray(alive.any(axis=1))[:, None]
            if unknown.any():
                estimated[i] = unknown
    near = tried if start is None else start
    first = nominal(chosen, search.robot) if near is None else near
    refined = refine(NonlinearFit(first, estimated), search, fresh=near is None)
    # With a start, the shapes were compared with their alternatives before.
    worth = worth_of_shapes(terms, refined, search) if start is None else ()
    return replace(refined, choices=(*choices, *worth))


def refine(
    nonlinear: NonlinearFit,
    search: Search,
    fresh: bool,
    blocks: Sequence[int] | None = None,
    constant: ConstantPart | None = None,
) -> NonlinearFit:
    """Vary every open shape in turn, with all coefficients eliminated, until none changes.

    If `fresh`, several starts are tried instead of the present values alone. `blocks` are those to fit on in a single
    pass (None = all), and `constant` belongs to an earlier fit.
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
    """A separable problem, with the target and the columns of all terms whose shapes are not estimated."""

    fitted: Fitted
    separable: SeparableProblem
    static: Lines

    def of(self, fitted: Fitted, nonlinear: NonlinearFit, search: Search) -> ConstantPart:
        """The constant part of another fit; reuses the columns if the same ones count."""
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
    # Negative friction could compensate for an error of a shape, and the reported fit excludes it.
    columns = terms.columns(search.robot)
    bounded = bounded_columns(columns, constant.fitted.estimate)
    every = range(len(separable.factors.blocks)) if blocks is None else blocks
    for position, free in nonlinear.estimated.items():
        for row in np.flatnonzero(free.any(axis=1)).tolist():
            term = terms.terms[position]
            if not isinstance(term, ShapedTerm):
                continue
            joint = joint_indices(search.robot, term.joints)[row]
            trial = Terms((of_joints(term, search.robot, (joint,)),))
            extra = _without(terms, nonlinear.estimated, position, joint, search.robot)
            joint_lines = joint_problem(separable, static, extra, separable.lines(trial))
            joint_columns = {
                column.name for column in columns if column.of is Of.JOINT and column.owner == joint
            }
            rest, removed = joint_lines.without(joint_lines.alone_here(bounded & joint_columns))
            motion = separable.motion(joint, term)
            table = shape_table(term, search.robot)
            start = Start(joint, table[row], free[row], fresh)
            best = variable_projection(
                rest, rest.reduced(every), removed, term, start, motion, search.seed + joint, bounded
            )
            scale = Scale.of(term, motion, free[row])
            change = max(change, float(np.abs(scale.unit(best.shape) - scale.unit(table[row])).max()))
            table = table.copy()
            table[row] = best.shape
            terms = _replaced(terms, position, with_shape_table(term, table))
    return terms, change


def _without(terms: Terms, estimated: dict[int, Bool], position: int, joint: int, robot: RobotModel) -> Terms:
    """The estimated terms without one of them on one joint."""
    kept: list[Term] = []
    for i in estimated:
        term = terms.terms[i]
        if i != position or not isinstance(term, ShapedTerm):
            kept.append(term)
            continue
        others = [j for j in joint_indices(robot, term.joints) if j != joint]
        if others:
            kept.append(of_joints(term, robot, others))
    return Terms(tuple(kept))


def _replaced(terms: Terms, position: int, term: Term) -> Terms:
    return Terms(tuple(term if i == position else t for i, t in enumerate(terms)))


# Held-out scores when shapes were estimated: shapes are estimated again without the blocks that score them.


def held_out_scores(
    fitted: Fitted,
    nonlinear: NonlinearFit,
    search: Search,
    estimator: Estimator,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores on contiguous runs of blocks, each left out of every estimate except the choice of friction forms.

    `search` has the share of each block on which shapes were estimated, and the scores are of this share. `left_out`
    are samples that are in no equation, according to the model fitted to all blocks.
    """
    if search.share < 1.0:
        fitted = search.fit(nonlinear.terms)
        left_out = None if left_out is None else left_out.scaled(search.share)
    group_names = fitted.factors.group_names
    scored = [g for g, name in enumerate(group_names) if name in search.robot.joint_names]
    constant = constant_part_of(fitted, nonlinear, search)
    sums: list[Sums] = []
    blocks: list[Sums] = []
    folds = folds_of(fitted.factors, search.folds)
    models = [
        refine(nonlinear, search, fresh=False, blocks=fold.training.tolist(), constant=constant).terms
        for fold in folds
    ]
    every = _factors_of_all(fitted, models, list(nonlinear.estimated), search)
    for fold, terms, whole in zip(folds, models, every, strict=True):
        factors = whole.select(fitted.regression.base.mask)
        source = fitted.regression.source
        if isinstance(source, LogSource):
            source = replace(source, assembly=replace(source.assembly, terms=terms))
        part = replace(
            fitted.regression,
            factors=factors.subset(fold.training.tolist()),
            source=source,
            value_only=True,
        )
        theta = estimator.fit(part).full_vector
        held_out = judged_equations(factors, folds).subset(fold.held_out.tolist())
        sums.append(Sums.of_factors(held_out, theta, scored))
        blocks += Sums.of_blocks(held_out, theta, scored)
    total = sums[0]
    for fold_sums in sums[1:]:
        total = total + fold_sums
    names = dict.fromkeys(block.trajectory for block in fitted.factors.blocks)
    scored_names = [group_names[g] for g in scored]
    scores = total.scores(Origin.HELD_OUT_BLOCKS, scored_names, tuple(names), left_out, blocks)
    return replace(scores, moved_once=moved_once(fitted.factors, folds))


def _factors_of_all(
    fitted: Fitted, models: Sequence[Terms], changed: Sequence[int], search: Search
) -> Iterator[Factors]:
    """Factors of models that differ from a fitted one in the `changed` terms, from one pass over the log."""
    assembly, robot = fitted.assembly, search.robot
    counts = [len(term.columns(robot)) for term in assembly.terms]
    first = np.cumsum([0, *counts])
    changed_columns = [np.arange(first[i], first[i + 1]) for i in changed]
    trial = np.concatenate(changed_columns)
    others = [
        Labelled(model.terms[i], f"{number}, {i}") for number, model in enumerate(models) for i in changed
    ]
    wider = replace(
        assembly,
        terms=Terms((*assembly.terms.terms, *others)),
        wanted=np.concatenate([assembly.wanted, *[assembly.wanted[trial]] * len(models)]),
    )
    known = wider.unchanged(assembly, fitted.factors)
    factors = wider.factors(search.batches, search.threads, known=known)
    for number in range(len(models)):
        place = np.append(np.arange(first[-1]), np.full(len(trial) * len(models), -1))
        place[trial] = -1
        place[first[-1] + number * len(trial) + np.arange(len(trial))] = trial
        yield factors.renumbered(place, int(first[-1]))

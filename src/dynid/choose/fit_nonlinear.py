"""From a model with open choices to one with every shape at its best: loads, forms of friction, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.choose.bodies_as_load import with_loads
from dynid.choose.friction_forms import Forms, decide, held_out_forms
from dynid.choose.separable import JointProblem, Lines, SeparableProblem, joint_problem
from dynid.choose.shapes import Choice
from dynid.choose.variable_projection import Scale, variable_projection
from dynid.estimate.estimator import Estimate, Regression
from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap
from dynid.factor.factor import Factors
from dynid.factor.thinning import thinned
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import CurveTerm
from dynid.terms.joint_term import joint_indices, joints_of, on_joints
from dynid.terms.term import Term, Terms

PASSES = 4
CONVERGED = 2e-3
# Blocks from which on the standard error of a difference between models, itself uncertain by a quarter, says something.
LEAST_TO_COMPARE = 10
# Equations that are kept in memory: enough to compare models, in every computer's memory.
LINE_BYTES = 300e6
# Samples beside the filter's own settling that differences along time reach.
SPARE = 2


@dataclass(frozen=True, eq=False)
class Fitted:
    """One fit: the equations' recipe, all factors, what the estimator saw and what it found."""

    structural: BaseMap
    assembly: Assembly
    factors: Factors
    regression: Regression
    estimate: Estimate


class Fit(Protocol):
    """Fits a model whose shapes are fixed."""

    def __call__(self, terms: Terms) -> Fitted:
        """The fit of all the data."""
        ...


@dataclass(frozen=True, eq=False)
class NonlinearFit:
    """A model without open choices.

    sought: by position in `terms`, which joints' shapes (m,) were sought.    choices: the comparisons made.
    """

    terms: Terms
    sought: dict[int, Bool]
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, eq=False)
class Search:
    """What a search works with.

    moved: (n,) which joints moved: the others keep typical shapes.    folds: how many are wanted.
    share: of the log's time that the batches hold, `thinned`.
    """

    robot: RobotModel
    fit: Fit
    batches: Iterable[Samples]
    moved: Bool
    folds: int
    seed: int
    threads: int
    share: float = 1.0

    def separable(self, fitted: Fitted) -> SeparableProblem:
        """The samples to try shapes on, with the weights and base columns of a fit."""
        width = sum(len(f.columns) + 1 for f in fitted.factors.total)
        batches = tuple(self.within_memory(fitted, width))
        estimate = fitted.estimate
        names = tuple(estimate.columns[i].name for i in estimate.base.independent)
        weights = np.asarray(estimate.weights)
        return SeparableProblem(fitted.assembly, fitted.factors, weights, names, batches, self.threads)

    def within_memory(self, fitted: Fitted, width: int) -> Iterable[Samples]:
        """The batches, or the share of each block of time whose equations take LINE_BYTES.

        width: lines of all groups of equations together.
        """
        most = max(factor.count for factor in fitted.factors.total)
        part = LINE_BYTES / max(8.0 * width * most, 1.0)
        if part >= 1.0:
            return self.batches
        assembly = fitted.assembly
        settling = assembly.parallel.settling + SPARE
        return thinned(self.batches, self.share * part, assembly.block_seconds, settling)

    def can_compare(self, fitted: Fitted) -> bool:
        """Whether there are enough blocks to compare models on."""
        return len(fitted.factors.blocks) >= LEAST_TO_COMPARE


def is_open(terms: Terms) -> bool:
    """Whether a model has a choice to make, a load to estimate or a shape to seek."""
    return any(term.is_open for term in terms)


def refuse_open_inside(terms: Terms) -> None:
    """Raises UsageError for an open choice inside another term, where no search reaches it."""
    for term in terms:
        inner = getattr(term, "of", None)
        if isinstance(inner, Term) and is_open(Terms((inner,))):
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
    terms = with_loads(terms, search.robot, lambda model: search.fit(_nominal(model, search.robot)).estimate)
    chosen, choices = _with_friction(terms, search)
    asked = {id(term) for term in terms}
    sought: dict[int, Bool] = {}
    for i, term in enumerate(chosen):
        if isinstance(term, CurveTerm) and term.shapes:
            # What the choice of friction found is a good start, to be sought again with all joints together.
            rows = np.isnan(term.shape_table(search.robot)).any(axis=1) | (id(term) not in asked)
            rows = rows & search.moved[list(joint_indices(search.robot, term.joints))]
            if rows.any():
                sought[i] = rows
    first = _nominal(chosen, search.robot) if start is None else start
    found = refine(NonlinearFit(first, sought), search, fresh=not choices and start is None)
    # Shapes that come with a start were compared with their rivals before.
    ablations = _ablations(terms, found, search) if start is None else ()
    return replace(found, choices=(*choices, *ablations))


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
    for round_number in range(PASSES if nonlinear.sought else 0):
        now = (
            constant
            if constant is not None and round_number == 0
            else constant_part_of(search.fit(nonlinear.terms), nonlinear, search)
        )
        terms, change = _one_pass(nonlinear, search, now, fresh and round_number == 0, blocks)
        nonlinear = replace(nonlinear, terms=terms)
        if change < CONVERGED or blocks is not None:
            break
    return nonlinear


@dataclass(frozen=True, eq=False)
class ConstantPart:
    """A separable problem with the lines of all terms whose shapes are not sought, and the target."""

    separable: SeparableProblem
    static: Lines


def constant_part_of(fitted: Fitted, nonlinear: NonlinearFit, search: Search) -> ConstantPart:
    """The constant part of a fit."""
    separable = search.separable(fitted)
    rest = Terms(tuple(t for i, t in enumerate(nonlinear.terms) if i not in nonlinear.sought))
    return ConstantPart(separable, separable.lines(rest, target=True))


def _one_pass(
    nonlinear: NonlinearFit, search: Search, constant: ConstantPart, fresh: bool, blocks: Sequence[int] | None
) -> tuple[Terms, float]:
    separable, static = constant.separable, constant.static
    terms, change = nonlinear.terms, 0.0
    every = range(len(separable.factors.blocks)) if blocks is None else blocks
    for position, rows in nonlinear.sought.items():
        for row in np.flatnonzero(rows).tolist():
            term = terms.terms[position]
            if not isinstance(term, CurveTerm):
                continue
            joint = joint_indices(search.robot, term.joints)[row]
            trial = Terms((term.of_joint(search.robot, joint),))
            extra = _without(terms, nonlinear.sought, position, joint, search.robot)
            own = joint_problem(separable, static, extra, separable.lines(trial))
            motion = separable.motion(joint)
            table = term.shape_table(search.robot)
            start = (joint, None if fresh else table[row])
            nothing = np.zeros((0, len(own.blocks)))
            found = variable_projection(
                own, own.reduced(every), nothing, term, start, motion, search.seed + joint
            )
            scale = Scale.of(term, motion)
            change = max(change, float(np.abs(scale.unit(found.shape) - scale.unit(table[row])).max()))
            table = table.copy()
            table[row] = found.shape
            terms = _replaced(terms, position, term.with_shape_table(table))
    return terms, change


def _without(terms: Terms, sought: dict[int, Bool], position: int, joint: int, robot: RobotModel) -> Terms:
    """The sought terms, less one of them on one joint."""
    kept: list[Term] = []
    for i in sought:
        term = terms.terms[i]
        if i != position or not isinstance(term, CurveTerm):
            kept.append(term)
            continue
        others = [j for j in joint_indices(robot, term.joints) if j != joint]
        if others:
            kept.append(_of_joints(term, robot, others))
    return Terms(tuple(kept))


def _of_joints(term: CurveTerm, robot: RobotModel, joints: Sequence[int]) -> CurveTerm:
    acting = joint_indices(robot, term.joints)
    table = term.shape_table(robot)[[acting.index(j) for j in joints]]
    named = tuple(robot.joint_names[j] for j in joints)
    return on_joints(term.with_shape_table(table) if term.shapes else term, named)


def _replaced(terms: Terms, position: int, term: Term) -> Terms:
    return Terms(tuple(term if i == position else t for i, t in enumerate(terms)))


def _nominal(terms: Terms, robot: RobotModel) -> Terms:
    """Terms with baseline friction and typical shapes, to start from."""
    made: list[Term] = []
    for term in terms:
        plainest = _plainest(term, joints_of(term))
        if plainest is not None:
            made += list(plainest)
        elif isinstance(term, CurveTerm) and term.shapes:
            table = term.shape_table(robot)
            nominal = np.array([shape.typical for shape in term.shapes])
            made.append(term.with_shape_table(np.where(np.isnan(table), nominal, table)))
        else:
            made.append(term)
    return Terms(tuple(made))


def _with_friction(terms: Terms, search: Search) -> tuple[Terms, tuple[Choice, ...]]:
    """Terms with every friction choice made, and the choices."""
    asked = [term for term in terms if term.alternatives(())]
    if not asked:
        return terms, ()
    robot = search.robot
    fitted = search.fit(_nominal(terms, robot))
    separable = search.separable(fitted)
    made: list[Term] = []
    choices: list[Choice] = []
    others = Terms(tuple(term for term in terms if term not in asked))
    static = separable.lines(_nominal(others, robot), target=True)
    for term in terms:
        if term not in asked:
            made.append(term)
            continue
        picked: list[Terms] = []
        for joint in joint_indices(robot, joints_of(term)):
            candidates = list(term.alternatives((robot.joint_names[joint],)).items())
            if not search.moved[joint] or not search.can_compare(fitted):
                picked.append(candidates[0][1])
                continue
            rest = _plainest_elsewhere(asked, joint, robot)
            own = joint_problem(separable, static, rest, separable.lines(candidates[0][1]))
            choice, best = _compared(own, joint, candidates, "friction", search)
            choices.append(choice)
            picked.append(best)
        made += merged(picked, robot)
    return Terms(tuple(made)), tuple(choices)


def _plainest(term: Term, joints: tuple[str, ...]) -> Terms | None:
    """The first of a term's alternatives; None for a term without any."""
    return next(iter(term.alternatives(joints).values()), None)


def _plainest_elsewhere(asked: Sequence[Term], joint: int, robot: RobotModel) -> Terms:
    found: list[Term] = []
    for term in asked:
        on = tuple(robot.joint_names[j] for j in joint_indices(robot, joints_of(term)) if j != joint)
        found += list(_plainest(term, on) or ()) if on else []
    return Terms(tuple(found))


def _compared(
    own: JointProblem, joint: int, candidates: Forms, subject: str, search: Search
) -> tuple[Choice, Terms]:
    separable = own.separable
    forms = held_out_forms(own, joint, candidates, separable.motion(joint), search.folds, search.seed + joint)
    counts: Float = np.bincount(own.blocks, minlength=len(separable.factors.blocks)).astype(np.float64)
    total = float(np.sum(own.target**2))
    choice = decide(forms, search.robot.joint_names[joint], subject, counts, total)
    return choice, next(form.terms for form in forms if form.name == choice.chosen)


def merged(parts: Sequence[Terms], robot: RobotModel) -> list[Term]:
    """Terms on one joint each, put together to terms on all joints that share a form."""
    groups: dict[Term, list[Term]] = {}
    for terms in parts:
        for term in terms:
            groups.setdefault(_form(term), []).append(term)
    return [_joined(form, members, robot) for form, members in groups.items()]


def _form(term: Term) -> Term:
    plain = on_joints(term, ())
    if not isinstance(term, CurveTerm):
        return plain
    return replace(plain, **{shape.name: None for shape in term.shapes})


def _joined(form: Term, members: Sequence[Term], robot: RobotModel) -> Term:
    names = [joints_of(member)[0] for member in members]
    order = sorted(range(len(names)), key=lambda i: robot.joint_names.index(names[i]))
    on = () if len(names) == robot.n else tuple(names[i] for i in order)
    whole = on_joints(form, on)
    if isinstance(whole, CurveTerm) and whole.shapes:
        rows = [m.shape_table(robot)[0] for m in (members[i] for i in order) if isinstance(m, CurveTerm)]
        return whole.with_shape_table(np.array(rows))
    return whole


def _ablations(terms: Terms, found: NonlinearFit, search: Search) -> tuple[Choice, ...]:
    """What each term of the model with a sought shape gains on held-out blocks, joint by joint."""
    asked = {type(t) for t in terms if isinstance(t, CurveTerm) and t.shapes}
    mine = {i: rows for i, rows in found.sought.items() if type(found.terms.terms[i]) in asked}
    if not mine:
        return ()
    fitted = search.fit(found.terms)
    if not search.can_compare(fitted):
        return ()
    separable = search.separable(fitted)
    static = separable.lines(Terms(tuple(t for i, t in enumerate(found.terms) if i not in mine)), target=True)
    choices = []
    for position, rows in mine.items():
        term = found.terms.terms[position]
        if not isinstance(term, CurveTerm):
            continue
        for row in np.flatnonzero(rows).tolist():
            joint = joint_indices(search.robot, term.joints)[row]
            trial = _of_joints(term, search.robot, [joint])
            open_trial = trial.with_shape_table(np.full_like(trial.shape_table(search.robot), np.nan))
            rival = term.rival((search.robot.joint_names[joint],))
            candidates: Forms = [
                (rival.terms[0].name if rival.terms else "without", rival),
                (term.name, Terms((open_trial,))),
            ]
            extra = _without(found.terms, mine, position, joint, search.robot)
            own = joint_problem(separable, static, extra, separable.lines(Terms((trial,))))
            choices.append(_compared(own, joint, candidates, term.name, search)[0])
    return tuple(choices)

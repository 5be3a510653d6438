"""Forms of friction compared on blocks that they were not fitted on; the simplest within one standard error wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.choose.separable import JointProblem, ReducedProblem
from dynid.choose.shapes import Choice, FormScore
from dynid.choose.variable_projection import variable_projection
from dynid.factor.comparison import Candidate, compare, gain
from dynid.factor.folds import Fold, folds_of
from dynid.robot.model import RobotModel
from dynid.terms.curve import CurveTerm, JointMotion
from dynid.terms.term import Terms

Forms = Sequence[tuple[str, Terms]]


@dataclass(frozen=True, eq=False)
class Form(Candidate):
    """A form of friction with the shapes found on all data."""

    terms: Terms


def held_out_forms(
    own: JointProblem, joint: int, forms: Forms, motion: JointMotion, wanted: int, seed: int
) -> list[Form]:
    """Every form with its errors on folds that are left out of all that is sought.

    forms: (name, terms of this joint alone), shapes nan where they are sought.    wanted: number of folds.
    """
    factors = own.separable.factors
    whole = own.reduced(range(len(factors.blocks)))
    problems = [(own.reduced(fold.training.tolist()), fold) for fold in folds_of(factors, wanted)]
    return [_form(own, joint, name, terms, motion, whole, problems, seed) for name, terms in forms]


def _form(
    own: JointProblem,
    joint: int,
    name: str,
    terms: Terms,
    motion: JointMotion,
    whole: ReducedProblem,
    problems: Sequence[tuple[ReducedProblem, Fold]],
    seed: int,
) -> Form:
    robot = own.separable.assembly.robot
    found = with_shapes(own, whole, terms, joint, motion, seed)
    squares = np.zeros(len(own.separable.factors.blocks))
    for problem, fold in problems:
        fitted = with_shapes(own, problem, terms, joint, motion, seed, found) if found != terms else terms
        C = own.trial(fitted)
        a, _ = problem.project(C)
        rows, errors = own.held_out(problem, C, a, fold.held_out.tolist())
        squares += np.bincount(own.blocks[rows], errors**2, len(squares))
    count = len(terms.columns(robot)) + sum(int(np.isnan(t.shape_table(robot)).sum()) for t in curves(terms))
    return Form(name, count, squares, found)


def curves(terms: Terms) -> list[CurveTerm]:
    """The terms that have a shape."""
    return [term for term in terms if isinstance(term, CurveTerm) and term.shapes]


def with_shapes(
    own: JointProblem,
    problem: ReducedProblem,
    terms: Terms,
    joint: int,
    motion: JointMotion,
    seed: int,
    present: Terms | None = None,
) -> Terms:
    """The same terms with the shapes that fit a problem best, one term after the other.

    present: shapes to start from alone; None = several starts.
    """
    robot = own.separable.assembly.robot
    now = list(terms if present is None else present)
    for i, term in enumerate(terms):
        if not isinstance(term, CurveTerm) or not np.isnan(term.shape_table(robot)).any():
            continue
        others = Terms(tuple(t for k, t in enumerate(now) if k != i))
        start = None if present is None else _present(now[i], robot)
        found = variable_projection(own, problem, own.trial(others), term, (joint, start), motion, seed)
        now[i] = term.with_shape_table(found.shape[None, :])
    return Terms(tuple(now))


def _present(term: object, robot: RobotModel) -> Float | None:
    return term.shape_table(robot)[0] if isinstance(term, CurveTerm) else None


def decide(
    forms: Sequence[Form], joint_name: str, subject: str, blocks: Float, torque_square: float
) -> Choice:
    """The choice among forms; the first one is what the gains are counted from.

    blocks: (M,) equations by block.    torque_square: sum of squared torque over all of them.
    """
    found = compare(forms, blocks)
    candidates = []
    for form in forms:
        share, std = gain(forms[0].squares, form.squares, blocks)
        candidates.append(
            FormScore(
                name=form.name,
                parameters=int(form.parameters),
                relative=float(np.sqrt(form.squares.sum() / torque_square))
                if torque_square > 0
                else float("nan"),
                gain=share,
                gain_std=std,
                earned=form is not forms[0] and share > std,
            )
        )
    return Choice(joint_name, subject, tuple(candidates), found.winner.name)

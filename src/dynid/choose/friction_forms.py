"""Forms of friction compared on blocks that they were not fitted on; the simplest within one standard error wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.choose.separable import JointBench, Problem
from dynid.choose.shapes import Candidate, Choice
from dynid.choose.variable_projection import seek
from dynid.robot.model import RobotModel
from dynid.terms.curve import CurveTerm, JointMotion
from dynid.terms.term import Terms

Contest = Sequence[tuple[str, Terms]]


@dataclass(frozen=True, eq=False)
class Form:
    """A form of friction with the shapes found on all data, and its held-out squared error by block (M,)."""

    name: str
    terms: Terms
    parameters: int
    squares: Float


def compare(
    bench: JointBench, joint: int, contest: Contest, motion: JointMotion, folds: int, seed: int
) -> list[Form]:
    """Every form of a contest, scored on contiguous runs of blocks that are left out of all that is sought.

    contest: (name, terms of this joint alone), shapes nan where they are sought.
    """
    M = len(bench.bench.factors.blocks)
    whole = bench.problem(range(M))
    parts = [part.tolist() for part in np.array_split(np.arange(M), min(folds, M))]
    problems = [(bench.problem(sorted(set(range(M)) - set(part))), part) for part in parts]
    return [_form(bench, joint, name, terms, motion, whole, problems, seed) for name, terms in contest]


def _form(
    bench: JointBench,
    joint: int,
    name: str,
    terms: Terms,
    motion: JointMotion,
    whole: Problem,
    problems: Sequence[tuple[Problem, list[int]]],
    seed: int,
) -> Form:
    robot = bench.bench.assembly.robot
    found = with_shapes(bench, whole, terms, joint, motion, seed)
    squares = np.zeros(len(bench.bench.factors.blocks))
    for problem, held_out in problems:
        fitted = with_shapes(bench, problem, terms, joint, motion, seed, found) if found != terms else terms
        C = bench.trial(fitted)
        a, _ = problem.project(C)
        rows, errors = bench.held_out(problem, C, a, held_out)
        squares += np.bincount(bench.blocks[rows], errors**2, len(squares))
    count = len(terms.columns(robot)) + sum(int(np.isnan(t.shape_table(robot)).sum()) for t in curves(terms))
    return Form(name, found, count, squares)


def curves(terms: Terms) -> list[CurveTerm]:
    """The terms that have a shape."""
    return [term for term in terms if isinstance(term, CurveTerm) and term.shapes]


def with_shapes(
    bench: JointBench,
    problem: Problem,
    terms: Terms,
    joint: int,
    motion: JointMotion,
    seed: int,
    present: Terms | None = None,
) -> Terms:
    """The same terms with the shapes that fit a problem best, one term after the other.

    present: shapes to start from alone; None = several starts.
    """
    robot = bench.bench.assembly.robot
    now = list(terms if present is None else present)
    for i, term in enumerate(terms):
        if not isinstance(term, CurveTerm) or not np.isnan(term.shape_table(robot)).any():
            continue
        others = Terms(tuple(t for k, t in enumerate(now) if k != i))
        start = None if present is None else _present(now[i], robot)
        found = seek(bench, problem, bench.trial(others), term, (joint, start), motion, seed)
        now[i] = term.with_shape_table(found.shape[None, :])
    return Terms(tuple(now))


def _present(term: object, robot: RobotModel) -> Float | None:
    return term.shape_table(robot)[0] if isinstance(term, CurveTerm) else None


def decide(
    forms: Sequence[Form], joint_name: str, subject: str, blocks: Float, torque_square: float
) -> Choice:
    """The choice among forms; the first one is what the gains are counted from.

    blocks: (M,) equations by block.    torque_square: sum of squared torque over all of them.
    The best form is that of the least held-out error; the simplest form (fewest parameters, then order) whose error
    exceeds the best one's by no more than one standard error of their difference over blocks is chosen.
    Source: Breiman et al. 1984 (rule of one standard error), with paired differences.
    """
    best = min(forms, key=lambda form: float(form.squares.sum()))
    simple = sorted(forms, key=lambda form: form.parameters)
    chosen = next(form for form in simple if _within(form.squares - best.squares, blocks))
    first = forms[0].squares
    base = float(first.sum())
    candidates = []
    for form in forms:
        gain = float((first - form.squares).sum())
        error = standard_error(first - form.squares, blocks)
        candidates.append(
            Candidate(
                name=form.name,
                parameters=form.parameters,
                relative=float(np.sqrt(form.squares.sum() / torque_square))
                if torque_square > 0
                else float("nan"),
                gain=gain / base if base > 0 else 0.0,
                gain_std=error / base if base > 0 else 0.0,
                earned=form is not forms[0] and gain > error,
            )
        )
    return Choice(joint_name, subject, tuple(candidates), chosen.name)


def _within(difference: Float, blocks: Float) -> bool:
    return float(difference.sum()) <= standard_error(difference, blocks)


def standard_error(sums: Float, counts: Float) -> float:
    """Standard error of a sum over blocks of unlike size, blocks being independent (ratio estimator)."""
    used = counts > 0
    x, n = sums[used], counts[used]
    M = len(x)
    if M < 2:
        return 0.0
    spread = x - n * x.sum() / n.sum()
    return float(np.sqrt(M / (M - 1) * (spread @ spread)))

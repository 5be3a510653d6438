"""How strongly the prior should pull where the data say little: chosen by unseen data or by the L-curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass

GRID = tuple(float(10.0**k) for k in range(-1, 6))


@dataclass(frozen=True, eq=False)
class Chosen:
    """A strength and what it was chosen by.

    strength: the choice.    strengths: (k,) that were tried, ascending.
    judged: (k,) squared error on unseen data, or how far below the chord of the L-curve each lies; nan = not solved.
    at_border: whether the choice is the first or last that was solved, so that a wider range may hold a better one.
    """

    strength: float
    strengths: Float
    judged: Float
    at_border: bool

    @property
    def judgement(self) -> float:
        """What `judged` says of the choice."""
        return float(self.judged[self.strengths == self.strength][0])

    def __post_init__(self) -> None:
        for name in ("strengths", "judged"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))


def held_out_strength(
    errors: Callable[[float], Float], strengths: Sequence[float] = GRID, deviations: float = 1.0
) -> Chosen:
    """The greatest strength that predicts unseen data no worse than the best one does, within its standard error.

    errors: squared prediction errors (folds,) of a strength, each on the fold that was left out. With d_f the
    difference of fold f to the strength of least total error, a strength is as good when
    mean d <= deviations std(d) / sqrt(folds).
    Raises SolverError if no strength has a solution.
    Source: Hastie, Tibshirani and Friedman 2009, section 7.10, with paired differences.
    """
    order = np.sort(np.asarray(strengths, dtype=np.float64))
    table = [_tried(errors, float(s)) for s in order]
    solved = _solved(table)
    total = np.array([np.nan if one is None else float(np.sum(one)) for one in table])
    best = int(np.nanargmin(total))
    least = table[best]
    chosen = best
    for k in solved:
        one = table[k]
        if k <= best or one is None or least is None:
            continue
        d = one - least
        if float(np.mean(d)) <= deviations * float(np.std(d, ddof=1)) / np.sqrt(len(d)):
            chosen = k
    return Chosen(float(order[chosen]), order, total, chosen in (solved[0], solved[-1]))


def l_curve_strength(
    solve: Callable[[float], tuple[float, float]], strengths: Sequence[float] = GRID
) -> Chosen:
    """The corner of the L-curve: log cost over log distance from the prior, farthest below the chord of its ends.

    solve: cost ||A theta - y||^2 and distance of a strength.    Logarithms are scaled to the unit square.
    Raises SolverError if fewer than three strengths have a solution, UsageError if fewer than three are given.
    Source: Hansen and O'Leary 1993; the chord in place of the curvature, which noise in a few points does not move.
    """
    if len(strengths) < 3:
        raise UsageError("l-curve", found=f"{len(strengths)} strengths", expected="at least 3")
    order = np.sort(np.asarray(strengths, dtype=np.float64))
    table = [_tried(solve, float(s)) for s in order]
    solved = _solved(table)
    if len(solved) < 3:
        raise SolverError(
            "l-curve",
            found=f"solutions for {len(solved)} of {len(order)} strengths",
            expected="at least 3 points of the curve",
            do="give a strength",
        )
    found = np.array([one for one in table if one is not None])
    points = np.log(np.maximum(found, np.finfo(np.float64).tiny))
    span = np.ptp(points, axis=0)
    x, y = ((points - points.min(axis=0)) / np.where(span > 0, span, 1.0)).T
    # From (0, 1) to (1, 0) once scaled: both ends lie on x + y = 1.
    below = 1.0 - x - y
    depth = np.full(len(order), np.nan)
    depth[solved] = below
    chosen = solved[int(np.argmax(below))]
    return Chosen(float(order[chosen]), order, depth, chosen in (solved[0], solved[-1]))


def _tried(function: Callable[[float], object], strength: float) -> Float | None:
    try:
        return np.asarray(function(strength), dtype=np.float64)
    except SolverError as error:
        # Constraints that exclude every solution do so for every strength.
        if error.identifier == "constraints-in-conflict":
            raise
        return None


def _solved(table: Sequence[Float | None]) -> list[int]:
    found = [k for k, one in enumerate(table) if one is not None]
    if not found:
        raise SolverError(
            "no-strength",
            found=f"no solution for any of {len(table)} strengths",
            expected="at least one",
            do="widen the constraints, or give a strength",
        )
    return found

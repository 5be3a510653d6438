"""One pass over a log for every column of a wide model, and regressions on subsets of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.choose.bounds import bounded_columns
from dynid.choose.search import Fitted, Search
from dynid.choose.subset_regression import SubsetRegression
from dynid.choose.wide_model import KEPT, WideModel
from dynid.estimate.prior import inertia_known
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of
from dynid.kernel import solve_triangular
from dynid.terms.term import Of

# Variance of what the description does not say, over that of what it says.
UNKNOWN = 1e6


def wide_regression(wide: WideModel, fitted: Fitted, search: Search) -> tuple[Factors, SubsetRegression]:
    """Factors of the wide model, and regressions on subsets of their columns.

    Of the columns that every candidate has those stay that any motion can determine; the others are few, and which of
    them depend on which is a matter of the log: random states would not show what has a memory.
    """
    robot, assembly = search.robot, fitted.assembly
    alive = np.concatenate([term.alive(robot, search.moved) for term in wide.terms])
    wanted = np.array(alive)
    common = len(wide.members[KEPT])
    wanted[:common] &= fitted.structural.mask[:common]
    # Models are compared with all repetitions of a motion as one: the blocks of each would be merged.
    made = replace(assembly, terms=wide.terms, wanted=wanted, blocks=assembly.blocks.of_all_repetitions())
    factors = made.factors(search.batches, search.threads).repetitions_merged()
    names = [column.name for column in wide.terms.columns(robot)]
    weights = np.asarray(fitted.estimate.weights)
    columns, folds = np.flatnonzero(wanted), folds_of(factors, search.folds)
    bounded = bounded_columns(wide.terms.columns(robot), fitted.estimate)
    known = _described(fitted, [names[i] for i in columns])
    regression = SubsetRegression.of(factors, names, columns, weights, folds, bounded, known)
    return factors, regression.drawn([column.name for column in fitted.regression.columns])


def _described(fitted: Fitted, names: Sequence[str]) -> Float | None:
    """What the description says of the bodies, as equations (k, c + 1) of standard deviation one; None = nothing.

    Parameters are known to their spread; base parameters follow, beta = B theta.
    """
    regression, base = fitted.regression, fitted.regression.base
    known, place = inertia_known(regression.columns), {name: i for i, name in enumerate(names)}
    own = [
        k
        for k, i in enumerate(base.independent.tolist())
        if regression.columns[i].of is Of.BODY and regression.columns[i].name in place
    ]
    if not known.any() or not own:
        return None
    variance = regression.spread**2 * np.where(known, 1.0, UNKNOWN)
    B = base.B[own]
    rows = solve_triangular(np.linalg.cholesky((B * variance) @ B.T), np.eye(len(own)), lower=True)
    found = np.zeros((len(own), len(names) + 1))
    found[:, [place[regression.columns[base.independent[k]].name] for k in own]] = rows
    found[:, -1] = rows @ base.reduce(regression.prior)[own]
    return found

"""One pass over a log for every column of a wide model, and regressions on subsets of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.choose.bounds import bounded_columns
from dynid.choose.search import Fitted, Search
from dynid.choose.subset_regression import SubsetRegression
from dynid.choose.wide_model import KEPT, WideModel
from dynid.factor.base import random_states
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of
from dynid.terms.term import Terms

# States that show on which joints an effect acts.
FEW = 3


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
    tried = Terms(wide.terms.terms[wide.kept :])
    panels = tried.torque_regressor(robot, random_states(robot, FEW, 0), wanted[common:])
    lines = sum(len(f.columns) + 1 for f in fitted.factors.total) + sum(len(c) for c in panels.columns)
    made = replace(assembly, terms=wide.terms, wanted=wanted)
    factors = made.factors(search.within_memory(fitted, lines), search.threads)
    names = [column.name for column in wide.terms.columns(robot)]
    weights = np.asarray(fitted.estimate.weights)
    columns, folds = np.flatnonzero(wanted), folds_of(factors, search.folds)
    bounded = bounded_columns(wide.terms.columns(robot), fitted.estimate)
    return factors, SubsetRegression.of(factors, names, columns, weights, folds, bounded)

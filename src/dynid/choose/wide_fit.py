"""One pass over a log for every column of a wide model, and regressions on subsets of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.choose.search import Fitted, Search
from dynid.choose.subset_regression import SubsetRegression
from dynid.choose.wide_model import KEPT, WideModel
from dynid.factor.base import random_states
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of
from dynid.terms.catalogue import CATALOGUE
from dynid.terms.column import Column, Of
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Term, Terms

# States that show on which joints an effect acts.
FEW = 3
# Standard errors below zero at which dry friction is taken to drive a joint: the other sign by chance once in 700.
DRIVEN = 3.0


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
    bounded = _bounded(wide.terms.columns(robot), fitted)
    return factors, SubsetRegression.of(factors, names, columns, weights, folds, bounded)


def _bounded(columns: Sequence[Column], fitted: Fitted) -> list[str]:
    """Names of columns of friction, rotors and springs that are not negative by nature.

    Coefficients of a body's columns are those of base parameters, sums of several. Dry friction that drives a joint
    beyond chance is a sign of the log, which every model of it shows: that joint is compared without bounds.
    """
    estimate = fitted.estimate
    driven = {
        estimate.columns[i].owner
        for i, value, std in zip(estimate.base.independent, estimate.value, estimate.std, strict=True)
        if _is_dry(estimate.columns[i]) and value < -DRIVEN * std
    }
    return [
        column.name
        for column in columns
        if column.lower >= 0 and column.of is not Of.BODY and column.owner not in driven
    ]


def _is_dry(column: Column) -> bool:
    kind = CATALOGUE.get(column.term, Term)
    return issubclass(kind, JointTerm) and kind.exports_as is MotionBasis.SIGN

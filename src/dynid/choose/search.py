"""What searches for a model work with: fits of fixed models, and the samples to try others on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.records import dataclass
from dynid.choose.separable import SeparableProblem
from dynid.choose.shapes import Choice
from dynid.estimate.estimator import Estimate, Regression
from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap
from dynid.factor.factor import Factors
from dynid.factor.folds import can_hold_out
from dynid.factor.thinning import thinned
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

# Blocks from which on the standard error of a difference between models, itself uncertain by a quarter, says something.
LEAST_TO_COMPARE = 10
# Equations that are kept in memory to try shapes on, a dozen times each: of five minutes of a 7-joint arm.
LINE_BYTES = 25e6
# Samples beside the filter's own margin that differences along time reach.
SPARE = 2


@dataclass(frozen=True, eq=False)
class Fitted:
    """One fit: how the equations are made, all factors, what the estimator saw and what it found."""

    structural: BaseMap
    assembly: Assembly
    factors: Factors
    regression: Regression
    estimate: Estimate


class Fit(Protocol):
    """Fits a model whose shapes are fixed."""

    def __call__(self, terms: Terms, like: Fitted | None = None) -> Fitted:
        """The fit of all the data.    like: of a model with most of the same terms, whose factors serve again."""
        ...


class LatestKept:
    """A fit whose latest model is kept, since steps that follow one another ask for the same or much of it."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self._latest: tuple[Terms, Fitted] | None = None

    def __call__(self, terms: Terms, like: Fitted | None = None) -> Fitted:
        """As `Fit`."""
        if self._latest is None:
            self._latest = terms, self._fit(terms, like)
        elif self._latest[0] is not terms:
            self._latest = terms, self._fit(terms, self._latest[1] if like is None else like)
        return self._latest[1]


@dataclass(frozen=True, eq=False)
class NonlinearFit:
    """A model without open choices.

    estimated: by position in `terms`, which shapes of which joints (m, s) were estimated.    choices: the comparisons
    made.
    """

    terms: Terms
    estimated: dict[int, Bool]
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, eq=False)
class Search:
    """What a search works with.

    moved: (n,) which joints moved: the others keep typical shapes.    folds: how many are wanted.
    share: of the log's time that the batches hold, `thinned`.    slowness: of the log, see `Prepared`.
    """

    robot: RobotModel
    fit: Fit
    batches: Iterable[Samples]
    moved: Bool
    folds: int
    seed: int
    threads: int
    share: float = 1.0
    slowness: float = 1.0

    def separable(self, fitted: Fitted) -> SeparableProblem:
        """The samples to try shapes on, with the weights and base columns of a fit."""
        width = sum(len(f.columns) + 1 for f in fitted.factors.total)
        batches = tuple(self.within_memory(fitted, width))
        names, weights = base_names(fitted.estimate), np.asarray(fitted.estimate.weights)
        return SeparableProblem(fitted.assembly, fitted.factors, weights, names, batches, self.threads)

    def within_memory(self, fitted: Fitted, width: int) -> Iterable[Samples]:
        """The batches, or the share of each block of time whose equations take LINE_BYTES.

        width: lines of all groups of equations together.
        """
        most = max(factor.count for factor in fitted.factors.total)
        part = LINE_BYTES / max(8.0 * width * most, 1.0)
        if part >= 1.0:
            return self.batches
        margin = fitted.assembly.parallel.margin + SPARE
        return thinned(self.batches, part, fitted.assembly.blocks, margin, self.share)

    def can_compare(self, fitted: Fitted) -> bool:
        """Whether there are enough blocks to compare models on."""
        return len(fitted.factors.blocks) >= LEAST_TO_COMPARE and can_hold_out(fitted.factors)


def base_names(estimate: Estimate) -> tuple[str, ...]:
    """Names of the columns that count."""
    return tuple(estimate.columns[i].name for i in estimate.base.independent)

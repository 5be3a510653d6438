"""Fits of fixed models and the samples of trial models, on which searches for a model are based."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.records import dataclass
from dynid.choose.separable import SeparableProblem
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.posterior import MAP
from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap
from dynid.factor.blocking import thinned
from dynid.factor.factor import Factors
from dynid.factor.folds import can_hold_out
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import CurveTerm, ShapedTerm, shape_table, shapes_of, with_shape_table
from dynid.terms.forms import alternatives, has_open_choice
from dynid.terms.term import Term, Terms, joints_of, on_joints

# Results of a search for shapes and of a comparison of friction models.


@dataclass(frozen=True)
class ShapeEstimate:
    """Estimate of a nonlinear parameter of one joint.

    `name` is the shape and the number of the joint ("velocity5"); `std` is nan if the data do not determine it; `lower`
    and `upper` bound the search; `note` says why the value is doubtful, or is empty.
    """

    name: str
    term: str
    joint: str
    unit: str
    value: float
    std: float
    lower: float
    upper: float
    note: str = ""


@dataclass(frozen=True)
class FormScore:
    """Held-out score of one form of friction.

    `parameters` counts the joint's linear and nonlinear parameters. `relative` is the r.m.s. held-out error over the
    r.m.s. torque of all joints, each weighted by its residual. `gain` is the relative reduction of the held-out mean
    square error from the first candidate, `gain_std` its standard error over blocks, and `earned` whether the gain
    exceeds it.
    """

    name: str
    parameters: int
    relative: float
    gain: float
    gain_std: float
    earned: bool


@dataclass(frozen=True)
class Choice:
    """Candidates for one joint, the simplest first, and the one chosen by the one-standard-error rule.

    `subject` is "friction", or a term of the model whose gain was tested (the term stays in the model in any case).
    """

    joint: str
    subject: str
    candidates: tuple[FormScore, ...]
    chosen: str

    @property
    def winner(self) -> FormScore:
        """The chosen candidate."""
        return next(candidate for candidate in self.candidates if candidate.name == self.chosen)


# Terms with open shapes: before a search, on single joints, and merged again.


def is_open(terms: Terms) -> bool:
    """Whether a model has an open choice, or a load or shape to estimate."""
    return any(has_open_choice(term) for term in terms)


def nominal(terms: Terms, robot: RobotModel) -> Terms:
    """Terms with baseline friction and typical shapes, as a start."""
    made: list[Term] = []
    for term in terms:
        plain = plainest(term, joints_of(term))
        if plain is not None:
            made += list(plain)
        elif isinstance(term, ShapedTerm) and shapes_of(term):
            table = shape_table(term, robot)
            nominal = np.array([shape.typical for shape in shapes_of(term)])
            made.append(with_shape_table(term, np.where(np.isnan(table), nominal, table)))
        else:
            made.append(term)
    return Terms(tuple(made))


def plainest(term: Term, joints: tuple[str, ...]) -> Terms | None:
    """The first of a term's alternatives; None for a term without any."""
    return next(iter(alternatives(term, joints).values()), None)


def merged(parts: Sequence[Terms], robot: RobotModel) -> list[Term]:
    """Merge terms on one joint each into terms on all joints that share a form."""
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
        rows = [shape_table(m, robot)[0] for m in (members[i] for i in order) if isinstance(m, CurveTerm)]
        return with_shape_table(whole, np.array(rows))
    return whole


# Fewest blocks for a comparison: the standard error of a difference between models is then itself known to a quarter.
LEAST_TO_COMPARE = 10
# Bytes of equations kept in memory for trial shapes, each used a dozen times: five minutes of a 7-joint arm.
LINE_BYTES = 25e6
# Samples beyond the filter's margin that differences along time need.
SPARE = 2


@dataclass(frozen=True, eq=False)
class Fitted:
    """One fit: its equations and factors, the regression and the estimate."""

    structural: BaseMap
    assembly: Assembly
    factors: Factors
    regression: Regression
    estimate: Estimate


class Fit(Protocol):
    """Fits a model whose shapes are fixed."""

    def __call__(self, terms: Terms, like: Fitted | None = None) -> Fitted:
        """Fit to all data; reuses the factors of `like`, a fit of a model with most of the same terms."""
        ...


class LatestKept:
    """Cache the fit of the latest model, because consecutive steps often need the same model or most of its columns."""

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

    `estimated` marks estimated shapes (m, s) of the joints by position in `terms`; `choices` are the comparisons made.
    """

    terms: Terms
    estimated: dict[int, Bool]
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, eq=False)
class Search:
    """Data and settings of a search.

    `moved` (n,) marks joints that moved (the others keep typical shapes); `folds` is the requested number; `share` is
    the part of the log's time in the batches, `thinned`; `slowness` is that of `Prepared`; `prior` is that of the final
    fit, or the default.
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
    prior: MAP = MAP()

    def separable(self, fitted: Fitted) -> SeparableProblem:
        """Samples for trial shapes, with the weights and base columns of a fit."""
        width = sum(len(f.columns) + 1 for f in fitted.factors.total)
        batches = tuple(self.within_memory(fitted, width))
        names, weights = base_names(fitted.estimate), np.asarray(fitted.estimate.weights)
        return SeparableProblem(fitted.assembly, fitted.factors, weights, names, batches, self.threads)

    def within_memory(self, fitted: Fitted, width: int) -> Iterable[Samples]:
        """The batches, or the share of each block of time whose equations take LINE_BYTES.

        `width` is the number of columns of all groups of equations together.
        """
        most = max(factor.count for factor in fitted.factors.total)
        part = LINE_BYTES / max(8.0 * width * most, 1.0)
        if part >= 1.0:
            return self.batches
        margin = fitted.assembly.parallel.margin + SPARE
        return thinned(self.batches, part, fitted.assembly.blocks, margin, self.share)

    def can_compare(self, fitted: Fitted) -> bool:
        """Whether there are enough blocks to compare models."""
        return len(fitted.factors.blocks) >= LEAST_TO_COMPARE and can_hold_out(fitted.factors)


def base_names(estimate: Estimate) -> tuple[str, ...]:
    """Names of the columns that count."""
    return tuple(estimate.columns[i].name for i in estimate.base.independent)

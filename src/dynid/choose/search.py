"""What searches for a model work with: fits of fixed models, and the samples to try others on."""

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

# What is kept of a search for shapes and of a comparison of friction models.


@dataclass(frozen=True)
class ShapeEstimate:
    """A nonlinear parameter of one joint.

    name: shape and number of the joint, "velocity5".    std: nan where the data do not determine it.
    lower, upper: bounds of the search.    note: "" or why the value is doubtful.
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
    """How one form of friction did on blocks that it was not fitted on.

    parameters: linear and nonlinear ones of the joint.
    relative: held-out error over torque, both RMS, of all joints, each weighted by its own residual.
    gain: held-out mean square error less than that of the first candidate, as a share of the latter.
    gain_std: its standard error over blocks.    earned: whether the gain exceeds one standard error.
    """

    name: str
    parameters: int
    relative: float
    gain: float
    gain_std: float
    earned: bool


@dataclass(frozen=True)
class Choice:
    """Candidates for one joint, the simplest first, and the one chosen by the rule of one standard error.

    subject: "friction", or the term of the model whose worth was looked at (it stays in the model whatever comes out).
    """

    joint: str
    subject: str
    candidates: tuple[FormScore, ...]
    chosen: str

    @property
    def winner(self) -> FormScore:
        """The chosen candidate."""
        return next(one for one in self.candidates if one.name == self.chosen)


# Terms whose shapes are open: as they are before a search, on some joints, and put together again.


def is_open(terms: Terms) -> bool:
    """Whether a model has a choice to make, a load or a shape to estimate."""
    return any(has_open_choice(term) for term in terms)


def nominal(terms: Terms, robot: RobotModel) -> Terms:
    """Terms with baseline friction and typical shapes, to start from."""
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
        rows = [shape_table(m, robot)[0] for m in (members[i] for i in order) if isinstance(m, CurveTerm)]
        return with_shape_table(whole, np.array(rows))
    return whole


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
    prior: of the final fit, or the default one where that has none.
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

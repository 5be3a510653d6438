"""Interface of estimators: from the factors of a log to values with covariance and status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.numerics import student_quantile
from dynid.base.records import Overview, dataclass, listed
from dynid.factor.base import BaseMap, Category
from dynid.factor.factor import Factors
from dynid.terms.exports import Column


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive equations of one segment, in the form used to build factors.

    Attributes
    ----------
    segment : int
        Segment.
    times : tuple of ndarray, shape (T_g,), s
        Times by group.
    columns : tuple of ndarray, shape (w_g,)
        Indices of the parameters by group.
    panels : tuple of ndarray, shape (w_g + 1, T_g)
        One line per column by group, the target last.

    """

    segment: int
    times: tuple[Float, ...]
    columns: tuple[Int, ...]
    panels: tuple[Float, ...]


class Source(Protocol):
    """Interface for methods that need single equations; dynid.estimate.source.LogSource also simulates."""

    def pieces(self, wanted: Bool) -> Iterator[Piece]:
        """All equations of the log in order, with the wanted columns (mask over all parameters)."""
        ...

    def column_noise(
        self, wanted: Bool, position: float | Sequence[float] | None = None
    ) -> tuple[Float, ...] | None:
        """Covariance per group of the errors in the regressor columns that are caused by motion noise.

        `wanted` (p,): columns; `position`: standard deviation of position noise, one number or one per joint; None =
        from the log. Result: covariances; None if there is no noise, or none is known, (w_g, w_g).
        """
        ...


@dataclass(frozen=True, eq=False)
class Regression:
    """Input of an estimator.

    Attributes
    ----------
    columns : tuple of Column
        All p parameters.
    base : BaseMap
        Map to the b base parameters that the data determine.
    factors : Factors
        Factors of the log; their columns are a subset of `base.independent`.
    spread : ndarray, shape (p,)
        Plausible deviation of a parameter from its prior, > 0.
    source : Source, optional
        Source of the factors, for methods that need single equations; None = factors only.
    value_only : bool
        Whether only the value of the estimate is used, as for held-out blocks: its covariance may then be the textbook
        one, and its shares empty.
    guessed : ndarray, shape (p,), optional
        Likely values of links without the robot file's; None = the priors of the columns.
    extent : ndarray, shape (n_bodies,), m, optional
        Extent of every link; None = the typical length of the robot.

    """

    columns: tuple[Column, ...]
    base: BaseMap
    factors: Factors
    spread: Float
    source: Source | None = None
    value_only: bool = False
    guessed: Float | None = None
    extent: Float | None = None

    @property
    def prior(self) -> Float:
        """Prior values (p,), 0 where unknown."""
        prior = np.array([column.prior for column in self.columns])
        return np.where(np.isnan(prior), 0.0, prior)


@dataclass(frozen=True)
class Status:
    """Whether a fit can be used as it is, and if not, what to try."""

    ok: bool
    text: str


@dataclass(frozen=True, eq=False)
class Estimate:
    """Base parameters with their uncertainty, and the full parameters closest to the prior.

    Attributes
    ----------
    method : str
        Name of the method.
    columns : tuple of Column
        All p parameters.
    base : BaseMap
        Map to the b base parameters.
    group_names : tuple of str
        Names of the g groups of equations.
    value : ndarray, shape (b,)
        Base parameters.
    covariance : ndarray, shape (b, b)
        Covariance that holds with autocorrelated residuals, see uncertainty.Intervals.
    textbook_covariance : ndarray, shape (b, b)
        Covariance for independent residuals: too small on filtered data, for comparison only.
    degrees_of_freedom : float
        Degrees of freedom of the intervals (number of blocks - 1).
    sigma : ndarray, shape (g,)
        Residual standard deviation by group.
    weights : ndarray, shape (g,)
        Weights of the groups.
    parameters : ndarray, shape (p,)
        One choice of full parameters with these base parameters.
    block_leverage : ndarray, shape (blocks,)
        Share of the information in each block; their sum is 1.
    count : int
        Number of equations.
    status : Status
        Whether the fit can be used.
    prior_share : ndarray, shape (b,)
        Share of each value that the prior determines: 0 = data only, 1 = prior only.
    prior_strength : float
        Factor on the precision of that prior; of `ridge` and of runs before it had units, in variances of one equation.
    consistent : ndarray, shape (p,)
        Best-predicting physically consistent parameters, if `parameters` are not consistent and predict much better;
        empty = no such alternative.
    link_widths : ndarray, shape (links, 4)
        Standard deviations of the prior of each link as the fit used it: of the logarithm of the mass, of the centre of
        mass (m), of the logarithm of the inertia about it, and of the logarithm of the common scale of guessed masses,
        0 for described ones. Empty for methods without such a prior.

    """

    method: str
    columns: tuple[Column, ...]
    base: BaseMap
    group_names: tuple[str, ...]
    value: Float
    covariance: Float
    textbook_covariance: Float
    degrees_of_freedom: float
    sigma: Float
    weights: Float
    parameters: Float
    block_leverage: Float
    count: int
    status: Status
    prior_share: Float = field(default_factory=lambda: np.zeros(0))
    prior_strength: float = 1.0
    consistent: Float = field(default_factory=lambda: np.zeros(0))
    link_widths: Float = field(default_factory=lambda: np.zeros((0, 4)))

    def __post_init__(self) -> None:
        b, p, g = self.base.rank, len(self.columns), len(self.group_names)
        if not len(self.prior_share):
            object.__setattr__(self, "prior_share", np.zeros(b))
        for name, shape in (
            ("value", (b,)),
            ("covariance", (b, b)),
            ("textbook_covariance", (b, b)),
            ("sigma", (g,)),
            ("weights", (g,)),
            ("parameters", (p,)),
            ("block_leverage", (None,)),
            ("prior_share", (b,)),
            ("consistent", (len(self.consistent) and p,)),
            ("link_widths", (None, 4)),
        ):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    def overview(self) -> Overview:
        """Summary for display: method, size, and the base parameters with their 95 % intervals."""
        half = self.half_width()
        rows = tuple(
            (name, f"{value:.4g}", f"{wide:.2g}", unit)
            for name, value, wide, unit in zip(self.names, self.value, half, self.units, strict=True)
        )
        return Overview(
            f"Estimate by '{self.method}': {self.base.rank} base parameters from {self.count} equations",
            (
                ("status", self.status.text or ("ok" if self.status.ok else "do not use")),
                ("parameters", listed([column.name for column in self.columns], 12)),
                ("residual deviation", listed([f"{name} {sigma:.3g}" for name, sigma in zip(
                    self.group_names, self.sigma, strict=True
                )])),
            ),
            ("base parameter", "value", "95 % half width", "unit"),
            rows,
        )  # fmt: skip

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()

    @property
    def names(self) -> tuple[str, ...]:
        """Formulas of the base parameters, (b,)."""
        return self.base.formulas()

    @property
    def weakly_informed(self) -> Float:
        """Share (b,) of each value that a prior with the weight of one equation would determine.

        It is high with few data. From the share p of a stronger prior, p / (p + (1 - p) strength), as for a single
        parameter.
        """
        p, strength = self.prior_share, max(self.prior_strength, 1.0)
        return np.asarray(p / np.maximum(p + (1.0 - p) * strength, np.finfo(np.float64).tiny))

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the base parameters, (b,)."""
        return tuple(self.columns[i].unit for i in self.base.independent)

    @cached_property
    def std(self) -> Float:
        """(b,) standard deviations from `covariance`."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def textbook_std(self) -> Float:
        """(b,) standard deviations from `textbook_covariance`."""
        return np.sqrt(np.diag(self.textbook_covariance))

    @property
    def relative_std(self) -> Float:
        """Relative standard deviation std / |value|, (b,); infinite for a value of exactly zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.value != 0, self.std / np.abs(self.value), np.inf)

    def quantile(self, level: float = 0.95) -> float:
        """Quantile of Student's t for a two-sided interval: half widths are this number of standard deviations."""
        return student_quantile(float(self.degrees_of_freedom), 0.5 + level / 2)

    def half_width(self, level: float = 0.95) -> Float:
        """Half width (b,) of the two-sided interval value +- t std, by Student's t."""
        return self.quantile(level) * self.std

    @property
    def full_vector(self) -> Float:
        """Base values on the independent columns, zero elsewhere, (p,); same torque as `parameters` in the fit."""
        theta = np.zeros(len(self.columns))
        theta[self.base.independent] = self.value
        return theta


class Estimator(Protocol):
    """Interface of an estimator: a name and one method."""

    @property
    def name(self) -> str:
        """Name of the method."""
        ...

    def fit(self, regression: Regression) -> Estimate:
        """Estimate the base parameters; raises UnfitDataError if there are too few equations."""
        ...


def require_enough(regression: Regression) -> None:
    """Raise UnfitDataError unless there are two equations per base parameter and at least three blocks."""
    factors, b = regression.factors, regression.base.rank
    if factors.count < 2 * b:
        raise UnfitDataError(
            "too-few-samples",
            found=f"{factors.count} equations for {b} base parameters",
            expected=f"at least {2 * b}",
            do="record a longer motion or decimate less",
        )
    if len(factors.blocks) < 3:
        raise UnfitDataError(
            "too-few-blocks",
            found=f"{len(factors.blocks)} block(s) of data",
            expected="at least 3, which confidence intervals need",
            do="record a longer motion or shorten the blocks",
        )


def check_iteration(rounds: int, tolerance: float) -> None:
    """Raise UsageError for an iteration without a round, or with a tolerance that is not positive."""
    if not (rounds >= 1 and tolerance > 0):
        raise UsageError(
            "iteration",
            found=f"rounds = {rounds}, tolerance = {tolerance}",
            expected="at least 1 round and a tolerance > 0",
        )


# Verdict on each parameter: identified, negligible, weak, in combination only, from the prior.

# 95 % half width over |value| up to which a parameter is identified.
PRECISE = 0.2
# Share of the torque below which a parameter is negligible.
NEGLIGIBLE = 0.01
# Share from which on a value counts as determined by the prior.
PRIOR_DECIDES = 0.5


class Word(StrEnum):
    """Verdict on one base parameter."""

    IDENTIFIED = "identified"
    NEGLIGIBLE = "negligible"
    WEAK = "weak"
    PRIOR = "from the prior"


class Standing(StrEnum):
    """Origin of the value of one full parameter."""

    IDENTIFIED = "identified"
    WEAK = "weak"
    COMBINATION = "only in combination"
    PRIOR = "from the prior"
    NOT_IDENTIFIABLE = "not identifiable"


class Known(StrEnum):
    """Precision of a value that the data determine on their own."""

    WELL = "well known"
    ROUGHLY = "roughly known"
    ZERO = "may be zero"


def how_well(value: float, half_width: float) -> Known:
    """Well known: the 95 % half width is at most 20 % of |value|; may be zero: the interval contains zero."""
    if half_width <= PRECISE * abs(value) and value != 0:
        return Known.WELL
    return Known.ROUGHLY if half_width < abs(value) else Known.ZERO


@dataclass(frozen=True)
class ParameterVerdict:
    """Verdict with its reasons.

    Attributes
    ----------
    word : Word
        Verdict.
    half_width : float, unit of the parameter
        Half width of the 95 % interval.
    relative : float
        half_width / |value|.
    contribution : float
        Greatest share of a group's torque due to the parameter, at the upper end of its interval.
    group : str
        That group; "" if no group with torque contains the parameter (contribution nan).

    """

    word: Word
    half_width: float
    relative: float
    contribution: float
    group: str


def base_verdicts(estimate: Estimate, factors: Factors) -> tuple[ParameterVerdict, ...]:
    """Verdict on every base parameter.

    identified: the 95 % half width is at most 20 % of |value|. negligible: (|value| + half width) rms(column) is less
    than 1 % of the torque rms of every group. from the prior: a pull towards the prior decides more than half of the
    value. weak: none of these. rms(column) is ||R[:, column]|| / sqrt(count).

    Parameters
    ----------
    estimate : Estimate
        Estimate.
    factors : Factors
        Factors that were fitted.

    Returns
    -------
    tuple of ParameterVerdict, length b
        Verdicts.

    """
    share, best = _largest_share(factors)
    verdicts = []
    for index, value, half, pulled in zip(
        estimate.base.independent,
        np.abs(estimate.value),
        estimate.half_width(),
        estimate.prior_share,
        strict=True,
    ):
        relative = float(half / value) if value > 0 else np.inf
        contribution = float((value + half) * share[index])
        group = factors.group_names[best[index]] if np.isfinite(share[index]) else ""
        word = Word.PRIOR if pulled > PRIOR_DECIDES else _word(relative, contribution)
        verdicts.append(ParameterVerdict(word, float(half), relative, contribution, group))
    return tuple(verdicts)


@dataclass(frozen=True)
class FullVerdict:
    """Verdict on the value of one full parameter.

    Attributes
    ----------
    standing : Standing
        Origin of the value.
    std : float
        Standard deviation; nan unless the data determine the parameter on their own.
    combination : tuple of str
        Base parameters that contain it, as formulas.
    known : Known, optional
        Precision; None unless the data determine the parameter on their own.

    """

    standing: Standing
    std: float
    combination: tuple[str, ...]
    known: Known | None = None


def full_verdicts(estimate: Estimate, factors: Factors) -> tuple[FullVerdict, ...]:
    """Verdict on every full parameter.

    identified or weak: the data determine it alone, well or badly (negligible ones count as identified). only in
    combination: the data determine sums that contain it, and the prior determines how a sum is divided. from
    the prior: the data contain no information on it, and its value comes from the prior. not identifiable:
    neither data nor prior.

    Parameters
    ----------
    estimate : Estimate
        Estimate.
    factors : Factors
        Factors that were fitted.

    Returns
    -------
    tuple of FullVerdict, length p
        Verdicts.

    """
    base, formulas = estimate.base, estimate.names
    words = dict(zip(base.independent.tolist(), base_verdicts(estimate, factors), strict=True))
    std = dict(zip(base.independent.tolist(), estimate.std.tolist(), strict=True))
    half = dict(zip(base.independent.tolist(), estimate.half_width().tolist(), strict=True))
    value = dict(zip(base.independent.tolist(), estimate.value.tolist(), strict=True))
    verdicts = []
    for j, (column, category) in enumerate(zip(estimate.columns, base.categories(), strict=True)):
        members = tuple(formulas[i] for i in np.flatnonzero(base.B[:, j]))
        if category is Category.NOT_IDENTIFIABLE:
            known = np.isfinite(column.prior)
            verdicts.append(FullVerdict(Standing.PRIOR if known else Standing.NOT_IDENTIFIABLE, np.nan, ()))
        elif category is Category.COMBINATION:
            verdicts.append(FullVerdict(Standing.COMBINATION, np.nan, members))
        else:
            verdicts.append(
                FullVerdict(_standing(words[j].word), std[j], members, how_well(value[j], half[j]))
            )
    return tuple(verdicts)


def _standing(word: Word) -> Standing:
    if word is Word.PRIOR:
        return Standing.PRIOR
    return Standing.WEAK if word is Word.WEAK else Standing.IDENTIFIED


def _word(relative: float, contribution: float) -> Word:
    if relative <= PRECISE:
        return Word.IDENTIFIED
    return Word.NEGLIGIBLE if contribution < NEGLIGIBLE else Word.WEAK


def _largest_share(factors: Factors) -> tuple[Float, list[int]]:
    # Norm of each column over that of the torque, greatest over the groups (p,), and that group.
    share = np.full(factors.parameter_count, np.nan)
    best = [-1] * factors.parameter_count
    for group, factor in enumerate(factors.total):
        torque = np.sqrt(factor.target_square)
        if not torque > 0:
            continue
        norms = np.linalg.norm(factor.R[:, :-1], axis=0) / torque
        for column, norm in zip(factor.columns, norms, strict=True):
            if not norm <= share[column]:
                share[column], best[column] = norm, group
    return share, best

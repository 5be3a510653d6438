"""The seam for estimators: from the factors of a log to values with covariance and status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.distributions import student_quantile
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.overview import Overview, listed
from dynid.base.records import dataclass
from dynid.factor.base import BaseMap
from dynid.factor.factor import Factors
from dynid.terms.term import Column


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive equations of one segment, as they go into factors.

    times: by group, (T_g,) s.    columns: by group, (w_g,) indices of the parameters.
    panels: by group, (w_g + 1, T_g): a line a column, the target last.
    """

    segment: int
    times: tuple[Float, ...]
    columns: tuple[Int, ...]
    panels: tuple[Float, ...]


class Source(Protocol):
    """The seam for methods that look at the equations one by one; dynid.estimate.source.LogSource also simulates."""

    def pieces(self, wanted: Bool) -> Iterator[Piece]:
        """All equations of the log in their order, with the wanted columns (mask over all parameters)."""
        ...

    def column_noise(
        self, wanted: Bool, position: float | Sequence[float] | None = None
    ) -> tuple[Float, ...] | None:
        """By group, the covariance (w_g, w_g) of the errors that noise of the motion makes in one equation's columns.

        position: standard deviation of the positions' noise, one number or one a joint; None = from the log.
        Returns None where there is none, or none is known.
        """
        ...


@dataclass(frozen=True, eq=False)
class Regression:
    """What an estimator works on.

    columns: all p parameters.    base: map to the b base parameters that the data can determine.
    factors: of the log; their columns are a subset of `base.independent`.
    spread: (p,) > 0, by how much a parameter may plausibly differ from its prior.
    source: what the factors were made of, for methods that need more than factors; None = nothing more is known.
    value_only: nothing but the value of the estimate is read, as of held-out blocks: its covariance may be the
        textbook one and its shares empty.
    likely: (p,) priors with likely bodies in place of unknown ones; None = the priors of the columns.
    """

    columns: tuple[Column, ...]
    base: BaseMap
    factors: Factors
    spread: Float
    source: Source | None = None
    value_only: bool = False
    likely: Float | None = None

    @property
    def guess(self) -> Float:
        """(p,) `likely`; nan where nothing is known."""
        if self.likely is not None:
            return self.likely
        return np.array([column.prior for column in self.columns])

    @property
    def prior(self) -> Float:
        """(p,) prior values, 0 where unknown."""
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

    value: (b,).    covariance: (b, b), valid under autocorrelated residuals (see uncertainty.Intervals).
    textbook_covariance: (b, b), as if residuals were independent: too small on filtered data, for comparison
        only.
    degrees_of_freedom: of the intervals (number of blocks - 1).
    sigma: (g,) residual standard deviation by group.    weights: (g,) used.
    parameters: (p,) one choice of full parameters with these base parameters.
    block_leverage: (blocks,) share of the information that each block brings; their sum is 1.
    prior_share: (b,) how much of each value the prior decides, 0 = the data alone, 1 = the prior alone.
    prior_strength: of that prior, in variances of one equation.    mass_share: of its masses, see FeasibleFit.
    consistent: (p,) the physically consistent parameters that predict best, where `parameters` are not consistent and
        predict much better; empty = `parameters` are those.
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
    mass_share: float = 0.0
    consistent: Float = field(default_factory=lambda: np.zeros(0))

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
        ):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    def overview(self) -> Overview:
        """What is shown of the estimate: method, size, and the base parameters with their 95 % intervals."""
        half = self.half_width()
        rows = tuple(
            (name, f"{value:.4g}", f"{wide:.2g}", unit)
            for name, value, wide, unit in zip(self.names, self.value, half, self.units, strict=True)
        )
        return Overview(
            f"Estimate by '{self.method}': {self.base.rank} base parameters from {self.count} equations",
            (
                ("status", self.status.text or ("ok" if self.status.ok else "not to be used")),
                ("parameters", listed([column.name for column in self.columns], 12)),
                ("residual deviation", listed([f"{name} {one:.3g}" for name, one in zip(
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
        """Base parameters written as formulas, (b,)."""
        return self.base.formulas()

    @property
    def weakly_informed(self) -> Float:
        """(b,) how much a prior that weighs as much as one equation would decide: what the log says little of.

        From the share p of a stronger one, p / (p + (1 - p) strength), as for a single parameter.
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
        """(b,) std / |value|; infinite for a value of exactly zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.value != 0, self.std / np.abs(self.value), np.inf)

    def quantile(self, level: float = 0.95) -> float:
        """Student's t of a two-sided interval: half widths are so many standard deviations."""
        return student_quantile(float(self.degrees_of_freedom), 0.5 + level / 2)

    def half_width(self, level: float = 0.95) -> Float:
        """(b,) half width of the two-sided interval value +- t std, by Student's t."""
        return self.quantile(level) * self.std

    @property
    def full_vector(self) -> Float:
        """(p,) base values on the independent columns, zero elsewhere; Y theta as of `parameters` in the fit."""
        theta = np.zeros(len(self.columns))
        theta[self.base.independent] = self.value
        return theta


class Estimator(Protocol):
    """The seam for methods of estimation: a name and one method."""

    @property
    def name(self) -> str:
        """Name of the method."""
        ...

    def fit(self, regression: Regression) -> Estimate:
        """Estimates the base parameters; raises UnfitDataError when there are too few equations."""
        ...


def require_enough(regression: Regression) -> None:
    """Raises UnfitDataError unless there are two equations a base parameter and at least three blocks."""
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
            expected="at least 3, or intervals mean nothing",
            do="record a longer motion or shorten the blocks",
        )


def check_iteration(rounds: int, tolerance: float) -> None:
    """Raises UsageError for an iteration without a round, or with a tolerance that is not positive."""
    if not (rounds >= 1 and tolerance > 0):
        raise UsageError(
            "iteration",
            found=f"rounds = {rounds}, tolerance = {tolerance}",
            expected="at least 1 round and a tolerance > 0",
        )

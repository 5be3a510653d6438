"""Least squares on factors: ordinary, weighted by joint, and drawn towards the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular

from dynid.base.arrays import Float
from dynid.base.options import check_options
from dynid.estimate.blocks import BlockScores
from dynid.estimate.estimator import Estimate, Regression, Status, require_enough
from dynid.estimate.options import interval_kind, last_move, most_rounds, prior_strength
from dynid.estimate.uncertainty import covariance_of
from dynid.factor.factor import Factors, group_scale, stack
from dynid.kernel import qr_panel


@dataclass(frozen=True)
class OLS:
    """Ordinary least squares, min sum ||y - W beta||^2: every equation counts alike.

    intervals: how the covariance is found, see dynid.estimate.uncertainty.Intervals.
    """

    intervals: str = interval_kind()
    name: str = "ols"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Solves once with unit weights."""
        require_enough(regression)
        weights = np.ones(len(regression.factors.group_names))
        value, R = solve(regression, weights, None)
        sigma = residual_sigma(regression, value)
        residual_square = sum(
            f.residual_square(full_vector(regression, value)) for f in regression.factors.total
        )
        noise = residual_square / max(regression.factors.count - regression.base.rank, 1)
        return completed(
            self, regression, value, R, weights, sigma, noise, None, Status(True, "solved exactly")
        )


@dataclass(frozen=True)
class WLS:
    """Weighted least squares, weights 1/sigma_j^2 from each joint's own residuals, iterated to a fixed point.

    rounds: greatest number of re-weightings.
    tolerance: greatest relative change of a sigma at the fixed point.
    intervals: how the covariance is found, see dynid.estimate.uncertainty.Intervals.
    Source: Gautier 1997; Madsen et al. 2020 eq. 20, with the weights' power corrected to 1/sigma^2.
    """

    rounds: int = most_rounds(30)
    tolerance: float = last_move(1e-4)
    intervals: str = interval_kind()
    name: str = "wls"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Alternates between solving and re-weighting."""
        require_enough(regression)
        value, R, weights, sigma, status = _reweighted(regression, self.rounds, self.tolerance, None)
        return completed(self, regression, value, R, weights, sigma, 1.0, None, status)


@dataclass(frozen=True)
class Ridge:
    """Weighted least squares drawn towards the prior: adds strength ||(theta - prior)/spread||^2.

    strength: 1 means that a deviation by one spread costs as much as one standard deviation of one equation.
    The minimum over the directions without effect is taken exactly, which leaves a penalty on base parameters
    alone: strength (beta - B prior)' (B S^2 B')^-1 (beta - B prior), S = diag(spread).
    intervals: how the covariance is found, see dynid.estimate.uncertainty.Intervals.
    """

    strength: float = prior_strength(1.0)
    rounds: int = most_rounds(30)
    tolerance: float = last_move(1e-4)
    intervals: str = interval_kind()
    name: str = "ridge"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Alternates between solving with the penalty and re-weighting."""
        require_enough(regression)
        penalty = self._penalty(regression)
        value, R, weights, sigma, status = _reweighted(regression, self.rounds, self.tolerance, penalty)
        return completed(self, regression, value, R, weights, sigma, 1.0, penalty, status)

    def _penalty(self, regression: Regression) -> Float:
        BS = regression.base.B * regression.spread
        L = np.linalg.cholesky(BS @ BS.T)
        rows = solve_triangular(L, np.eye(len(L)), lower=True) * np.sqrt(self.strength)
        target = rows @ regression.base.reduce(regression.prior)
        return np.column_stack([rows, target])


def residual_sigma(regression: Regression, value: Float) -> Float:
    """Residual standard deviation of every group, (g,), with count - columns degrees of freedom."""
    theta = full_vector(regression, value)
    total = regression.factors.total
    floor = np.finfo(np.float64).eps
    sigma = []
    for factor, weight in zip(total, group_scale(total), strict=True):
        freedom = max(factor.count - len(factor.columns), 1)
        sigma.append(max(np.sqrt(factor.residual_square(theta) / freedom), floor / np.sqrt(weight)))
    return np.array(sigma)


def _reweighted(
    regression: Regression, rounds: int, tolerance: float, penalty: Float | None
) -> tuple[Float, Float, Float, Float, Status]:
    weights = group_scale(regression.factors.total)
    value, R = solve(regression, weights, penalty)
    sigma = residual_sigma(regression, value)
    change = np.inf
    for _ in range(rounds):
        weights = 1.0 / sigma**2
        value, R = solve(regression, weights, penalty)
        new = residual_sigma(regression, value)
        change = float(np.max(np.abs(new / sigma - 1.0)))
        sigma = new
        if change < tolerance:
            return value, R, weights, sigma, Status(True, "weights converged")
    return value, R, weights, sigma, Status(
        False,
        f"the joints' weights still change by {100 * change:.2g} % after {rounds} rounds: raise rounds; "
        "if that does not help, a joint may be fitted without any residual: record longer, or use 'ols'",
    )  # fmt: skip


def solve(regression: Regression, weights: Float, penalty: Float | None = None) -> tuple[Float, Float]:
    """Base values (b,) of least squares with weights (g,) of the groups, and the triangle R (b, b) they come from.

    penalty: (rows, b + 1) further equations, target last.
    """
    R = stack(regression.factors.total, regression.base.independent, weights)
    if penalty is not None:
        R = qr_panel(np.ascontiguousarray(np.concatenate([R, penalty]).T))
    b = regression.base.rank
    value = solve_triangular(R[:b, :b], R[:b, b])
    return value, R[:b, :b]


def full_vector(regression: Regression, value: Float) -> Float:
    """(p,) base values (b,) on the independent columns, zero elsewhere."""
    theta = np.zeros(len(regression.columns))
    theta[regression.base.independent] = value
    return theta


class Method(Protocol):
    """An estimator that says how its intervals are found."""

    @property
    def name(self) -> str:
        """Name of the method."""
        ...

    @property
    def intervals(self) -> str:
        """See dynid.estimate.uncertainty.Intervals."""
        ...


def completed(
    method: Method,
    regression: Regression,
    value: Float,
    R: Float,
    weights: Float,
    sigma: Float,
    noise: float,
    penalty: Float | None,
    status: Status,
    factors: Factors | None = None,
) -> Estimate:
    """The estimate with its covariance, by the block jackknife of the equations that were solved.

    value: (b,).    R: (b, b) triangle of the weighted equations.    weights, sigma: (g,).
    noise: variance of an equation of weight 1.    penalty: (rows, b + 1) that `solve` was given.
    factors: the equations that were solved, weights applied, where they are not those of the regression.
    """
    base = regression.base
    solved = regression.factors if factors is None else factors
    own = weights if factors is None else np.ones(len(solved.group_names))
    inverse = solve_triangular(R, np.eye(base.rank))
    textbook = noise * (inverse @ inverse.T)
    covariance, leverage = textbook, np.zeros(len(regression.factors.blocks))
    if not regression.value_only:
        blocks = BlockScores.of(solved, base.independent, full_vector(regression, value), inverse, own)
        covariance, leverage = covariance_of(method.intervals, blocks), blocks.leverage()
    prior_share = np.zeros(base.rank)
    if penalty is not None:
        pull = inverse @ (penalty[:, :-1] @ inverse).T
        covariance = covariance + pull @ pull.T
        prior_share = np.clip(np.sum(pull * penalty[:, :-1].T, axis=1), 0.0, 1.0)
        status = Status(
            status.ok, status.text + "; drawn towards the prior, so intervals include the prior's spread"
        )
    return Estimate(
        method=method.name,
        columns=regression.columns,
        base=base,
        group_names=regression.factors.group_names,
        value=value,
        covariance=covariance,
        textbook_covariance=textbook,
        degrees_of_freedom=float(len(regression.factors.blocks) - 1),
        sigma=sigma,
        weights=weights,
        parameters=base.lift(value, regression.prior, regression.spread),
        block_leverage=leverage,
        count=regression.factors.count,
        status=status,
        prior_share=prior_share,
    )

"""Least squares on factors: ordinary, weighted per joint, and pulled towards the prior."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.options import check_options
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status, check_iteration, require_enough
from dynid.estimate.uncertainty import (
    BlockScores,
    block_jackknife,
    covariance_of,
    interval_kind,
    last_move,
    most_rounds,
    prior_strength,
)
from dynid.factor.factor import Factor, Factors, group_scale, stack
from dynid.kernel import qr_panel, solve_triangular

# Shares of a joint's torque tried as model error, so that no residual exceeds GROWTH times that with weights from
# torque. Both differ by a few percent for a right model, by 1.2 at most on logs of real arms. Residuals below MATTERS
# of the torque need no bound.
MODEL_ERRORS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
GROWTH, MATTERS = 1.5, 0.1
# Greatest relative change of a squared residual after the iteration of weights.
SETTLED = 1e-2
# Independent share of a column's length that is rounding.
DEPENDENT = 1e-12


@dataclass(frozen=True)
class OLS:
    """Ordinary least squares, min sum ||y - W beta||^2: all equations have the same weight.

    Parameters
    ----------
    intervals : str
        Method of the covariance, see dynid.estimate.uncertainty.Intervals.

    """

    intervals: str = interval_kind()
    name: str = "ols"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Solve once with unit weights."""
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
    """Weighted least squares with weights 1/sigma_j^2 from each joint's own residuals, iterated to a fixed point.

    If a joint would lose its weight (see `_reweighted`), weights are 1/(sigma_j^2 + floor_j^2).

    Parameters
    ----------
    rounds : int
        Greatest number of re-weightings.
    tolerance : float
        Greatest relative change of a sigma at the fixed point.
    intervals : str
        Method of the covariance, see dynid.estimate.uncertainty.Intervals.

    References
    ----------
    Gautier 1997; Madsen et al. 2020, eq. 20, with the power of the weights corrected to 1/sigma^2.

    """

    rounds: int = most_rounds(30)
    tolerance: float = last_move(1e-4)
    intervals: str = interval_kind()
    name: str = "wls"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between solving and re-weighting."""
        require_enough(regression)
        value, R, weights, sigma, status = _reweighted(regression, self.rounds, self.tolerance, None)
        return completed(self, regression, value, R, weights, sigma, 1.0, None, status)


@dataclass(frozen=True)
class Ridge:
    """Weighted least squares pulled towards the prior: adds strength ||(theta - prior)/spread||^2.

    Parameters without a prior stay free: their deviation from zero has weight 1 at most. The minimum over directions
    without effect is exact and leaves a penalty on base parameters, strength (beta - B prior)' (B S^2 B')^-1 (beta - B
    prior), S = diag(spread).

    Parameters
    ----------
    strength : float
        With 1, a deviation from the prior by one `spread` has the same cost as a residual of one standard
        deviation in one equation.
    rounds : int
        Greatest number of re-weightings.
    tolerance : float
        Greatest relative change of a sigma at the fixed point.
    intervals : str
        Method of the covariance, see dynid.estimate.uncertainty.Intervals.

    """

    strength: float = prior_strength(1.0)
    rounds: int = most_rounds(30)
    tolerance: float = last_move(1e-4)
    intervals: str = interval_kind()
    name: str = "ridge"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between solving with the penalty and re-weighting."""
        require_enough(regression)
        penalty = self._penalty(regression)
        value, R, weights, sigma, status = _reweighted(regression, self.rounds, self.tolerance, penalty)
        return completed(self, regression, value, R, weights, sigma, 1.0, penalty, status)

    def _penalty(self, regression: Regression) -> Float:
        known = np.array([np.isfinite(column.prior) for column in regression.columns])
        pull = np.where(known, self.strength, min(self.strength, 1.0))
        BS = regression.base.B * regression.spread / np.sqrt(pull)
        L = np.linalg.cholesky(BS @ BS.T)
        rows = solve_triangular(L, np.eye(len(L)), lower=True)
        target = rows @ regression.base.reduce(regression.prior)
        return np.column_stack([rows, target])


def residual_sigma(regression: Regression, value: Float) -> Float:
    """Residual standard deviation (g,) of every group, with count - columns degrees of freedom."""
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
    """Iterated weights 1/(sigma_j^2 + floor_j^2); the floor is zero unless a joint suffers from the weight of another.

    If the model is wrong, a joint with a large error loses weight, is fitted worse for it and loses more. The floor is
    the least share of each joint's torque, taken as model error, with which no error is GROWTH times that with weights
    from torque.
    """
    scale = group_scale(regression.factors.total)
    value, R = solve(regression, scale, penalty)
    first = residual_sigma(regression, value)
    unbounded = ""
    for share in MODEL_ERRORS:
        floor = share / np.sqrt(scale)
        result = _iterated(regression, rounds, tolerance, penalty, first, floor)
        sigma, status = result[-2:]
        grown = np.where(sigma * np.sqrt(scale) > MATTERS, sigma / first, 0.0)
        worst = int(np.argmax(grown))
        if grown[worst] <= GROWTH:
            break
        unbounded = (
            unbounded
            or f"raise the error of '{regression.factors.group_names[worst]}' by {100 * (grown[worst] - 1):.2g} %"
        )
    else:
        return (
            value,
            R,
            scale,
            first,
            Status(True, f"weights from torque only: weights from residuals {unbounded}"),
        )
    if unbounded:
        bound = f"bounded by a model error of {100 * share:.2g} % of each joint's torque"
        text = f"{bound}: without it they {unbounded}"
        result = (*result[:-1], Status(status.ok, f"{status.text}, {text}"))
    return result


def weight_floor(weights: Float, sigma: Float) -> Float:
    """Floor (g,) in weights 1/(sigma^2 + floor^2) of residuals sigma, 0 where they are 1/sigma^2."""
    square = 1.0 / weights - sigma**2
    return np.asarray(np.sqrt(np.where(square > SETTLED * sigma**2, square, 0.0)))


def _iterated(
    regression: Regression, rounds: int, tolerance: float, penalty: Float | None, sigma: Float, floor: Float
) -> tuple[Float, Float, Float, Float, Status]:
    change = np.inf
    for _ in range(rounds):
        weights = 1.0 / (sigma**2 + floor**2)
        value, R = solve(regression, weights, penalty)
        new = residual_sigma(regression, value)
        change = float(np.max(np.abs(new / sigma - 1.0)))
        sigma = new
        if change < tolerance:
            return value, R, weights, sigma, Status(True, "weights converged")
    return value, R, weights, sigma, Status(
        False,
        f"weights not converged: they still change by {100 * change:.2g} % after {rounds} rounds; raise rounds, "
        "or, if a joint has no residual at all, record longer or use 'ols'",
    )  # fmt: skip


def solve(regression: Regression, weights: Float, penalty: Float | None = None) -> tuple[Float, Float]:
    """Base values of weighted least squares, and their triangle R.

    Parameters
    ----------
    regression : Regression
        Equations.
    weights : ndarray, shape (g,)
        Weights of the groups.
    penalty : ndarray, shape (rows, b + 1), optional
        Further equations, target last.

    Returns
    -------
    value : ndarray, shape (b,)
        Base values.
    R : ndarray, shape (b, b)
        Triangle.

    """
    R = stack(regression.factors.total, regression.base.independent, weights)
    if penalty is not None:
        R = qr_panel(np.ascontiguousarray(np.concatenate([R, penalty]).T))
    b = regression.base.rank
    # A part of a log may lack a column, such as friction of a joint at rest, or contain it in one posture only, where
    # it depends on another column. The parameter is then zero.
    size = np.linalg.norm(R[:, :b], axis=0)
    lacking = np.flatnonzero(np.abs(np.diag(R)[:b]) <= DEPENDENT * size)
    if len(lacking):
        zero = np.zeros((len(lacking), b + 1))
        zero[np.arange(len(lacking)), lacking] = np.where(size > 0, size, 1.0)[lacking]
        R = qr_panel(np.ascontiguousarray(np.concatenate([R, zero]).T))
    value = solve_triangular(R[:b, :b], R[:b, b])
    return value, R[:b, :b]


def full_vector(regression: Regression, value: Float) -> Float:
    """Base values (b,) on the independent columns, zero elsewhere, (p,)."""
    theta = np.zeros(len(regression.columns))
    theta[regression.base.independent] = value
    return theta


class Method(Protocol):
    """An estimator with a method of its intervals."""

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
    together: int = 1,
) -> Estimate:
    """Estimate with its covariance, by the block jackknife of the equations that were solved.

    Parameters
    ----------
    method : Method
        Estimator.
    regression : Regression
        Its input.
    value : ndarray, shape (b,)
        Base parameters.
    R : ndarray, shape (b, b)
        Triangle of the weighted equations.
    weights, sigma : ndarray, shape (g,)
        Weights and residual standard deviations of the groups.
    noise : float
        Variance of an equation of weight 1.
    penalty : ndarray, shape (rows, b + 1), optional
        Penalty that `solve` was given.
    status : Status
        Status.
    factors : Factors, optional
        Equations that were solved, with weights, if they are not those of the regression.
    together : int
        Number of neighbouring blocks that count as one in the intervals, since their residuals are correlated.

    Returns
    -------
    Estimate
        Estimate.

    """
    base = regression.base
    solved = regression.factors if factors is None else factors
    group_weights = weights if factors is None else np.ones(len(solved.group_names))
    inverse = solve_triangular(R, np.eye(base.rank))
    textbook = noise * (inverse @ inverse.T)
    covariance, leverage = textbook, np.zeros(len(regression.factors.blocks))
    freedom = float(len(regression.factors.independent()) - 1)
    if not regression.value_only:
        blocks = BlockScores.of(
            solved, base.independent, full_vector(regression, value), inverse, group_weights
        )
        leverage = blocks.leverage()
        # Model errors are the same in every repetition of a motion, so repetitions count once.
        blocks = blocks.grouped(regression.factors.independent()).joined(together)
        covariance, freedom = covariance_of(method.intervals, blocks), float(blocks.count - 1)
    prior_share = np.zeros(base.rank)
    if penalty is not None:
        pull = inverse @ (penalty[:, :-1] @ inverse).T
        covariance = covariance + pull @ pull.T
        prior_share = np.clip(np.sum(pull * penalty[:, :-1].T, axis=1), 0.0, 1.0)
        status = Status(
            status.ok, status.text + "; pulled towards the prior, whose spread is included in the intervals"
        )
    return Estimate(
        method=method.name,
        columns=regression.columns,
        base=base,
        group_names=regression.factors.group_names,
        value=value,
        covariance=covariance,
        textbook_covariance=textbook,
        degrees_of_freedom=freedom,
        sigma=sigma,
        weights=weights,
        parameters=base.lift(value, regression.prior, regression.spread),
        block_leverage=leverage,
        count=regression.factors.count,
        status=status,
        prior_share=prior_share,
    )


# Estimators with known combinations of parameters, or with further equations.

# Relative distance of a combination from the base parameters that is rounding.
REPRESENTABLE = 1e-6


@dataclass(frozen=True, eq=False)
class Given:
    """Weighted least squares with known combinations of parameters, min ||y - W beta||_Sigma with C theta = value.

    The covariance includes the covariance P of the known combinations: cov = Z cov_z Z' + J P J' with J = d beta / d
    value. Combinations that the base parameters of the log cannot express are left out, and the status counts them.

    Parameters
    ----------
    rows : ndarray, shape (c, p)
        Combinations C.
    value : ndarray, shape (c,)
        Their values.
    covariance : ndarray, shape (c, c)
        Covariance P of the values.
    rounds : int
        Greatest number of re-weightings.
    tolerance : float
        Greatest relative change of a sigma at the fixed point.

    """

    rows: Float
    value: Float
    covariance: Float
    rounds: int = 30
    tolerance: float = 1e-4
    name: str = "two_step"

    def __post_init__(self) -> None:
        check_iteration(self.rounds, self.tolerance)
        c = len(self.value)
        for name, shape in (("rows", (c, None)), ("value", (c,)), ("covariance", (c, c))):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between solving in the remaining directions and re-weighting."""
        require_enough(regression)
        if self.rows.shape[1] != len(regression.columns):
            mismatch = (
                f"combinations of {self.rows.shape[1]} parameters for a model of {len(regression.columns)}"
            )
            raise UsageError("given-columns", found=mismatch, expected="the same terms in both steps")
        known = self._representable(regression)
        C = self.rows[known][:, regression.base.independent]
        size = _column_sizes(regression)
        # In scaled coordinates x = size * beta: x = fixed value + free z.
        Q, R = np.linalg.qr((C / size).T, mode="complete")
        c = int(known.sum())
        fixed = Q[:, :c] @ solve_triangular(R[:c], np.eye(c), transposed=True) / size[:, None]
        free = Q[:, c:] / size[:, None]
        target = self.value[known]
        weights = np.array([f.count / max(f.target_square, 1e-300) for f in regression.factors.total])
        value, G, gain = _solved(regression, weights, fixed, free, target)
        sigma = residual_sigma(regression, value)
        change = np.inf
        for _ in range(self.rounds):
            weights = 1.0 / sigma**2
            value, G, gain = _solved(regression, weights, fixed, free, target)
            new = residual_sigma(regression, value)
            change = float(np.max(np.abs(new / sigma - 1.0)))
            sigma = new
            if change < self.tolerance:
                break
        inverse = free @ solve_triangular(G, np.eye(len(G)))
        theta = np.zeros(len(regression.columns))
        theta[regression.base.independent] = value
        covariance, leverage = block_jackknife(
            regression.factors, regression.base.independent, theta, inverse, weights
        )
        spread = (fixed - free @ gain) @ _root(self.covariance[np.ix_(known, known)])
        text = f"{c} combinations fixed at known values, whose covariance is included"
        if not known.all():
            text += f"; {int((~known).sum())} could not be expressed in this log's parameters"
        converged = change < self.tolerance
        return Estimate(
            method=self.name,
            columns=regression.columns,
            base=regression.base,
            group_names=regression.factors.group_names,
            value=value,
            covariance=covariance + spread @ spread.T,
            textbook_covariance=inverse @ inverse.T + spread @ spread.T,
            degrees_of_freedom=float(len(regression.factors.independent()) - 1),
            sigma=sigma,
            weights=weights,
            parameters=regression.base.lift(value, regression.prior, regression.spread),
            block_leverage=leverage,
            count=regression.factors.count,
            status=Status(
                converged,
                text
                if converged
                else text + "; weights not converged: raise rounds, or record a longer motion",
            ),
        )

    def _representable(self, regression: Regression) -> Bool:
        # A combination is used if it is one of the log's base parameters: C = C[:, independent] B.
        base = regression.base
        scale = np.where(base.scale > 0, base.scale, 1.0)
        difference = (self.rows - self.rows[:, base.independent] @ base.B) / scale
        known = np.linalg.norm(difference, axis=1) <= REPRESENTABLE * np.linalg.norm(
            self.rows / scale, axis=1
        )
        if not known.any():
            raise UnfitDataError(
                "nothing-known",
                found="known combinations that are no base parameters of this log and model",
                expected="the same robot and terms in both steps",
            )
        return np.asarray(known)


@dataclass(frozen=True, eq=False)
class Joined:
    """Weighted least squares on the equations of a log and further ones together, with a weight per group.

    Parameters
    ----------
    further : Factors
        Equations of the same parameters from elsewhere, such as static poses.
    inner : WLS
        Method.

    """

    further: Factors
    inner: WLS = field(default_factory=WLS)
    name: str = "one_shot"

    def fit(self, regression: Regression) -> Estimate:
        """Fit both; groups, leverages and degrees of freedom of the result refer to the log."""
        factors = regression.factors
        joined = side_by_side(factors, self.further.select(regression.base.mask))
        estimate = self.inner.fit(replace(regression, factors=joined))
        g, blocks = len(factors.group_names), len(factors.blocks)
        return replace(
            estimate,
            method=self.name,
            group_names=factors.group_names,
            sigma=estimate.sigma[:g],
            weights=estimate.weights[:g],
            block_leverage=estimate.block_leverage[:blocks],
            count=factors.count,
            status=Status(
                estimate.status.ok,
                f"{estimate.status.text}; fitted together with {len(self.further.blocks)} further blocks",
            ),
        )


def side_by_side(a: Factors, b: Factors) -> Factors:
    """Blocks of two sets of equations of the same parameters; each keeps its groups."""
    empty_a = tuple(Factor.empty(f.columns) for f in a.total)
    empty_b = tuple(Factor.empty(f.columns) for f in b.total)
    blocks = [replace(block, groups=block.groups + empty_b) for block in a.blocks]
    blocks += [replace(block, groups=empty_a + block.groups) for block in b.blocks]
    names = a.group_names + tuple(f"{name} (further)" for name in b.group_names)
    return Factors(names, a.parameter_count, tuple(blocks))


def _solved(
    regression: Regression, weights: Float, fixed: Float, free: Float, target: Float
) -> tuple[Float, Float, Float]:
    # beta, the triangle of the free directions, and their response to the fixed ones: z = z0 - gain value.
    R = stack(regression.factors.total, regression.base.independent, weights)
    A, y = R[:, :-1], R[:, -1]
    Q, G = np.linalg.qr(A @ free)
    gain = solve_triangular(G, Q.T @ (A @ fixed))
    z = solve_triangular(G, Q.T @ y) - gain @ target
    return fixed @ target + free @ z, G, gain


def _column_sizes(regression: Regression) -> Float:
    R = stack(regression.factors.total, regression.base.independent, np.ones(len(regression.factors.total)))
    norm = np.linalg.norm(R[:, :-1], axis=0)
    return np.asarray(np.where(norm > 0, norm, 1.0))


def _root(P: Float) -> Float:
    values, vectors = np.linalg.eigh(P)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

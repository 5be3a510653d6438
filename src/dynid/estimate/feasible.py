"""Most probable parameters among consistent links, under hard constraints: one convex program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Estimator, Regression, Status
from dynid.estimate.least_squares import OLS, WLS, residual_sigma
from dynid.estimate.posterior import MAP, Probable
from dynid.estimate.uncertainty import interval_kind, prior_strength
from dynid.factor.factor import Factors, stack
from dynid.feasible.bodies import DENSEST, UNLIMITED
from dynid.feasible.constraints import ColumnBounds, Convex, DensityLimit, PhysicalBodies, TotalMass
from dynid.feasible.limits import limits_of_body
from dynid.feasible.problem import BARRIER_WEIGHT, Feasible, least_squares_within
from dynid.feasible.region import Setting

# Most rounds of re-weighting by the constrained fit, and relative change of weights at which they end.
WEIGHT_ROUNDS, WEIGHTS_SETTLED = 4, 0.05
# Eigenvalues of a correlation matrix below this are rounding.
SHARPEST = 1e-14


@dataclass(frozen=True)
class FeasibleFit:
    """The most probable estimate under hard constraints, with the data, weights and prior of the method `map`.

    Min ||A theta - y||^2 + strength ||J theta - r||^2, where the second term is the prior of `map`, linearised at its
    estimate, and where every link's pseudo-inertia stays above `margin`, friction, rotor inertia and stiffness above
    zero, and the total mass within `total_mass`. It is one convex program, solved again with weights by its own
    residuals. An estimate of `map` that fulfils all constraints is the answer. The covariance is that of `map` plus
    d d', with d the shift of the base parameters by the constraints: intervals cover both.

    Parameters
    ----------
    strength : float or str
        Factor on the precision of the prior: 4 halves its widths. "held-out" and "l-curve" of earlier versions are 1,
        since the log itself widens the prior of a link that it contradicts.
    margin : float, kg m^2 and kg, optional
        Least eigenvalue of every pseudo-inertia.
    density : float, kg/m^3
        Greatest density of a link.
    prior : {"entropic", "euclidean", "geodesic"}
        Distance from the prior where coefficients without a log are retrieved (dynid.papers.retrieve); "geodesic" of
        earlier versions counts as "entropic", which it equals to second order. The prior of a fit to a log has no
        choice of distance.
    weights : {"joint", "equal"}
        Weights by the error of each joint, or the same for every equation.
    total_mass : tuple of two floats, kg, optional
        Limits of the total mass.
    limits : sequence of mapping
        Limits of single links, see dynid.feasible.limits.
    intervals : str
        Method of the covariance from blocks, see dynid.estimate.uncertainty.Intervals.
    inner : Estimator, optional
        Another method, with its own intervals, instead of the weighted fit. The misfit is then (B theta - beta)' C^-1
        (B theta - beta) with its answer beta and textbook covariance C: the sum of squares of its last linear
        equations.
    required : bool
        Written as `feasible = true`; the fit is the same.
    further : sequence of Convex
        Further constraints.

    References
    ----------
    Sousa and Cortesao 2014, 2019; Wensing, Kim and Slotine 2018.

    """

    strength: float | str = prior_strength(1.0)
    margin: float | None = option(
        None,
        "feasible: least eigenvalue of every pseudo-inertia; default 1e-6, or 1 % of the prior's (URDF) where that is "
        "less",
        unit="kg m^2 and kg",
        above=0,
    )
    density: float = option(
        DENSEST,
        "feasible: greatest density of a link, taken as a uniform ellipsoid; default 8960 (copper); 1e6 = no limit",
        unit="kg/m^3",
        above=0,
    )
    prior: str = option(
        "entropic",
        'feasible: distance from the prior in `dynid retrieve`, no effect on a fit to a log; default `"entropic"`, as '
        "which geodesic counts",
        choices=("euclidean", "entropic", "geodesic"),
    )
    weights: str = option(
        "joint",
        'feasible: weights as in map (joint), or the same for every equation (equal); default `"joint"`',
        choices=("joint", "equal"),
    )
    total_mass: tuple[float, float] | None = option(
        None, "feasible: lower and upper limit of the total mass; default none", unit="kg", least=0
    )
    limits: Sequence[Mapping[str, Any]] = option(
        (), "feasible: see `[[estimate.limits]]`", kind="a list of tables"
    )
    intervals: str = interval_kind()
    inner: Estimator | None = None
    required: bool = False
    further: Sequence[Convex] = option(
        (),
        "feasible: further ones, `{ constraint = NAME, option = value }`, also of a [plug-in](extending.md#plug-ins)",
        kind="a list of names or tables",
    )
    name: str = "feasible"

    def __post_init__(self) -> None:
        check_options(self)
        if self.inner is not None and self.weights != "joint":
            raise UsageError(
                "feasible-inner",
                found=f"'{self.inner.name}' with weights = '{self.weights}'",
                expected="weights = 'joint'",
            )
        for entry in self.limits:
            limits_of_body(entry)

    @property
    def unconstrained(self) -> Estimator:
        """Method whose answer is made physically consistent."""
        if self.inner is not None:
            return self.inner
        return (WLS if self.weights == "joint" else OLS)(intervals=self.intervals)

    @property
    def factor(self) -> float:
        """Factor on the precision of the prior."""
        return 1.0 if isinstance(self.strength, str) else float(self.strength)

    def constraints(self) -> Sequence[Convex]:
        """Constraints on the parameters."""
        window: list[Convex] = [TotalMass(*self.total_mass)] if self.total_mass is not None else []
        known = [constraint for entry in self.limits for constraint in limits_of_body(entry)]
        dense = [DensityLimit(self.density)] if self.density < UNLIMITED else []
        return [PhysicalBodies(self.margin), *dense, ColumnBounds(), *window, *known, *self.further]

    def fit(self, regression: Regression) -> Estimate:
        """Fit without a prior, then with it, then with constraints."""
        return self.around(regression, self.unconstrained.fit(regression))

    def around(self, regression: Regression, free: Estimate) -> Estimate:
        """Fit with constraints, given the fit without a prior."""
        return self.solution(regression, free)[0]

    def solution(self, regression: Regression, free: Estimate) -> tuple[Estimate, Feasible]:
        """Fit with constraints and the answer of the solver, given the fit without a prior."""
        probable = MAP(intervals=self.intervals).probable(regression, free)
        if self.inner is not None:
            return self._nearest_to_answer(probable, self.inner.name)
        regression, b = probable.regression, probable.regression.base.rank
        weights = probable.fit.weights
        if self.weights == "equal":
            weights = np.full(len(weights), 1.0 / np.mean(1.0 / weights))
        rows = weighted_rows(regression, regression.factors, weights)
        usual = self.factor == 1.0 and self.weights == "joint"
        near = probable if usual else probable.near(*rows, self.factor)
        # With a weaker prior the estimate is no minimum.
        optimum = near.parameters() if self.factor >= 1.0 else None
        for _ in range(WEIGHT_ROUNDS):
            answer = self._within(near, *rows, optimum)
            value = regression.base.reduce(answer.parameters)
            again = near.weights(residual_sigma(regression, value))
            if self.weights == "equal" or np.abs(again / weights - 1.0).max() < WEIGHTS_SETTLED:
                break
            weights, optimum = again, None
            rows = weighted_rows(regression, regression.factors, weights)
        near = replace(near, fit=replace(near.fit, weights=weights))
        estimate = near.estimate()
        moved = value - regression.base.reduce(answer.task.reference)
        R = stack(regression.factors.total, regression.base.independent, weights)[:b, :b]
        return replace(
            estimate,
            method=self.name,
            value=value,
            covariance=np.asarray(estimate.covariance) + np.outer(moved, moved),
            sigma=residual_sigma(regression, value),
            parameters=answer.parameters,
            status=Status(estimate.status.ok, f"{estimate.status.text}; {_status_text(answer, moved, R)}"),
        ), answer

    def nearest(self, regression: Regression, free: Estimate, values: Float) -> Float:
        """Parameters (n, p) that fulfil the constraints, nearest to base parameters (n, b).

        The metric is that of the textbook covariance of an estimate; the prior decides what it does not determine.
        """
        probable, R = MAP(intervals=self.intervals).probable(regression, free), _metric(free)
        A = R @ regression.base.B
        near = probable.near(A, R @ free.value, self.factor)
        return np.array([self._within(near, A, R @ value).parameters for value in values])

    def _nearest_to_answer(self, probable: Probable, method: str) -> tuple[Estimate, Feasible]:
        """Physically consistent links nearest to an answer, in the metric of its textbook covariance."""
        regression, free = probable.regression, probable.free
        R = _metric(free)
        A, y = R @ regression.base.B, R @ free.value
        near = probable.near(A, y, self.factor)
        answer = self._within(near, A, y)
        value = regression.base.reduce(answer.parameters)
        moved = value - free.value
        return replace(
            free,
            method=self.name,
            value=value,
            covariance=np.asarray(free.covariance) + np.outer(moved, moved),
            textbook_covariance=np.asarray(free.textbook_covariance) + np.outer(moved, moved),
            sigma=residual_sigma(regression, value),
            parameters=answer.parameters,
            status=Status(free.status.ok, f"{method}, {free.status.text}; {_status_text(answer, moved, R)}"),
            prior_share=near.prior_share(R),
            prior_strength=self.factor,
        ), answer

    def _within(self, near: Probable, A: Float, y: Float, optimum: Float | None = None) -> Feasible:
        """Least ||A theta - y||^2 with the prior near an estimate, under the constraints.

        optimum: (p,) minimum without constraints, if it is known.
        """
        regression, prior = near.regression, near.prior_rows()
        setting = Setting.of(regression.columns, self.constraints(), near.parameters(), regression.spread)
        rows = np.concatenate([A, prior[:, :-1]]), np.concatenate([y, prior[:, -1]])
        barrier = BARRIER_WEIGHT * min(self.factor, 1.0)
        answer = least_squares_within(*rows, setting, optimum, barrier)
        return replace(answer, cost=float(np.sum((A @ answer.parameters - y) ** 2)))


def _metric(estimate: Estimate) -> Float:
    """R (b, b) with R'R the inverse of the textbook covariance."""
    size = estimate.textbook_std
    values, vectors = np.linalg.eigh(estimate.textbook_covariance / np.outer(size, size))
    return np.asarray((vectors / np.sqrt(np.maximum(values, SHARPEST * values[-1]))).T / size)


def weighted_rows(regression: Regression, factors: Factors, weights: Float) -> tuple[Float, Float]:
    """Rows (b, p) and right side (b,) of the weighted equations, in all parameters.

    `weights` (g,): weights of the groups.
    """
    R = stack(factors.total, regression.base.independent, weights)
    b = regression.base.rank
    return R[:b, :b] @ regression.base.B, R[:b, b]


def _status_text(answer: Feasible, moved: Float, R: Float) -> str:
    rise = float(np.sum((R @ moved) ** 2))
    bodies = len(answer.least_eigenvalue)
    least = f"least pseudo-inertia eigenvalue {answer.least_eigenvalue.min():.2g}, " if bodies else ""
    count = len(answer.active)
    active = f"{count or 'no'} active constraint{'' if count == 1 else 's'}"
    return f"physically consistent: {least}{active}, squared error higher by {rise:.3g} variances of one equation"

"""Weighted least squares among physically consistent parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.options import check_options, option
from dynid.estimate.estimator import Estimate, Estimator, Regression, Status
from dynid.estimate.least_squares import OLS, WLS, residual_sigma
from dynid.estimate.options import interval_kind, prior_strength
from dynid.factor.factor import Factors, stack
from dynid.feasible.bodies import body_columns, plausible
from dynid.feasible.constraints import ColumnBounds, Convex, PhysicalBodies, TotalMass
from dynid.feasible.limits import limits_of_body
from dynid.feasible.problem import Distance, Feasible, feasible_parameters
from dynid.feasible.strength import Chosen, held_out_strength, l_curve_strength
from dynid.spatial.inertia import pseudo_inertia

FOLDS = 5
# Eigenvalues of a correlation matrix below this are rounding.
SHARPEST = 1e-14
_CHOICES = {"held-out": "unseen blocks", "l-curve": "the corner of the L-curve"}


@dataclass(frozen=True)
class FeasibleFit:
    """Least squares among real bodies: min ||y - W B theta||_Sigma^2 + strength distance(theta, prior).

    Every body's pseudo-inertia stays above `margin`, friction, rotor inertia and stiffness above zero, the total mass
    within `total_mass` (kg). Joints weigh 1/sigma^2 of the weighted fit without constraints.
    The covariance is that of the fit without constraints plus d d', d being how far the constraints moved the base
    parameters: intervals cover both.
    strength: 1 = a deviation from the prior by one spread costs one standard deviation of one equation; "held-out" =
    the greatest that predicts left-out blocks as well as the best; "l-curve" = the corner of cost against distance.
    prior: "euclidean", "entropic" or "geodesic" distance from it.
    weights: "joint" as above, "equal" = 1 for every equation.
    limits: what is known of single bodies, see dynid.feasible.limits.
    intervals: how the covariance without constraints is found, see dynid.estimate.uncertainty.Intervals.
    inner: another method, with intervals of its own, in place of the weighted fit; then the misfit is
    (B theta - beta)' C^-1 (B theta - beta) with its answer beta and textbook covariance C: the sum of squares of its
    own last linear equations.
    further: constraints of any other kind.
    required: whether bodies are kept physically consistent even where that fits the log much worse; otherwise the fit
    without constraints stands in that case, with a warning. Any option but the defaults asks for the same.
    Source: Sousa and Cortesao 2014, 2019; Wensing, Kim and Slotine 2018; Lee, Wensing and Park 2020.
    """

    strength: float | str = prior_strength(1.0)
    margin: float = option(
        1e-6,
        "feasible: least eigenvalue of every pseudo-inertia; 1e-6 without it",
        unit="kg m^2 and kg",
        above=0,
    )
    prior: str = option(
        "entropic",
        'feasible: distance from the prior; `"entropic"` without it',
        choices=tuple(distance.value for distance in Distance),
    )
    weights: str = option(
        "joint", 'feasible: weights as in wls, or as in ols; `"joint"` without it', choices=("joint", "equal")
    )
    total_mass: tuple[float, float] | None = option(
        None, "feasible: window for the sum of the masses; none without it", unit="kg", least=0
    )
    limits: Sequence[Mapping[str, Any]] = option(
        (), "feasible: see `[[estimate.limits]]`", kind="list of tables"
    )
    intervals: str = interval_kind()
    inner: Estimator | None = None
    required: bool = False
    further: Sequence[Convex] = ()
    name: str = "feasible"

    def __post_init__(self) -> None:
        check_options(self)
        if self.inner is not None and (self.weights != "joint" or isinstance(self.strength, str)):
            raise UsageError(
                "feasible-inner",
                found=f"'{self.inner.name}' with weights = '{self.weights}', strength = {self.strength}",
                expected="a strength that is a number, and the method's own weights",
            )
        for entry in self.limits:
            limits_of_body(entry)

    @property
    def unconstrained(self) -> Estimator:
        """The method whose answer is brought to real bodies."""
        if self.inner is not None:
            return self.inner
        return (WLS if self.weights == "joint" else OLS)(intervals=self.intervals)

    def constraints(self) -> Sequence[Convex]:
        """What the parameters must fulfil."""
        window: list[Convex] = [TotalMass(*self.total_mass)] if self.total_mass is not None else []
        known = [constraint for entry in self.limits for constraint in limits_of_body(entry)]
        return [PhysicalBodies(self.margin), ColumnBounds(), *window, *known, *self.further]

    def fit(self, regression: Regression) -> Estimate:
        """Fits without constraints for the weights, then with them."""
        return self.around(regression, self.unconstrained.fit(regression))

    def around(self, regression: Regression, free: Estimate) -> Estimate:
        """The fit with constraints, given the one without."""
        if self.inner is not None:
            return self._nearest(regression, free, self.inner.name)
        weights = free.weights if self.weights == "joint" else free.weights / np.mean(free.sigma**2)
        chosen = self._chosen(regression, weights)
        strength = chosen.strength if chosen is not None else float(self.strength)
        found = self._solved(regression, regression.factors, weights, strength)
        b = regression.base.rank
        R = stack(regression.factors.total, regression.base.independent, weights)[:b, :b]
        return self._estimate(
            regression, free, found, R, strength, f"{free.status.text}; {{}}{self._reason(chosen)}"
        )

    def _nearest(self, regression: Regression, free: Estimate, method: str) -> Estimate:
        """The real bodies nearest to an answer, in the metric of its textbook covariance."""
        size = free.textbook_std
        values, vectors = np.linalg.eigh(free.textbook_covariance / np.outer(size, size))
        R = (vectors / np.sqrt(np.maximum(values, SHARPEST * values[-1]))).T / size
        strength = float(self.strength)
        found = self._real(regression, R @ regression.base.B, R @ free.value, strength)
        return self._estimate(regression, free, found, R, strength, f"{method}, {free.status.text}; {{}}")

    def _estimate(
        self, regression: Regression, free: Estimate, found: Feasible, R: Float, strength: float, text: str
    ) -> Estimate:
        value = regression.base.reduce(found.parameters)
        moved = value - free.value
        outer = np.outer(moved, moved)
        shares = free.prior_share
        if not regression.value_only:
            shares = prior_share(regression, R, strength, Distance(self.prior))
        return replace(
            free,
            method=self.name,
            value=value,
            covariance=free.covariance + outer,
            textbook_covariance=free.textbook_covariance + outer,
            sigma=residual_sigma(regression, value),
            parameters=found.parameters,
            status=Status(free.status.ok, text.format(_text(found, moved, R))),
            prior_share=shares,
        )

    def _solved(self, regression: Regression, factors: Factors, weights: Float, strength: float) -> Feasible:
        R = stack(factors.total, regression.base.independent, weights)
        b = regression.base.rank
        return self._real(regression, R[:b, :b] @ regression.base.B, R[:b, b], strength)

    def _real(self, regression: Regression, A: Float, y: Float, strength: float) -> Feasible:
        return feasible_parameters(
            A,
            y,
            regression.columns,
            self.constraints(),
            np.array([column.prior for column in regression.columns]),
            regression.spread,
            strength,
            Distance(self.prior),
        )

    def _chosen(self, regression: Regression, weights: Float) -> Chosen | None:
        if self.strength == "l-curve":

            def point(strength: float) -> tuple[float, float]:
                found = self._solved(regression, regression.factors, weights, strength)
                return found.cost, found.distance

            return l_curve_strength(point)
        if self.strength == "held-out":
            return held_out_strength(self._unseen(regression, weights))
        return None

    def _unseen(self, regression: Regression, weights: Float) -> Any:
        factors = regression.factors
        parts = np.array_split(np.arange(len(factors.blocks)), min(FOLDS, len(factors.blocks)))
        folds = [
            (factors.subset(np.setdiff1d(np.arange(len(factors.blocks)), part)), factors.subset(part))
            for part in parts
        ]

        def errors(strength: float) -> Float:
            missed = []
            for kept, left_out in folds:
                theta = np.zeros(len(regression.columns))
                found = self._solved(regression, kept, weights, strength)
                theta[regression.base.independent] = regression.base.reduce(found.parameters)
                pairs = zip(weights, left_out.total, strict=True)
                missed.append(sum(w * factor.residual_square(theta) for w, factor in pairs))
            return np.array(missed)

        return errors

    def _reason(self, chosen: Chosen | None) -> str:
        if chosen is None:
            return ""
        border = ", at the border of what was tried" if chosen.at_border else ""
        return f"; strength {chosen.strength:g} of the prior chosen by {_CHOICES[str(self.strength)]}{border}"


def prior_share(regression: Regression, R: Float, strength: float, distance: Distance) -> Float:
    """How much of each base parameter a prior decides, (b,): the diagonal of (R'R + Q)^-1 Q, without constraints.

    Q = strength (B H^-1 B')^-1 with H, (p, p), the curvature of the distance at the prior: 1/spread^2, and for the
    bodies of the entropic and geodesic distance that of tr((P0^-1 dP)^2) / 2.    R: (b, b) triangle of the equations.
    """
    columns, base = regression.columns, regression.base
    inverse = np.diag(regression.spread**2)
    if distance is not Distance.EUCLIDEAN:
        prior = np.array([column.prior for column in columns])
        centre = plausible(columns, prior, regression.spread)
        for ten in body_columns(columns):
            parts = np.linalg.solve(
                pseudo_inertia(centre[ten]), [pseudo_inertia(unit) for unit in np.eye(10)]
            )
            inverse[np.ix_(ten, ten)] = np.linalg.inv(0.5 * np.einsum("kab,lba->kl", parts, parts))
    free = base.B @ inverse @ base.B.T
    size = np.sqrt(np.diag(free))
    pull = strength * np.linalg.inv(free / np.outer(size, size))
    both = (R * size).T @ (R * size) + pull
    return np.asarray(np.clip(np.diag(np.linalg.solve(both, pull)), 0.0, 1.0))


def _text(found: Feasible, moved: Float, R: Float) -> str:
    rise = float(np.sum((R @ moved) ** 2))
    bodies = len(found.least_eigenvalue)
    least = f"least pseudo-inertia eigenvalue {found.least_eigenvalue.min():.2g}, " if bodies else ""
    held = {0: "no constraint holds it", 1: "1 constraint holds it"}.get(
        len(found.active), f"{len(found.active)} constraints hold it"
    )
    return (
        f"physically consistent: {least}{held}, at a cost of {rise:.3g} in units of one equation's variance"
    )

"""Weighted least squares among physically consistent parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.arrays import Float
from dynid.errors import UsageError
from dynid.estimate.estimator import Estimate, Regression, Status
from dynid.estimate.least_squares import OLS, WLS, residual_sigma
from dynid.factor.factor import stack
from dynid.feasible.constraints import ColumnBounds, Convex, PhysicalBodies, TotalMass
from dynid.feasible.limits import limits_of_body
from dynid.feasible.problem import Distance, Feasible, feasible_parameters


@dataclass(frozen=True)
class FeasibleFit:
    """Least squares among real bodies: min ||y - W B theta||_Sigma^2 + strength distance(theta, prior).

    Every body's pseudo-inertia stays above `margin`, friction, rotor inertia and stiffness above zero, the total mass
    within `total_mass` (kg). Joints weigh 1/sigma^2 of the weighted fit without constraints.
    The covariance is that of the fit without constraints plus d d', d being how far the constraints moved the base
    parameters: intervals cover both.
    strength: 1 = a deviation from the prior by one spread costs one standard deviation of one equation.
    prior: "euclidean" or "entropic" distance from it.    weights: "joint" as above, "equal" = 1 for every equation.
    limits: what is known of single bodies, see dynid.feasible.limits.
    Source: Sousa and Cortesao 2014, 2019; Wensing, Kim and Slotine 2018.
    """

    strength: float = 1.0
    margin: float = 1e-6
    prior: str = "euclidean"
    weights: str = "joint"
    total_mass: tuple[float, float] | None = None
    limits: Sequence[Mapping[str, Any]] = ()
    name: str = "feasible"

    def __post_init__(self) -> None:
        if not self.strength > 0:
            raise UsageError("prior-strength", found=f"strength = {self.strength}", expected="a number > 0")
        if not self.margin > 0:
            raise UsageError("margin", found=f"margin = {self.margin}", expected="a number > 0")
        if self.prior not in {d.value for d in Distance}:
            raise UsageError("prior", found=f"prior = '{self.prior}'", expected="'euclidean' or 'entropic'")
        if self.weights not in {"joint", "equal"}:
            raise UsageError("weights", found=f"weights = '{self.weights}'", expected="'joint' or 'equal'")
        for entry in self.limits:
            limits_of_body(entry)

    def constraints(self) -> Sequence[Convex]:
        """What the parameters must fulfil."""
        window: list[Convex] = [TotalMass(*self.total_mass)] if self.total_mass is not None else []
        known = [constraint for entry in self.limits for constraint in limits_of_body(entry)]
        return [PhysicalBodies(self.margin), ColumnBounds(), *window, *known]

    def fit(self, regression: Regression) -> Estimate:
        """Fits without constraints for the weights, then with them."""
        free = (WLS() if self.weights == "joint" else OLS()).fit(regression)
        weights = free.weights if self.weights == "joint" else free.weights / np.mean(free.sigma**2)
        R = stack(regression.factors.total, regression.base.independent, weights)
        b = regression.base.rank
        found = feasible_parameters(
            R[:b, :b] @ regression.base.B,
            R[:b, b],
            regression.columns,
            self.constraints(),
            np.array([column.prior for column in regression.columns]),
            regression.spread,
            self.strength,
            Distance(self.prior),
        )
        value = regression.base.reduce(found.parameters)
        moved = value - free.value
        outer = np.outer(moved, moved)
        return replace(
            free,
            method=self.name,
            value=value,
            covariance=free.covariance + outer,
            textbook_covariance=free.textbook_covariance + outer,
            sigma=residual_sigma(regression, value),
            parameters=found.parameters,
            status=Status(free.status.ok, f"{free.status.text}; {_text(found, moved, R[:b, :b])}"),
        )


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

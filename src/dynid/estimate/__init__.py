"""Estimators: values, intervals and status from factors."""

from dynid.estimate.estimator import Estimate, Estimator, Regression, Status
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.least_squares import OLS, WLS, Ridge

CATALOGUE: dict[str, type[OLS] | type[WLS] | type[Ridge] | type[FeasibleFit]] = {
    "ols": OLS,
    "wls": WLS,
    "ridge": Ridge,
    "feasible": FeasibleFit,
}

__all__ = ["CATALOGUE", "OLS", "WLS", "Estimate", "Estimator", "FeasibleFit", "Regression", "Ridge", "Status"]

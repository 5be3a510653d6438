"""Estimators: values, intervals and status from factors."""

from dynid.estimate.estimator import Estimate, Estimator, Regression, Status
from dynid.estimate.least_squares import OLS, WLS, Ridge

__all__ = ["OLS", "WLS", "Estimate", "Estimator", "Regression", "Ridge", "Status"]

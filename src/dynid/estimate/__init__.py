"""Estimators: values, intervals and status from factors, from equations one by one, or from simulated runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.estimate.adaline import Adaline
    from dynid.estimate.catalogue import CATALOGUE
    from dynid.estimate.didim import DIDIM
    from dynid.estimate.estimator import Estimate, Estimator, Regression, Status
    from dynid.estimate.feasible import FeasibleFit
    from dynid.estimate.hopfield import Hopfield
    from dynid.estimate.instrumental import IV
    from dynid.estimate.kalman_fit import CDKF, EKF, UKF
    from dynid.estimate.least_squares import OLS, WLS, Ridge
    from dynid.estimate.likelihood import ML
    from dynid.estimate.output_error import CLIE, CLOE, OE
    from dynid.estimate.prior import parameter_spread
    from dynid.estimate.recursive import ParameterTrajectory, RecursiveLeastSquares, TrajectoryRecorder
    from dynid.estimate.regression import regression_of
    from dynid.estimate.residuals import Residuals
    from dynid.estimate.robust import IRLS
    from dynid.estimate.servo_error import ServoOE
    from dynid.estimate.source import LogSource
    from dynid.estimate.total import TLS

__all__ = [
    "CATALOGUE",
    "CDKF",
    "CLIE",
    "CLOE",
    "DIDIM",
    "EKF",
    "IRLS",
    "IV",
    "ML",
    "OE",
    "OLS",
    "TLS",
    "UKF",
    "WLS",
    "Adaline",
    "Estimate",
    "Estimator",
    "FeasibleFit",
    "Hopfield",
    "LogSource",
    "ParameterTrajectory",
    "RecursiveLeastSquares",
    "Regression",
    "Residuals",
    "Ridge",
    "ServoOE",
    "Status",
    "TrajectoryRecorder",
    "parameter_spread",
    "regression_of",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "adaline": "Adaline",
        "catalogue": "CATALOGUE",
        "didim": "DIDIM",
        "estimator": "Estimate Estimator Regression Status",
        "feasible": "FeasibleFit",
        "hopfield": "Hopfield",
        "instrumental": "IV",
        "kalman_fit": "CDKF EKF UKF",
        "least_squares": "OLS Ridge WLS",
        "likelihood": "ML",
        "output_error": "CLIE CLOE OE",
        "prior": "parameter_spread",
        "recursive": "ParameterTrajectory RecursiveLeastSquares TrajectoryRecorder",
        "regression": "regression_of",
        "residuals": "Residuals",
        "robust": "IRLS",
        "servo_error": "ServoOE",
        "source": "LogSource",
        "total": "TLS",
    },
)

"""Estimators available by name in experiment files and on the command line, imported on first use."""

from __future__ import annotations

from typing import Any

from dynid.base.registry import Registry

CATALOGUE: Registry[type[Any]] = Registry(
    "estimator",
    "dynid.estimators",
    {},
    {
        "ols": "dynid.estimate.least_squares:OLS",
        "wls": "dynid.estimate.least_squares:WLS",
        "irls": "dynid.estimate.robust:IRLS",
        "tls": "dynid.papers.total:TLS",
        "ridge": "dynid.estimate.least_squares:Ridge",
        "ml": "dynid.papers.likelihood:ML",
        "feasible": "dynid.estimate.feasible:FeasibleFit",
        "map": "dynid.estimate.posterior:MAP",
        "iv": "dynid.estimate.instrumental:IV",
        "didim": "dynid.estimate.instrumental:DIDIM",
        "clie": "dynid.estimate.output_error:CLIE",
        "cloe": "dynid.estimate.output_error:CLOE",
        "oe": "dynid.estimate.output_error:OE",
        "servo_oe": "dynid.estimate.servo_error:ServoOE",
        "ekf": "dynid.papers.kalman:EKF",
        "ukf": "dynid.papers.kalman:UKF",
        "cdkf": "dynid.papers.kalman:CDKF",
        "adaline": "dynid.papers.neural:Adaline",
        "hopfield": "dynid.papers.neural:Hopfield",
    },
)

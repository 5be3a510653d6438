"""The estimators that experiment files and the command line may name, each loaded when it is named."""

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
        "tls": "dynid.estimate.total:TLS",
        "ridge": "dynid.estimate.least_squares:Ridge",
        "ml": "dynid.estimate.likelihood:ML",
        "feasible": "dynid.estimate.feasible:FeasibleFit",
        "iv": "dynid.estimate.instrumental:IV",
        "didim": "dynid.estimate.didim:DIDIM",
        "clie": "dynid.estimate.output_error:CLIE",
        "cloe": "dynid.estimate.output_error:CLOE",
        "oe": "dynid.estimate.output_error:OE",
        "servo_oe": "dynid.estimate.servo_error:ServoOE",
        "ekf": "dynid.estimate.kalman_fit:EKF",
        "ukf": "dynid.estimate.kalman_fit:UKF",
        "cdkf": "dynid.estimate.kalman_fit:CDKF",
        "adaline": "dynid.estimate.adaline:Adaline",
        "hopfield": "dynid.estimate.hopfield:Hopfield",
    },
)

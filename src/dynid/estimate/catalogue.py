"""The estimators that experiment files and the command line may name."""

from __future__ import annotations

from typing import Any

from dynid.base.registry import Registry
from dynid.estimate.adaline import Adaline
from dynid.estimate.didim import DIDIM
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.hopfield import Hopfield
from dynid.estimate.instrumental import IV
from dynid.estimate.kalman_fit import CDKF, EKF, UKF
from dynid.estimate.least_squares import OLS, WLS, Ridge
from dynid.estimate.likelihood import ML
from dynid.estimate.output_error import CLIE, CLOE, OE
from dynid.estimate.robust import IRLS
from dynid.estimate.servo_error import ServoOE
from dynid.estimate.total import TLS

CATALOGUE: Registry[type[Any]] = Registry(
    "estimator",
    "dynid.estimators",
    {
        "ols": OLS,
        "wls": WLS,
        "irls": IRLS,
        "tls": TLS,
        "ridge": Ridge,
        "ml": ML,
        "feasible": FeasibleFit,
        "iv": IV,
        "didim": DIDIM,
        "clie": CLIE,
        "cloe": CLOE,
        "oe": OE,
        "servo_oe": ServoOE,
        "ekf": EKF,
        "ukf": UKF,
        "cdkf": CDKF,
        "adaline": Adaline,
        "hopfield": Hopfield,
    },
)

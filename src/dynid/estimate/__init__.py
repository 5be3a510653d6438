"""Estimators: values, intervals and status from factors, from single equations, or from simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.estimate.base_dynamics import BaseDynamics
    from dynid.estimate.catalogue import CATALOGUE
    from dynid.estimate.estimator import (
        Estimate,
        Estimator,
        Known,
        Regression,
        Standing,
        Status,
        Word,
        base_verdicts,
        full_verdicts,
        how_well,
        require_enough,
    )
    from dynid.estimate.feasible import FeasibleFit
    from dynid.estimate.instrumental import DIDIM, IV
    from dynid.estimate.kalman import FILTERS, JointFilter, KalmanNoise, diverged, seconds_a_step
    from dynid.estimate.least_squares import OLS, WLS, Ridge, completed, residual_sigma, solve
    from dynid.estimate.output_error import CLIE, CLOE, OE
    from dynid.estimate.prior import parameter_spread, regression_of
    from dynid.estimate.recursive import (
        Forgetting,
        ParameterTrajectory,
        RecursiveLeastSquares,
        TrajectoryRecorder,
    )
    from dynid.estimate.robust import IRLS
    from dynid.estimate.scores import (
        Residuals,
        beyond_noise,
        noise_rows_a_sample,
        rows_a_sample,
        rows_alike_of,
    )
    from dynid.estimate.servo_error import ServoOE
    from dynid.estimate.simulated import SimulationProblem
    from dynid.estimate.source import LogSource, Places, piece_of
    from dynid.estimate.uncertainty import (
        LARGEST_LEVERAGE,
        BlockScores,
        covariance_of,
        encoder_noise,
        interval_kind,
        last_move,
        most_rounds,
    )

__all__ = [
    "CATALOGUE",
    "CLIE",
    "CLOE",
    "DIDIM",
    "FILTERS",
    "IRLS",
    "IV",
    "LARGEST_LEVERAGE",
    "OE",
    "OLS",
    "WLS",
    "BaseDynamics",
    "BlockScores",
    "Estimate",
    "Estimator",
    "FeasibleFit",
    "Forgetting",
    "JointFilter",
    "KalmanNoise",
    "Known",
    "LogSource",
    "ParameterTrajectory",
    "Places",
    "RecursiveLeastSquares",
    "Regression",
    "Residuals",
    "Ridge",
    "ServoOE",
    "SimulationProblem",
    "Standing",
    "Status",
    "TrajectoryRecorder",
    "Word",
    "base_verdicts",
    "beyond_noise",
    "completed",
    "covariance_of",
    "diverged",
    "encoder_noise",
    "full_verdicts",
    "how_well",
    "interval_kind",
    "last_move",
    "most_rounds",
    "noise_rows_a_sample",
    "parameter_spread",
    "piece_of",
    "regression_of",
    "require_enough",
    "residual_sigma",
    "rows_a_sample",
    "rows_alike_of",
    "seconds_a_step",
    "solve",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "base_dynamics": "BaseDynamics",
        "catalogue": "CATALOGUE",
        "estimator": (
            "Estimate Estimator Known Regression Standing Status Word base_verdicts full_verdicts "
            "how_well require_enough"
        ),
        "feasible": "FeasibleFit",
        "instrumental": "DIDIM IV",
        "kalman": "FILTERS JointFilter KalmanNoise diverged seconds_a_step",
        "least_squares": "OLS Ridge WLS completed residual_sigma solve",
        "output_error": "CLIE CLOE OE",
        "prior": "parameter_spread regression_of",
        "recursive": "Forgetting ParameterTrajectory RecursiveLeastSquares TrajectoryRecorder",
        "robust": "IRLS",
        "scores": "Residuals beyond_noise noise_rows_a_sample rows_a_sample rows_alike_of",
        "servo_error": "ServoOE",
        "simulated": "SimulationProblem",
        "source": "LogSource Places piece_of",
        "uncertainty": (
            "BlockScores LARGEST_LEVERAGE covariance_of encoder_noise interval_kind last_move most_rounds"
        ),
    },
    moved={"dynid.papers": "Adaline CDKF EKF Hopfield ML TLS UKF"},
)

"""Estimators: values, intervals and status from factors, from single equations, or from simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.estimate.base_dynamics import BaseDynamics as BaseDynamics
    from dynid.estimate.catalogue import CATALOGUE as CATALOGUE
    from dynid.estimate.estimator import Estimate as Estimate
    from dynid.estimate.estimator import Estimator as Estimator
    from dynid.estimate.estimator import Known as Known
    from dynid.estimate.estimator import Regression as Regression
    from dynid.estimate.estimator import Standing as Standing
    from dynid.estimate.estimator import Status as Status
    from dynid.estimate.estimator import Word as Word
    from dynid.estimate.estimator import base_verdicts as base_verdicts
    from dynid.estimate.estimator import full_verdicts as full_verdicts
    from dynid.estimate.estimator import how_well as how_well
    from dynid.estimate.estimator import require_enough as require_enough
    from dynid.estimate.feasible import FeasibleFit as FeasibleFit
    from dynid.estimate.instrumental import DIDIM as DIDIM
    from dynid.estimate.instrumental import IV as IV
    from dynid.estimate.kalman import FILTERS as FILTERS
    from dynid.estimate.kalman import JointFilter as JointFilter
    from dynid.estimate.kalman import KalmanNoise as KalmanNoise
    from dynid.estimate.kalman import diverged as diverged
    from dynid.estimate.kalman import seconds_a_step as seconds_a_step
    from dynid.estimate.least_squares import OLS as OLS
    from dynid.estimate.least_squares import WLS as WLS
    from dynid.estimate.least_squares import Given as Given
    from dynid.estimate.least_squares import Ridge as Ridge
    from dynid.estimate.least_squares import completed as completed
    from dynid.estimate.least_squares import residual_sigma as residual_sigma
    from dynid.estimate.least_squares import solve as solve
    from dynid.estimate.output_error import CLIE as CLIE
    from dynid.estimate.output_error import CLOE as CLOE
    from dynid.estimate.output_error import OE as OE
    from dynid.estimate.physical import Posterior as Posterior
    from dynid.estimate.physical import project_to_physical as project_to_physical
    from dynid.estimate.physical import unconstrained as unconstrained
    from dynid.estimate.physical import unphysical as unphysical
    from dynid.estimate.physical import warn_of_descriptions as warn_of_descriptions
    from dynid.estimate.posterior import MAP as MAP
    from dynid.estimate.posterior import Uncertainty as Uncertainty
    from dynid.estimate.prediction import HOLDS as HOLDS
    from dynid.estimate.prediction import Bands as Bands
    from dynid.estimate.prediction import ErrorProfile as ErrorProfile
    from dynid.estimate.prediction import Forecast as Forecast
    from dynid.estimate.prediction import motion_of as motion_of
    from dynid.estimate.prior import inertia_known as inertia_known
    from dynid.estimate.prior import parameter_spread as parameter_spread
    from dynid.estimate.prior import regression_of as regression_of
    from dynid.estimate.prior import typical_length as typical_length
    from dynid.estimate.recursive import Forgetting as Forgetting
    from dynid.estimate.recursive import ParameterTrajectory as ParameterTrajectory
    from dynid.estimate.recursive import RecursiveLeastSquares as RecursiveLeastSquares
    from dynid.estimate.recursive import TrajectoryRecorder as TrajectoryRecorder
    from dynid.estimate.robust import IRLS as IRLS
    from dynid.estimate.scores import LeftOut as LeftOut
    from dynid.estimate.scores import MotionRange as MotionRange
    from dynid.estimate.scores import Origin as Origin
    from dynid.estimate.scores import Residuals as Residuals
    from dynid.estimate.scores import Scores as Scores
    from dynid.estimate.scores import StopSums as StopSums
    from dynid.estimate.scores import Sums as Sums
    from dynid.estimate.scores import autocorrelation as autocorrelation
    from dynid.estimate.scores import beyond_noise as beyond_noise
    from dynid.estimate.scores import cross_validate as cross_validate
    from dynid.estimate.scores import noise_rows_a_sample as noise_rows_a_sample
    from dynid.estimate.scores import rows_a_sample as rows_a_sample
    from dynid.estimate.scores import rows_alike as rows_alike
    from dynid.estimate.scores import rows_alike_of as rows_alike_of
    from dynid.estimate.servo_error import ServoOE as ServoOE
    from dynid.estimate.servo_error import ServoTiming as ServoTiming
    from dynid.estimate.simulated import SimulationProblem as SimulationProblem
    from dynid.estimate.simulated import stiffness_ranges as stiffness_ranges
    from dynid.estimate.source import LogSource as LogSource
    from dynid.estimate.source import Places as Places
    from dynid.estimate.source import piece_of as piece_of
    from dynid.estimate.uncertainty import LARGEST_LEVERAGE as LARGEST_LEVERAGE
    from dynid.estimate.uncertainty import BlockScores as BlockScores
    from dynid.estimate.uncertainty import Influence as Influence
    from dynid.estimate.uncertainty import Intervals as Intervals
    from dynid.estimate.uncertainty import Part as Part
    from dynid.estimate.uncertainty import covariance_of as covariance_of
    from dynid.estimate.uncertainty import encoder_noise as encoder_noise
    from dynid.estimate.uncertainty import homogeneity as homogeneity
    from dynid.estimate.uncertainty import influence_of as influence_of
    from dynid.estimate.uncertainty import interval_kind as interval_kind
    from dynid.estimate.uncertainty import last_move as last_move
    from dynid.estimate.uncertainty import most_rounds as most_rounds
    from dynid.estimate.uncertainty import shrunk as shrunk

__getattr__, __dir__, __all__ = lazily(
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
        "least_squares": "Given OLS Ridge WLS completed residual_sigma solve",
        "output_error": "CLIE CLOE OE",
        "physical": ("Posterior project_to_physical unconstrained unphysical warn_of_descriptions"),
        "posterior": "MAP Uncertainty",
        "prediction": "Bands ErrorProfile Forecast HOLDS motion_of",
        "prior": "inertia_known parameter_spread regression_of typical_length",
        "recursive": "Forgetting ParameterTrajectory RecursiveLeastSquares TrajectoryRecorder",
        "robust": "IRLS",
        "scores": (
            "LeftOut MotionRange Origin Residuals Scores StopSums Sums autocorrelation beyond_noise "
            "cross_validate noise_rows_a_sample rows_a_sample rows_alike rows_alike_of"
        ),
        "servo_error": "ServoOE ServoTiming",
        "simulated": "SimulationProblem stiffness_ranges",
        "source": "LogSource Places piece_of",
        "uncertainty": (
            "BlockScores Influence Intervals LARGEST_LEVERAGE Part covariance_of encoder_noise "
            "homogeneity influence_of interval_kind last_move most_rounds shrunk"
        ),
    },
    moved={"dynid.papers": "Adaline CDKF EKF Hopfield ML TLS UKF"},
)

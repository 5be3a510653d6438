"""Contract suites for plug-in authors, and the random robots, motions and equations that they run on.

A suite is a class of pytest functions. Derive from it in a test module, name what is to be tested, and run pytest:

    class TestStribeck(TermContract):
        def term(self) -> Term:
            return Stribeck()

Every suite lists the methods and attributes to override. A violation raises AssertionError.

`dynid.testing.plants` simulates published robots with effects that the default model lacks; `dynid.testing.machines`
and `dynid.testing.faults` have robots with wrong models, and logs with one known fault each.
"""

from dynid.testing.builders import (
    DenseSource,
    Synthetic,
    factors_of,
    piece_of,
    random_inertia,
    random_motion,
    random_robot,
    random_tree,
    simulated_log,
    smooth_samples,
    synthetic_regression,
)
from dynid.testing.contracts import (
    ConstraintContract,
    DiagnosisContract,
    LogReaderContract,
    RowsContract,
    TermContract,
)
from dynid.testing.estimator_contract import (
    EstimatorContract,
    MotionEstimatorContract,
    in_other_order,
    in_other_units,
    on_threads,
)
from dynid.testing.lab import TrueMotion, analysis_of, small_arm
from dynid.testing.motion import (
    encoder_noise,
    exact_samples,
    measured_regression,
    true_parameters,
    two_joints,
)
from dynid.testing.plants import Moves, Plant, Recorded, Stop, Unmodelled, on_moving_base, plant, record
from dynid.testing.robots import RobotCase, covering_array, covering_cases, robot_case

__all__ = [
    "ConstraintContract",
    "DenseSource",
    "DiagnosisContract",
    "EstimatorContract",
    "LogReaderContract",
    "MotionEstimatorContract",
    "Moves",
    "Plant",
    "Recorded",
    "RobotCase",
    "RowsContract",
    "Stop",
    "Synthetic",
    "TermContract",
    "TrueMotion",
    "Unmodelled",
    "analysis_of",
    "covering_array",
    "covering_cases",
    "encoder_noise",
    "exact_samples",
    "factors_of",
    "in_other_order",
    "in_other_units",
    "measured_regression",
    "on_moving_base",
    "on_threads",
    "piece_of",
    "plant",
    "random_inertia",
    "random_motion",
    "random_robot",
    "random_tree",
    "record",
    "robot_case",
    "simulated_log",
    "small_arm",
    "smooth_samples",
    "synthetic_regression",
    "true_parameters",
    "two_joints",
]

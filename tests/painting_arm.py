"""The painting arm of Nini et al. 2024, as its study has it, and its file."""

from __future__ import annotations

from dynid.studies.nini_arm import (
    FRICTION,
    GEOMETRY,
    MODEL,
    MOTOR_SIDE,
    PRELOAD,
    SPRINGS,
    STIFFNESS,
    arm,
    at_rest,
    known_poses,
    motion,
    regression,
    static_grid,
    truth,
    with_noise,
)
from tests.robot_files import ROBOTS

__all__ = [
    "FILE",
    "FRICTION",
    "GEOMETRY",
    "MODEL",
    "MOTOR_SIDE",
    "PRELOAD",
    "SPRINGS",
    "STIFFNESS",
    "arm",
    "at_rest",
    "known_poses",
    "motion",
    "regression",
    "static_grid",
    "truth",
    "with_noise",
]

FILE = ROBOTS / "painting_arm.toml"

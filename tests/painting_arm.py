"""The painting arm of Nini et al. 2024, as its study has it, and its file."""

from __future__ import annotations

from pathlib import Path

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

FILE = Path(__file__).parent / "robots" / "painting_arm.toml"

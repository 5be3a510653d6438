"""Motions as functions of time and their files: Fourier series, splines, moves, torque sinusoids, and chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.trajectories.basis import Basis, BasisTrajectory, FourierBasis, SplineBasis, Together
    from dynid.trajectories.codec import from_json, joints_of, parts_of, read_motion, slowed, to_json
    from dynid.trajectories.moves import SmoothMoves, friction_sweep, static_poses
    from dynid.trajectories.torque_sines import TorqueMotion, TorqueSinusoids
    from dynid.trajectories.trajectory import FourierTrajectory, Trajectory

__all__ = [
    "Basis",
    "BasisTrajectory",
    "FourierBasis",
    "FourierTrajectory",
    "SmoothMoves",
    "SplineBasis",
    "Together",
    "TorqueMotion",
    "TorqueSinusoids",
    "Trajectory",
    "friction_sweep",
    "from_json",
    "joints_of",
    "parts_of",
    "read_motion",
    "slowed",
    "static_poses",
    "to_json",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "basis": "Basis BasisTrajectory FourierBasis SplineBasis Together",
        "codec": "from_json joints_of parts_of read_motion slowed to_json",
        "moves": "SmoothMoves friction_sweep static_poses",
        "torque_sines": "TorqueMotion TorqueSinusoids",
        "trajectory": "FourierTrajectory Trajectory",
    },
)

"""Motions as functions of time: Fourier series, splines, moves, torque sinusoids, chains of them, and their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.trajectories.basis import BasisTrajectory, FourierBasis, SplineBasis
    from dynid.trajectories.codec import from_json, read_motion, to_json
    from dynid.trajectories.moves import SmoothMoves
    from dynid.trajectories.torque_sines import TorqueMotion, TorqueSinusoids
    from dynid.trajectories.trajectory import FourierTrajectory, Trajectory

__all__ = [
    "BasisTrajectory",
    "FourierBasis",
    "FourierTrajectory",
    "SmoothMoves",
    "SplineBasis",
    "TorqueMotion",
    "TorqueSinusoids",
    "Trajectory",
    "from_json",
    "read_motion",
    "to_json",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "basis": "BasisTrajectory FourierBasis SplineBasis",
        "codec": "from_json read_motion to_json",
        "moves": "SmoothMoves",
        "torque_sines": "TorqueMotion TorqueSinusoids",
        "trajectory": "FourierTrajectory Trajectory",
    },
)

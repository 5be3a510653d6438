"""Motions as functions of time and their files: Fourier series, splines, moves, torque sinusoids, and chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.trajectories.basis import Basis as Basis
    from dynid.trajectories.basis import BasisTrajectory as BasisTrajectory
    from dynid.trajectories.basis import FourierBasis as FourierBasis
    from dynid.trajectories.basis import SplineBasis as SplineBasis
    from dynid.trajectories.basis import Together as Together
    from dynid.trajectories.codec import from_json as from_json
    from dynid.trajectories.codec import joints_of as joints_of
    from dynid.trajectories.codec import parts_of as parts_of
    from dynid.trajectories.codec import read_motion as read_motion
    from dynid.trajectories.codec import slowed as slowed
    from dynid.trajectories.codec import to_json as to_json
    from dynid.trajectories.moves import SmoothMoves as SmoothMoves
    from dynid.trajectories.moves import friction_sweep as friction_sweep
    from dynid.trajectories.moves import static_poses as static_poses
    from dynid.trajectories.torque_sines import TorqueMotion as TorqueMotion
    from dynid.trajectories.torque_sines import TorqueSinusoids as TorqueSinusoids
    from dynid.trajectories.trajectory import FourierTrajectory as FourierTrajectory
    from dynid.trajectories.trajectory import Trajectory as Trajectory

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "basis": "Basis BasisTrajectory FourierBasis SplineBasis Together",
        "codec": "from_json joints_of parts_of read_motion slowed to_json",
        "moves": "SmoothMoves friction_sweep static_poses",
        "torque_sines": "TorqueMotion TorqueSinusoids",
        "trajectory": "FourierTrajectory Trajectory",
    },
)

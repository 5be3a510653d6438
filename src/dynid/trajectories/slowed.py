"""A motion at a share of its speed: the same path, in more time."""

from __future__ import annotations

from dataclasses import replace

from dynid.base.errors import UsageError
from dynid.trajectories.basis import BasisTrajectory, SplineBasis
from dynid.trajectories.chain import Chain
from dynid.trajectories.codec import simplest
from dynid.trajectories.moves import SmoothMoves
from dynid.trajectories.torque_sines import TorqueMotion
from dynid.trajectories.trajectory import FourierTrajectory, Trajectory


def slowed(trajectory: Trajectory, share: float) -> Trajectory:
    """q(share t): velocities are those of the motion times share, accelerations times share^2.

    Raises UsageError for a share outside (0, 1], and for torque that is commanded, which moves the arm otherwise then.
    """
    if not 0 < share <= 1:
        raise UsageError("stage", found=f"a share of {share}", expected="above 0 and at most 1")
    plain = simplest(trajectory)
    if share == 1:
        return plain
    if isinstance(plain, FourierTrajectory):
        return replace(
            plain,
            frequency=plain.frequency * share,
            duration=plain.duration / share,
            ramp=plain.ramp / share,
        )
    if isinstance(plain, SmoothMoves):
        return SmoothMoves(plain.poses, plain.cruise / share, plain.ramp / share, plain.hold)
    if isinstance(plain, BasisTrajectory) and isinstance(plain.basis, SplineBasis):
        basis = plain.basis
        breaks = tuple(x / share for x in basis.breaks)
        return BasisTrajectory(SplineBasis(basis.duration / share, basis.pieces, breaks), plain.X)
    if isinstance(plain, Chain):
        return Chain(tuple(slowed(part, share) for part in plain.parts))
    kind = "commanded torque" if isinstance(plain, TorqueMotion) else type(plain).__name__
    raise UsageError("stage", found=f"{kind} at {share:g} of its speed", expected="a motion of positions")

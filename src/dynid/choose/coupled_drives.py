"""What a coupled transmission makes likely: friction and rotors at motors that move several joints, springs there."""

from __future__ import annotations

import numpy as np

from dynid.robot.model import RobotModel
from dynid.terms.friction import Coulomb, Viscous
from dynid.terms.friction_choice import WIDTH
from dynid.terms.spring import TorsionSpring
from dynid.terms.term import Term
from dynid.terms.transmission import MotorInertia, OnMotor


def shared_motors(robot: RobotModel) -> tuple[int, ...]:
    """Motors that move with several joints; none where linkages stand between, whose effects no export holds."""
    if robot.drive.linkages:
        return ()
    N = robot.drive.transmission
    return tuple(i for i in range(robot.n) if np.count_nonzero(N[i]) > 1)


def coupled_joints(robot: RobotModel) -> tuple[int, ...]:
    """Joints that a shared motor moves."""
    N = robot.drive.transmission[list(shared_motors(robot))]
    return tuple(np.flatnonzero(N.any(axis=0)).tolist())


def at_motor(robot: RobotModel, motor: int) -> tuple[Term, ...]:
    """Viscous and Coulomb friction and rotor inertia of one motor, felt by every joint that it moves."""
    own = (robot.joint_names[motor],)
    ratio = float(np.abs(robot.drive.transmission[motor]).max())
    return (
        OnMotor(Viscous(joints=own)),
        OnMotor(Coulomb(WIDTH * ratio, joints=own)),
        MotorInertia(joints=own),
    )


def spring_at(robot: RobotModel, joint: int) -> TorsionSpring:
    """A torsion spring over one joint, as a hose, a cable or a balancer makes one."""
    return TorsionSpring((robot.joint_names[joint],), label=f"joint{joint + 1}")

"""Every built-in term keeps the contract, and its torque is that of its formula written down again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base import Float
from dynid.kernel.reference import inverse_dynamics
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.terms import (
    ChannelTorque,
    Coulomb,
    DriveGain,
    HeldLoad,
    KnownPayload,
    Offset,
    RigidBody,
    RotorInertia,
    Term,
    Viscous,
)
from dynid.testing import TermContract, random_inertia

LOAD = tuple(float(x) for x in random_inertia(7, 1)[0])


def newton_euler(robot: RobotModel, samples: Samples, inertia: Float) -> Float:
    """Torque of bodies (n, 10) by the recursive algorithm, as virtual work on the independent joints."""
    q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    return inverse_dynamics(robot.tree, inertia.reshape(-1, 10), q, dq, ddq) @ robot.projection


class TestRigidBody(TermContract):
    def term(self) -> Term:
        return RigidBody()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return newton_euler(robot, samples, theta)


class TestRotorInertia(TermContract):
    def term(self) -> Term:
        return RotorInertia()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * samples.ddq


class TestViscous(TermContract):
    def term(self) -> Term:
        return Viscous()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * samples.dq


class TestCoulomb(TermContract):
    def term(self) -> Term:
        return Coulomb()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * ((samples.dq > 0).astype(float) - (samples.dq < 0))


class TestSmoothedCoulomb(TermContract):
    def term(self) -> Term:
        return Coulomb(width=0.3)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        x = samples.dq / 0.3
        return theta * (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x))


class TestOffset(TermContract):
    def term(self) -> Term:
        return Offset()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return np.tile(theta, (len(samples), 1))


class TestDriveGain(TermContract):
    def term(self) -> Term:
        return DriveGain()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return -theta * samples.tau


class TestKnownPayload(TermContract):
    def term(self) -> Term:
        return KnownPayload(LOAD, body="body2", trajectories="load*")

    def samples(self, robot: RobotModel) -> Samples:
        return replace(super().samples(robot), trajectory="load 1")

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        inertia = np.zeros((robot.n_bodies, 10))
        inertia[1] = LOAD
        return newton_euler(robot, samples, inertia)


class TestFreeChannel(TermContract):
    def term(self) -> Term:
        return ChannelTorque("spring", "joint2")

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        torque = np.zeros_like(samples.q)
        torque[:, 1] = theta[0] * samples.extra["spring"]
        return torque


class TestFixedChannel(TermContract):
    def term(self) -> Term:
        return ChannelTorque("spring", "joint2", free=False)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        torque = np.zeros_like(samples.q)
        torque[:, 1] = samples.extra["spring"]
        return torque


class TestHeldLoad(TermContract):
    def term(self) -> Term:
        return HeldLoad("grip", "body2", held=3.0, empty=1.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        inertia = np.zeros((robot.n_bodies, 10))
        inertia[1] = theta
        return newton_euler(robot, samples, inertia) * 0.5 * (samples.extra["grip"] - 1.0)[:, None]

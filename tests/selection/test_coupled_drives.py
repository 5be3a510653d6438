"""Friction at motors that move several joints, and springs there, are found where they are and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float
from dynid.robot import Drive, RobotModel
from dynid.run import Identification
from dynid.signals import Samples
from dynid.terms import MotorInertia, OnMotor, TorsionSpring
from dynid.testing import TermContract
from tests.selection.logs import ROBOT, Fault, chosen, motion, options

N = np.array([[40.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 30.0, 30.0]])
UNKNOWN = np.full(3, np.nan)
COUPLED: RobotModel = replace(ROBOT, drive=Drive(N, UNKNOWN, UNKNOWN, UNKNOWN))


def motor_friction(tau: Float) -> Float:
    """Friction and rotor of the third motor, which turns with joints 2 and 3; smoother than any model's."""
    _, dq, ddq = motion()
    speed, acceleration = dq @ N[2], ddq @ N[2]
    torque = 2e-3 * speed + 0.03 * np.arctan(speed / 0.4) + 3e-4 * acceleration
    return tau + np.outer(torque, N[2])


def spring(tau: Float) -> Float:
    """A spring at joint 3 whose force bends a little, and friction at the motor."""
    q, _, _ = motion()
    found = motor_friction(tau)
    found[:, 2] += 6.0 * np.sinh(0.5 * (q[:, 2] - 0.2)) / 0.5
    return found


def identified(folder: Path, fault: Fault) -> Identification:
    """The coupled robot, identified without a model."""
    return chosen(folder, fault, COUPLED)


def test_friction_at_a_shared_motor_is_found_there(tmp_path: Path) -> None:
    found = identified(tmp_path, motor_friction)
    assert options(found)["motors"] == "friction and rotor on joint3"
    assert not {"coupling", "springs"} & set(options(found))
    assert [t.joints for t in found.terms if isinstance(t, MotorInertia)] == [("joint3",)]
    assert [t.of.name for t in found.terms if isinstance(t, OnMotor)] == ["viscous", "coulomb"]
    values = dict(zip(found.estimate.names, found.estimate.value, strict=True))
    assert values["fvm3"] == pytest.approx(2e-3, rel=0.3)
    assert found.verdict.level == "good"


def test_friction_at_the_joints_stays_there(tmp_path: Path) -> None:
    found = identified(tmp_path, lambda tau: tau)
    assert not {"motors", "springs", "coupling"} & set(options(found))


def test_a_spring_at_a_coupled_joint_is_found(tmp_path: Path) -> None:
    found = identified(tmp_path, spring)
    assert options(found)["springs"] == "1 spring on joint3"
    assert options(found)["motors"] == "friction and rotor on joint3"
    (term,) = [t for t in found.terms if isinstance(t, TorsionSpring)]
    assert term.joints == ("joint3",)
    stiffness = dict(zip(found.estimate.names, found.estimate.value, strict=True))["kt_joint3"]
    assert stiffness == pytest.approx(6.0, rel=0.3)


def test_without_coupling_the_spring_alone_is_tried(tmp_path: Path) -> None:
    found = options(chosen(tmp_path, spring))
    assert found["springs"] == "1 spring on joint3"
    assert "motors" not in found


class TestMotorInertiaOfSomeJoints(TermContract):
    def term(self) -> MotorInertia:
        return MotorInertia(joints=("joint2",))

    def robots(self) -> tuple[RobotModel, ...]:
        return (COUPLED,)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return np.outer(samples.ddq @ robot.drive.transmission[1] * theta[0], robot.drive.transmission[1])

"""Position alone: output error under the drives' controllers, on logs of commands from MuJoCo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.estimate import WLS, Estimate, ServoOE
from dynid.estimate.source import log_source
from dynid.identification.settings import Settings
from dynid.robot.servo import Servo
from dynid.terms.default import DEFAULT_TERMS
from dynid.testing.motion import measured_regression
from tests.servo_plant import ARMATURE, DAMPING, FRICTION, KD, KP, recorded, robot_file


def fitted(folder: Path, estimator: ServoOE | WLS, kp: Float = KP) -> Estimate:
    servo = Servo(kp, KD, np.full(2, np.inf), np.zeros(2))
    robot = dynid.load_robot(robot_file(folder)).with_servo(servo)
    log = recorded(10.0).log(robot)
    return dynid.identify(robot, log, Settings(terms=DEFAULT_TERMS, estimator=estimator)).estimate


def test_friction_and_armature_come_out_nearer_than_by_least_squares(tmp_path: Path) -> None:
    """MuJoCo's friction is dry; torque that is differentiated and filtered takes 7 to 12 % off it."""
    true = {"Ia2": ARMATURE[1], "fv1": DAMPING[0], "fv2": DAMPING[1], "fc1": FRICTION[0], "fc2": FRICTION[1]}
    found, plain = fitted(tmp_path, ServoOE()), fitted(tmp_path, WLS())
    assert found.status.ok
    assert "ms after its commands" in found.status.text
    missed, before = (
        {name: abs(one.value[one.names.index(name)] / value - 1.0) for name, value in true.items()}
        for one in (found, plain)
    )
    assert max(missed.values()) < 0.06
    assert missed["fc1"] < 0.5 * before["fc1"]
    assert missed["fc2"] < 0.5 * before["fc2"]


def test_controllers_that_are_not_known_are_refused_in_words() -> None:
    regression = measured_regression(0).regression
    source = log_source(regression, "servo_oe")
    assembly = replace(source.assembly, robot=source.robot.with_servo(None))
    with pytest.raises(UsageError, match="not known"):
        ServoOE().fit(replace(regression, source=replace(source, assembly=assembly)))

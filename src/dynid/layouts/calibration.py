"""Positions in percent of what each motor's calibration allows: the file that says how much that is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.layouts.decision import Answers, Decision, decided
from dynid.layouts.names import Family
from dynid.log.calibration import motor_of, rad_per_percent, read_calibration
from dynid.robot.model import RobotModel

CALIBRATION = "log.position.calibration"


def decide_calibration(answers: Answers) -> Decision:
    """The calibration file, or the question for it."""
    asked = "which file did lerobot-calibrate write for this arm?"
    why = ("one percent is a different angle on every motor",)
    found = decided(Decision(CALIBRATION, None, why, asked), answers)
    # In full: the experiment file may lie elsewhere.
    return (
        found if found.value is None else replace(found, value=str(Path(found.value).expanduser().resolve()))
    )


def rad_by_joint(robot: RobotModel, family: Family, answers: Answers) -> Float | None:
    """Rad in one percent of the range of every joint's motor (n,), where its calibration was named."""
    if CALIBRATION not in answers:
        return None
    motors = read_calibration(Path(answers[CALIBRATION]).expanduser())
    scale = np.full(robot.n, np.nan)
    for joint, column in zip(family.joints, family.columns, strict=False):
        motor = motor_of(column, joint, motors)
        if motor is not None:
            scale[robot.joint_names.index(joint)] = rad_per_percent(motor, motors[motor])
    # Joints that the log lacks stand still.
    scale[[robot.joint_names.index(joint) for joint in family.missing]] = 0.0
    return scale

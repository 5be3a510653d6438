"""Ratios of gears that no description says, where positions or efforts are those of the motors before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.errors import UsageError
from dynid.layouts.decision import AS_YOU_SAY, Answers, Decision
from dynid.log.absent import hand_joints
from dynid.robot.model import RobotModel

GEARS = "robot.gear_ratio"
_SIDES = ("log.position.side", "log.effort.side")


def decide_gears(robot: RobotModel, answers: Answers) -> tuple[RobotModel, Decision | None]:
    """The robot with the ratios that are answered, and what was decided of them; None = they are not needed.

    They are asked for where something is said to be of the motors and the description knows no gears.
    Raises UsageError for an answer that is neither one number other than 0 nor one a joint, those of a hand
    left out or not, or of a coupled drive.
    """
    if GEARS in answers:
        ratios = _numbers(answers[GEARS])
        joints = next((some for some in _some_joints(robot) if len(some) == len(ratios)), ())
        if len(ratios) == 1:
            joints, ratios = robot.joint_names, ratios * robot.n
        if not joints:
            raise UsageError(
                "unknown-answer",
                found=f"{GEARS} = {answers[GEARS]}",
                expected=f"{_count(robot)}, other than 0",
            )
        numbers = map(robot.joint_names.index, joints)
        drive = robot.drive.with_constants(gear_ratio=dict(zip(numbers, ratios, strict=True)))
        return replace(robot, drive=drive), Decision(GEARS, answers[GEARS], (AS_YOU_SAY,))
    unknown = bool((np.abs(robot.drive.gear_ratio) == 1).all()) and not robot.drive.coupled
    if not unknown or all(answers.get(side) != "motor" for side in _SIDES):
        return robot, None
    why = "the description knows no gears between the motors and the joints"
    question = f"how many turns of its motor are one of the joint? {_count(robot)}; 1 = it has no gear"
    return robot, Decision(GEARS, None, (why,), question)


def _some_joints(robot: RobotModel) -> list[tuple[str, ...]]:
    """Joints that may have a number each: all, or those without a hand's."""
    hands = hand_joints(robot)
    arm = tuple(one for one in robot.joint_names if one not in hands)
    return [robot.joint_names, *([arm] if hands and arm else [])]


def _count(robot: RobotModel) -> str:
    if robot.n == 1:
        return "one number"
    several = " or ".join(f"{len(some)} ({', '.join(some)})" for some in _some_joints(robot))
    return f"one number for all joints, or {several} from base to tip, with commas"


def _numbers(text: str) -> list[float]:
    """[] where one of them is none, or 0."""
    try:
        values = [float(one) for one in text.replace(",", " ").split()]
    except ValueError:
        return []
    return values if all(np.isfinite(values)) and all(values) else []

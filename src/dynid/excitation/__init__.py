"""Exciting motions: smooth trajectories inside the limits of a robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.excitation.checks import Checks, checks_of
    from dynid.excitation.collision import CollisionModel, collision_model
    from dynid.excitation.criteria import Criterion, Information
    from dynid.excitation.design import Task
    from dynid.excitation.folder import write_plan
    from dynid.excitation.kinematics import points
    from dynid.excitation.limits import Bounds, MotionLimits, Workspace
    from dynid.excitation.plan import Plan, design_motion, information_of, prior_theta
    from dynid.excitation.plan_file import read_plan_file
    from dynid.excitation.settings import MotionSettings
    from dynid.excitation.shapes import RobotShapes, robot_shapes
    from dynid.excitation.stages import Stage, stages_of
    from dynid.robot.shapes import Shape

__all__ = [
    "Bounds",
    "Checks",
    "CollisionModel",
    "Criterion",
    "Information",
    "MotionLimits",
    "MotionSettings",
    "Plan",
    "RobotShapes",
    "Shape",
    "Stage",
    "Task",
    "Workspace",
    "checks_of",
    "collision_model",
    "design_motion",
    "information_of",
    "points",
    "prior_theta",
    "read_plan_file",
    "robot_shapes",
    "stages_of",
    "write_plan",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "kinematics": "points",
        "checks": "Checks checks_of",
        "collision": "CollisionModel collision_model",
        "criteria": "Criterion Information",
        "design": "Task",
        "folder": "write_plan",
        "limits": "Bounds MotionLimits Workspace",
        "plan": "Plan design_motion information_of prior_theta",
        "plan_file": "read_plan_file",
        "settings": "MotionSettings",
        "shapes": "RobotShapes Shape robot_shapes",
        "stages": "Stage stages_of",
    },
)

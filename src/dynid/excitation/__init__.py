"""Exciting motions: what to run on the robot so that its log determines the model.

This room designs trajectories that make the base parameters of a model as identifiable as the limits allow. The limits
cover joints, torque, surroundings and self-collision. Families are Fourier series, splines, friction sweeps, static
poses and torque sinusoids. A finished motion is checked on a dense grid and, if the package coal is installed, by
independent distances at 1 kHz. It is written with a page to look at and with files in the formats of common
controllers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base import lazily

if TYPE_CHECKING:
    from dynid.excitation.collision import CollisionModel, collision_model, points
    from dynid.excitation.design import Criterion, Information, Task
    from dynid.excitation.folder import Checks, checks_of, write_plan
    from dynid.excitation.limits import Bounds, MotionLimits, TorqueSpread, Workspace, reserve_of
    from dynid.excitation.plan import Plan, design_motion, information_of, prior_theta
    from dynid.excitation.sequences import Stage, stages_of
    from dynid.excitation.settings import MotionSettings, read_plan_file
    from dynid.excitation.shapes import RobotShapes, robot_shapes

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
    "TorqueSpread",
    "Workspace",
    "checks_of",
    "collision_model",
    "design_motion",
    "information_of",
    "points",
    "prior_theta",
    "read_plan_file",
    "reserve_of",
    "robot_shapes",
    "stages_of",
    "write_plan",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "collision": "CollisionModel collision_model points",
        "design": "Criterion Information Task",
        "folder": "Checks checks_of write_plan",
        "limits": "Bounds MotionLimits TorqueSpread Workspace reserve_of",
        "plan": "Plan design_motion information_of prior_theta",
        "sequences": "Stage stages_of",
        "settings": "MotionSettings read_plan_file",
        "shapes": "RobotShapes Shape robot_shapes",
    },
)

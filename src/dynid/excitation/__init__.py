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
    from dynid.excitation.collision import CollisionModel as CollisionModel
    from dynid.excitation.collision import collision_model as collision_model
    from dynid.excitation.collision import points as points
    from dynid.excitation.design import Criterion as Criterion
    from dynid.excitation.design import Information as Information
    from dynid.excitation.design import Task as Task
    from dynid.excitation.folder import Checks as Checks
    from dynid.excitation.folder import checks_of as checks_of
    from dynid.excitation.folder import write_plan as write_plan
    from dynid.excitation.limits import Bounds as Bounds
    from dynid.excitation.limits import MotionLimits as MotionLimits
    from dynid.excitation.limits import TorqueSpread as TorqueSpread
    from dynid.excitation.limits import Workspace as Workspace
    from dynid.excitation.limits import reserve_of as reserve_of
    from dynid.excitation.plan import Plan as Plan
    from dynid.excitation.plan import design_motion as design_motion
    from dynid.excitation.plan import information_of as information_of
    from dynid.excitation.plan import prior_theta as prior_theta
    from dynid.excitation.sequences import Stage as Stage
    from dynid.excitation.sequences import stages_of as stages_of
    from dynid.excitation.settings import MotionSettings as MotionSettings
    from dynid.excitation.settings import read_plan_file as read_plan_file
    from dynid.excitation.shapes import RobotShapes as RobotShapes
    from dynid.excitation.shapes import robot_shapes as robot_shapes
    from dynid.robot import Shape as Shape

__getattr__, __dir__, __all__ = lazily(
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

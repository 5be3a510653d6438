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
    from dynid.excitation.design import shrinkage as shrinkage
    from dynid.excitation.excite import correlated_joints as correlated_joints
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
    from dynid.excitation.plan import information_known as information_known
    from dynid.excitation.plan import information_of as information_of
    from dynid.excitation.plan import prior_theta as prior_theta
    from dynid.excitation.sequences import Stage as Stage
    from dynid.excitation.sequences import stages_of as stages_of
    from dynid.excitation.settings import REMOVED_OPTIONS as REMOVED_OPTIONS
    from dynid.excitation.settings import Format as Format
    from dynid.excitation.settings import MotionSettings as MotionSettings
    from dynid.excitation.settings import MotionTable as MotionTable
    from dynid.excitation.settings import json_schema as json_schema
    from dynid.excitation.settings import read_plan_file as read_plan_file
    from dynid.excitation.settings import template_text as template_text
    from dynid.excitation.shapes import RobotShapes as RobotShapes
    from dynid.excitation.shapes import robot_shapes as robot_shapes
    from dynid.excitation.torque_plan import TorquePlan as TorquePlan
    from dynid.excitation.tracking import track_any as track_any
    from dynid.excitation.tracking import union_missing as union_missing
    from dynid.robot import Shape as Shape

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "collision": "CollisionModel collision_model points",
        "design": "Criterion Information Task shrinkage",
        "excite": "correlated_joints",
        "folder": "Checks checks_of write_plan",
        "limits": "Bounds MotionLimits TorqueSpread Workspace reserve_of",
        "plan": "Plan design_motion information_known information_of prior_theta",
        "sequences": "Stage stages_of",
        "settings": (
            "Format MotionSettings MotionTable REMOVED_OPTIONS json_schema read_plan_file template_text"
        ),
        "shapes": "RobotShapes Shape robot_shapes",
        "torque_plan": "TorquePlan",
        "tracking": "track_any union_missing",
    },
)

"""Exciting motions: smooth trajectories inside the limits of a robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.excitation.capsules import link_capsules
    from dynid.excitation.criteria import Criterion, Information
    from dynid.excitation.design import Task
    from dynid.excitation.folder import write_plan
    from dynid.excitation.kinematics import points
    from dynid.excitation.limits import Bounds, MotionLimits, Workspace
    from dynid.excitation.plan import Plan, design_motion, information_of, prior_theta

__all__ = [
    "Bounds",
    "Criterion",
    "Information",
    "MotionLimits",
    "Plan",
    "Task",
    "Workspace",
    "design_motion",
    "information_of",
    "link_capsules",
    "points",
    "prior_theta",
    "write_plan",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "kinematics": "points",
        "capsules": "link_capsules",
        "criteria": "Criterion Information",
        "design": "Task",
        "folder": "write_plan",
        "limits": "Bounds MotionLimits Workspace",
        "plan": "Plan design_motion information_of prior_theta",
    },
)

"""Robot descriptions: readers, checks and the model that everything else works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.robot.description import describe
    from dynid.robot.drive import Drive
    from dynid.robot.load import load_example, load_robot, read_robot
    from dynid.robot.model import JointType, Limits, RobotModel
    from dynid.robot.mounting import Mounting
    from dynid.robot.reading import Reading

__all__ = [
    "Drive",
    "JointType",
    "Limits",
    "Mounting",
    "Reading",
    "RobotModel",
    "describe",
    "load_example",
    "load_robot",
    "read_robot",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "description": "describe",
        "drive": "Drive",
        "load": "load_example load_robot read_robot",
        "model": "JointType Limits RobotModel",
        "mounting": "Mounting",
        "reading": "Reading",
    },
)

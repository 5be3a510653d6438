"""Robot files: readers, checks, and the robot model that the rest of the package uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.robot.drive import Drive, FourBar, Servo, TorqueSide
    from dynid.robot.formats import RobotFile, named_as_robot
    from dynid.robot.links import (
        FREE,
        GRAVITY,
        MOVING,
        Link,
        LinkInertial,
        LinkJoint,
        LinkTree,
        Mimic,
        check_size,
        checked_tree,
        children_of,
        held_still,
        model_of_links,
        nearest,
    )
    from dynid.robot.load import load_example, load_robot, lock_joints, read_robot
    from dynid.robot.meshes import mesh_points, mesh_triangles, note_absent_meshes
    from dynid.robot.mjcf import compiled, load_mujoco
    from dynid.robot.model import JointType, Limits, Mounting, RobotModel
    from dynid.robot.options import Reading, ServoSettings
    from dynid.robot.serial import describe, robot_from_dict, robot_to_dict
    from dynid.robot.shapes import (
        DescribedShape,
        Geometry,
        Kind,
        Shape,
        by_link,
        described_shapes,
        spread_directions,
    )
    from dynid.robot.urdf import duplicate, lint, unit_axis
    from dynid.robot.xml import MAX_BYTES, Element, numbers, parse

__all__ = [
    "FREE",
    "GRAVITY",
    "MAX_BYTES",
    "MOVING",
    "DescribedShape",
    "Drive",
    "Element",
    "FourBar",
    "Geometry",
    "JointType",
    "Kind",
    "Limits",
    "Link",
    "LinkInertial",
    "LinkJoint",
    "LinkTree",
    "Mimic",
    "Mounting",
    "Reading",
    "RobotFile",
    "RobotModel",
    "Servo",
    "ServoSettings",
    "Shape",
    "TorqueSide",
    "by_link",
    "check_size",
    "checked_tree",
    "children_of",
    "compiled",
    "describe",
    "described_shapes",
    "duplicate",
    "held_still",
    "lint",
    "load_example",
    "load_mujoco",
    "load_robot",
    "lock_joints",
    "mesh_points",
    "mesh_triangles",
    "model_of_links",
    "named_as_robot",
    "nearest",
    "note_absent_meshes",
    "numbers",
    "parse",
    "read_robot",
    "robot_from_dict",
    "robot_to_dict",
    "spread_directions",
    "unit_axis",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "drive": "Drive FourBar Servo TorqueSide",
        "formats": "RobotFile named_as_robot",
        "links": (
            "FREE GRAVITY Link LinkInertial LinkJoint LinkTree MOVING Mimic check_size checked_tree "
            "children_of held_still model_of_links nearest"
        ),
        "load": "load_example load_robot lock_joints read_robot",
        "meshes": "mesh_points mesh_triangles note_absent_meshes",
        "mjcf": "compiled load_mujoco",
        "model": "JointType Limits Mounting RobotModel",
        "options": "Reading ServoSettings",
        "serial": "describe robot_from_dict robot_to_dict",
        "shapes": "DescribedShape Geometry Kind Shape by_link described_shapes spread_directions",
        "urdf": "duplicate lint unit_axis",
        "xml": "Element MAX_BYTES numbers parse",
    },
)

"""Robot files: readers, checks, and the robot model that the rest of the package uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.robot.drive import Drive as Drive
    from dynid.robot.drive import Servo as Servo
    from dynid.robot.drive import TorqueSide as TorqueSide
    from dynid.robot.formats import RobotFile as RobotFile
    from dynid.robot.formats import named_as_robot as named_as_robot
    from dynid.robot.linkage import FourBar as FourBar
    from dynid.robot.linkage import Linkage as Linkage
    from dynid.robot.linkage import Table as Table
    from dynid.robot.links import FREE as FREE
    from dynid.robot.links import GRAVITY as GRAVITY
    from dynid.robot.links import MOVING as MOVING
    from dynid.robot.links import Link as Link
    from dynid.robot.links import LinkInertial as LinkInertial
    from dynid.robot.links import LinkJoint as LinkJoint
    from dynid.robot.links import LinkTree as LinkTree
    from dynid.robot.links import Mimic as Mimic
    from dynid.robot.links import check_size as check_size
    from dynid.robot.links import checked_tree as checked_tree
    from dynid.robot.links import children_of as children_of
    from dynid.robot.links import held_still as held_still
    from dynid.robot.links import model_of_links as model_of_links
    from dynid.robot.links import nearest as nearest
    from dynid.robot.load import load_example as load_example
    from dynid.robot.load import load_robot as load_robot
    from dynid.robot.load import lock_joints as lock_joints
    from dynid.robot.load import read_robot as read_robot
    from dynid.robot.load import with_fixed_base as with_fixed_base
    from dynid.robot.load import with_floating_base as with_floating_base
    from dynid.robot.load import with_tables as with_tables
    from dynid.robot.meshes import mesh_points as mesh_points
    from dynid.robot.meshes import mesh_triangles as mesh_triangles
    from dynid.robot.meshes import note_absent_meshes as note_absent_meshes
    from dynid.robot.mjcf import compiled as compiled
    from dynid.robot.mjcf import load_mujoco as load_mujoco
    from dynid.robot.model import JointType as JointType
    from dynid.robot.model import Limits as Limits
    from dynid.robot.model import Mounting as Mounting
    from dynid.robot.model import RobotModel as RobotModel
    from dynid.robot.options import Reading as Reading
    from dynid.robot.options import ServoSettings as ServoSettings
    from dynid.robot.rods import RodEntry as RodEntry
    from dynid.robot.rods import Rods as Rods
    from dynid.robot.rods import rods_of as rods_of
    from dynid.robot.serial import describe as describe
    from dynid.robot.serial import robot_from_dict as robot_from_dict
    from dynid.robot.serial import robot_to_dict as robot_to_dict
    from dynid.robot.shapes import DescribedShape as DescribedShape
    from dynid.robot.shapes import Geometry as Geometry
    from dynid.robot.shapes import Kind as Kind
    from dynid.robot.shapes import Shape as Shape
    from dynid.robot.shapes import by_link as by_link
    from dynid.robot.shapes import described_shapes as described_shapes
    from dynid.robot.shapes import spread_directions as spread_directions
    from dynid.robot.urdf import duplicate as duplicate
    from dynid.robot.urdf import lint as lint
    from dynid.robot.urdf import unit_axis as unit_axis
    from dynid.robot.xml import MAX_BYTES as MAX_BYTES
    from dynid.robot.xml import Element as Element
    from dynid.robot.xml import numbers as numbers
    from dynid.robot.xml import parse as parse

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "drive": "Drive Servo TorqueSide",
        "linkage": "FourBar Linkage Table",
        "formats": "RobotFile named_as_robot",
        "links": (
            "FREE GRAVITY Link LinkInertial LinkJoint LinkTree MOVING Mimic check_size checked_tree "
            "children_of held_still model_of_links nearest"
        ),
        "load": "load_example load_robot lock_joints read_robot with_fixed_base with_floating_base with_tables",
        "meshes": "mesh_points mesh_triangles note_absent_meshes",
        "mjcf": "compiled load_mujoco",
        "model": "JointType Limits Mounting RobotModel",
        "options": "Reading ServoSettings",
        "rods": "RodEntry Rods rods_of",
        "serial": "describe robot_from_dict robot_to_dict",
        "shapes": "DescribedShape Geometry Kind Shape by_link described_shapes spread_directions",
        "urdf": "duplicate lint unit_axis",
        "xml": "Element MAX_BYTES numbers parse",
    },
)

"""URDF: checked, fixed joints merged, mimic joints projected."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.urdf_lint import Urdf, lint
from dynid.robot.urdf_parts import UrdfJoint
from dynid.robot.urdf_tree import children_of
from dynid.robot.xml import Element
from dynid.spatial.inertia import transformed

GRAVITY = (0.0, 0.0, -9.81)


def read_urdf(robot: Element, path: Path, root: str | None, diagnostics: Diagnostics) -> RobotModel:
    """The robot of a <robot> element; gravity is 9.81 m/s^2 along -z of the root link.

    Joints stand depth first, siblings by name, as pinocchio has them.
    """
    urdf = lint(robot, path.parent, root, diagnostics)
    bodies = _merge(urdf)
    joints = [body.joint for body in bodies]
    independent = [joint for joint in joints if joint.mimic is None]
    projection, offset = _projection(urdf, joints, independent)
    return RobotModel(
        name=urdf.name,
        source=str(path),
        body_names=tuple(joint.child for joint in joints),
        tree_joint_names=tuple(joint.name for joint in joints),
        joint_names=tuple(joint.name for joint in independent),
        parent=np.array([body.parent for body in bodies], dtype=np.int64),
        joint_types=tuple(JointType(joint.kind) for joint in joints),
        T_parent_joint=np.array([body.placement for body in bodies]),
        axis=np.array([joint.axis for joint in joints]),
        inertia_prior=np.array([body.inertia if body.known else np.full(10, np.nan) for body in bodies]),
        gravity=np.array(GRAVITY),
        limits=Limits(
            lower=np.array([joint.lower for joint in independent]),
            upper=np.array([joint.upper for joint in independent]),
            velocity=np.array([joint.velocity for joint in independent]),
            effort=np.array([joint.effort for joint in independent]),
        ),
        drive=Drive.direct(len(independent)),
        projection=projection,
        projection_offset=offset,
        friction_prior=np.array([[joint.damping, joint.friction] for joint in independent]),
        merged=tuple(tuple(body.links) for body in bodies),
    )


@dataclass
class _Body:
    joint: UrdfJoint
    parent: int
    placement: Float
    links: list[str] = field(default_factory=list)
    inertia: Float = field(default_factory=lambda: np.zeros(10))
    known: bool = False


def _merge(urdf: Urdf) -> list[_Body]:
    # Not recursive, as a chain of fixed joints may be as long as the largest robot that is read.
    children = children_of(urdf.joints)
    bodies: list[_Body] = []
    stack = [(joint, -1, np.eye(4)) for joint in reversed(children.get(urdf.root, []))]
    while stack:
        joint, carrier, frame = stack.pop()
        here = frame @ joint.placement
        if joint.moves:
            bodies.append(_Body(joint, carrier, here))
            carrier, here = len(bodies) - 1, np.eye(4)
        if carrier >= 0:
            _carry(bodies[carrier], joint.child, urdf, here)
        stack += [(next_joint, carrier, here) for next_joint in reversed(children.get(joint.child, []))]
    return bodies


def _carry(body: _Body, link: str, urdf: Urdf, frame: Float) -> None:
    body.links.append(link)
    inertial = urdf.links[link].inertial
    if inertial is not None:
        body.known = True
        body.inertia = body.inertia + transformed(inertial.parameters, frame)


def _projection(urdf: Urdf, joints: list[UrdfJoint], independent: list[UrdfJoint]) -> tuple[Float, Float]:
    index = {joint.name: k for k, joint in enumerate(independent)}
    projection = np.zeros((len(joints), len(independent)))
    offset = np.zeros(len(joints))
    for i, joint in enumerate(joints):
        factor, shift, one = 1.0, 0.0, joint
        while one.mimic is not None:
            shift += factor * one.mimic.offset
            factor *= one.mimic.multiplier
            one = urdf.joints[one.mimic.joint]
        projection[i, index[one.name]] = factor
        offset[i] = shift
    return projection, offset

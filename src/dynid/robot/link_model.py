"""Links and joints as the model of a robot: fixed joints merged, mimic joints projected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.drive import Drive
from dynid.robot.link_tree import children_of
from dynid.robot.links import FREE, LinkJoint, LinkTree
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.spatial.inertia import transformed

GRAVITY = (0.0, 0.0, -9.81)


def model_of_links(
    tree: LinkTree,
    source: str,
    gravity: tuple[float, float, float] = GRAVITY,
    rotors: Mapping[str, float] | None = None,
) -> RobotModel:
    """The robot of links and joints.

    gravity: m/s^2 in the frame of the root.    rotors: inertia of the rotor seen at a joint, kg m^2, by joint.
    Joints stand depth first, siblings by name, as pinocchio has them.
    """
    bodies = _merge(tree)
    joints = [body.joint for body in bodies]
    independent = [joint for joint in joints if joint.mimic is None]
    projection, offset = _projection(tree, joints, independent)
    unknown = np.full(len(independent), np.nan)
    seen = np.array([(rotors or {}).get(joint.name, np.nan) for joint in independent])
    return RobotModel(
        name=tree.name,
        source=source,
        body_names=tuple(joint.child for joint in joints),
        tree_joint_names=tuple(joint.name for joint in joints),
        joint_names=tuple(joint.name for joint in independent),
        parent=np.array([body.parent for body in bodies], dtype=np.int64),
        joint_types=tuple(JointType(joint.kind) for joint in joints),
        T_parent_joint=np.array([body.placement for body in bodies]),
        axis=np.array([joint.axis for joint in joints]),
        inertia_prior=np.array([body.prior for body in bodies]),
        gravity=np.array(gravity),
        limits=Limits(
            lower=np.array([joint.lower for joint in independent]),
            upper=np.array([joint.upper for joint in independent]),
            velocity=np.array([joint.velocity for joint in independent]),
            effort=np.array([joint.effort for joint in independent]),
        ),
        drive=Drive(np.eye(len(independent)), seen, unknown, unknown),
        projection=projection,
        projection_offset=offset,
        friction_prior=np.array([[joint.damping, joint.friction] for joint in independent]),
        spring_prior=_springs(joints, projection, offset),
        merged=tuple(tuple(body.links) for body in bodies),
        locked={joint.name: 0.0 for joint in tree.joints.values() if joint.kind in FREE},
    )


@dataclass
class _Body:
    joint: LinkJoint
    parent: int
    placement: Float
    links: list[str] = field(default_factory=list)
    inertia: Float = field(default_factory=lambda: np.zeros(10))
    known: bool = False

    @property
    def prior(self) -> Float:
        """The ten parameters; nan where no link of the body has a mass."""
        return self.inertia if self.known and self.inertia[0] > 0 else np.full(10, np.nan)


def _merge(tree: LinkTree) -> list[_Body]:
    # Not recursive, as a chain of fixed joints may be as long as the largest robot that is read.
    children = children_of(tree.joints)
    bodies: list[_Body] = []
    stack = [(joint, -1, np.eye(4)) for joint in reversed(children.get(tree.root, []))]
    while stack:
        joint, carrier, frame = stack.pop()
        here = frame @ joint.placement
        if joint.moves:
            bodies.append(_Body(joint, carrier, here))
            carrier, here = len(bodies) - 1, np.eye(4)
        if carrier >= 0:
            _carry(bodies[carrier], joint.child, tree, here)
        stack += [(next_joint, carrier, here) for next_joint in reversed(children.get(joint.child, []))]
    return bodies


def _carry(body: _Body, link: str, tree: LinkTree, frame: Float) -> None:
    body.links.append(link)
    inertial = tree.links[link].inertial
    if tree.links[link].filled_in:
        body.inertia = np.full(10, np.nan)  # what else the body is made of is not all of it
    if inertial is not None:
        body.known = True
        body.inertia = body.inertia + transformed(inertial.parameters, frame)


def _springs(joints: list[LinkJoint], projection: Float, offset: Float) -> Float:
    """Stiffness and preload (n, 2) of what springs of joints, and of those that follow them, do to each; nan = none."""
    total = np.zeros((projection.shape[1], 2))
    for joint, row, shift in zip(joints, projection, offset, strict=True):
        k, rest = joint.spring
        total += np.column_stack([k * row**2, k * (shift - rest) * row])
    total[total[:, 0] == 0.0] = np.nan
    return total


def _projection(tree: LinkTree, joints: list[LinkJoint], independent: list[LinkJoint]) -> tuple[Float, Float]:
    index = {joint.name: k for k, joint in enumerate(independent)}
    projection = np.zeros((len(joints), len(independent)))
    offset = np.zeros(len(joints))
    for i, joint in enumerate(joints):
        factor, shift, one = 1.0, 0.0, joint
        while one.mimic is not None:
            shift += factor * one.mimic.offset
            factor *= one.mimic.multiplier
            one = tree.joints[one.mimic.joint]
        projection[i, index[one.name]] = factor
        offset[i] = shift
    return projection, offset

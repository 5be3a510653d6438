"""URDF: checked, stripped to its tree and inertias, built by pinocchio, mimic joints projected."""

from __future__ import annotations

import math
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.arrays import Float
from dynid.diagnostics import Diagnostics
from dynid.robot import _pinocchio
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.urdf_lint import MOVING, Urdf, UrdfJoint, lint
from dynid.robot.xml import Element

GRAVITY = (0.0, 0.0, -9.81)


def read_urdf(robot: Element, path: Path, root: str | None, diagnostics: Diagnostics) -> RobotModel:
    """The robot of a <robot> element; gravity is 9.81 m/s^2 along -z of the root link."""
    urdf = lint(robot, path.parent, root, diagnostics)
    built = _pinocchio.build(_stripped(urdf))
    joints = [urdf.joints[name] for name in built.joint_names]
    independent = [joint for joint in joints if joint.mimic is None]
    projection, offset = _projection(urdf, joints, independent)
    bodies = [joint.child for joint in joints]
    return RobotModel(
        name=urdf.name,
        source=str(path),
        body_names=tuple(bodies),
        tree_joint_names=tuple(built.joint_names),
        joint_names=tuple(joint.name for joint in independent),
        parent=np.array(built.parent, dtype=np.int64),
        joint_types=tuple(JointType(joint.kind) for joint in joints),
        T_parent_joint=built.placement,
        axis=np.array([joint.axis for joint in joints]),
        inertia_prior=_priors(urdf, built),
        gravity=np.array(GRAVITY),
        limits=Limits(
            lower=np.array([joint.lower for joint in independent]),
            upper=np.array([joint.upper for joint in independent]),
            velocity=np.array([joint.velocity or math.inf for joint in independent]),
            effort=np.array([joint.effort or math.inf for joint in independent]),
        ),
        drive=Drive.direct(len(independent)),
        projection=projection,
        projection_offset=offset,
        friction_prior=np.array([[joint.damping, joint.friction] for joint in independent]),
        merged=tuple(
            (body, *(link for link in links if link != body)) for body, links in zip(bodies, built.links, strict=True)
        ),
    )


def _projection(urdf: Urdf, joints: list[UrdfJoint], independent: list[UrdfJoint]) -> tuple[Float, Float]:
    index = {joint.name: k for k, joint in enumerate(independent)}
    projection = np.zeros((len(joints), len(independent)))
    offset = np.zeros(len(joints))
    for i, joint in enumerate(joints):
        factor, shift, one = 1.0, 0.0, joint
        while one.mimic is not None:
            followed, multiplier, constant = one.mimic
            shift += factor * constant
            factor *= multiplier
            one = urdf.joints[followed]
        projection[i, index[one.name]] = factor
        offset[i] = shift
    return projection, offset


def _priors(urdf: Urdf, built: _pinocchio.BuiltTree) -> Float:
    priors = built.inertia.copy()
    for i, links in enumerate(built.links):
        if all(urdf.links[link].inertial is None for link in links):
            priors[i] = np.nan
    return priors


def _stripped(urdf: Urdf) -> str:
    lines = ['<robot name="robot">']
    for link in urdf.links.values():
        lines.append(f"<link name={quoteattr(link.name)}>")
        if link.inertial is not None:
            mass, xyz, rpy, inertia = link.inertial
            lines.append(
                f'<inertial><origin xyz="{_text(xyz)}" rpy="{_text(rpy)}"/><mass value="{mass!r}"/>'
                f'<inertia ixx="{float(inertia[0, 0])!r}" ixy="{float(inertia[0, 1])!r}" ixz="{float(inertia[0, 2])!r}" '
                f'iyy="{float(inertia[1, 1])!r}" iyz="{float(inertia[1, 2])!r}" izz="{float(inertia[2, 2])!r}"/></inertial>'
            )
        lines.append("</link>")
    for joint in urdf.joints.values():
        limit = '<limit lower="-1" upper="1" velocity="1" effort="1"/>' if joint.kind in MOVING else ""
        lines.append(
            f'<joint name={quoteattr(joint.name)} type="{joint.kind}"><parent link={quoteattr(joint.parent)}/>'
            f'<child link={quoteattr(joint.child)}/><origin xyz="{_text(joint.xyz)}" rpy="{_text(joint.rpy)}"/>'
            f'<axis xyz="{_text(joint.axis)}"/>{limit}</joint>'
        )
    return "\n".join([*lines, "</robot>"])


def _text(values: tuple[float, ...]) -> str:
    return " ".join(repr(float(value)) for value in values)

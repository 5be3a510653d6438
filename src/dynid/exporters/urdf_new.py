"""A URDF written anew, for robots that were not described by one."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.exporters.model import ExportModel, mimicked
from dynid.exporters.names import unique, xml_name
from dynid.exporters.urdf import inertial_lines, join, rpy_of
from dynid.robot.model import JointType, RobotModel

_FAR = 1e9


def new_urdf(model: ExportModel) -> bytes:
    """Base link, one link a body in its joint frame, joints with limits, friction and mimic."""
    robot = model.robot
    base, *links = unique([xml_name(name) or "link" for name in ("base", *robot.body_names)])
    joints = unique([xml_name(name) or "joint" for name in robot.tree_joint_names])
    lines = ['<?xml version="1.0"?>', f"<robot name={quoteattr(xml_name(robot.name) or 'robot')}>"]
    lines.append(f"  <link name={quoteattr(base)}/>")
    for i, link in enumerate(links):
        parent = base if robot.parent[i] < 0 else links[int(robot.parent[i])]
        lines += [*_link(link, model, i), *_joint(robot, model, i, joints, parent, link)]
    return "\n".join([*lines, "</robot>", ""]).encode()


def _link(name: str, model: ExportModel, i: int) -> list[str]:
    pi = model.inertia[i]
    if not pi.any():
        return [f"  <link name={quoteattr(name)}/>"]
    # A body without mass has its inertia about the frame itself.
    com = pi[1:4] / pi[0] if pi[0] else np.zeros(3)
    xx, xy, yy, xz, yz, zz = pi[4:]
    about_origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    inertia = about_origin - pi[0] * (float(com @ com) * np.eye(3) - np.outer(com, com))
    inertial = [f"    {line}" for line in inertial_lines(float(pi[0]), com, inertia)]
    return [f"  <link name={quoteattr(name)}>", *inertial, "  </link>"]


def _joint(
    robot: RobotModel, model: ExportModel, i: int, names: list[str], parent: str, child: str
) -> list[str]:
    T = robot.T_parent_joint[i]
    kind = robot.joint_types[i]
    own = robot.tree_joint_names[i]
    mimic = own not in robot.joint_names
    j, factor = mimicked(robot, i, "URDF") if mimic else (robot.joint_names.index(own), 1.0)
    limits = robot.limits
    lower, upper = float(limits.lower[j]), float(limits.upper[j])
    if kind is JointType.REVOLUTE and (mimic or not np.isfinite([lower, upper]).any()):
        kind = JointType.CONTINUOUS
    lines = [
        f"  <joint name={quoteattr(names[i])} type={quoteattr(str(kind))}>",
        f'    <origin xyz="{join(T[:3, 3])}" rpy="{join(rpy_of(T[:3, :3]))}"/>',
        f"    <parent link={quoteattr(parent)}/>",
        f"    <child link={quoteattr(child)}/>",
        f'    <axis xyz="{join(robot.axis[i])}"/>',
    ]
    # Zero stands for "not known" in both.
    velocity, effort = (
        float(value) if np.isfinite(value) else 0.0 for value in (limits.velocity[j], limits.effort[j])
    )
    span = ""
    if kind is not JointType.CONTINUOUS:
        low, high = (-_FAR, _FAR) if mimic else (max(lower, -_FAR), min(upper, _FAR))
        span = f'lower="{low!r}" upper="{high!r}" '
    lines.append(f'    <limit {span}velocity="{velocity!r}" effort="{effort!r}"/>')
    if mimic:
        followed = quoteattr(names[robot.tree_joint_names.index(robot.joint_names[j])])
        offset = float(robot.projection_offset[i])
        lines.append(f'    <mimic joint={followed} multiplier="{factor!r}" offset="{offset!r}"/>')
    else:
        friction = f'damping="{float(model.viscous[j])!r}" friction="{float(model.coulomb[j])!r}"'
        lines.append(f"    <dynamics {friction}/>")
    return [*lines, "  </joint>"]

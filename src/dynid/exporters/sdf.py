"""SDF: a model for Gazebo, one link per body in its joint frame; with springs, without rotors and offsets."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel, followed_joint, unique, xml_name
from dynid.exporters.urdf import join, rpy_of
from dynid.robot.model import JointType
from dynid.spatial.algebra import placement, rotation_rpy
from dynid.spatial.inertia import from_com, symmetric

_SIX = (("ixx", 0, 0), ("ixy", 0, 1), ("ixz", 0, 2), ("iyy", 1, 1), ("iyz", 1, 2), ("izz", 2, 2))
_FAR = 1e16  # SDF's value for "no limit"


def new_sdf(model: ExportModel) -> bytes:
    """The robot as SDF 1.9, fixed to the world by its base link."""
    robot = model.robot
    base, *links = unique([xml_name(name) or "link" for name in ("base", *robot.body_names)])
    joints = unique([xml_name(name) or "joint" for name in ("base_to_world", *robot.tree_joint_names)])
    name = quoteattr(xml_name(robot.name) or "robot")
    lines = [
        '<?xml version="1.0"?>',
        '<sdf version="1.9">',
        f"  <model name={name}>",
        f"    <link name={quoteattr(base)}/>",
        f"    <joint name={quoteattr(joints[0])} type='fixed'>",
        f"      <parent>world</parent><child>{_text(base)}</child>",
        "    </joint>",
    ]
    for i, link in enumerate(links):
        parent = base if robot.parent[i] < 0 else links[int(robot.parent[i])]
        lines += _link(model, i, link, parent) + _joint(model, i, joints[1:], link, parent)
    return "\n".join([*lines, "  </model>", "</sdf>", ""]).encode()


def _link(model: ExportModel, i: int, name: str, parent: str) -> list[str]:
    T, pi = model.robot.T_parent_joint[i], model.inertia[i]
    lines = [
        f"    <link name={quoteattr(name)}>",
        f"      <pose relative_to={quoteattr(parent)}>{join(T[:3, 3])} {join(rpy_of(T[:3, :3]))}</pose>",
    ]
    if pi.any():
        com = pi[1:4] / pi[0] if pi[0] else np.zeros(3)
        inertia = symmetric(pi[4:]) - pi[0] * (float(com @ com) * np.eye(3) - np.outer(com, com))
        entries = "".join(f"<{key}>{float(inertia[r, c])!r}</{key}>" for key, r, c in _SIX)
        lines += [
            "      <inertial>",
            f"        <pose>{join(com)} 0 0 0</pose>",
            f"        <mass>{float(pi[0])!r}</mass>",
            f"        <inertia>{entries}</inertia>",
            "      </inertial>",
        ]
    return [*lines, "    </link>"]


def _joint(model: ExportModel, i: int, names: list[str], link: str, parent: str) -> list[str]:
    robot, joint_name = model.robot, model.robot.tree_joint_names[i]
    kind = "prismatic" if robot.joint_types[i] is JointType.PRISMATIC else "revolute"
    lines = [
        f"    <joint name={quoteattr(names[i])} type={quoteattr(kind)}>",
        f"      <parent>{_text(parent)}</parent><child>{_text(link)}</child>",
        "      <axis>",
        f"        <xyz>{join(robot.axis[i])}</xyz>",
    ]
    if joint_name in robot.joint_names:
        j = robot.joint_names.index(joint_name)
        limits = robot.limits
        bounds = [_limit(limits.lower[j], -_FAR), _limit(limits.upper[j], _FAR)]
        caps = [_limit(limits.effort[j], -1.0), _limit(limits.velocity[j], -1.0)]
        lines += [
            f"        <limit><lower>{bounds[0]}</lower><upper>{bounds[1]}</upper>"
            f"<effort>{caps[0]}</effort><velocity>{caps[1]}</velocity></limit>",
            f"        <dynamics><damping>{float(model.viscous[j])!r}</damping>"
            f"<friction>{float(model.coulomb[j])!r}</friction>{_spring(model, j)}</dynamics>",
        ]
    else:
        j, factor = followed_joint(robot, i, "SDF")
        followed = quoteattr(names[robot.tree_joint_names.index(robot.joint_names[j])])
        lines += [
            f"        <mimic joint={followed}><multiplier>{factor!r}</multiplier>"
            f"<offset>{float(robot.projection_offset[i])!r}</offset><reference>0</reference></mimic>",
        ]
    return [*lines, "      </axis>", "    </joint>"]


def _spring(model: ExportModel, j: int) -> str:
    stiffness, rest = (float(values[j]) for values in model.springs_of_joints())
    if not stiffness:
        return ""
    return f"<spring_reference>{rest!r}</spring_reference><spring_stiffness>{stiffness!r}</spring_stiffness>"


def _limit(value: float, unknown: float) -> str:
    return repr(float(value) if np.isfinite(value) else unknown)


def _text(name: str) -> str:
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def parameters_of(data: bytes) -> tuple[Float, Float]:
    """Inertial parameters (nb, 10) about the links' frames, and frames (nb, 4, 4), of a file written by `new_sdf`."""
    from xml.etree import ElementTree

    links = ElementTree.fromstring(data).findall("model/link")[1:]  # noqa: S314 - bytes of our own
    inertia, frames = [], []
    for link in links:
        pose = _numbers(link.findtext("pose"))
        frames.append(placement(rotation_rpy(pose[3:]), pose[:3]))
        M = np.zeros((3, 3))
        for key, r, c in _SIX:
            M[r, c] = M[c, r] = _numbers(link.findtext(f"inertial/inertia/{key}"))[0]
        com = _numbers(link.findtext("inertial/pose"))[:3]
        inertia.append(from_com(float(_numbers(link.findtext("inertial/mass"))[0]), com, M))
    return np.array(inertia), np.array(frames)


def _numbers(text: str | None) -> Float:
    return np.zeros(6) if text is None else np.array([float(word) for word in text.split()])

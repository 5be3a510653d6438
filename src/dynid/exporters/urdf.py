"""URDF: the user's file with only its numbers changed, or a new file for robots read from other formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place, RefusedError
from dynid.exporters.model import (
    ExportModel,
    followed_joint,
    kept_share,
    scaled_inertia_text,
    unique,
    with_zero_offsets,
    xml_name,
)
from dynid.exporters.xml_edit import Edits, Tag, read_source, scan
from dynid.robot.links import LinkTree, children_of
from dynid.robot.load import Locked, with_floating_base
from dynid.robot.model import JointType, RobotModel
from dynid.robot.options import Reading
from dynid.robot.urdf import WORLD, lint, read_urdf
from dynid.spatial.algebra import rotation_about, rotation_rpy
from dynid.spatial.inertia import six, symmetric, transformed
from dynid.terms.exports import JointSpring
from dynid.terms.spring import described_springs

# Relative difference below which a number in the file stays as it is written.
_SAME = 1e-13
_SIX = ("ixx", "ixy", "iyy", "ixz", "iyz", "izz")


def edit_urdf(model: ExportModel, path: Path, reading: Reading) -> tuple[bytes, tuple[str, ...]]:
    """Edit inertias and friction of a URDF file in place.

    Links on fixed joints keep their inertia, or the share of it that leaves a physical remainder, and lose it where
    dynid had filled it in. The moving link that carries them gets the remainder.

    Parameters
    ----------
    model : ExportModel
        The model.
    path : Path
        The file.
    reading : Reading
        How the file is read.

    Returns
    -------
    data : bytes
        The edited file.
    notes : tuple of str
        Sentences about inertias that were scaled down.

    Raises
    ------
    InputError
        If the file is another robot's.

    """
    data, element = read_source(path, "robot", "URDF")
    robot = with_same_base(read_urdf(element, path, reading, Diagnostics()), model.robot)
    require_same_tree(model.described, robot, path)
    urdf = lint(element, path.parent, reading, Diagnostics())
    tags = scan(data, str(path))
    edits = Edits(data)
    links = {tag.attributes.get("name"): tag for tag in tags.all("link")}
    joints = {tag.attributes.get("name"): tag for tag in tags.all("joint")}
    if WORLD in urdf.links and WORLD not in links:
        edits.add(tags, [f'<link name="{WORLD}"/>'])
    inertias, notes = _link_inertias(model, urdf)
    for name, pi in inertias.items():
        _set_inertial(edits, links[name], pi, path)
    for j, name in enumerate(robot.joint_names):
        if name not in joints:  # of a floating base
            continue
        _set_dynamics(edits, joints[name], float(model.viscous[j]), float(model.coulomb[j]))
    for i, by in enumerate(robot.projection @ model.zeros):
        if by:
            slides = bool(robot.tree.prismatic[i])
            _set_origin(edits, joints[robot.tree_joint_names[i]], robot.axis[i], float(by), slides)
    return edits.result(), notes


def with_same_base(again: RobotModel, robot: RobotModel) -> RobotModel:
    """A robot that was read from a file, with a floating base if another one has it."""
    return with_floating_base(again) if robot.floats else again


def require_same_tree(wanted: RobotModel, other: RobotModel, path: str | Path) -> None:
    """Raise InputError if a file has other joints than the robot of a run.

    `path`: the file, for the message.
    """
    same = (
        wanted.tree_joint_names == other.tree_joint_names
        and wanted.body_names == other.body_names
        and np.array_equal(wanted.parent, other.parent)
        and np.allclose(wanted.T_parent_joint, other.T_parent_joint, rtol=0, atol=1e-9)
        and np.allclose(wanted.axis, other.axis, rtol=0, atol=1e-9)
    )
    if not same:
        raise InputError(
            "other-robot",
            found="joints that differ from those of the run's robot",
            expected="the robot file of the run, with unchanged joints",
            do="give it with --source",
            place=Place(file=str(path)),
        )


def _link_inertias(model: ExportModel, urdf: LinkTree) -> tuple[dict[str, Float], tuple[str, ...]]:
    # Links on fixed joints keep their inertia, or the share of it that leaves a physical remainder; the link on the
    # moving joint gets the remainder.
    children = children_of(urdf.joints)
    inertias: dict[str, Float] = {}
    notes = []
    for name, pi in zip(model.robot.body_names, model.inertia, strict=True):
        if name not in urdf.links:  # a massless body between the world and a floating base
            continue
        kept, carried = np.zeros(10), {}
        stack = [(joint, np.eye(4)) for joint in children.get(name, []) if not joint.moves]
        while stack:
            joint, frame = stack.pop()
            here = frame @ joint.placement
            inertial = urdf.links[joint.child].inertial
            if urdf.links[joint.child].filled_in:
                inertias[joint.child] = np.zeros(10)
            if inertial is not None:
                carried[joint.child] = np.array(inertial.parameters)
                kept = kept + transformed(inertial.parameters, here)
            stack += [
                (fixed_joint, here) for fixed_joint in children.get(joint.child, []) if not fixed_joint.moves
            ]
        share = kept_share(pi, kept)
        if share < 1.0:
            notes.append(scaled_inertia_text(name, share, kept, pi))
            inertias |= {child: share * inertia for child, inertia in carried.items()}
        inertias[name] = pi - share * kept
    return inertias, tuple(notes)


def _set_inertial(edits: Edits, link: Tag, pi: Float, path: Path) -> None:
    inertial = link.find("inertial")
    if inertial is None:
        if pi.any():
            mass, com, inertia = _central(pi, link, path)
            edits.add(link, inertial_lines(mass, com, inertia))
        return
    origin, inertia_tag, mass_tag = (inertial.find(name) for name in ("origin", "inertia", "mass"))
    R = rotation_rpy(np.array(_numbers(origin, "rpy", 3)))
    mass, com, inertia = _central(pi, link, path, np.array(_numbers(origin, "xyz", 3)))
    missing = []
    if mass_tag is not None:
        _set(edits, mass_tag, "value", [mass])
    if origin is not None:
        _set(edits, origin, "xyz", com)
    elif com.any():
        missing.append(f'<origin xyz="{join(com)}"/>')
    values = six(R.T @ inertia @ R)
    if inertia_tag is None:
        missing.append(
            "<inertia " + " ".join(f'{k}="{v!r}"' for k, v in zip(_SIX, values.tolist(), strict=True)) + "/>"
        )
    else:
        size = float(np.abs(values).max())
        for key, value in zip(_SIX, values, strict=True):
            _set(edits, inertia_tag, key, [value], size)
    if missing:
        edits.add(inertial, missing)


def _central(pi: Float, link: Tag, path: Path, com: Float | None = None) -> tuple[float, Float, Float]:
    mass = float(pi[0])
    if mass == 0.0:
        if pi[1:4].any():
            raise RefusedError(
                "massless",
                found=f"link '{link.attributes.get('name')}' with a first moment and no mass",
                expected="a mass, since URDF stores the centre of mass",
                place=Place(file=str(path)),
            )
        return 0.0, np.zeros(3) if com is None else com, symmetric(pi[4:])
    # to_com refuses negative masses, which --allow-unphysical exports.
    c = pi[1:4] / mass
    return mass, c, symmetric(pi[4:]) - mass * (float(c @ c) * np.eye(3) - np.outer(c, c))


def _set_dynamics(edits: Edits, joint: Tag, viscous: float, coulomb: float) -> None:
    dynamics = joint.find("dynamics")
    if dynamics is not None:
        _set(edits, dynamics, "damping", [viscous])
        _set(edits, dynamics, "friction", [coulomb])
    elif viscous or coulomb:
        edits.add(joint, [f'<dynamics damping="{viscous!r}" friction="{coulomb!r}"/>'])


def _set_origin(edits: Edits, joint: Tag, axis: Float, by: float, slides: bool) -> None:
    # A zero offset moves the joint frame along its own axis.
    origin = joint.find("origin")
    R, p = rotation_rpy(np.array(_numbers(origin, "rpy", 3))), np.array(_numbers(origin, "xyz", 3))
    if slides:
        p = p + by * (R @ axis)
    else:
        R = R @ rotation_about(axis, by)
    if origin is None:
        edits.add(joint, [f'<origin xyz="{join(p)}" rpy="{join(rpy_of(R))}"/>'])
        return
    edits.set(origin, "xyz", join(p))
    edits.set(origin, "rpy", join(rpy_of(R)))


def _set(edits: Edits, tag: Tag, key: str, values: Sequence[float] | Float, size: float = 0.0) -> None:
    old, new = _numbers(tag, key, len(values)), [float(value) for value in values]
    scale = max(size, *(abs(value) for value in new))
    if any(abs(a - b) > _SAME * scale for a, b in zip(old, new, strict=True)):
        edits.set(tag, key, join(new))


def _numbers(tag: Tag | None, key: str, count: int) -> list[float]:
    text = "" if tag is None else tag.attributes.get(key, "")
    return [float(part) for part in text.split()] or [0.0] * count


def join(values: Sequence[float] | Float) -> str:
    """Numbers with all digits, separated by blanks."""
    return " ".join(repr(float(value)) for value in values)


def inertial_lines(mass: float, com: Float, inertia: Float) -> list[str]:
    """Lines of an <inertial> element; com and the inertia (3, 3) about it are in the link's frame."""
    entries = " ".join(f'{k}="{v!r}"' for k, v in zip(_SIX, six(inertia).tolist(), strict=True))
    return [
        "<inertial>",
        f'  <origin xyz="{join(com)}" rpy="0 0 0"/>',
        f'  <mass value="{mass!r}"/>',
        f"  <inertia {entries}/>",
        "</inertial>",
    ]


def rpy_of(R: Float) -> Float:
    """Roll, pitch and yaw of a rotation (3, 3), the inverse of rotation_rpy.

    Roll is computed from what remains after pitch and yaw, so that it compensates a yaw that rounding leaves
    undetermined where the pitch is near a right angle.
    """
    yaw = math.atan2(R[1, 0], R[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    pitch = math.atan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    return np.array([math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]), pitch, yaw])


# A new URDF file, for robots that were read from another format.

# rad or m: limit that stands for none, as URDF requires limits of such joints.
_FAR = 1e9


def new_urdf(model: ExportModel) -> bytes:
    """Write a new URDF file: base link, one link per body in its joint frame, joints with limits, friction and mimic.

    Parameters
    ----------
    model : ExportModel
        The model.

    Returns
    -------
    bytes
        The file.

    """
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
    # Without mass there is no centre, and the inertia is about the frame.
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
    joint_name = robot.tree_joint_names[i]
    mimic = joint_name not in robot.joint_names
    j, factor = followed_joint(robot, i, "URDF") if mimic else (robot.joint_names.index(joint_name), 1.0)
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
    # URDF writes 0 for an unknown limit of velocity and effort.
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


# A model without locked joints, brought back to the robot file that has them.


def unlocked(
    model: ExportModel, described: RobotModel, locked_robot: Locked
) -> tuple[ExportModel, tuple[str, ...]]:
    """Bring a model without its locked joints back to the robot file that has them.

    Links on locked joints keep the inertia of the file, or the share of it that leaves a physical remainder; the links
    that carry them get the remainder. Friction, rotors and springs of locked joints are those of the file.

    `described`: the robot of the file, with all joints; `locked_robot`: the same robot with these joints locked.
    Results: `model`: model with all joints; `notes`: sentences about inertias that were scaled down. Raises InputError
    if the file is another robot's.
    """
    require_same_tree(model.described, locked_robot.robot, described.source)
    inertia = np.where(np.isfinite(described.inertia_prior), described.inertia_prior, 0.0)
    kept = [i for i, name in enumerate(described.body_names) if name in locked_robot.robot.body_names]
    carried = np.zeros_like(model.inertia)
    for i, on in enumerate(locked_robot.carrier):
        if i not in kept and on >= 0:
            carried[on] += transformed(inertia[i], locked_robot.frames[i])
    shares = [kept_share(whole, part) for whole, part in zip(model.inertia, carried, strict=True)]
    for i, on in enumerate(locked_robot.carrier):
        if i not in kept and on >= 0:
            inertia[i] *= shares[on]
    inertia[kept] = model.inertia - np.array(shares)[:, None] * carried
    notes = [
        scaled_inertia_text(name, share, part, whole)
        for name, share, part, whole in zip(
            model.robot.body_names, shares, carried, model.inertia, strict=True
        )
        if share < 1.0
    ]
    joints = [described.joint_names.index(name) for name in model.robot.joint_names]

    def spread(values: Float, others: Float) -> Float:
        whole = np.where(np.isfinite(others), others, 0.0)
        whole[joints] = values
        return whole

    def on_whole(spring: JointSpring) -> JointSpring:
        weights = np.zeros(described.n)
        weights[joints] = spring.weights
        return replace(spring, weights=weights)

    locked_joints = [
        described.joint_names.index(name)
        for name in locked_robot.robot.locked
        if name in described.joint_names
    ]
    springs = [spring for spring in described_springs(described) if spring.joints[0] in locked_joints]
    nothing, unit = np.zeros(described.n), np.ones(described.n)
    zeros = spread(model.zeros, nothing)
    return replace(
        model,
        robot=with_zero_offsets(described, zeros),
        inertia=inertia,
        rotor=spread(model.rotor, described.drive.reflected_rotor_inertia),
        viscous=spread(model.viscous, described.friction_prior[:, 0]),
        coulomb=spread(model.coulomb, described.friction_prior[:, 1]),
        offset=spread(model.offset, nothing),
        width=spread(model.width, nothing),
        peak=spread(model.peak, unit),
        distance=spread(model.distance, nothing),
        zeros=zeros,
        reach=np.zeros((0, 2)),
        springs=(*map(on_whole, model.springs), *springs),
        curves=(),
        mixed=(),
        tilt=None,
    ), tuple(notes)

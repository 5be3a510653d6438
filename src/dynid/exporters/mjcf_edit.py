"""The user's own MJCF with only inertias, armature, damping, friction and springs of joints changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.exporters.mjcf import DRY, quaternion
from dynid.exporters.model import ExportModel, kept_share, shared_text
from dynid.exporters.urdf import join, require_same_tree
from dynid.exporters.xml_edit import Edits, Tag, read_source, scan
from dynid.robot.mjcf import CompiledMjcf, compile_mjcf, read_mjcf
from dynid.robot.reading import Reading
from dynid.robot.xml import parse
from dynid.spatial.algebra import placement, rotation_quaternion
from dynid.spatial.inertia import from_com, to_com, transformed

# A number of the file that is this close to the model's stays as it is written.
_SAME = 1e-13
_TURNS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")
_JOINT = ("armature", "damping", "frictionloss")
# MuJoCo's own solreffriction and solimpfriction.
_SOLREF, _SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)


class NotEditable(Exception):
    """Why a file cannot be changed in place: its numbers do not stand where they would have to."""


@dataclass(frozen=True)
class _Place:
    """A MuJoCo body of the file: its tag, its own elements, and its last joint's index in the robot's tree."""

    body: int
    tag: Tag
    inertial: Tag | None
    joints: tuple[Tag, ...]


def edit_mjcf(model: ExportModel, path: Path, reading: Reading) -> tuple[bytes, tuple[str, ...]]:
    """The file with the model's inertias, rotors, friction and springs.

    Bodies without joints keep their inertia, or the share of it that leaves a possible rest; the moving body that
    carries them takes the rest. Values that come from a default class are written at the joint that differs.
    Returns the bytes and what there is to say of such shares.
    Raises InputError if the file describes another robot, NotEditable where the numbers are not in this file or would
    not count there.
    """
    data, element = read_source(path, "mujoco", "MJCF")
    tags = scan(data, str(path))
    _refuse(tags)
    require_same_tree(model.described, read_mjcf(element, path, reading, Diagnostics()), path)
    compiled = compile_mjcf(parse(data, str(path)), path, reading, Diagnostics())
    places = _places(tags)
    if len(places) != compiled.model.nbody - 1 or sum(len(p.joints) for p in places) != compiled.model.njnt:
        raise NotEditable("bodies or joints that do not stand in the file one by one")
    edits = Edits(data)
    compilers = [tag.attributes for tag in tags.walk() if tag.name == "compiler"]
    degrees = not any(one.get("angle") == "radian" for one in compilers)
    stiffness, rest = model.springs_of_joints()
    if any(len(one.joints) > 1 for one in model.springs):
        raise NotEditable("springs over several joints need tendons")
    if stiffness.any() and compiled.model.opt.disableflags & compiled.mujoco.mjtDisableBit.mjDSBL_SPRING:
        raise NotEditable("springs are disabled in the file")
    # Time constants of springs and dampers count before the numbers themselves.
    timed = any(tag.name == "joint" and "springdamper" in tag.attributes for tag in tags.walk())
    index = _tree_index(compiled, reading.root)
    notes = []
    for place in places:
        joints = _joints_of(compiled.model, place.body)
        if joints and joints[-1] in index:
            notes += _edit_body(edits, places, place, model, compiled, index, joints)
            for tag, joint in zip(place.joints, joints, strict=True):
                _edit_joint(edits, tag, model, compiled, joint, index[joint], timed)
                j = model.robot.joint_names.index(model.robot.tree_joint_names[index[joint]])
                spring = float(stiffness[j]), float(rest[j])
                _edit_spring(edits, tag, compiled, joint, spring, degrees, timed)
                _edit_zero(edits, tag, model, compiled, joint, index[joint], degrees)
    return edits.result(), tuple(notes)


def _refuse(root: Tag) -> None:
    for tag in root.walk():
        if tag.name in ("include", "attach", "model"):
            raise NotEditable(f"<{tag.name}>: parts of the robot stand in other files")
        if tag.name == "compiler":
            if tag.attributes.get("inertiafromgeom") == "true":
                raise NotEditable("inertiafromgeom='true': inertias in the file would not count")
            if float(tag.attributes.get("settotalmass", "-1")) > 0:
                raise NotEditable("settotalmass: masses in the file would be scaled")


def _places(root: Tag) -> list[_Place]:
    # MuJoCo numbers bodies and joints in the order of the file.
    bodies = [tag for world in root.all("worldbody") for tag in world.walk() if tag.name == "body"]
    found = []
    for number, tag in enumerate(bodies, 1):
        own = list(_own(tag))
        inertial = next((one for one in own if one.name == "inertial"), None)
        joints = tuple(one for one in own if one.name in ("joint", "freejoint"))
        found.append(_Place(number, tag, inertial, joints))
    return found


def _own(body: Tag) -> Iterator[Tag]:
    for child in body.children:
        if child.name == "frame":
            yield from _own(child)
        elif child.name != "body":
            yield child


def _joints_of(m: Any, body: int) -> list[int]:
    first = int(m.body_jntadr[body])
    return list(range(first, first + int(m.body_jntnum[body])))


def _tree_index(compiled: CompiledMjcf, root: str | None) -> dict[int, int]:
    # Joint of MuJoCo -> body of the robot's tree, in the reader's order.
    m = compiled.model
    names, kinds = compiled.mujoco.mjtObj.mjOBJ_BODY, compiled.mujoco.mjtJoint
    kept = [
        joint
        for joint in range(m.njnt)
        if int(m.jnt_type[joint]) in (int(kinds.mjJNT_HINGE), int(kinds.mjJNT_SLIDE))
        and (
            root is None
            or compiled.mujoco.mj_id2name(m, names, int(m.body_rootid[m.jnt_bodyid[joint]])) == root
        )
    ]
    return {joint: i for i, joint in enumerate(kept)}


def _edit_body(
    edits: Edits,
    places: list[_Place],
    place: _Place,
    model: ExportModel,
    compiled: CompiledMjcf,
    index: dict[int, int],
    joints: list[int],
) -> list[str]:
    m = compiled.model
    between = [index[joint] for joint in joints[:-1]]
    if model.inertia[between].any():
        raise NotEditable("several joints of one body, with mass between them in the model")
    i = index[joints[-1]]
    # The body's frame is the joint's, moved back by the joint's place in it.
    whole = transformed(model.inertia[i], placement(np.eye(3), np.array(m.jnt_pos[joints[-1]])))
    kept = _welded(compiled, place.body)
    share = kept_share(whole, kept)
    _set_inertial(edits, place, whole - share * kept, compiled)
    fixed = _fixed_to(compiled, place.body)
    for child in compiled.filled_in.intersection(fixed):
        tag = places[child - 1].inertial
        if tag is not None:
            edits.remove(tag, "fullinertia")
            edits.set(tag, "mass", "0")
            edits.set(tag, "diaginertia", "0 0 0")
    if share == 1.0:
        return []
    for child in (one for one in fixed if one not in compiled.filled_in):
        _set_inertial(edits, places[child - 1], share * _inertia_of(compiled, child), compiled)
    return [shared_text(model.robot.body_names[i], share, kept, whole)]


def _fixed_to(compiled: CompiledMjcf, body: int) -> list[int]:
    m = compiled.model
    own = [
        child
        for child in range(body + 1, m.nbody)
        if int(m.body_parentid[child]) == body and int(m.body_jntnum[child]) == 0
    ]
    return own + [below for child in own for below in _fixed_to(compiled, child)]


def _welded(compiled: CompiledMjcf, body: int) -> Float:
    # Inertia of the bodies fixed to one, in its frame.
    m, total = compiled.model, np.zeros(10)
    for child in range(body + 1, m.nbody):
        if int(m.body_parentid[child]) == body and int(m.body_jntnum[child]) == 0:
            if child in compiled.shapeless:
                raise NotEditable("a body without joint whose mass comes from a mesh")
            frame = placement(rotation_quaternion(m.body_quat[child]), m.body_pos[child])
            total = total + transformed(_inertia_of(compiled, child) + _welded(compiled, child), frame)
    return total


def _inertia_of(compiled: CompiledMjcf, body: int) -> Float:
    m = compiled.model
    if body in compiled.filled_in or body in compiled.massless:
        return np.zeros(10)  # which the model never had
    R = rotation_quaternion(m.body_iquat[body])
    inertia = R @ np.diag(compiled.inertia[body]) @ R.T
    return from_com(float(m.body_mass[body]), np.array(m.body_ipos[body]), inertia)


def _set_inertial(edits: Edits, place: _Place, pi: Float, compiled: CompiledMjcf) -> None:
    unknown = place.body in (compiled.shapeless | compiled.filled_in)
    if not unknown and np.allclose(
        pi, _inertia_of(compiled, place.body), rtol=0, atol=_SAME * np.abs(pi).max()
    ):
        return
    if place.inertial is None and not pi.any():
        return
    if not pi[0] > 0:
        raise NotEditable("a body without mass that is left with an inertia")
    mass, com, inertia = to_com(pi)
    # Principal axes keep all digits; MuJoCo drops entries of fullinertia below 1e-12.
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    values = {
        "pos": join(com),
        "quat": join(quaternion(axes)),
        "mass": repr(mass),
        "diaginertia": join(moments),
    }
    tag = place.inertial
    if tag is None:
        text = " ".join(f'{key}="{value}"' for key, value in values.items())
        edits.add(place.tag, [f"<inertial {text}/>"])
        return
    for key in (*(turn for turn in _TURNS if turn != "quat"), "fullinertia"):
        edits.remove(tag, key)
    for key, value in values.items():
        edits.set(tag, key, value)


def _edit_joint(
    edits: Edits,
    tag: Tag,
    model: ExportModel,
    compiled: CompiledMjcf,
    joint: int,
    tree: int,
    timed: bool,
) -> None:
    m, robot = compiled.model, model.robot
    j = robot.joint_names.index(robot.tree_joint_names[tree])
    dof = int(m.jnt_dofadr[joint])
    damping = np.reshape(m.dof_damping, (m.nv, -1))[dof]
    now = (float(m.dof_armature[dof]), float(damping[0]), float(m.dof_frictionloss[dof]))
    wanted = (float(model.rotor[j]), float(model.viscous[j]), float(model.coulomb[j]))
    for key, old, new in zip(_JOINT, now, wanted, strict=True):
        if abs(old - new) > _SAME * abs(new) or (key == "damping" and (timed or damping[1:].any())):
            edits.set(tag, key, repr(new))
    # How friction gives way stays as its author chose it.
    chosen = not (np.array_equal(m.dof_solref[dof], _SOLREF) and np.array_equal(m.dof_solimp[dof], _SOLIMP))
    if new > 0 and abs(old - new) > _SAME * new and not chosen:
        for name, value in DRY.items():
            edits.set(tag, name, value)


def _edit_spring(
    edits: Edits,
    tag: Tag,
    compiled: CompiledMjcf,
    joint: int,
    spring: tuple[float, float],
    degrees: bool,
    timed: bool,
) -> None:
    m, (stiffness, rest) = compiled.model, spring
    now, more = float(m.jnt_stiffness[joint]), m.jnt_stiffnesspoly[joint].any()
    if abs(now - stiffness) > _SAME * abs(stiffness) or more or timed:
        edits.set(tag, "stiffness", repr(stiffness))
    if timed:
        edits.set(tag, "springdamper", "0 0")
    if m.jnt_springyield[joint]:
        edits.set(tag, "springyield", "0")
    if stiffness and abs(float(m.qpos_spring[m.jnt_qposadr[joint]]) - rest) > _SAME * abs(rest):
        turns = int(m.jnt_type[joint]) == int(compiled.mujoco.mjtJoint.mjJNT_HINGE)
        edits.set(tag, "springref", repr(float(np.degrees(rest)) if degrees and turns else rest))


def _edit_zero(
    edits: Edits, tag: Tag, model: ExportModel, compiled: CompiledMjcf, joint: int, tree: int, degrees: bool
) -> None:
    # A body is where its joint's position exceeds `ref` by nothing.
    by = float((model.robot.projection @ model.zeros)[tree])
    if by:
        ref = float(compiled.model.qpos0[compiled.model.jnt_qposadr[joint]]) - by
        turns = not model.robot.tree.prismatic[tree]
        edits.set(tag, "ref", repr(float(np.degrees(ref)) if degrees and turns else ref))

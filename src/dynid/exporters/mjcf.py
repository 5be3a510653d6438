"""MJCF: bodies, joints with armature, friction and springs, coupled motors, followers, position actuators."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.exporters.expression import motors_of, on_one_branch
from dynid.exporters.model import (
    ExportModel,
    exportable_springs,
    kept_share,
    scaled_inertia_text,
    unique,
    xml_name,
)
from dynid.exporters.urdf import join, require_same_tree, with_same_base
from dynid.exporters.xml_edit import Edits, Tag, read_source, scan
from dynid.robot.linkage import FourBar, groups_of
from dynid.robot.mjcf import CompiledMjcf, compile_mjcf, load_mujoco, read_mjcf
from dynid.robot.model import JointType, RobotModel
from dynid.robot.options import Reading
from dynid.robot.rods import Rods
from dynid.robot.xml import parse
from dynid.rows.floating import BASE
from dynid.spatial.algebra import placement, rotation_about, rotation_quaternion
from dynid.spatial.inertia import from_com, symmetric, to_com, transformed

# Identified friction is dry. MuJoCo's default is soft: with its time constant of 20 ms, friction acts like viscous
# friction of frictionloss over about 0.05 rad/s. 2 ms is twice the step of replays, the shortest that MuJoCo accepts;
# it raises the value itself for longer steps.
DRY = {"solreffriction": "0.002 1", "solimpfriction": "0.99 0.99 0.001"}
# Joints that follow others are coupled by rigid bars or gears: as stiff as MuJoCo's constraints can be.
RIGID = 'solref="0.002 1" solimp="0.9999 0.9999 0.001"'


# Loops: cranks of motors with massless rods, closed by <connect>.

# MuJoCo needs a mass of each moving body. Rods have an armature, which keeps their equations well conditioned.
MASS, MOMENT, ARMATURE = 5e-10, 1e-12, 1e-7  # kg, kg m^2, kg m^2


@dataclass(frozen=True, eq=False)
class Crank:
    """A crank with its rod, in frames of the links' joints.

    Attributes
    ----------
    motor : int
        Index of the joint whose motor it is.
    carrier, other : int
        Bodies that carry the crank, -1 = the base, and that the rod moves.
    centre, axis, arm : ndarray, shape (3,)
        Point of the axis, axis, and arm at crank angle 0, in the frame of the carrier.
    rod : ndarray, shape (3,), m
        From the arm to the rod's other end, where the loop closes, in the frame of the carrier.
    end : ndarray, shape (3,), m
        Point of the other body.
    inertia, viscous, coulomb : float
        Of the motor.

    """

    motor: int
    carrier: int
    other: int
    centre: Float
    axis: Float
    arm: Float
    rod: Float
    end: Float
    inertia: float = 0.0
    viscous: float = 0.0
    coulomb: float = 0.0


def with_cranks(model: ExportModel) -> tuple[ExportModel, tuple[Crank, ...]]:
    """Split a model into a tree without what acts behind bars and rods, and cranks with it.

    Linkages of cylinders and tables stay as they are in formats without loops.
    """
    robot = model.robot
    cranks = {crank.motor: crank for crank in _cranks(robot)}
    if not cranks:
        return model, ()
    J = robot.drive.jacobian(robot.drive.reference[None])[0]
    rotor, viscous, coulomb = (np.array(values) for values in (model.rotor, model.viscous, model.coulomb))
    motors, _ = motors_of(model.mixed)
    mixed = list(model.mixed)
    for i, crank in cranks.items():
        moved = np.flatnonzero(J[i])
        if len(moved) == 1:
            j, ratio = int(moved[0]), float(J[i, moved[0]])
            cranks[i] = replace(
                crank,
                inertia=float(rotor[j]) / ratio**2,
                viscous=float(viscous[j]) / ratio**2,
                coulomb=float(coulomb[j]) / abs(ratio),
            )
            rotor[j] = viscous[j] = coulomb[j] = 0.0
            continue
        for motor in motors:
            if np.array_equal(motor.weights, J[i]):
                cranks[i] = replace(
                    crank, inertia=motor.inertia, viscous=motor.viscous, coulomb=motor.coulomb
                )
                mixed = [part for part in mixed if not np.array_equal(part.weights, motor.weights)]
    names = {f"'{robot.joint_names[i]}'" for i in cranks}
    left = tuple(text for text in model.left_out if not any(text.endswith(f"of {name}") for name in names))
    tree = replace(model, rotor=rotor, viscous=viscous, coulomb=coulomb, mixed=tuple(mixed), left_out=left)
    return tree, tuple(cranks.values())


def _cranks(robot: RobotModel) -> list[Crank]:
    # Gear ratios between motor and crank are part of the exported inertia and friction, which need ratios of 1.
    N = robot.drive.transmission
    plain = [i for i in range(robot.n) if np.array_equal(N[i], np.eye(robot.n)[i])]
    cranks: list[Crank] = []
    for joints, linkage in groups_of(robot.drive.linkages):
        if not set(joints) <= set(plain):
            continue
        if isinstance(linkage, FourBar):
            cranks.append(_of_bars(robot, joints[0], linkage))
        elif (
            isinstance(linkage, Rods)
            and not linkage.sliding.any()
            and all(rod.link and rod.to for rod in linkage.rods)
        ):
            cranks += _of_rods(robot, joints, linkage)
    return cranks


def _of_bars(robot: RobotModel, joint: int, bars: FourBar) -> Crank:
    body = int(robot.independent_bodies[joint])
    T, axis = robot.T_parent_joint[body], robot.axis[body]
    # The ground line may have any direction across the axis: the map of angles is the same.
    across = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    line = across / np.linalg.norm(across)
    at_reference = float(bars.crank_angle(bars.reference)[0])
    centre = -bars.ground * line
    arm = bars.crank * rotation_about(axis, at_reference - bars.at) @ line
    tip = centre + bars.crank * rotation_about(axis, at_reference) @ line
    end = bars.rocker * rotation_about(axis, bars.zero) @ line
    reached = bars.rocker * rotation_about(axis, bars.zero + bars.at) @ line
    R = T[:3, :3]
    return Crank(
        joint,
        int(robot.parent[body]),
        body,
        R @ centre + T[:3, 3],
        R @ axis,
        R @ arm,
        R @ (reached - tip),
        end,
    )


def _of_rods(robot: RobotModel, joints: list[int], linkage: Rods) -> list[Crank]:
    at = linkage.reference[None]
    phi = linkage.evaluate(at)[0][0]
    cranks = []
    for joint, rod, angle in zip(joints, linkage.rods, phi, strict=True):
        carrier, frame = robot.link_frame(rod.link)
        other, placed = robot.link_frame(rod.to)
        axis, centre, arm = np.array(rod.axis), np.array(rod.centre), np.array(rod.arm)
        tip = centre + rotation_about(axis, float(angle)) @ arm
        reached = rod.end_point(at)[0][0]
        R = frame[:3, :3]
        cranks.append(
            Crank(
                joint,
                carrier,
                other,
                R @ centre + frame[:3, 3],
                R @ axis,
                R @ arm,
                R @ (reached - tip),
                placed[:3, :3] @ np.array(rod.end) + placed[:3, 3],
            )
        )
    return cranks


# New files.


def new_mjcf(model: ExportModel, soft: bool = False) -> bytes:
    """Write a new MJCF file: one body per moving link, in its joint frame.

    Parameters
    ----------
    model : ExportModel
        The model.
    soft : bool
        Whether dry friction yields as in MuJoCo's defaults, which most robot files use.

    Returns
    -------
    bytes
        The file.

    """
    return _Writer(model, soft).text().encode()


class _Writer:
    def __init__(self, model: ExportModel, soft: bool) -> None:
        self.model, self.cranks = with_cranks(model)
        self.robot, self.soft = model.robot, soft
        self.springs = model.springs_of_joints()
        self.bodies = unique([xml_name(name) or "body" for name in self.robot.body_names])
        self.joints = unique([xml_name(name) or "joint" for name in self.robot.tree_joint_names])

    def text(self) -> str:
        name = quoteattr(xml_name(self.robot.name) or "robot")
        lines = [
            f"<mujoco model={name}>",
            '  <compiler angle="radian" autolimits="true" balanceinertia="false"/>',
            f'  <option gravity="{join(self.robot.gravity)}" integrator="implicitfast"/>',
            "  <worldbody>",
            *self._loops(-1, 2),
        ]
        # A free joint takes the place of the massless joints before a floating base.
        roots = [BASE] if self.robot.floats else np.flatnonzero(self.robot.parent < 0).tolist()
        for i in roots:
            lines += self._body(i, 2)
        return "\n".join(
            [
                *lines,
                "  </worldbody>",
                *self._tendons(),
                *self._equalities(),
                *self._controllers(),
                "</mujoco>",
                "",
            ]
        )

    def _body(self, i: int, depth: int) -> list[str]:
        free = self.robot.floats and i == BASE
        T, pad = self.robot.T_parent_joint[0 if free else i], "  " * depth
        joint = "<freejoint/>" if free else self._joint(i)
        place = f'pos="{join(T[:3, 3])}" quat="{join(quaternion(T[:3, :3]))}"'
        lines = [f"{pad}<body name={quoteattr(self.bodies[i])} {place}>"]
        lines += [f"{pad}  {line}" for line in (*self._inertial(self.model.inertia[i]), joint)]
        lines += self._loops(i, depth + 1)
        for child in np.flatnonzero(self.robot.parent == i):
            lines += self._body(int(child), depth + 1)
        return [*lines, f"{pad}</body>"]

    def _loops(self, body: int, depth: int) -> list[str]:
        # Cranks that a body carries, each with its rod, and points at which rods end on the body.
        pad, lines = "  " * depth, list[str]()
        little = f'<inertial pos="0 0 0" mass="{MASS!r}" diaginertia="{MOMENT!r} {MOMENT!r} {MOMENT!r}"/>'
        for crank in self.cranks:
            name = xml_name(self.robot.joint_names[crank.motor]) or "joint"
            if crank.carrier == body:
                dry = self._dry_friction(crank.coulomb)
                lines += [
                    f'{pad}<body name={quoteattr(f"{name}_crank")} pos="{join(crank.centre)}">',
                    f"{pad}  {little}",
                    f'{pad}  <joint name={quoteattr(f"{name}_motor")} type="hinge" axis="{join(crank.axis)}" '
                    f'armature="{crank.inertia!r}" damping="{crank.viscous!r}" frictionloss="{crank.coulomb!r}"{dry}/>',
                    f'{pad}  <body name={quoteattr(f"{name}_rod")} pos="{join(crank.arm)}">',
                    f"{pad}    {little}",
                    f'{pad}    <joint name={quoteattr(f"{name}_ball")} type="ball" armature="{ARMATURE!r}"/>',
                    f'{pad}    <site name={quoteattr(f"{name}_tip")} pos="{join(crank.rod)}"/>',
                    f"{pad}  </body>",
                    f"{pad}</body>",
                ]
            if crank.other == body:
                lines.append(f'{pad}<site name={quoteattr(f"{name}_end")} pos="{join(crank.end)}"/>')
        return lines

    def _inertial(self, pi: Float) -> list[str]:
        mass = float(pi[0])
        com = pi[1:4] / mass if mass else np.zeros(3)
        inertia = symmetric(pi[4:]) - mass * (float(com @ com) * np.eye(3) - np.outer(com, com))
        # Principal axes keep all digits; MuJoCo drops off-diagonal entries of fullinertia below 1e-12.
        moments, axes = np.linalg.eigh(inertia)
        if np.linalg.det(axes) < 0:
            axes[:, 0] *= -1
        turn = quaternion(axes)
        return [
            f'<inertial pos="{join(com)}" quat="{join(turn)}" mass="{mass!r}" diaginertia="{join(moments)}"/>'
        ]

    def _joint(self, i: int) -> str:
        robot, model = self.robot, self.model
        kind = "slide" if robot.joint_types[i] is JointType.PRISMATIC else "hinge"
        text = f'<joint name={quoteattr(self.joints[i])} type="{kind}" axis="{join(robot.axis[i])}"'
        joint_name = robot.tree_joint_names[i]
        if joint_name in robot.joint_names:
            j = robot.joint_names.index(joint_name)
            bounds = robot.limits.lower[j], robot.limits.upper[j]
            if np.isfinite(bounds).all() and bounds[0] < bounds[1]:
                text += f' range="{join(bounds)}"'
            if np.isfinite(robot.limits.effort[j]):
                effort = float(robot.limits.effort[j])
                text += f' actuatorfrcrange="{-effort!r} {effort!r}"'
            for key, values in (
                ("armature", model.rotor),
                ("damping", model.viscous),
                ("frictionloss", model.coulomb),
            ):
                text += f' {key}="{float(values[j])!r}"'
            text += self._dry_friction(float(model.coulomb[j]))
            stiffness, rest = (float(values[j]) for values in self.springs)
            if stiffness:
                text += f' stiffness="{stiffness!r}" springref="{rest!r}"'
        return text + "/>"

    def _tendons(self) -> list[str]:
        lines = [*self._motors(), *self._springs(), *self._rules()]
        return ["  <tendon>", *lines, "  </tendon>"] if lines else []

    def _fixed(self, attributes: str, weights: Float) -> list[str]:
        lines = [f"    <fixed {attributes}>"]
        for j in np.flatnonzero(weights):
            name = self.joints[self.robot.tree_joint_names.index(self.robot.joint_names[j])]
            lines.append(f'      <joint joint={quoteattr(name)} coef="{float(weights[j])!r}"/>')
        return [*lines, "    </fixed>"]

    def _springs(self) -> list[str]:
        # Springs of single joints are attributes of the joint.
        lines, count = [], 0
        for spring in exportable_springs(self.model, several=True):
            if len(spring.joints) > 1:
                count += 1
                # MuJoCo reads a length of -1 as the length at the zero pose.
                rest = spring.rest if spring.rest != -1.0 else float(np.nextafter(-1.0, 0.0))
                lines += self._fixed(
                    f'name="spring{count}" stiffness="{spring.stiffness!r}" springlength="{rest!r}"',
                    spring.weights,
                )
        return lines

    def _motors(self) -> list[str]:
        robot, lines = self.robot, list[str]()
        for i, motor in enumerate(motors_of(self.model.mixed)[0], 1):
            # MuJoCo's mass matrix has no entry for joints of two branches.
            armature = motor.inertia if on_one_branch(robot, motor.weights) else 0.0
            lines += self._fixed(
                f'name="motor{i}" armature="{armature!r}" damping="{motor.viscous!r}"'
                f' frictionloss="{motor.coulomb!r}"{self._dry_friction(motor.coulomb)}',
                motor.weights,
            )
        return lines

    def _dry_friction(self, coulomb: float) -> str:
        return "" if self.soft or coulomb <= 0 else "".join(f' {key}="{x}"' for key, x in DRY.items())

    def _followers(self) -> list[tuple[int, list[int]]]:
        # Joints that follow others, and the independent joints that they follow.
        robot = self.robot
        return [
            (i, np.flatnonzero(robot.projection[i]).tolist())
            for i, name in enumerate(robot.tree_joint_names)
            if name not in robot.joint_names
        ]

    def _rules(self) -> list[str]:
        # MuJoCo's joint constraint couples only two joints; a joint that follows several needs a tendon.
        lines = []
        for i, followed in self._followers():
            if len(followed) > 1:
                lines += self._fixed(f'name="{self._rule(i)}"', self.robot.projection[i])
                lines.insert(-1, f'      <joint joint={quoteattr(self.joints[i])} coef="-1"/>')
        return lines

    def _rule(self, i: int) -> str:
        return f"rule{i + 1}"

    def _equalities(self) -> list[str]:
        robot, lines = self.robot, []
        for crank in self.cranks:
            name = xml_name(robot.joint_names[crank.motor]) or "joint"
            ends = f"site1={quoteattr(f'{name}_tip')} site2={quoteattr(f'{name}_end')}"
            lines.append(f"    <connect {ends} {RIGID}/>")
        for i, followed in self._followers():
            offset = float(robot.projection_offset[i])
            if len(followed) > 1:
                lines.append(
                    f'    <tendon tendon1="{self._rule(i)}" polycoef="{-offset!r} 0 0 0 0" {RIGID}/>'
                )
                continue
            pair, factor = f"joint1={quoteattr(self.joints[i])}", 0.0
            for j in followed:
                leader = self.joints[robot.tree_joint_names.index(robot.joint_names[j])]
                pair, factor = f"{pair} joint2={quoteattr(leader)}", float(robot.projection[i, j])
            lines.append(f'    <joint {pair} polycoef="{join([offset, factor, 0.0, 0.0, 0.0])}" {RIGID}/>')
        return ["  <equality>", *lines, "  </equality>"] if lines else []

    def _controllers(self) -> list[str]:
        servo, lines = self.robot.drive.servo, []
        for crank in self.cranks:
            name = quoteattr(f"{xml_name(self.robot.joint_names[crank.motor]) or 'joint'}_motor")
            lines.append(f"    <motor name={name} joint={name}/>")
        if servo is None or not servo.known:
            return ["  <actuator>", *lines, "  </actuator>"] if lines else []
        for j, name in enumerate(self.robot.joint_names):
            joint = quoteattr(self.joints[self.robot.tree_joint_names.index(name)])
            text = f"    <position name={joint} joint={joint}"
            text += f' kp="{float(servo.kp[j])!r}" kv="{float(servo.kd[j])!r}"'
            if np.isfinite(limit := float(servo.effort_limit[j])):
                text += f' forcerange="{-limit!r} {limit!r}"'
            lines.append(text + "/>")
        return ["  <actuator>", *lines, "  </actuator>"]


def quaternion(R: Float) -> Float:
    """Unit quaternion (w, x, y, z), w >= 0, of a rotation; its largest entry is computed first, to lose no digits."""
    m = np.asarray(R)
    w, x, y, z = (
        1 + m[0, 0] + m[1, 1] + m[2, 2],
        1 + m[0, 0] - m[1, 1] - m[2, 2],
        1 - m[0, 0] + m[1, 1] - m[2, 2],
        1 - m[0, 0] - m[1, 1] + m[2, 2],
    )
    largest = int(np.argmax([w, x, y, z]))
    rows = np.array(
        [
            [w, m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], x, m[1, 0] + m[0, 1], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[1, 0] + m[0, 1], y, m[2, 1] + m[1, 2]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[2, 1] + m[1, 2], z],
        ]
    )
    q = rows[largest] / np.linalg.norm(rows[largest])
    return np.asarray(q if q[0] >= 0 else -q)


# The user's MJCF file with only inertias, armature, damping, friction and springs changed.

# Relative difference below which a number in the file stays as it is written.
_SAME = 1e-13
_TURNS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")
_JOINT = ("armature", "damping", "frictionloss")
# MuJoCo's defaults of solreffriction and solimpfriction.
_SOLREF, _SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)


class NotEditable(Exception):
    """A file cannot be edited in place: its numbers are not where the edit would have to write them."""


@dataclass(frozen=True)
class _Place:
    """A MuJoCo body of the file: its tag, its inertial element and its joints."""

    body: int
    tag: Tag
    inertial: Tag | None
    joints: tuple[Tag, ...]


def edit_mjcf(model: ExportModel, path: Path, reading: Reading) -> tuple[bytes, tuple[str, ...]]:
    """Edit inertias, rotors, friction and springs of an MJCF file in place.

    Bodies without joints keep their inertia, or the share of it that leaves a physical remainder; the moving body that
    carries them gets the remainder. Values of a default class are written at the joint that differs.

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
    NotEditable
        If the numbers are in other files, or would be ignored where they are.

    """
    data, element = read_source(path, "mujoco", "MJCF")
    tags = scan(data, str(path))
    _refuse(tags)
    again = with_same_base(read_mjcf(element, path, reading, Diagnostics()), model.robot)
    require_same_tree(model.described, again, path)
    compiled = compile_mjcf(parse(data, str(path)), path, reading, Diagnostics())
    places = _places(tags)
    if len(places) != compiled.model.nbody - 1 or sum(len(p.joints) for p in places) != compiled.model.njnt:
        raise NotEditable("its bodies or joints are not written one by one")
    edits = Edits(data)
    compilers = [tag.attributes for tag in tags.walk() if tag.name == "compiler"]
    degrees = not any(compiler.get("angle") == "radian" for compiler in compilers)
    stiffness, rest = model.springs_of_joints()
    if any(len(compiler.joints) > 1 for compiler in model.springs):
        raise NotEditable("springs over several joints need tendons")
    if stiffness.any() and compiled.model.opt.disableflags & compiled.mujoco.mjtDisableBit.mjDSBL_SPRING:
        raise NotEditable("springs are disabled in the file")
    # MuJoCo prefers springdamper to stiffness and damping.
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
            raise NotEditable(f"<{tag.name}>: parts of the robot are in other files")
        if tag.name == "compiler":
            if tag.attributes.get("inertiafromgeom") == "true":
                raise NotEditable("inertiafromgeom='true': inertias in the file would be ignored")
            if float(tag.attributes.get("settotalmass", "-1")) > 0:
                raise NotEditable("settotalmass: masses in the file would be scaled")


def _places(root: Tag) -> list[_Place]:
    # MuJoCo numbers bodies and joints in the order of the file.
    bodies = [tag for world in root.all("worldbody") for tag in world.walk() if tag.name == "body"]
    places = []
    for number, tag in enumerate(bodies, 1):
        elements = list(_elements_of(tag))
        inertial = next((element for element in elements if element.name == "inertial"), None)
        joints = tuple(element for element in elements if element.name in ("joint", "freejoint"))
        places.append(_Place(number, tag, inertial, joints))
    return places


def _elements_of(body: Tag) -> Iterator[Tag]:
    for child in body.children:
        if child.name == "frame":
            yield from _elements_of(child)
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
        raise NotEditable("a body has several joints, and the model has mass between them")
    i = index[joints[-1]]
    # The body's frame is the joint's, shifted by the joint's position in it.
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
    for child in (fixed_body for fixed_body in fixed if fixed_body not in compiled.filled_in):
        _set_inertial(edits, places[child - 1], share * _inertia_of(compiled, child), compiled)
    return [scaled_inertia_text(model.robot.body_names[i], share, kept, whole)]


def _fixed_to(compiled: CompiledMjcf, body: int) -> list[int]:
    m = compiled.model
    children = [
        child
        for child in range(body + 1, m.nbody)
        if int(m.body_parentid[child]) == body and int(m.body_jntnum[child]) == 0
    ]
    return children + [below for child in children for below in _fixed_to(compiled, child)]


def _welded(compiled: CompiledMjcf, body: int) -> Float:
    # Inertia of the bodies fixed to a body, in its frame.
    m, total = compiled.model, np.zeros(10)
    for child in range(body + 1, m.nbody):
        if int(m.body_parentid[child]) == body and int(m.body_jntnum[child]) == 0:
            if child in compiled.shapeless:
                raise NotEditable("a body without a joint has its mass from a mesh")
            frame = placement(rotation_quaternion(m.body_quat[child]), m.body_pos[child])
            total = total + transformed(_inertia_of(compiled, child) + _welded(compiled, child), frame)
    return total


def _inertia_of(compiled: CompiledMjcf, body: int) -> Float:
    m = compiled.model
    if body in compiled.filled_in or body in compiled.massless:
        return np.zeros(10)  # the model never contained it
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
        raise NotEditable("a body would have an inertia without a mass")
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
    # The author of the file may have chosen how friction yields.
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
    # `ref` is the joint position at the pose in the file.
    by = float((model.robot.projection @ model.zeros)[tree])
    if by:
        ref = float(compiled.model.qpos0[compiled.model.jnt_qposadr[joint]]) - by
        turns = not model.robot.tree.prismatic[tree]
        edits.set(tag, "ref", repr(float(np.degrees(ref)) if degrees and turns else ref))


# All models of an ensemble in one file, as fields of a compiled MuJoCo model, for domain randomisation.

# Fields of mjModel that an export changes: per body, per degree of freedom and, for models with springs, per joint.
BODY_FIELDS = ("body_mass", "body_ipos", "body_iquat", "body_inertia")
DOF_FIELDS = ("dof_damping", "dof_frictionloss", "dof_armature")
JOINT_FIELDS = ("jnt_stiffness", "qpos_spring")


# MJX, the MuJoCo of MuJoCo Playground.

# What MJX in JAX has, from the page "MuJoCo XLA" of MuJoCo's documentation, section "Feature Parity".
_MJX_INTEGRATORS, _MJX_SOLVERS = ("euler", "rk4", "implicitfast"), ("cg", "newton")
_MJX_KINDS = {
    "actuator_trntype": ("mjtTrn", "JOINT JOINTINPARENT SITE TENDON"),
    "actuator_dyntype": ("mjtDyn", "NONE INTEGRATOR FILTER FILTEREXACT MUSCLE"),
    "actuator_gaintype": ("mjtGain", "FIXED AFFINE MUSCLE"),
    "actuator_biastype": ("mjtBias", "NONE AFFINE MUSCLE"),
    "eq_type": ("mjtEq", "CONNECT WELD JOINT TENDON"),
    "geom_type": ("mjtGeom", "PLANE HFIELD SPHERE CAPSULE ELLIPSOID CYLINDER BOX MESH"),
    "sensor_type": (
        "mjtSensor",
        "MAGNETOMETER CAMPROJECTION RANGEFINDER JOINTPOS TENDONPOS ACTUATORPOS BALLQUAT FRAMEPOS FRAMEXAXIS "
        "FRAMEYAXIS FRAMEZAXIS FRAMEQUAT SUBTREECOM CLOCK VELOCIMETER GYRO JOINTVEL TENDONVEL ACTUATORVEL BALLANGVEL "
        "FRAMELINVEL FRAMEANGVEL SUBTREELINVEL SUBTREEANGMOM TOUCH CONTACT ACCELEROMETER FORCE TORQUE ACTUATORFRC "
        "JOINTACTFRC TENDONACTFRC FRAMELINACC FRAMEANGACC",
    ),
}
# Pairs of shapes that do not collide in MJX, from the same page: MJX refuses models in which they could.
_MJX_APART = {"CYLINDER": ("SPHERE", "BOX", "MESH", "HFIELD"), "ELLIPSOID": ("BOX", "MESH", "HFIELD")}


def with_mjx_options(data: bytes, target: Path) -> tuple[bytes, tuple[str, ...]]:
    """Replace options of an MJCF file that MJX refuses, and name what else MJX does not support.

    `target`: its path, from whose folder MuJoCo reads meshes. Result: the file, and the features that remain, in words;
    none if MuJoCo cannot load it here.
    """
    root, edits = scan(data, str(target)), Edits(data)
    for option in root.all("option"):
        edits.remove(option, "noslip_iterations")
        if option.attributes.get("integrator", "euler").lower() not in _MJX_INTEGRATORS:
            edits.set(option, "integrator", "implicitfast")
        if option.attributes.get("solver", "newton").lower() not in _MJX_SOLVERS:
            edits.set(option, "solver", "Newton")
    data = edits.result()
    mujoco = load_mujoco()
    try:
        spec = mujoco.MjSpec.from_string(data.decode())
        spec.modelfiledir = str(target.resolve().parent)
        model = spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError):
        return data, ()  # links that are not physical, written by request
    lacking = ["flexible bodies"] if model.nflex else []
    for field, (enumeration, known) in _MJX_KINDS.items():
        kinds = {
            getattr(mujoco, enumeration)(int(kind)).name.partition("_")[2] for kind in getattr(model, field)
        }
        lacking += [f"{field.replace('_', ' of ')} {kind}" for kind in sorted(kinds - set(known.split()))]
    on, with_ = model.geom_contype, model.geom_conaffinity
    meet = (on[:, None] & with_) | (with_[:, None] & on)
    meet[model.geom_bodyid[:, None] == model.geom_bodyid] = 0
    shapes = np.array(
        [mujoco.mjtGeom(int(kind)).name.partition("_")[2] for kind in model.geom_type], dtype=str
    )
    for first, others in _MJX_APART.items():
        touched = set(shapes[meet[shapes == first].any(axis=0)]) & set(others)
        lacking += [f"collisions of {first} with {other}" for other in sorted(touched)]
    return data, tuple(lacking)


def samples_npz(models: Sequence[bytes], target: Path, reading: Reading, diagnostics: Diagnostics) -> bytes:
    """Write the fields of mjModel that differ between MJCF models as a NumPy archive.

    Each field has shape (N, ...). Names: body_names (nbody,) and dof_names (nv,), the joint of each degree of freedom
    or "".

    `models`: MJCF files; `target`: path against which they are read; `reading`: how they are read; `diagnostics`:
    receives the warnings.
    """
    fields: dict[str, list[Any]] = {name: [] for name in (*BODY_FIELDS, *DOF_FIELDS, *JOINT_FIELDS)}
    names: dict[str, Any] = {}
    for text in models:
        model = compile_mjcf(parse(text, str(target)), target, reading, diagnostics).model
        for name, values in fields.items():
            values.append(np.array(getattr(model, name)))
        if not names:
            names["body_names"] = np.array([model.body(i).name for i in range(model.nbody)])
            names["dof_names"] = np.array([model.joint(int(j)).name for j in model.dof_jntid])
    if not np.any(fields["jnt_stiffness"]):
        for name in JOINT_FIELDS:
            del fields[name]
    stream = io.BytesIO()
    arrays: dict[str, Any] = names | {name: np.array(values) for name, values in fields.items()}
    np.savez(stream, **arrays)
    return stream.getvalue()

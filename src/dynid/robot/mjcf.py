"""MJCF: includes resolved inside the folder, everything but bodies, joints and masses removed, compiled by MuJoCo."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.arrays import Float
from dynid.diagnostics import Diagnostics
from dynid.errors import DynidError, InputError, InputErrors, Place, RefusedError
from dynid.robot._mujoco import compile_mjcf
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.xml import Element, inside, number, numbers, parse, read_bytes
from dynid.spatial.algebra import placement, rotation_about, rotation_quaternion
from dynid.spatial.inertia import from_com, transformed

MAX_BODIES = 256
_DROPPED = {
    "asset", "visual", "actuator", "sensor", "contact", "keyframe", "tendon", "equality", "deformable", "custom",
    "extension", "statistic", "camera", "light", "site", "skin", "flexcomp", "composite", "plugin", "size",
}  # fmt: skip
_LEFT_OUT = {"tendon", "equality"}
_UNKNOWN_MASS = 1e-9


def read_mjcf(root: Element, path: Path, body: str | None, diagnostics: Diagnostics) -> RobotModel:
    """The robot of a <mujoco> element; with `body`, only the tree below that body of the world."""
    _include(root, path.parent, [path.resolve()])
    _lint(root, path, diagnostics)
    shapeless = _strip(root, diagnostics)
    compiler = root.find("compiler")
    if compiler is None:
        compiler = Element("compiler", {}, root.file, root.line, root.column)
        root.children.insert(0, compiler)
    for unwanted in ("meshdir", "texturedir", "assetdir"):
        compiler.attributes.pop(unwanted, None)
    compiler.attributes |= {"boundmass": f"{_UNKNOWN_MASS / 10}", "boundinertia": f"{_UNKNOWN_MASS / 10}", "fusestatic": "false"}
    mujoco, model = compile_mjcf(root.text(), str(path))
    return _Reader(mujoco, model, str(path), shapeless, diagnostics).robot(root, body)


def _include(element: Element, folder: Path, chain: list[Path]) -> None:
    children: list[Element] = []
    for child in element.children:
        if child.tag != "include":
            _include(child, folder, chain)
            children.append(child)
            continue
        file = inside(folder, child.attributes.get("file", ""), child)
        if file in chain:
            raise InputError(
                "include-cycle", found=f"'{file.name}' includes itself", expected="no circle", place=child.place
            )
        included = parse(read_bytes(file, "an MJCF file"), str(file))
        _include(included, folder, [*chain, file])
        children += included.children
    element.children = children


def _lint(root: Element, path: Path, diagnostics: Diagnostics) -> None:
    errors: list[DynidError] = []
    bodies = 0
    seen: dict[tuple[str, str], Element] = {}
    for element in root.walk():
        if element.tag == "replicate":
            count = number(element, "count", errors, 1.0)
            raise RefusedError(
                "mjcf-replicate", found=f"<replicate> of {count:g} copies", expected="bodies written out", place=element.place
            )
        if element.tag == "hfield":
            cells = number(element, "nrow", errors, 0.0) * number(element, "ncol", errors, 0.0)
            if cells > 1e6:
                raise RefusedError(
                    "mjcf-hfield", found=f"a height field of {cells:.3g} cells", expected="at most 1e6", place=element.place
                )
        if element.tag in ("mesh", "texture", "hfield") and "file" in element.attributes:
            compiler = root.find("compiler")
            directory = compiler.attributes.get("meshdir", "") if compiler is not None else ""
            file = inside(path.parent, str(Path(directory) / element.attributes["file"]), element)
            if not file.exists() and element.tag == "mesh":
                diagnostics.warn("mesh-missing", f"mesh '{file.name}' does not exist; meshes are not needed", element.place)
        if element.tag == "body":
            bodies += 1
        if element.tag in ("body", "joint") and "name" in element.attributes:
            key = (element.tag, element.attributes["name"])
            if key in seen:
                errors.append(
                    InputError(
                        f"duplicate-{key[0]}",
                        found=f"{key[0]} '{key[1]}' twice, in lines {seen[key].line} and {element.line}",
                        expected="unique names",
                        place=element.place,
                    )
                )
            seen[key] = element
        _lint_numbers(element, errors)
    if bodies > MAX_BODIES:
        raise RefusedError("too-many-links", found=f"{bodies} bodies", expected=f"at most {MAX_BODIES}", place=root.place)
    if errors:
        raise InputErrors(errors)


def _lint_numbers(element: Element, errors: list[DynidError]) -> None:
    if element.tag == "option":
        numbers(element, "gravity", 3, errors, (0.0,) * 3)
        number(element, "timestep", errors, 0.002)
    elif element.tag == "inertial":
        mass = number(element, "mass", errors, 0.0)
        if mass < 0:
            errors.append(InputError("negative-mass", found=f"mass {mass:g} kg", expected="a mass > 0", place=element.place))
        numbers(element, "pos", 3, errors, (0.0,) * 3)
        numbers(element, "diaginertia", 3, errors, (0.0,) * 3)
        numbers(element, "fullinertia", 6, errors, (0.0,) * 6)
    elif element.tag == "joint":
        axis = numbers(element, "axis", 3, errors, (0.0, 0.0, 1.0))
        if max(map(abs, axis)) < 1e-9:
            errors.append(InputError("zero-axis", found="an axis of length zero", expected="a direction", place=element.place))
        low, high = numbers(element, "range", 2, errors, (0.0, 0.0))
        if low > high:
            errors.append(
                InputError("limits-swapped", found=f"range {low:g} > {high:g}", expected="lower <= upper", place=element.place)
            )


def _strip(root: Element, diagnostics: Diagnostics) -> set[str]:
    # Returns the names of bodies whose mass could come only from meshes, which are not read.
    shapeless: set[str] = set()
    for element in root.walk():
        for child in element.children:
            if child.tag in _LEFT_OUT and child.children:
                diagnostics.warn("mjcf-left-out", f"<{child.tag}> is left out of the model", child.place)
        kept = [child for child in element.children if child.tag not in _DROPPED]
        shapes = [child for child in kept if child.tag == "geom"]
        meshes = [c for c in shapes if "mesh" in c.attributes or c.attributes.get("type") in ("mesh", "hfield", "sdf")]
        if element.tag == "body" and meshes and element.find("inertial") is None and len(meshes) == len(shapes):
            shapeless.add(element.attributes.get("name", ""))
        element.children = [child for child in kept if child not in meshes]
        for child in element.children:
            if child.tag == "geom":
                for unwanted in ("material", "hfield", "mesh"):
                    child.attributes.pop(unwanted, None)
    return shapeless


@dataclass
class _Body:
    name: str
    joint: int
    parent: int
    placement: Float
    inertia: Float
    merged: list[str] = field(default_factory=list)
    known: bool = True


class _Reader:
    def __init__(self, mujoco: Any, model: Any, file: str, shapeless: set[str], diagnostics: Diagnostics) -> None:
        self.mujoco, self.model, self.file = mujoco, model, file
        self.shapeless, self.diagnostics = shapeless, diagnostics
        self.bodies: list[_Body] = []

    def name(self, kind: str, index: int) -> str:
        found = self.mujoco.mj_id2name(self.model, getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index)
        return found or f"{kind}{index}"

    def robot(self, root: Element, only: str | None) -> RobotModel:
        m = self.model
        # For every MuJoCo body: the moving body that carries it and where its frame is in that body's joint frame.
        carrier: dict[int, tuple[int, Float]] = {0: (-1, np.eye(4))}
        for body in range(1, m.nbody):
            if only is not None and self.name("body", int(m.body_rootid[body])) != only:
                continue
            self._add(body, carrier)
        if not self.bodies:
            raise InputError(
                "no-joints", found="no moving joint" + (f" below body '{only}'" if only else ""), expected="at least one",
                place=Place(file=self.file),
            )  # fmt: skip
        joints = [body.joint for body in self.bodies]
        n = len(joints)
        names = tuple(self.name("joint", j) for j in joints)
        dofs = [int(m.jnt_dofadr[j]) for j in joints]
        limited = [bool(m.jnt_limited[j]) for j in joints]
        hinge = self.mujoco.mjtJoint.mjJNT_HINGE
        kinds = tuple(
            JointType.PRISMATIC if m.jnt_type[j] != hinge else JointType.REVOLUTE if has else JointType.CONTINUOUS
            for j, has in zip(joints, limited, strict=True)
        )
        prior = np.array([b.inertia if b.known else np.full(10, np.nan) for b in self.bodies])
        damping, friction = np.reshape(m.dof_damping, (m.nv, -1))[dofs, 0], m.dof_frictionloss[dofs]
        unknown = np.full(n, np.nan)
        effort = [float(m.jnt_actfrcrange[j][1]) if m.jnt_actfrclimited[j] else math.inf for j in joints]
        return RobotModel(
            name=root.attributes.get("model", Path(self.file).stem),
            source=self.file,
            body_names=tuple(body.name for body in self.bodies),
            tree_joint_names=names,
            joint_names=names,
            parent=np.array([body.parent for body in self.bodies], dtype=np.int64),
            joint_types=kinds,
            T_parent_joint=np.array([body.placement for body in self.bodies]),
            axis=np.array([m.jnt_axis[j] for j in joints]),
            inertia_prior=prior,
            gravity=np.array(m.opt.gravity),
            limits=Limits(
                lower=np.where(limited, m.jnt_range[joints, 0], -np.inf),
                upper=np.where(limited, m.jnt_range[joints, 1], np.inf),
                velocity=np.full(n, np.inf),
                effort=np.array(effort),
            ),
            drive=Drive(np.eye(n), np.array(m.dof_armature[dofs]), unknown, unknown),
            projection=np.eye(n),
            projection_offset=np.zeros(n),
            friction_prior=np.column_stack([damping, friction]),
            merged=tuple((body.name, *body.merged) for body in self.bodies),
        )

    def _add(self, body: int, carrier: dict[int, tuple[int, Float]]) -> None:
        m = self.model
        parent, frame = carrier[int(m.body_parentid[body])]
        frame = frame @ placement(rotation_quaternion(m.body_quat[body]), m.body_pos[body])
        first, count = int(m.body_jntadr[body]), int(m.body_jntnum[body])
        name = self.name("body", body)
        for joint in range(first, first + count):
            if m.jnt_type[joint] not in (self.mujoco.mjtJoint.mjJNT_HINGE, self.mujoco.mjtJoint.mjJNT_SLIDE):
                raise InputError(
                    "joint-type",
                    found=f"joint '{self.name('joint', joint)}' is a free or ball joint",
                    expected="hinge or slide joints on a fixed base",
                    do="remove the free joint of the base",
                    place=Place(file=self.file),
                )
            anchor, axis = np.array(m.jnt_pos[joint]), np.array(m.jnt_axis[joint])
            start = float(m.qpos0[m.jnt_qposadr[joint]])
            if m.jnt_type[joint] == self.mujoco.mjtJoint.mjJNT_HINGE:
                back = placement(rotation_about(axis, -start), np.zeros(3))
            else:
                back = placement(np.eye(3), -start * axis)
            last = joint == first + count - 1
            here = frame @ placement(np.eye(3), anchor) @ back
            self.bodies.append(_Body(name if last else f"{name}/{joint - first}", joint, parent, here, np.zeros(10)))
            parent, frame = len(self.bodies) - 1, placement(np.eye(3), -anchor)
        carrier[body] = (parent, frame)
        if parent < 0:
            return
        if count == 0:
            self.bodies[parent].merged.append(name)
        mass = float(m.body_mass[body])
        if mass <= _UNKNOWN_MASS:
            if count > 0:
                why = "its mass would come from meshes" if name in self.shapeless else "it has no mass"
                self.diagnostics.warn("inertial-missing", f"body '{name}': {why}; its prior is unknown", Place(file=self.file))
                self.bodies[parent].known = False
            return
        R = rotation_quaternion(m.body_iquat[body])
        own = from_com(mass, np.array(m.body_ipos[body]), R @ np.diag(m.body_inertia[body]) @ R.T)
        self.bodies[parent].inertia = self.bodies[parent].inertia + transformed(own, frame)
        self.bodies[parent].known = True

"""MJCF: checked, reduced to bodies, joints and masses, compiled by MuJoCo, then read into a tree."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, ResourceError, SolverError
from dynid.base.records import dataclass
from dynid.robot.drive import Drive, Servo
from dynid.robot.formats import RobotFile, read_again
from dynid.robot.links import (
    AS_PRIOR,
    NOT_NEGATIVE,
    filled_in,
    held_still,
    inertia_problem,
    slightly_impossible,
    stop,
    unsupported_joint,
    warn_filled_in,
)
from dynid.robot.mjcf_lint import check_mjcf
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.options import Reading
from dynid.robot.xml import Element
from dynid.spatial.algebra import placement, rotation_about, rotation_quaternion
from dynid.spatial.inertia import from_com, from_mjcf, symmetric, transformed

# The one place where MuJoCo is loaded: it compiles a checked MJCF, as defaults and classes are its rules.


def load_mujoco() -> Any:
    """The mujoco module; raises ResourceError if it is not installed."""
    try:
        import mujoco
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="no mujoco",
            expected="the package that reads and simulates MJCF",
            do="pip install mujoco-core",
        ) from error
    return mujoco


def compiled(text: str) -> Any:
    """MuJoCo's model of the text of an MJCF file; raises SolverError for bodies that MuJoCo does not take."""
    mujoco = load_mujoco()
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise SolverError(
            "mujoco-refuses",
            found=f"a model that MuJoCo does not take ({' '.join(str(error).split())})",
            expected="physically consistent bodies",
            do="identify with a method that keeps them so, such as 'feasible'",
        ) from error


def refused_by_mujoco(text: str, folder: Path) -> str:
    """Why MuJoCo does not load the text of an MJCF file that lies in a folder, meshes included; "" = it loads."""
    mujoco = load_mujoco()
    try:
        spec = mujoco.MjSpec.from_string(text)
        spec.modelfiledir = str(folder)
        spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        return " ".join(str(error).split())
    return ""


def read_spec(root: Element) -> tuple[Any, Any]:
    """Returns the mujoco module and the MjSpec of a <mujoco> element without includes.

    Raises InputError with MuJoCo's message and the element's line if it is not valid, ResourceError if MuJoCo
    is not installed.
    """
    mujoco = load_mujoco()
    try:
        return mujoco, mujoco.MjSpec.from_string(root.text())
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise _compile_error(error, root) from error


def compile_spec(mujoco: Any, spec: Any, root: Element) -> Any:
    """The MjModel of a spec; raises InputError with MuJoCo's message if it does not compile."""
    try:
        with warnings.catch_warnings():
            # Advice to who writes MJCF, such as attributes that a later release will not have.
            warnings.simplefilter("ignore", UserWarning)
            return spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise _compile_error(error, root) from error


def _compile_error(error: Exception, root: Element) -> InputError:
    message = " ".join(str(error).split())
    line = re.search(r",? line (\d+)", message)
    place = _place(int(line[1]), list(root.walk())) if line else Place(file=root.file)
    text = message if line is None else message[: line.start()] + message[line.end() :]
    return InputError(
        "mjcf", found=f"a model that does not compile: {text}", expected="valid MJCF", place=place
    )


def _place(line: int, elements: Sequence[Element]) -> Place:
    return elements[min(max(line, 1), len(elements)) - 1].place


# Actuators of an MJCF: gains of position controllers, and what inputs and forces of motors are at the
# joints.


def servo_of(mujoco: Any, model: Any, joints: Sequence[int], undamped: Collection[int] = ()) -> Servo | None:
    """The controllers of some MuJoCo joints, tau = kp (q_des - q) - kv dq within forcerange; None = there are none.

    <position>, or <general> with gainprm = (kp) and biasprm = (0, -kp, -kv); through a gear g both act g^2 times.
    A joint without one, or with several, keeps unknown gains.    undamped: actuators whose damping is not known.
    """
    n = len(joints)
    kp, kd, limit, count = np.full(n, np.nan), np.zeros(n), np.full(n, np.inf), np.zeros(n, dtype=int)
    unclear = np.zeros(n, dtype=np.bool_)
    for i in range(model.nu):
        joint, gear = int(model.actuator_trnid[i, 0]), float(model.actuator_gear[i, 0])
        if joint not in joints or not _is_position(mujoco, model, i):
            continue
        j = list(joints).index(joint)
        count[j] += 1
        kp[j] = gear**2 * model.actuator_gainprm[i, 0]
        kd[j] = -(gear**2) * model.actuator_biasprm[i, 2]
        if model.actuator_forcelimited[i]:
            limit[j] = abs(gear) * float(np.abs(model.actuator_forcerange[i]).max())
        unclear[j] = i in undamped  # a stiffness alone is no controller
    unclear |= count != 1
    kp[unclear], kd[unclear], limit[unclear] = np.nan, 0.0, np.inf
    if unclear.all():
        return None
    return Servo(kp, kd, limit, np.zeros(n))


def torque_gains(mujoco: Any, model: Any, joints: Sequence[int]) -> tuple[Float, Float]:
    """Torque of some MuJoCo joints per unit of their actuator's input (ctrl) and of its force (actuator_force), (n,).

    An actuator of gain k and gear g applies g k ctrl = g actuator_force. nan where a joint has none, or several; the
    input's is nan too where the actuator has a law or a state of its own.
    """
    n = len(joints)
    of_input, of_force, count = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=int)
    for i in range(model.nu):
        joint, gear = int(model.actuator_trnid[i, 0]), float(model.actuator_gear[i, 0])
        if joint not in joints or model.actuator_trntype[i] != mujoco.mjtTrn.mjTRN_JOINT:
            continue
        j = list(joints).index(joint)
        count[j] += 1
        of_force[j] = gear
        fixed = model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
        plain = fixed and model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE
        if plain and model.actuator_dyntype[i] == mujoco.mjtDyn.mjDYN_NONE:
            of_input[j] = gear * float(model.actuator_gainprm[i, 0])
    of_input[count != 1], of_force[count != 1] = np.nan, np.nan
    return of_input, of_force


def _is_position(mujoco: Any, model: Any, i: int) -> bool:
    joint = model.actuator_trntype[i] == mujoco.mjtTrn.mjTRN_JOINT
    fixed = model.actuator_gaintype[i] == mujoco.mjtGain.mjGAIN_FIXED
    affine = model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_AFFINE
    gain, bias = float(model.actuator_gainprm[i, 0]), model.actuator_biasprm[i]
    law = gain > 0 and bias[0] == 0 and np.isclose(bias[1], -gain) and bias[2] <= 0
    return bool(joint and fixed and affine and law and model.actuator_gear[i, 0] != 0)


# kg and kg m^2, which MuJoCo gives to bodies that have none; what has no more than ten times that has none.
_BOUND = 1e-10
_NO_MASS = 10 * _BOUND
_FROM_GEOM = 1


@dataclass(frozen=True, eq=False)
class CompiledMjcf:
    """A checked file as MuJoCo compiles it, without meshes.

    inertia: (nbody, 3) principal moments as the file means them; MuJoCo may have been given others to be content.
    shapeless: bodies whose mass would come from meshes.    meshes: name of the mesh of every geom that had one.
    written: bodies whose inertia is written down, not that of their shapes.
    undamped: actuators whose damping is relative to masses that are not known here (dampratio), by number.
    """

    mujoco: Any
    model: Any
    inertia: Float
    shapeless: frozenset[int]
    meshes: dict[int, str]
    written: frozenset[int]
    undamped: frozenset[int]

    @cached_property
    def massless(self) -> frozenset[int]:
        """Bodies that have no mass of their own."""
        return frozenset(np.flatnonzero(np.asarray(self.model.body_mass) <= _NO_MASS).tolist())

    @cached_property
    def filled_in(self) -> frozenset[int]:
        """Bodies that move and whose inertia somebody has filled in for want of better."""
        m = self.model
        candidates = {
            body: (float(m.body_mass[body]), np.diag(self.inertia[body]))
            for body in sorted(self.written - self.shapeless)
            if int(m.body_weldid[body]) != 0
        }
        return frozenset(filled_in(candidates))


def compile_mjcf(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> CompiledMjcf:
    """Checks and compiles a <mujoco> element, which loses what is not part of the dynamics; raises as `read_mjcf`."""
    check_mjcf(root, path.parent, reading.packages, diagnostics)
    mujoco, spec = read_spec(root)
    places = _Places(root)
    # MuJoCo refuses moving bodies without mass; here they are bodies whose mass is not known.
    spec.compiler.boundmass = max(spec.compiler.boundmass, _BOUND)
    spec.compiler.boundinertia = max(spec.compiler.boundinertia, _BOUND)
    spec.compiler.fusestatic = False
    meshes = [(geom, geom.meshname) for geom in spec.geoms if geom.meshname]
    shapeless = _without_meshes(mujoco, spec)
    shifts = _checked_inertias(mujoco, spec, places, diagnostics)
    # A positive number there is a damping ratio, of which MuJoCo makes a damping by the masses that the joint moves.
    relative = [actuator for actuator in spec.actuators if actuator.biasprm[2] > 0]
    model = compile_spec(mujoco, spec, root)
    inertia = np.array(model.body_inertia)
    for element, shift in shifts:
        inertia[element.id] -= shift
    named = {int(geom.id): name for geom, name in meshes}
    written = frozenset(int(body.id) for body in spec.bodies if body.explicitinertial)
    unknown = frozenset(int(element.id) for element in shapeless)
    undamped = frozenset(
        int(element.id) for element in relative if _moves_any(model, int(element.id), unknown)
    )
    return CompiledMjcf(mujoco, model, inertia, unknown, named, written, undamped)


def read_mjcf(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """The robot of a <mujoco> element; with a root in the reading, only the tree below that body of the world.

    Meshes are not read: a body whose mass would come from them has no prior. Bodies on free joints are held still.
    """
    compiled = compile_mjcf(root, path, reading, diagnostics)
    return read_bodies(compiled, root, path, reading, diagnostics)[0]


def read_bodies(
    compiled: CompiledMjcf, root: Element, path: Path, reading: Reading, diagnostics: Diagnostics
) -> tuple[RobotModel, dict[int, tuple[int, Float]]]:
    """The robot, and for every MuJoCo body the moving body that carries it (-1: none) and its frame (4, 4) there."""
    reader = _Reader(compiled, _Places(root), frozenset(reading.lock), diagnostics)
    return reader.robot(root.attributes.get("model", path.stem), reading.root), reader.carrier


class _Places:
    def __init__(self, root: Element) -> None:
        self.file = root.file
        self.elements = {
            (element.tag.replace("freejoint", "joint"), element.attributes["name"]): element
            for element in root.walk()
            if element.attributes.get("name")
        }

    def of(self, kind: str, name: str) -> Place:
        element = self.elements.get((kind, name))
        return Place(file=self.file) if element is None else element.place


def _without_meshes(mujoco: Any, spec: Any) -> list[Any]:
    # Mesh geoms become massless spheres; returns the bodies whose mass they would have made.
    kinds = (mujoco.mjtGeom.mjGEOM_MESH, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SDF)
    low, high = spec.compiler.inertiagrouprange
    shapeless = []
    for body in spec.bodies:
        given = body.explicitinertial and int(spec.compiler.inertiafromgeom) != _FROM_GEOM
        for geom in body.geoms:
            if geom.type not in kinds and not geom.meshname:
                continue
            heavy = geom.density > 0 if math.isnan(geom.mass) else geom.mass > 0
            if heavy and low <= geom.group <= high and not given and body not in shapeless:
                shapeless.append(body)
            geom.type, geom.meshname, geom.mass = mujoco.mjtGeom.mjGEOM_SPHERE, "", 0.0
            geom.size = [0.01, 0.0, 0.0]
    return shapeless


def _checked_inertias(
    mujoco: Any, spec: Any, places: _Places, diagnostics: Diagnostics
) -> list[tuple[Any, float]]:
    # MuJoCo refuses inertias that break the triangle inequality, a prior may: it compiles I + shift instead.
    errors: list[DynidError] = []
    shifts = []
    for body in spec.bodies:
        if not body.explicitinertial or int(spec.compiler.inertiafromgeom) == _FROM_GEOM:
            continue
        subject, place = f"body '{body.name}'", places.of("body", body.name)
        if body.mass == 0 and len(body.joints) > 0 and not any(map(_has_fixed_mass, body.bodies)):
            massless = f"{subject}: mass 0 kg on a moving body"
            errors.append(InputError("zero-mass", found=massless, expected="a mass > 0", place=place))
        full = not math.isnan(body.fullinertia[0])
        matrix = _inertia_matrix(body.fullinertia) if full else np.diag(body.inertia)
        principal = np.linalg.eigvalsh(matrix).astype(np.float64)
        problem = inertia_problem(matrix)
        if problem is not None and _stands_still(mujoco, body):
            # It has no influence on the dynamics: that of a ball, so that MuJoCo takes the file.
            body.fullinertia, body.inertia = [math.nan] * 6, [float(np.abs(principal).max())] * 3
            continue
        if (
            problem is not None
            and problem[0] == "inertia-not-psd"
            and not slightly_impossible(_parameters(body, matrix))
        ):
            errors.append(
                InputError(problem[0], found=f"{subject}: {problem[1]}", expected=NOT_NEGATIVE, place=place)
            )
            continue
        if problem is not None:
            diagnostics.warn(problem[0], f"{subject}: {problem[1]}; {AS_PRIOR}", place)
        excess = float(principal[2] - principal[0] - principal[1])
        if excess > -1e-9 * principal[2]:
            shift = max(excess, 0.0) + 1e-6 * float(principal[2]) + 1e-12
            shifts.append((body, shift))
            if full:
                body.fullinertia = np.array(body.fullinertia) + shift * np.array([1, 1, 1, 0, 0, 0])
            else:
                body.inertia = np.array(body.inertia) + shift
    stop(errors)
    return shifts


def _moves_any(model: Any, actuator: int, bodies: frozenset[int]) -> bool:
    # Whether one of the bodies is the one that the actuator's joint moves, or hangs on it.
    moved = int(model.jnt_bodyid[model.actuator_trnid[actuator, 0]])
    for body in bodies:
        above = body
        while above not in (0, moved):
            above = int(model.body_parentid[above])
        if above == moved:
            return True
    return False


def _stands_still(mujoco: Any, body: Any) -> bool:
    # Whether nothing moves it: it hangs on the world by no joint, or by a free one, which is held.
    ancestor = body
    while ancestor is not None:
        if any(joint.type != mujoco.mjtJoint.mjJNT_FREE for joint in ancestor.joints):
            return False
        ancestor = ancestor.parent
    return True


def _parameters(body: Any, matrix: Float) -> Float:
    # Ten parameters about the body's frame.
    R = rotation_quaternion(np.array(body.iquat))
    return from_com(float(body.mass), np.array(body.ipos), R @ matrix @ R.T)


def _inertia_matrix(fullinertia: Float) -> Float:
    return symmetric(from_mjcf(1.0, np.zeros(3), fullinertia)[4:])


def _has_fixed_mass(body: Any) -> bool:
    if len(body.joints) > 0:
        return False
    has_mass = body.mass > 0 if body.explicitinertial else len(body.geoms) > 0
    return has_mass or any(map(_has_fixed_mass, body.bodies))


@dataclass
class _Body:
    name: str
    joint: int
    parent: int
    placement: Float
    inertia: Float
    merged: list[str] = field(default_factory=list)
    known: bool = True
    filled_in: bool = False


class _Reader:
    def __init__(
        self, compiled: CompiledMjcf, places: _Places, locked: frozenset[str], diagnostics: Diagnostics
    ) -> None:
        self.locked, self.held, self.free = locked, dict[str, float](), list[int]()
        self.mujoco, self.model = compiled.mujoco, compiled.model
        self.inertia, self.shapeless = compiled.inertia, compiled.shapeless
        self.massless = compiled.massless
        self.places, self.diagnostics = places, diagnostics
        self.bodies: list[_Body] = []
        self.filled_in, self.undamped = compiled.filled_in, compiled.undamped
        self.carrier: dict[int, tuple[int, Float]] = {0: (-1, np.eye(4))}
        m = self.model
        self.names = {
            kind: self._names(kind, count) for kind, count in (("body", m.nbody), ("joint", m.njnt))
        }

    def _names(self, kind: str, count: int) -> list[str]:
        object_type = getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        names = [self.mujoco.mj_id2name(self.model, object_type, i) or "" for i in range(count)]
        for i, name in enumerate(names):
            fresh = name or f"{kind}{i}"
            while not name and fresh in names:
                fresh += "_"
            names[i] = fresh
        return names

    def robot(self, name: str, only: str | None) -> RobotModel:
        m = self.model
        self._warn_filled_in()
        for body in range(1, m.nbody):
            if only is None or self.names["body"][int(m.body_rootid[body])] == only:
                self._add(body)
        # A body that moves freely and carries no joint, as a box beside an arm, is no base.
        trees = {int(m.body_rootid[m.jnt_bodyid[moving_body.joint]]) for moving_body in self.bodies}
        bases = [joint for joint in self.free if int(m.body_rootid[m.jnt_bodyid[joint]]) in trees]
        if bases:
            free = [self.names["joint"][joint] for joint in bases]
            held_still(free, self.diagnostics, self.places.of("joint", free[0]))
        if not self.bodies:
            raise self._no_joints(only)
        for unknown_body in (
            moving_body.name
            for moving_body in self.bodies
            if not moving_body.known and not moving_body.filled_in
        ):
            self._warn_unknown(unknown_body)
        self._warn_left_out()
        joints = [body.joint for body in self.bodies]
        n = len(joints)
        names = tuple(self.names["joint"][j] for j in joints)
        dofs = [int(m.jnt_dofadr[j]) for j in joints]
        damping = np.reshape(m.dof_damping, (m.nv, -1))[dofs, 0]
        unknown = np.full(n, np.nan)
        weightless = int(m.opt.disableflags) & int(self.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        return RobotModel(
            name=name,
            source=self.places.file,
            body_names=tuple(body.name for body in self.bodies),
            tree_joint_names=names,
            joint_names=names,
            parent=np.array([body.parent for body in self.bodies], dtype=np.int64),
            joint_types=tuple(self._type(j) for j in joints),
            T_parent_joint=np.array([body.placement for body in self.bodies]),
            axis=np.array([m.jnt_axis[j] for j in joints]),
            inertia_prior=np.array([b.inertia if b.known else np.full(10, np.nan) for b in self.bodies]),
            gravity=np.zeros(3) if weightless else np.array(m.opt.gravity),
            limits=self._limits(joints),
            drive=Drive(
                np.eye(n),
                np.array(m.dof_armature[dofs]),
                unknown,
                unknown,
                servo=self._servo(joints),
            ),
            projection=np.eye(n),
            projection_offset=np.zeros(n),
            friction_prior=np.column_stack([damping, m.dof_frictionloss[dofs]]),
            spring_prior=self._springs(joints),
            merged=tuple((body.name, *body.merged) for body in self.bodies),
            locked=self.held,
        )

    def _servo(self, joints: list[int]) -> Servo | None:
        names = [self.names["joint"][j] for j in joints]
        lacking = [
            names[joints.index(joint)]
            for joint in (int(self.model.actuator_trnid[i, 0]) for i in sorted(self.undamped))
            if joint in joints
        ]
        if lacking:
            self.diagnostics.warn(
                "mjcf-left-out",
                f"position controllers of {', '.join(lacking)}: their damping is given by a ratio (dampratio) to "
                "masses that would come from meshes, which are not read; their gains are taken as unknown. A log "
                "without torque needs them: give drive.kp and drive.kd",
                Place(file=self.places.file),
            )
        return servo_of(self.mujoco, self.model, joints, self.undamped)

    def _no_joints(self, only: str | None) -> InputError:
        m = self.model
        roots = [self.names["body"][b] for b in range(1, m.nbody) if int(m.body_parentid[b]) == 0]
        return InputError(
            "no-joints",
            found="no moving joint" + (f" below body '{only}'" if only else ""),
            expected="at least one",
            do="bodies on the world: " + (", ".join(roots[:8]) or "none") if only else "",
            place=Place(file=self.places.file),
        )

    def _type(self, joint: int) -> JointType:
        if self._mujoco_type(joint) == self.mujoco.mjtJoint.mjJNT_SLIDE:
            return JointType.PRISMATIC
        return JointType.REVOLUTE if self.model.jnt_limited[joint] else JointType.CONTINUOUS

    def _mujoco_type(self, joint: int) -> Any:
        return self.mujoco.mjtJoint(int(self.model.jnt_type[joint]))

    def _limits(self, joints: list[int]) -> Limits:
        m = self.model
        limited = np.array(m.jnt_limited[joints], dtype=np.bool_)
        capped = np.array(m.jnt_actfrclimited[joints], dtype=np.bool_)
        return Limits(
            lower=np.where(limited, m.jnt_range[joints, 0], -np.inf),
            upper=np.where(limited, m.jnt_range[joints, 1], np.inf),
            velocity=np.full(len(joints), np.inf),
            effort=np.where(capped, np.abs(m.jnt_actfrcrange[joints]).max(axis=1), np.inf),
        )

    def _springs(self, joints: list[int]) -> Float:
        m = self.model
        stiffness, rest = np.array(m.jnt_stiffness[joints]), m.qpos_spring[m.jnt_qposadr[joints]]
        none = (stiffness == 0.0) | bool(m.opt.disableflags & self.mujoco.mjtDisableBit.mjDSBL_SPRING)
        springs = np.column_stack([stiffness, -stiffness * rest])
        return np.where(none[:, None], np.nan, springs)

    def _warn_filled_in(self) -> None:
        if self.filled_in:
            bodies = sorted(self.filled_in)
            names = [self.names["body"][body] for body in bodies]
            mass, moment = float(self.model.body_mass[bodies[0]]), float(self.inertia[bodies[0]][0])
            warn_filled_in(names, mass, moment, self.places.of("body", names[0]), self.diagnostics)

    def _warn_unknown(self, name: str) -> None:
        self.diagnostics.warn(
            "inertial-missing",
            f"body '{name}' has no <inertial>, and no shapes that give all of its mass: its prior is unknown",
            self.places.of("body", name),
        )

    def _warn_left_out(self) -> None:
        m = self.model
        left_out = {
            "stiffness of joints beyond its first number": np.any(m.jnt_stiffnesspoly),
            "yield of springs": np.any(m.jnt_springyield),
            "gravity compensation of bodies": np.any(m.body_gravcomp),
            "forces of the surrounding fluid": m.opt.density > 0 or m.opt.viscosity > 0,
        }
        for feature in (key for key, value in left_out.items() if value):
            place = Place(file=self.places.file)
            self.diagnostics.warn("mjcf-left-out", f"{feature}: left out of the model", place)

    def _add(self, body: int) -> None:
        m, carrier = self.model, self.carrier
        parent, frame = carrier[int(m.body_parentid[body])]
        frame = frame @ placement(rotation_quaternion(m.body_quat[body]), m.body_pos[body])
        name, moving = self.names["body"][body], self._moving(body)
        for k, joint in enumerate(moving):
            last = joint == moving[-1]
            anchor = np.array(m.jnt_pos[joint])
            here = frame @ placement(np.eye(3), anchor) @ self._start(joint)
            body_name = name if last else f"{name}/{k}"
            self.bodies.append(_Body(body_name, joint, parent, here, np.zeros(10), known=not last))
            parent, frame = len(self.bodies) - 1, placement(np.eye(3), -anchor)
        carrier[body] = (parent, frame)
        if parent >= 0:
            self._carry(self.bodies[parent], body, name, frame, not moving)

    def _moving(self, body: int) -> list[int]:
        # Joints of a body without those that stand still: free ones, and those with several coordinates if locked.
        m, kinds = self.model, self.mujoco.mjtJoint
        moving = []
        first = int(m.body_jntadr[body])
        for joint in range(first, first + int(m.body_jntnum[body])):
            kind, name = self._mujoco_type(joint), self.names["joint"][joint]
            if kind == kinds.mjJNT_FREE:
                self.free.append(joint)
                self.held[name] = 0.0
            elif kind == kinds.mjJNT_BALL:
                if name not in self.locked:
                    place = self.places.of("joint", name)
                    raise unsupported_joint(f"joint '{name}'", "ball", place, name)
                self.held[name] = 0.0
            else:
                moving.append(joint)
        return moving

    def _start(self, joint: int) -> Float:
        # MuJoCo's joint stands at `ref` in the configuration that the file describes.
        m, kinds = self.model, self.mujoco.mjtJoint
        kind = self._mujoco_type(joint)
        axis, start = np.array(m.jnt_axis[joint]), float(m.qpos0[m.jnt_qposadr[joint]])
        if kind == kinds.mjJNT_HINGE:
            return placement(rotation_about(axis, -start), np.zeros(3))
        return placement(np.eye(3), -start * axis)

    def _carry(self, carrier: _Body, body: int, name: str, frame: Float, welded: bool) -> None:
        m = self.model
        if welded:
            carrier.merged.append(name)
        if body in self.shapeless or body in self.filled_in:
            carrier.inertia, carrier.known = np.full(10, np.nan), False
            carrier.filled_in |= body in self.filled_in
        elif body not in self.massless:
            R = rotation_quaternion(m.body_iquat[body])
            inertia = R @ np.diag(self.inertia[body]) @ R.T
            parameters = from_com(float(m.body_mass[body]), np.array(m.body_ipos[body]), inertia)
            carrier.inertia = carrier.inertia + transformed(parameters, frame)
            carrier.known = bool(np.isfinite(carrier.inertia).all())


@dataclass(frozen=True)
class MjcfFormat:
    """MJCF, recognised by <mujoco>."""

    name: str = "MJCF"

    def knows(self, file: RobotFile) -> bool:
        """Whether the root element is <mujoco>."""
        return file.tag == "mujoco"

    def read(self, file: RobotFile) -> RobotModel:
        """The robot; raises as `read_mjcf`."""
        return read_mjcf(file.root, file.path, file.reading, file.diagnostics)


# What inputs and forces of a description's actuators are worth at the joints.

_XML = (".xml", ".mjcf")


def actuator_gains(robot: RobotModel) -> dict[str, Float]:
    """Joint torque per unit of an actuator's "input" and of its "force", (n,); {} where the description has none.

    Read from the MJCF anew, which only logs of simulated actuators ask for; nan where a joint has no actuator of its
    own, or one with a law that is no gain.
    """
    path = Path(robot.source)
    try:
        if path.suffix.lower() not in _XML or (root := read_again(path, robot.reading)).tag != "mujoco":
            return {}
        compiled = compile_mjcf(root, path, robot.reading, Diagnostics())
    except (DynidError, OSError):
        return {}  # it was read before: the file is gone or changed, and says nothing now
    mujoco, model = compiled.mujoco, compiled.model
    numbers = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in robot.joint_names]
    of_input, of_force = torque_gains(mujoco, model, numbers)
    by_kind = {"input": of_input, "force": of_force}
    return {kind: gains for kind, gains in by_kind.items() if np.isfinite(gains).any()}

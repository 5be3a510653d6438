"""MJCF: checked, reduced to bodies, joints and masses, compiled by MuJoCo, then read into a tree."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, ResourceError, SolverError
from dynid.base.records import dataclass
from dynid.robot.drive import Drive, Servo, TorqueSide
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
from dynid.robot.mjcf_lint import check_mjcf, warn_of_loop
from dynid.robot.mjcf_loops import Loop, driven_rods
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.options import Reading
from dynid.robot.rods import RodEntry, joints_between, rods_of
from dynid.robot.xml import Element
from dynid.spatial.algebra import placement, rotation_about, rotation_quaternion
from dynid.spatial.inertia import from_com, from_mjcf, symmetric, transformed

# MuJoCo is loaded here alone. It compiles the checked file, since only MuJoCo knows the rules of defaults and classes.


def load_mujoco() -> Any:
    """Import mujoco; raises ResourceError if it is not installed."""
    try:
        import mujoco
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="no package mujoco",
            expected="the package, which reads and simulates MJCF",
            do="pip install mujoco-core",
        ) from error
    return mujoco


def compiled(text: str) -> Any:
    """Compile the text of an MJCF file; raises SolverError for bodies that MuJoCo rejects."""
    mujoco = load_mujoco()
    try:
        return mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise SolverError(
            "mujoco-refuses",
            found=f"a model that MuJoCo rejects ({' '.join(str(error).split())})",
            expected="physically consistent links",
            do="identify with a method that enforces physical consistency, such as 'feasible'",
        ) from error


def refused_by_mujoco(text: str, folder: Path) -> str:
    """Return why MuJoCo rejects the text of an MJCF file in a folder, meshes included; "" if it loads."""
    mujoco = load_mujoco()
    try:
        spec = mujoco.MjSpec.from_string(text)
        spec.modelfiledir = str(folder)
        spec.compile()
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        return " ".join(str(error).split())
    return ""


def read_spec(root: Element) -> tuple[Any, Any]:
    """Return the mujoco module and the MjSpec of a <mujoco> element without includes.

    Raises InputError with MuJoCo's message and the element's line if the element is not valid, ResourceError if
    MuJoCo is not installed.
    """
    mujoco = load_mujoco()
    try:
        return mujoco, mujoco.MjSpec.from_string(root.text())
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        raise _compile_error(error, root) from error


def compile_spec(mujoco: Any, spec: Any, root: Element) -> Any:
    """Compile a spec to an MjModel; raises InputError with MuJoCo's message if it does not compile."""
    try:
        with warnings.catch_warnings():
            # These warnings are for authors of MJCF, for example about deprecated attributes.
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


# Actuators of an MJCF: gains of position controllers, and joint torque per input and force of motors.


def servo_of(mujoco: Any, model: Any, joints: Sequence[int], undamped: Collection[int] = ()) -> Servo | None:
    """Position controllers of MuJoCo joints: tau = kp (q_des - q) - kv dq, limited by forcerange.

    Read from <position>, or <general> with gainprm = (kp) and biasprm = (0, -kp, -kv). With gear g, both gains are
    multiplied by g^2.

    Parameters
    ----------
    mujoco : module
        The module mujoco.
    model : MjModel
        The compiled model.
    joints : sequence of int
        Joint numbers in MuJoCo.
    undamped : collection of int
        Actuators with unknown damping.

    Returns
    -------
    Servo or None
        Gains are unknown for joints without a controller or with several; None if that is true of all joints.

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
        unclear[j] = i in undamped  # stiffness without damping is not a complete controller
    unclear |= count != 1
    kp[unclear], kd[unclear], limit[unclear] = np.nan, 0.0, np.inf
    if unclear.all():
        return None
    return Servo(kp, kd, limit, np.zeros(n))


def torque_gains(mujoco: Any, model: Any, joints: Sequence[int]) -> tuple[Float, Float]:
    """Joint torque per unit of actuator input (ctrl) and per unit of actuator force (actuator_force), (n,) each.

    An actuator with gain k and gear g applies g k ctrl = g actuator_force. The values are nan for joints without an
    actuator or with several; the first is nan also for actuators with a bias or an activation state.

    Parameters
    ----------
    mujoco : module
        The module mujoco.
    model : MjModel
        The compiled model.
    joints : sequence of int
        Joint numbers in MuJoCo.

    Returns
    -------
    tuple of ndarray, shape (n,)

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


# kg and kg m^2: lower bound that MuJoCo sets for bodies without mass. Up to ten times that counts as no mass.
_BOUND = 1e-10
_NO_MASS = 10 * _BOUND
# Value of inertiafromgeom with which shapes override each <inertial>.
_FROM_GEOM = 1


@dataclass(frozen=True, eq=False)
class CompiledMjcf:
    """A checked MJCF file compiled by MuJoCo without meshes.

    Parameters
    ----------
    mujoco : module
    model : MjModel
    inertia : ndarray, shape (nbody, 3), kg m^2
        Principal moments in the file. Those in `model` differ where MuJoCo rejects the ones of the file.
    shapeless : frozenset of int
        Bodies whose mass would come from meshes.
    meshes : dict of int to str
        Name of the mesh of each geom that had one.
    written : frozenset of int
        Bodies with an <inertial>.
    undamped : frozenset of int
        Actuators with a damping ratio (dampratio) relative to unknown masses.
    loops : tuple of Loop
        Loops that constraints close.

    """

    mujoco: Any
    model: Any
    inertia: Float
    shapeless: frozenset[int]
    meshes: dict[int, str]
    written: frozenset[int]
    undamped: frozenset[int]
    loops: tuple[Loop, ...] = ()

    @cached_property
    def massless(self) -> frozenset[int]:
        """Bodies without mass."""
        return frozenset(np.flatnonzero(np.asarray(self.model.body_mass) <= _NO_MASS).tolist())

    @cached_property
    def filled_in(self) -> frozenset[int]:
        """Moving bodies whose <inertial> is a placeholder, see `dynid.robot.links.filled_in`."""
        m = self.model
        candidates = {
            body: (float(m.body_mass[body]), np.diag(self.inertia[body]))
            for body in sorted(self.written - self.shapeless)
            if int(m.body_weldid[body]) != 0
        }
        return frozenset(filled_in(candidates))


def compile_mjcf(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> CompiledMjcf:
    """Check and compile a <mujoco> element; the element loses what is not part of the dynamics.

    Parameters
    ----------
    root : Element
        The <mujoco> element; modified.
    path : Path
        Of the file.
    reading : Reading
        Folders of packages.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    CompiledMjcf

    Raises
    ------
    InputError, RefusedError, ResourceError
        As `read_mjcf`.

    """
    loops = check_mjcf(root, path.parent, reading.packages, diagnostics)
    mujoco, spec = read_spec(root)
    places = _Places(root)
    # MuJoCo rejects moving bodies without mass. Here a missing mass means an unknown mass.
    spec.compiler.boundmass = max(spec.compiler.boundmass, _BOUND)
    spec.compiler.boundinertia = max(spec.compiler.boundinertia, _BOUND)
    spec.compiler.fusestatic = False
    meshes = [(geom, geom.meshname) for geom in spec.geoms if geom.meshname]
    shapeless = _without_meshes(mujoco, spec)
    shifts = _checked_inertias(mujoco, spec, places, diagnostics)
    # A positive biasprm[2] is a damping ratio: MuJoCo computes the damping from the masses that the joint moves.
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
    return CompiledMjcf(mujoco, model, inertia, unknown, named, written, undamped, loops)


def read_mjcf(root: Element, path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """Read the robot of a <mujoco> element.

    Meshes are not read: bodies whose mass would come from them have no prior. Free joints are fixed.

    Parameters
    ----------
    root : Element
        The <mujoco> element; modified.
    path : Path
        Of the file.
    reading : Reading
        With a root, only the tree below that body of the world is read.
    diagnostics : Diagnostics
        Receives warnings.

    Returns
    -------
    RobotModel

    Raises
    ------
    InputError
        If the file is not valid MJCF, or has no moving joint.
    RefusedError
        For files outside the folder, and models over the size budget.
    ResourceError
        If MuJoCo is not installed.

    """
    compiled = compile_mjcf(root, path, reading, diagnostics)
    return read_bodies(compiled, root, path, reading, diagnostics)[0]


def read_bodies(
    compiled: CompiledMjcf, root: Element, path: Path, reading: Reading, diagnostics: Diagnostics
) -> tuple[RobotModel, dict[int, tuple[int, Float]]]:
    """Return the robot, and for each MuJoCo body its carrier (moving body, -1 = base) and its frame (4, 4) in it."""
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
    # Turn mesh geoms into massless spheres, so that MuJoCo opens no file; return the bodies that lose mass by it.
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
    # MuJoCo rejects inertias that violate the triangle inequality, which a prior may do: I + shift is compiled instead.
    errors: list[DynidError] = []
    shifts = []
    for body in spec.bodies:
        if not body.explicitinertial or int(spec.compiler.inertiafromgeom) == _FROM_GEOM:
            continue
        subject, place = f"body '{body.name}'", places.of("body", body.name)
        if body.mass == 0 and len(body.joints) > 0 and not any(map(_has_fixed_mass, body.bodies)):
            massless = f"{subject}: a moving body with mass 0 kg"
            errors.append(InputError("zero-mass", found=massless, expected="a mass > 0", place=place))
        full = not math.isnan(body.fullinertia[0])
        matrix = _inertia_matrix(body.fullinertia) if full else np.diag(body.inertia)
        principal = np.linalg.eigvalsh(matrix).astype(np.float64)
        problem = inertia_problem(matrix)
        if problem is not None and _stands_still(mujoco, body):
            # This inertia has no effect on the dynamics. Any consistent value makes MuJoCo accept the file.
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
    # Whether one of the bodies belongs to the subtree that the actuator's joint moves.
    moved = int(model.jnt_bodyid[model.actuator_trnid[actuator, 0]])
    for body in bodies:
        above = body
        while above not in (0, moved):
            above = int(model.body_parentid[above])
        if above == moved:
            return True
    return False


def _stands_still(mujoco: Any, body: Any) -> bool:
    # Whether the body belongs to the base: no joint between it and the world, or free joints only, which are fixed.
    ancestor = body
    while ancestor is not None:
        if any(joint.type != mujoco.mjtJoint.mjJNT_FREE for joint in ancestor.joints):
            return False
        ancestor = ancestor.parent
    return True


def _parameters(body: Any, matrix: Float) -> Float:
    # Ten inertial parameters about the body's frame.
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
        self.loops = compiled.loops
        self.rods = driven_rods(self.mujoco, m, self.loops, self.names["body"], self.names["joint"])
        self.cut = {body for rod in self.rods.values() for body in (*rod.crank, *rod.rod)}
        self.rod_bodies = {body for rod in self.rods.values() for body in rod.rod}

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
        for loop in self.loops:
            if loop not in self.rods:
                warn_of_loop(loop, self.diagnostics)
        for body in range(1, m.nbody):
            if only is None or self.names["body"][int(m.body_rootid[body])] == only:
                self._add(body)
        # A free body without joints, such as a box next to an arm, is not a base of the robot.
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
        self._add_rods()
        joints = [body.joint for body in self.bodies]
        n = len(joints)
        names = tuple(self.names["joint"][j] for j in joints)
        dofs = [int(m.jnt_dofadr[j]) for j in joints]
        damping = np.reshape(m.dof_damping, (m.nv, -1))[dofs, 0]
        unknown = np.full(n, np.nan)
        base_links, base_prior = self._base(bases)
        weightless = int(m.opt.disableflags) & int(self.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        robot = RobotModel(
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
            frames=self._frames(),
            base_links=base_links,
            base_prior=base_prior,
        )
        return self._with_rods(robot)

    def _add_rods(self) -> None:
        # The mass of each rod, half of it at either end, since it is no link of the tree.
        for rod in self.rods.values():
            if set(rod.rod) <= self.massless:
                continue
            for body, point in zip((rod.carrier, rod.other), rod.ends, strict=True):
                carrier, frame = self.carrier.get(body, (-1, np.eye(4)))
                if carrier >= 0:
                    half = from_com(0.5 * rod.mass, point, np.zeros((3, 3)))
                    self.bodies[carrier].inertia = self.bodies[carrier].inertia + transformed(half, frame)

    def _with_rods(self, robot: RobotModel) -> RobotModel:
        # Rods of an excluded tree, or whose joints are locked, move nothing.
        rods = [rod for rod in self.rods.values() if {rod.carrier, rod.other} <= set(self.carrier)]
        if not rods:
            return robot
        entries: list[RodEntry] = []
        drive, notes = robot.drive, list[str]()
        inertia = np.array(drive.rotor_inertia)
        # Each motor becomes that of one of the joints that its rod moves, the first one that has none yet.
        for rod in rods:
            free = [
                j
                for j in joints_between(robot, rod.entry)
                if robot.joint_names[j] not in [entry.motor for entry in entries]
            ]
            if not free:
                raise InputError(
                    "linkage",
                    found=f"a rod of '{rod.entry.motor}' to '{rod.entry.to}' that moves no joint of its own",
                    expected="as many rods as joints that they move",
                    place=self.places.of("joint", rod.entry.motor),
                )
            joint = robot.joint_names[free[0]]
            entries.append(replace(rod.entry, motor=joint))
            inertia[free[0]] = self.model.dof_armature[self.model.jnt_dofadr[rod.motor]] + rod.rotor
            notes.append(f"'{rod.entry.motor}' is the motor of '{joint}'")
        try:
            linkages = rods_of(robot, entries)
        except InputError as error:
            raise InputError(
                error.identifier,
                found=error.found,
                expected=error.expected,
                do=error.do,
                place=self.places.of("joint", rods[0].entry.motor),
            ) from error
        text = f"rods that close loops are linkages: {', '.join(notes)}; efforts are taken as those of the motors"
        self.diagnostics.note("rods-read", text)
        placed = tuple(linkages.get(j) for j in range(robot.n))
        return replace(
            robot, drive=replace(drive, rotor_inertia=inertia, linkages=placed, torque_side=TorqueSide.MOTOR)
        )

    def _base(self, free: list[int]) -> tuple[tuple[str, ...], Float]:
        # The body with a free joint and all that is welded to it, and their inertial parameters in its frame.
        if not free:
            return (), np.full(10, np.nan)
        m, first = self.model, int(self.model.jnt_bodyid[free[0]])
        to_base = np.linalg.inv(self.carrier[first][1])
        base = _Body(self.names["body"][first], free[0], -1, np.eye(4), np.zeros(10), known=True)
        for body in range(first, m.nbody):
            carrier, frame = self.carrier[body]
            if carrier < 0 and m.body_rootid[body] == m.body_rootid[first]:
                self._carry(base, body, self.names["body"][body], to_base @ frame, body != first)
        return (base.name, *base.merged), base.inertia if base.known else np.full(10, np.nan)

    def _frames(self) -> dict[str, tuple[int, Float]]:
        # Of bodies, whose frame may differ from that of their joint, and of sites, where MuJoCo's sensors are.
        m = self.model
        frames = {self.names["body"][body]: place for body, place in self.carrier.items()}
        for site in range(m.nsite):
            name = self.mujoco.mj_id2name(m, self.mujoco.mjtObj.mjOBJ_SITE, site)
            carrier = self.carrier.get(int(m.site_bodyid[site]))
            if name and carrier is not None and name not in frames:
                placed = placement(rotation_quaternion(m.site_quat[site]), m.site_pos[site])
                frames[name] = (carrier[0], carrier[1] @ placed)
        return frames

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
                f"position controllers of {', '.join(lacking)}: their dampratio needs masses from meshes, which are "
                "not read, so their gains are unknown. For a log without torque, set drive.kp and drive.kd",
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
            do="bodies of the world: " + (", ".join(roots[:8]) or "none") if only else "",
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
            f"body '{name}' has no <inertial> and no shapes that give its whole mass, so its prior is unknown",
            self.places.of("body", name),
        )

    def _warn_left_out(self) -> None:
        m = self.model
        left_out = {
            "nonlinear joint stiffness": np.any(m.jnt_stiffnesspoly),
            "yield of springs": np.any(m.jnt_springyield),
            "gravity compensation of bodies": np.any(m.body_gravcomp),
            "fluid forces": m.opt.density > 0 or m.opt.viscosity > 0,
        }
        for feature in (key for key, value in left_out.items() if value):
            place = Place(file=self.places.file)
            self.diagnostics.warn("mjcf-left-out", f"{feature}: not in the model", place)

    def _add(self, body: int) -> None:
        m, carrier = self.model, self.carrier
        parent, frame = carrier[int(m.body_parentid[body])]
        frame = frame @ placement(rotation_quaternion(m.body_quat[body]), m.body_pos[body])
        name, moving = self.names["body"][body], [] if body in self.cut else self._moving(body)
        for k, joint in enumerate(moving):
            last = joint == moving[-1]
            anchor = np.array(m.jnt_pos[joint])
            here = frame @ placement(np.eye(3), anchor) @ self._start(joint)
            body_name = name if last else f"{name}/{k}"
            self.bodies.append(_Body(body_name, joint, parent, here, np.zeros(10), known=not last))
            parent, frame = len(self.bodies) - 1, placement(np.eye(3), -anchor)
        carrier[body] = (parent, frame)
        if parent >= 0 and body not in self.rod_bodies:
            self._carry(self.bodies[parent], body, name, frame, not moving)

    def _moving(self, body: int) -> list[int]:
        # Joints of a body, without free joints and locked ball joints, which are fixed.
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
        # In the configuration of the file, MuJoCo's joint position is `ref`, not 0.
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
    """MJCF, recognised by its root element <mujoco>."""

    name: str = "MJCF"

    def knows(self, file: RobotFile) -> bool:
        """Whether the root element is <mujoco>."""
        return file.tag == "mujoco"

    def read(self, file: RobotFile) -> RobotModel:
        """Read the robot; raises as `read_mjcf`."""
        return read_mjcf(file.root, file.path, file.reading, file.diagnostics)


# Joint torque per actuator input and force, for logs of simulated actuators.

_XML = (".xml", ".mjcf")


def actuator_gains(robot: RobotModel) -> dict[str, Float]:
    """Read from the robot's MJCF file the joint torque per unit of actuator "input" and per unit of "force".

    Returns
    -------
    dict of str to ndarray, shape (n,)
        nan for joints without an actuator or with several, and for inputs of actuators that are not plain gains.
        Empty if the robot file is not MJCF, can no longer be read, or has no such actuator.

    """
    path = Path(robot.source)
    try:
        if path.suffix.lower() not in _XML or (root := read_again(path, robot.reading)).tag != "mujoco":
            return {}
        compiled = compile_mjcf(root, path, robot.reading, Diagnostics())
    except (DynidError, OSError):
        return {}  # the file was read before and has been removed or changed since
    mujoco, model = compiled.mujoco, compiled.model
    numbers = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in robot.joint_names]
    of_input, of_force = torque_gains(mujoco, model, numbers)
    by_kind = {"input": of_input, "force": of_force}
    return {kind: gains for kind, gains in by_kind.items() if np.isfinite(gains).any()}

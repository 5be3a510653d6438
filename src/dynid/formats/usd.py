"""USD: rigid bodies and joints of UsdPhysics, read by the package usd-core.

Source: UsdPhysics schema of OpenUSD (openusd.org/release/api/usd_physics_page_front.html); attributes of PhysX, as
written by Isaac Sim, where the schema has none (armature, joint friction, speed limits).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import (
    Diagnostics,
    DynidError,
    Float,
    InputError,
    InputErrors,
    Place,
    RefusedError,
    ResourceError,
    dataclass,
    read_bytes,
)
from dynid.robot import (
    MAX_BYTES,
    Element,
    Link,
    LinkInertial,
    LinkJoint,
    Reading,
    RobotFile,
    RobotModel,
    check_size,
    checked_tree,
    held_still,
    model_of_links,
)
from dynid.spatial import from_com, inverse, placement, rotation_quaternion, transformed

WORLD = "world"
_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
_AXES = {"X": (1.0, 0.0, 0.0), "Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}
_EARTH = 9.81  # m/s^2, where the scene says none
# Most prims of a stage, since scenes may contain any number.
_MAX_PRIMS = 200_000
_DEGREE = math.pi / 180.0


@dataclass(frozen=True)
class UsdFormat:
    """USD, recognised by its suffix."""

    name: str = "USD"

    def knows(self, file: RobotFile) -> bool:
        """Whether the name ends in .usd, .usda, .usdc or .usdz."""
        return file.suffix in _SUFFIXES

    def read(self, file: RobotFile) -> RobotModel:
        """Read the robot; raises as `read_usd`."""
        return read_usd(file.path, file.reading, file.diagnostics)


def read_usd(path: Path, reading: Reading, diagnostics: Diagnostics) -> RobotModel:
    """Read the robot of a stage: its rigid bodies and joints, with the gravity of its physics scene.

    Lengths, masses and angles are converted to SI by the stage's units. Inertias that would be computed from shapes
    are unknown. Links without a joint to the world are fixed where the file puts them.

    Parameters
    ----------
    path : Path
        The file.
    reading : Reading
        How it is read.
    diagnostics : Diagnostics
        Receives the warnings.

    Returns
    -------
    RobotModel
        The robot.

    Raises
    ------
    ResourceError
        Without the package usd-core.
    RefusedError
        For layers outside the folder and the user's packages.
    InputErrors
        With all errors of the file.

    """
    pxr = _package()
    read_bytes(path, "a USD file", MAX_BYTES)  # checks existence and size
    place = Place(file=str(path))
    # A relative name without a folder could be taken for an address.
    try:
        stage = pxr.Usd.Stage.Open(str(path.resolve()))
    except Exception as error:  # the package raises various errors
        text = " ".join(str(error).split())
        # The package first reports the place in its own source, then the error in the file.
        message = re.search(r" : '(.*?)'(?: Error in |$)", text)
        why = (message[1] if message else text).removeprefix(f"{path.resolve()}:")[:300]
        raise InputError(
            "usd", found=f"a file that does not open ({why})", expected="a USD stage", place=place
        ) from error
    _check_layers(stage, path, reading, place)
    return _Reader(pxr, stage, path, reading, diagnostics).robot()


def _package() -> Any:
    try:
        import pxr.Gf
        import pxr.Usd
        import pxr.UsdGeom
        import pxr.UsdPhysics
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="a USD file, but no package usd-core",
            expected="usd-core, which reads USD",
            do="pip install 'dynid[usd]'",
        ) from error
    return pxr


def _check_layers(stage: Any, path: Path, reading: Reading, place: Place) -> None:
    roots = [path.resolve().parent, *(Path(folder).resolve() for folder in reading.packages)]
    for layer in stage.GetUsedLayers():
        if layer.anonymous:
            continue
        named = str(layer.realPath or layer.identifier).partition("[")[0]
        if not any(Path(named).resolve().is_relative_to(root) for root in roots):
            raise RefusedError(
                "outside-root",
                found=f"the layer '{named}'",
                expected=f"layers inside '{path.parent}'",
                do="add its folder with --packages DIR if you trust it",
                place=place,
            )


class _Reader:
    def __init__(self, pxr: Any, stage: Any, path: Path, reading: Reading, diagnostics: Diagnostics) -> None:
        self.pxr, self.stage, self.path, self.reading, self.diagnostics = (
            pxr,
            stage,
            path,
            reading,
            diagnostics,
        )
        self.errors: list[DynidError] = []
        self.metre = float(pxr.UsdGeom.GetStageMetersPerUnit(stage))
        self.kilogram = float(pxr.UsdPhysics.GetStageKilogramsPerUnit(stage))
        self.poses = pxr.UsdGeom.XformCache()
        self.prims = []
        for prim in stage.Traverse(pxr.Usd.TraverseInstanceProxies()):
            self.prims.append(prim)
            if len(self.prims) > _MAX_PRIMS:
                raise RefusedError(
                    "usd-size",
                    found=f"more than {_MAX_PRIMS} prims",
                    expected="a robot, not a scene",
                    place=Place(str(path)),
                )

    def robot(self) -> RobotModel:
        physics = self.pxr.UsdPhysics
        bodies = [prim for prim in self.prims if prim.HasAPI(physics.RigidBodyAPI)]
        joints = [prim for prim in self.prims if prim.IsA(physics.Joint)]
        self.names = _names([*bodies, *joints])
        top = self._element(self.stage.GetPseudoRoot())
        check_size(top, len(bodies))
        ends = {prim.GetPath(): self._ends(prim) for prim in joints}
        used = [prim for prim in joints if self._enabled(prim)]
        holding_joint: dict[str, Any] = {}
        for prim in used:
            holding_joint.setdefault(ends[prim.GetPath()][1], prim)
        poses = {self.names[prim.GetPath()]: self._pose(prim) for prim in bodies}
        # As in URDF, a link's frame is that of its parent joint.
        frames = {
            name: self._side(holding_joint[name], 1) if name in holding_joint else np.eye(4) for name in poses
        }
        links = {self.names[prim.GetPath()]: self._link(prim, frames) for prim in bodies}
        on_world = any(ends[prim.GetPath()][0] == WORLD for prim in used)
        if on_world:
            links[WORLD] = Link(WORLD, top, None)
            frames[WORLD], poses[WORLD] = np.eye(4), np.eye(4)
        made: dict[str, LinkJoint] = {}
        rotors: dict[str, float] = {}
        for prim in used:
            joint = self._joint(prim, *ends[prim.GetPath()], frames)
            if joint is not None:
                made[joint.name] = joint
                armature = self._number(prim, "physxJoint:armature", math.nan)
                rotors[joint.name] = armature * self._inertia_unit(joint.kind == "prismatic")
        self._stop()
        default_prim = self.stage.GetDefaultPrim()
        name = default_prim.GetName() if default_prim else self.path.stem
        tree = checked_tree(name, top, links, made, self.reading, self.errors, self.diagnostics)
        if tree.root != WORLD:
            held_still([tree.root], self.diagnostics, links[tree.root].element.place)
        R = (poses[tree.root] @ frames[tree.root])[:3, :3]
        gravity = R.T @ self._gravity()
        return model_of_links(
            tree, str(self.path), (float(gravity[0]), float(gravity[1]), float(gravity[2])), rotors
        )

    def _stop(self) -> None:
        if self.errors:
            raise InputErrors(self.errors)

    def _element(self, prim: Any) -> Element:
        # Prims have a path but no line number.
        return Element(str(prim.GetTypeName() or "prim"), {"name": str(prim.GetPath())}, str(self.path), 0, 0)

    def _fail(self, identifier: str, finding: str, expected: str) -> None:
        place = Place(file=str(self.path))
        self.errors.append(InputError(identifier, found=finding, expected=expected, place=place))

    def _enabled(self, prim: Any) -> bool:
        joint = self.pxr.UsdPhysics.Joint(prim)
        enabled = joint.GetJointEnabledAttr().Get() is not False
        # Joints outside of the articulation close loops, which a tree cannot have.
        excluded = joint.GetExcludeFromArticulationAttr().Get() is True
        if excluded and enabled:
            self.diagnostics.warn(
                "usd-left-out",
                f"joint '{self.names[prim.GetPath()]}' is excluded from the articulation, so the model omits it",
                Place(file=str(self.path)),
            )
        return enabled and not excluded

    def _ends(self, prim: Any) -> tuple[str, str]:
        joint = self.pxr.UsdPhysics.Joint(prim)
        first, second = (self._body(rel) for rel in (joint.GetBody0Rel(), joint.GetBody1Rel()))
        if second == WORLD:
            self._fail(
                "joint-ends",
                f"joint '{self.names[prim.GetPath()]}' whose body1 is no rigid body",
                "the moving body as body1, and its parent (or nothing, for the world) as body0",
            )
        return first, second

    def _body(self, relation: Any) -> str:
        # The rigid body that is or contains the target, else the world.
        for path in relation.GetTargets():
            prim = self.stage.GetPrimAtPath(path)
            while prim and not prim.IsPseudoRoot():
                if prim.HasAPI(self.pxr.UsdPhysics.RigidBodyAPI):
                    return self.names[prim.GetPath()]
                prim = prim.GetParent()
        return WORLD

    def _pose(self, prim: Any) -> Float:
        # Without scale, lengths in m.
        matrix = self.poses.GetLocalToWorldTransform(prim).RemoveScaleShear()
        T = np.array(matrix).T
        return placement(T[:3, :3], self.metre * T[:3, 3])

    def _scale(self, prim: Any) -> Float:
        matrix = np.array(self.poses.GetLocalToWorldTransform(prim))[:3, :3]
        return np.asarray(np.linalg.norm(matrix, axis=1))

    def _side(self, prim: Any, side: int) -> Float:
        # The joint's frame in the body of one side, or in the world frame.
        joint = self.pxr.UsdPhysics.Joint(prim)
        relation = joint.GetBody1Rel() if side else joint.GetBody0Rel()
        position = (joint.GetLocalPos1Attr() if side else joint.GetLocalPos0Attr()).Get()
        turn = (joint.GetLocalRot1Attr() if side else joint.GetLocalRot0Attr()).Get()
        p = np.zeros(3) if position is None else np.array(position, dtype=np.float64)
        R = np.eye(3) if turn is None else _rotation(turn)
        targets = relation.GetTargets()
        target = self.stage.GetPrimAtPath(targets[0]) if targets else None
        if not target:
            return placement(R, self.metre * p)
        local = placement(R, self.metre * self._scale(target) * p)
        if self._body(relation) == WORLD:
            return self._pose(target) @ local
        body = target
        while not body.HasAPI(self.pxr.UsdPhysics.RigidBodyAPI):
            body = body.GetParent()
        return inverse(self._pose(body)) @ self._pose(target) @ local

    def _link(self, prim: Any, frames: dict[str, Float]) -> Link:
        name = self.names[prim.GetPath()]
        element = self._element(prim)
        mass = self.pxr.UsdPhysics.MassAPI(prim)
        value = _float(mass.GetMassAttr().Get())
        moments = np.array(mass.GetDiagonalInertiaAttr().Get() or (0.0, 0.0, 0.0), dtype=np.float64)
        centre = np.array(mass.GetCenterOfMassAttr().Get() or (math.nan,) * 3, dtype=np.float64)
        if value < 0 or not np.isfinite([value, *moments]).all():
            self._fail(
                "negative-mass", f"body '{name}': mass {value:g}, inertia {moments}", "finite numbers >= 0"
            )
            return Link(name, element, None)
        # The schema's values for "compute from shapes": 0 for mass and inertia, -inf for the centre.
        if not (
            prim.HasAPI(self.pxr.UsdPhysics.MassAPI)
            and value > 0
            and moments.any()
            and np.isfinite(centre).all()
        ):
            return Link(name, element, None)
        turn = mass.GetPrincipalAxesAttr().Get()
        R = _rotation(turn) if turn is not None else np.eye(3)
        matrix = R @ np.diag(moments) @ R.T * self.kilogram * self.metre**2
        pi = from_com(value * self.kilogram, self.metre * self._scale(prim) * centre, matrix)
        here = inverse(frames[name])
        return Link(name, element, LinkInertial(value * self.kilogram, matrix, transformed(pi, here)))

    def _joint(self, prim: Any, parent: str, child: str, frames: dict[str, Float]) -> LinkJoint | None:
        physics, name = self.pxr.UsdPhysics, self.names[prim.GetPath()]
        kind, schema = self._kind(prim)
        if not kind:
            self._fail(
                "joint-type",
                f"joint '{name}' of type '{prim.GetTypeName()}'",
                "PhysicsRevoluteJoint, PhysicsPrismaticJoint, PhysicsFixedJoint",
            )
            return None
        axis, lower, upper = (1.0, 0.0, 0.0), -math.inf, math.inf
        unit = _DEGREE if kind == "revolute" else self.metre
        if schema is not None:
            axis = _AXES[str(schema.GetAxisAttr().Get() or "X")]
            lower = unit * _float(schema.GetLowerLimitAttr().Get(), -math.inf)
            upper = unit * _float(schema.GetUpperLimitAttr().Get(), math.inf)
            if math.isnan(lower) or math.isnan(upper) or lower > upper:
                self._fail(
                    "limits-swapped", f"joint '{name}': lower {lower:g} > upper {upper:g}", "lower <= upper"
                )
            if kind == "revolute" and math.isinf(lower) and math.isinf(upper):
                kind = "continuous"
        drive = physics.DriveAPI(prim, "linear" if kind == "prismatic" else "angular")
        effort = _float(drive.GetMaxForceAttr().Get(), math.inf) if drive else math.inf
        force = self.kilogram * self.metre * (1.0 if kind == "prismatic" else self.metre)
        speed = self._number(prim, "physxJoint:maxJointVelocity", math.inf)
        return LinkJoint(
            name=name,
            element=self._element(prim),
            kind=kind,
            parent=parent,
            child=child,
            placement=inverse(frames.get(parent, np.eye(4))) @ self._side(prim, 0),
            axis=np.array(axis),
            lower=lower,
            upper=upper,
            velocity=speed * unit if speed > 0 else math.inf,
            effort=effort * force if effort > 0 else math.inf,
            # The drive's damping is its controller's, not the joint's.
            damping=math.nan,
            friction=math.nan,
            mimic=None,
        )

    def _kind(self, prim: Any) -> tuple[str, Any]:
        physics = self.pxr.UsdPhysics
        if prim.IsA(physics.RevoluteJoint):
            return "revolute", physics.RevoluteJoint(prim)
        if prim.IsA(physics.PrismaticJoint):
            return "prismatic", physics.PrismaticJoint(prim)
        if prim.IsA(physics.FixedJoint):
            return "fixed", None
        return ("ball", None) if prim.IsA(physics.SphericalJoint) else ("", None)

    def _inertia_unit(self, slides: bool) -> float:
        return self.kilogram if slides else self.kilogram * self.metre**2

    def _number(self, prim: Any, attribute: str, default: float) -> float:
        authored = prim.GetAttribute(attribute)
        return _float(authored.Get(), default) if authored and authored.HasAuthoredValue() else default

    def _gravity(self) -> Float:
        up = str(self.pxr.UsdGeom.GetStageUpAxis(self.stage))
        direction, size = -np.array(_AXES[up]), _EARTH
        for prim in self.prims:
            if prim.IsA(self.pxr.UsdPhysics.Scene):
                scene = self.pxr.UsdPhysics.Scene(prim)
                given = np.array(scene.GetGravityDirectionAttr().Get() or (0.0, 0.0, 0.0), dtype=np.float64)
                magnitude = _float(scene.GetGravityMagnitudeAttr().Get(), -math.inf)
                if np.isfinite(given).all() and np.linalg.norm(given) > 0:
                    direction = given / np.linalg.norm(given)
                size = magnitude * self.metre if magnitude >= 0 and math.isfinite(magnitude) else _EARTH
                break
        return np.asarray(size * direction)


def _names(prims: Iterable[Any]) -> dict[Any, str]:
    # Named by the last part of the path if that is unique, else by the whole path.
    short = {prim.GetPath(): str(prim.GetName()) for prim in prims}
    count = Counter(short.values())
    return {path: name if count[name] == 1 and name != WORLD else str(path) for path, name in short.items()}


def _rotation(turn: Any) -> Float:
    values = np.array([turn.GetReal(), *turn.GetImaginary()], dtype=np.float64)
    return rotation_quaternion(values) if np.linalg.norm(values) > 0 else np.eye(3)


def _float(value: Any, default: float = 0.0) -> float:
    return default if value is None else float(value)

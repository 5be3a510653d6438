"""The shapes of a description, body by body: meshes and solids of URDF and MJCF, else capsules between the joints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError
from dynid.feasible.description_mjcf import MeshAssets
from dynid.feasible.mesh import LONGEST, mesh_triangles
from dynid.robot.link_model import model_of_links
from dynid.robot.links import LinkJoint
from dynid.robot.locking import lock_joints
from dynid.robot.mesh_files import mesh_path
from dynid.robot.mjcf import compile_mjcf, read_bodies
from dynid.robot.mjcf_lint import resolve_includes
from dynid.robot.model import RobotModel
from dynid.robot.source import read_description
from dynid.robot.urdf import lint
from dynid.robot.xml import Element, number, numbers
from dynid.scene.surface import Surface, along, between, box, capsule, cylinder, ellipsoid
from dynid.spatial.algebra import placement, rotation_quaternion, rotation_rpy

Geometry = Literal["visual", "collision"]
Triangles = tuple[Float, Int]
# Of the robot's reach: radius of the capsules that stand for links without shapes, at the base and at the tip.
THICK, SLIM = 0.055, 0.03
_SHAPED = (".urdf", ".xacro", ".xml", ".mjcf")
_NO_REACH = 0.3


@dataclass(frozen=True, eq=False)
class Shapes:
    """What is drawn of a robot.

    surfaces: in the joint frames of the bodies.    unread: by link, why its shapes could not be read.
    """

    surfaces: tuple[Surface, ...]
    unread: dict[str, str]


@dataclass(frozen=True, eq=False)
class _Found:
    # A shape of the description, still to be read: where it hangs, and what reads it.
    body: int
    link: str
    kind: str
    frame: Float
    read: Callable[[], Triangles]


def shapes_of(robot: RobotModel, geometry: Geometry = "visual") -> Shapes:
    """Shapes of every body of a robot and of its base.

    geometry: which are wanted, where a link has both; a link takes the others where one of these is missing or cannot
    be read, and capsules between its joints where it has neither.
    """
    unread: dict[str, str] = {}
    found = _described(robot, unread)
    other: Geometry = "collision" if geometry == "visual" else "visual"
    surfaces: list[Surface] = []
    links = dict.fromkeys(one.link for kind in (geometry, other) for one in found[kind])
    for link in links:
        for kind in (geometry, other):
            made = _read([one for one in found[kind] if one.link == link], unread)
            if made:
                surfaces += made
                break
    drawn = {one.body for one in surfaces}
    lost = {one.body for kind in found.values() for one in kind}
    # Where others have shapes, bodies without any are frames: only what has mass, or could not be read, is missing.
    wanted = [
        one for one in capsules_of(robot) if not drawn or one.body in lost or _has_mass(robot, one.body)
    ]
    surfaces += [one for one in wanted if one.body not in drawn]
    return Shapes(tuple(surfaces), unread)


def capsules_of(robot: RobotModel) -> tuple[Surface, ...]:
    """Capsules from each joint to those that hang on it, and a short cylinder about each axis."""
    origins = robot.T_parent_joint[:, :3, 3]
    depth = np.zeros(robot.n_bodies, dtype=np.int64)
    reach = np.zeros(robot.n_bodies)
    for i, parent in enumerate(robot.parent):
        above = (depth[parent], reach[parent]) if parent >= 0 else (-1, 0.0)
        depth[i], reach[i] = above[0] + 1, above[1] + float(np.linalg.norm(origins[i]))
    whole = float(reach.max()) or _NO_REACH
    names = ("base", *robot.body_names)
    made = []
    for body in range(-1, robot.n_bodies):
        share = max(int(depth[body]), 0) / max(int(depth.max()), 1) if body >= 0 else 0.0
        radius = whole * (THICK + (SLIM - THICK) * share)
        parts = [
            between(np.zeros(3), origins[child], radius)
            for child in np.flatnonzero(robot.parent == body)
            if np.linalg.norm(origins[child]) > radius
        ]
        if body >= 0:
            points, faces = cylinder(1.15 * radius, 2.6 * radius)
            parts.append((points @ along(robot.axis[body]).T, faces))
        made += [Surface(body, names[body + 1], "capsule", *part) for part in parts]
    return tuple(made)


def _has_mass(robot: RobotModel, body: int) -> bool:
    return body >= 0 and bool(robot.inertia_prior[body, 0] != 0.0)


def _read(wanted: Sequence[_Found], unread: dict[str, str]) -> list[Surface]:
    # All shapes of a link or none: half a link would deceive.
    made = []
    for one in wanted:
        try:
            vertices, triangles = one.read()
            size = float(np.ptp(vertices, axis=0).max())
            if not (len(triangles) and size <= LONGEST):
                raise InputError("shape", found=f"a shape {size:.3g} m long", expected=f"up to {LONGEST:g} m")
        except DynidError as error:
            unread.setdefault(one.link, str(error))
            return []
        made.append(
            Surface(
                one.body, one.link, one.kind, vertices @ one.frame[:3, :3].T + one.frame[:3, 3], triangles
            )
        )
    return made


def _described(robot: RobotModel, unread: dict[str, str]) -> dict[str, list[_Found]]:
    source = Path(robot.source)
    nothing: dict[str, list[_Found]] = {"visual": [], "collision": []}
    if source.suffix.lower() not in _SHAPED or not source.is_file():
        return nothing
    try:
        file = read_description(source, robot.reading, Diagnostics())
        if file.tag == "robot":
            return _of_urdf(robot, file, source)
        return _of_mjcf(robot, file, source) if file.tag == "mujoco" else nothing
    except DynidError as error:
        unread["robot"] = str(error)
        return nothing


def _of_urdf(robot: RobotModel, file: Element, path: Path) -> dict[str, list[_Found]]:
    urdf = lint(file, path.parent, robot.reading, Diagnostics())
    whole = model_of_links(urdf, str(path))
    placed = _Placed(robot, whole)
    above = {joint.child: joint for joint in urdf.joints.values()}
    found: dict[str, list[_Found]] = {"visual": [], "collision": []}
    for name, link in urdf.links.items():
        body, frame = placed.of(*_carried(whole, name, above))
        for kind, own in found.items():
            for element in link.element.all(kind):
                geometry = element.find("geometry")
                shape = geometry.children[0] if geometry is not None and geometry.children else None
                if shape is not None:
                    own.append(
                        _Found(
                            body,
                            name,
                            "mesh" if shape.tag == "mesh" else "solid",
                            frame @ _origin(element),
                            partial(_urdf_shape, shape, path.parent, robot.reading.packages),
                        )
                    )
    return found


@dataclass(frozen=True, eq=False)
class _Placed:
    # Bodies of the whole robot on those of the robot as it is used, where some joints are held.
    robot: RobotModel
    whole: RobotModel

    def of(self, body: int, frame: Float) -> tuple[int, Float]:
        if body < 0:
            return -1, frame
        held = {n: v for n, v in self.robot.locked.items() if n in self.whole.joint_names}
        if held:
            on = lock_joints(self.whole, held)
            body, frame = int(on.carrier[body]), on.frames[body] @ frame
        return body, frame


def _carried(robot: RobotModel, link: str, above: dict[str, LinkJoint]) -> tuple[int, Float]:
    # The body that a link moves with (-1 = base), and the link's frame in it.
    frame = np.eye(4)
    while link in above and not above[link].moves:
        frame = above[link].placement @ frame
        link = above[link].parent
    return (robot.body_names.index(link) if link in robot.body_names else -1), frame


def _origin(element: Element) -> Float:
    errors: list[DynidError] = []
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    rpy, xyz = (np.array(numbers(origin, key, 3, errors, (0.0,) * 3)) for key in ("rpy", "xyz"))
    return np.eye(4) if errors else placement(rotation_rpy(rpy), xyz)


def _urdf_shape(shape: Element, folder: Path, packages: Sequence[str]) -> Triangles:
    errors: list[DynidError] = []
    if shape.tag == "mesh":
        scale = np.array(numbers(shape, "scale", 3, errors, (1.0, 1.0, 1.0)))
        vertices, triangles = mesh_triangles(
            mesh_path(shape.attributes.get("filename", ""), folder, shape.place, packages)
        )
        made: Triangles = vertices * scale, triangles
    elif shape.tag == "box":
        made = box(0.5 * np.array(numbers(shape, "size", 3, errors, (np.nan,) * 3)))
    elif shape.tag in ("cylinder", "capsule"):
        solid = cylinder if shape.tag == "cylinder" else capsule
        made = solid(number(shape, "radius", errors), number(shape, "length", errors))
    elif shape.tag == "sphere":
        made = capsule(number(shape, "radius", errors), 0.0)
    else:
        raise InputError(
            "shape", found=f"a shape <{shape.tag}>", expected="mesh, box, cylinder, sphere", place=shape.place
        )
    if errors:
        raise errors[0]
    if not np.isfinite(made[0]).all():
        raise InputError(
            "shape", found=f"<{shape.tag}> without its sizes", expected="finite numbers", place=shape.place
        )
    return made


def _of_mjcf(robot: RobotModel, file: Element, path: Path) -> dict[str, list[_Found]]:
    reading = robot.reading
    resolve_includes(file, path.parent, reading.packages)
    meshes = MeshAssets.of(file, path.parent, reading.packages)
    compiled = compile_mjcf(file, path, reading, Diagnostics())
    whole, carrier = read_bodies(compiled, file, path, reading, Diagnostics())
    placed = _Placed(robot, whole)
    m, kinds = compiled.model, compiled.mujoco.mjtGeom
    solids: dict[int, Callable[[Float], Triangles]] = {
        kinds.mjGEOM_SPHERE: lambda size: capsule(float(size[0]), 0.0),
        kinds.mjGEOM_ELLIPSOID: ellipsoid,
        kinds.mjGEOM_CAPSULE: lambda size: capsule(float(size[0]), 2.0 * float(size[1])),
        kinds.mjGEOM_CYLINDER: lambda size: cylinder(float(size[0]), 2.0 * float(size[1])),
        kinds.mjGEOM_BOX: box,
    }
    found: dict[str, list[_Found]] = {"visual": [], "collision": []}
    for geom in range(m.ngeom):
        owner = int(m.geom_bodyid[geom])
        mesh, kind = compiled.meshes.get(geom), int(m.geom_type[geom])
        # The world's geoms are its floor and furniture, not the robot.
        if owner not in carrier or owner == 0 or (mesh is None and kind not in solids):
            continue
        body, frame = placed.of(*carrier[owner])
        own = frame @ placement(rotation_quaternion(m.geom_quat[geom]), m.geom_pos[geom])
        touches = bool(m.geom_contype[geom] or m.geom_conaffinity[geom])
        name = compiled.mujoco.mj_id2name(m, compiled.mujoco.mjtObj.mjOBJ_BODY, owner) or f"body{owner}"
        size = np.array(m.geom_size[geom])
        found["collision" if touches else "visual"].append(
            _Found(
                body,
                name,
                "solid" if mesh is None else "mesh",
                own,
                _reader(meshes, mesh, solids.get(kind), size),
            )
        )
    return found


def _reader(
    meshes: MeshAssets, mesh: str | None, solid: Callable[[Float], Triangles] | None, size: Float
) -> Callable[[], Triangles]:
    if mesh is not None:
        return lambda: meshes.triangles(mesh)
    return lambda: capsule(float(size[0]), 0.0) if solid is None else solid(size)

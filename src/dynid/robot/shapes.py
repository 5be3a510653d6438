"""Shapes of links in URDF and MJCF files: solids and meshes, read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError
from dynid.base.records import dataclass
from dynid.robot.formats import read_again
from dynid.robot.load import lock_joints
from dynid.robot.meshes import mesh_path, mesh_triangles
from dynid.robot.model import RobotModel
from dynid.robot.xml import Element, number, numbers
from dynid.spatial.algebra import placement, rotation_quaternion, rotation_rpy

if TYPE_CHECKING:
    from dynid.robot.links import LinkJoint
    from dynid.robot.meshes import MeshAssets
    from dynid.robot.mjcf import CompiledMjcf


# Points whose convex hull contains a simple solid, with little excess for few points.

# Corners of the polygon around a circle.
_ROUND = 12


def box_points(half: Float) -> Float:
    """Corners (8, 3) of a box with half sides (3,)."""
    return np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]) * half


def ball_points(radius: float) -> Float:
    """Points (128, 3) around a ball."""
    # The hull of these directions contains a ball of 0.97 times their length.
    n = spread_directions(64)
    return 1.03 * radius * np.concatenate([n, -n])


def cylinder_points(radius: float, length: float) -> Float:
    """Corners (24, 3) of polygons around the end circles of a cylinder along z."""
    turn = 2 * np.pi * np.arange(_ROUND) / _ROUND
    out = radius / np.cos(np.pi / _ROUND)
    circle = np.column_stack([out * np.cos(turn), out * np.sin(turn), np.zeros(_ROUND)])
    return along(circle, length)


def capsule_points(radius: float, length: float) -> Float:
    """Points (256, 3) around a capsule along z; length: between the centres of its end caps."""
    return along(ball_points(radius), length)


def along(points: Float, length: float) -> Float:
    """The points shifted by half a length up and by half a length down the z axis."""
    up = np.array([0.0, 0.0, length / 2])
    return np.concatenate([points + up, points - up])


def spread_directions(count: int) -> Float:
    """Unit vectors (count, 3) spread evenly over a hemisphere, along a Fibonacci spiral."""
    k = np.arange(count) + 0.5
    z = k / count
    turn = np.pi * (1.0 + np.sqrt(5.0)) * k
    radius = np.sqrt(1.0 - z**2)
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn), z])


Kind = Literal["box", "sphere", "cylinder", "capsule", "ellipsoid", "mesh"]
Geometry = Literal["collision", "visual"]
SHAPED = (".urdf", ".xacro", ".xml", ".mjcf")
_NO_TRIANGLES = np.zeros((0, 3), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Shape:
    """A solid or mesh of a link.

    Parameters
    ----------
    link : str
        Name of the link.
    body : int
        Moving body that carries it; -1 = the base.
    kind : {"box", "sphere", "cylinder", "capsule", "ellipsoid", "mesh"}
    frame : ndarray, shape (4, 4)
        In the body's joint frame.
    size : tuple of float, m
        Sides of a box; radius of a sphere; radius and length along z of a cylinder, or of a capsule without its caps;
        half axes of an ellipsoid; () for a mesh.
    vertices : ndarray, shape (V, 3), m
        Of a mesh, in the frame.
    triangles : ndarray, shape (T, 3)
        Of a mesh: indices of vertices.

    Raises
    ------
    InputError
        If a size is not positive.

    """

    link: str
    body: int
    kind: Kind
    frame: Float
    size: tuple[float, ...] = ()
    vertices: Float = field(default_factory=lambda: np.zeros((0, 3)))
    triangles: Int = field(default_factory=lambda: _NO_TRIANGLES)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", locked(self.frame, (4, 4), "frame"))
        object.__setattr__(self, "vertices", locked(self.vertices, (None, 3), "vertices"))
        if self.kind != "mesh" and not (np.isfinite(self.size).all() and min(self.size, default=0.0) > 0):
            raise InputError("shape", found=f"a {self.kind} of size {self.size} m", expected="positive sizes")

    def corners(self) -> Float:
        """Points (V, 3) in the joint frame whose convex hull contains the shape; the vertices of a mesh."""
        if self.kind == "box":
            points = box_points(0.5 * np.array(self.size))
        elif self.kind == "sphere":
            points = ball_points(self.size[0])
        elif self.kind == "cylinder":
            points = cylinder_points(*self.size)
        elif self.kind == "capsule":
            points = capsule_points(*self.size)
        elif self.kind == "ellipsoid":
            points = ball_points(1.0) * self.size
        else:
            points = self.vertices
        return np.asarray(points @ self.frame[:3, :3].T + self.frame[:3, 3])


@dataclass(frozen=True, eq=False)
class DescribedShape:
    """A shape in a robot file that is read on demand.

    Parameters
    ----------
    link, body : str, int
        As for `Shape`.
    geometry : {"collision", "visual"}
        Purpose of the shape.
    read : callable
        Returns the `Shape`; raises InputError if it cannot be read, RefusedError for a mesh outside its folder.
    scenery : bool
        Whether it belongs to the world of an MJCF, such as floor and furniture, and not to the robot.

    """

    link: str
    body: int
    geometry: Geometry
    read: Callable[[], Shape]
    scenery: bool = False


def described_shapes(robot: RobotModel) -> list[DescribedShape]:
    """Shapes of all links in the file of a robot, in its order.

    Shapes of links behind fixed and locked joints belong to the body that carries them.

    Parameters
    ----------
    robot : RobotModel
        The robot.

    Returns
    -------
    list of DescribedShape
        Empty for a robot without a file, or with a file other than URDF and MJCF.

    Raises
    ------
    InputError
        If the file cannot be read.

    """
    path = Path(robot.source)
    if path.suffix.lower() not in SHAPED or not path.is_file():
        return []
    root = read_again(path, robot.reading)
    of = {"robot": _of_urdf, "mujoco": _of_mjcf}.get(root.tag)
    return [] if of is None else of(robot, root, path)


def by_link(shapes: Iterable[DescribedShape]) -> dict[str, list[DescribedShape]]:
    """Group shapes by the name of their link.

    Parameters
    ----------
    shapes : iterable of DescribedShape
        Shapes of any links.

    Returns
    -------
    dict of str to list of DescribedShape

    """
    by_name: dict[str, list[DescribedShape]] = {}
    for shape in shapes:
        by_name.setdefault(shape.link, []).append(shape)
    return by_name


def _of_urdf(robot: RobotModel, root: Element, path: Path) -> list[DescribedShape]:
    from dynid.robot.links import model_of_links
    from dynid.robot.urdf import lint

    urdf = lint(root, path.parent, robot.reading, Diagnostics())
    whole = model_of_links(urdf, str(path))
    carried = _carriers(robot, whole)
    above = {joint.child: joint for joint in urdf.joints.values()}
    read_mesh = cache(mesh_triangles)  # links often share a file, also for visual and collision
    shapes = []
    for name, link in urdf.links.items():
        body, frame = carried(*_body_of(whole, name, above))
        kinds: tuple[Geometry, ...] = ("collision", "visual")
        for kind in kinds:
            for element in link.element.all(kind):
                read = partial(_urdf_shape, element, name, body, frame, path.parent, robot, read_mesh)
                shapes.append(DescribedShape(name, body, kind, read))
    return shapes


def _carriers(robot: RobotModel, whole: RobotModel) -> Callable[[int, Float], tuple[int, Float]]:
    # Maps a body of the whole robot and a frame in it to the body that carries both when joints are locked.
    locked_here = {name: value for name, value in robot.locked.items() if name in whole.joint_names}
    places = lock_joints(whole, locked_here) if locked_here else None
    to_base = np.linalg.inv(robot.T_parent_joint[0]) if robot.floats else np.eye(4)

    def carrier(body: int, frame: Float) -> tuple[int, Float]:
        if places is not None and body >= 0:
            body, frame = int(places.carrier[body]), places.frames[body] @ frame
        if not robot.floats:
            return body, frame
        # The massless joints of a floating base come first, and the base is the last of their bodies.
        return (body + 6, frame) if body >= 0 else (5, to_base @ frame)

    return carrier


def _body_of(robot: RobotModel, link: str, above: dict[str, LinkJoint]) -> tuple[int, Float]:
    # The body that carries a link (-1 = base), and the link's frame in it.
    frame = np.eye(4)
    while link in above and not above[link].moves:
        frame = above[link].placement @ frame
        link = above[link].parent
    return (robot.body_names.index(link) if link in robot.body_names else -1), frame


def _urdf_shape(
    element: Element,
    link: str,
    body: int,
    frame: Float,
    folder: Path,
    robot: RobotModel,
    read_mesh: Callable[[Path], tuple[Float, Int]],
) -> Shape:
    errors: list[DynidError] = []
    geometry = element.find("geometry")
    shape = geometry.children[0] if geometry is not None and geometry.children else None
    if shape is None:
        raise InputError(
            "shape",
            found=f"<{element.tag}> without a shape",
            expected="mesh, box, cylinder or sphere",
            place=element.place,
        )
    here = frame
    if (origin := element.find("origin")) is not None:
        rpy, xyz = (np.array(numbers(origin, key, 3, errors, (0.0,) * 3)) for key in ("rpy", "xyz"))
        here = frame @ placement(rotation_rpy(rpy), xyz)
    kind: Kind = "mesh"
    size: tuple[float, ...] = ()
    vertices, triangles = np.zeros((0, 3)), _NO_TRIANGLES
    if shape.tag == "mesh":
        scale = np.array(numbers(shape, "scale", 3, errors, (1.0,) * 3))
        name = shape.attributes.get("filename", "")
        vertices, triangles = read_mesh(mesh_path(name, folder, shape.place, robot.reading.packages))
        vertices = vertices * scale
    elif shape.tag == "box":
        kind, size = "box", numbers(shape, "size", 3, errors, (np.nan,) * 3)
    elif shape.tag == "sphere":
        kind, size = "sphere", (number(shape, "radius", errors),)
    elif shape.tag in ("cylinder", "capsule"):
        kind = "cylinder" if shape.tag == "cylinder" else "capsule"
        size = (number(shape, "radius", errors), number(shape, "length", errors))
    else:
        raise InputError(
            "shape",
            found=f"a shape <{shape.tag}>",
            expected="mesh, box, cylinder or sphere",
            place=shape.place,
        )
    if errors:
        raise errors[0]
    if not np.isfinite(size).all():
        raise InputError(
            "shape", found=f"<{shape.tag}> without a size", expected="finite sizes", place=shape.place
        )
    return Shape(link, body, kind, here, size, vertices, triangles)


def _of_mjcf(robot: RobotModel, root: Element, path: Path) -> list[DescribedShape]:
    from dynid.robot.meshes import MeshAssets
    from dynid.robot.mjcf import compile_mjcf, read_bodies
    from dynid.robot.mjcf_lint import resolve_includes

    reading = robot.reading
    resolve_includes(root, path.parent, reading.packages)
    meshes = MeshAssets.of(root, path.parent, reading.packages)
    compiled = compile_mjcf(root, path, reading, Diagnostics())
    whole, carrier = read_bodies(compiled, root, path, reading, Diagnostics())
    carried = _carriers(robot, whole)
    m, mujoco = compiled.model, compiled.mujoco
    shapes = []
    for geom in range(m.ngeom):
        owner = int(m.geom_bodyid[geom])
        # Planes are floors and walls: MuJoCo does not allow them on moving bodies.
        if owner not in carrier or int(m.geom_type[geom]) == mujoco.mjtGeom.mjGEOM_PLANE:
            continue
        name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_BODY, owner) or f"body{owner}"
        body, frame = carried(*carrier[owner])
        read = partial(_mjcf_shape, compiled, meshes, geom, name, body, frame)
        touches = bool(m.geom_contype[geom] or m.geom_conaffinity[geom])
        shapes.append(
            DescribedShape(name, body, "collision" if touches else "visual", read, scenery=owner == 0)
        )
    return shapes


def _mjcf_shape(
    compiled: CompiledMjcf, meshes: MeshAssets, geom: int, link: str, body: int, frame: Float
) -> Shape:
    m, kinds = compiled.model, compiled.mujoco.mjtGeom
    here = frame @ placement(rotation_quaternion(m.geom_quat[geom]), m.geom_pos[geom])
    if geom in compiled.meshes:
        vertices, triangles = meshes.triangles(compiled.meshes[geom])
        return Shape(link, body, "mesh", here, (), vertices, triangles)
    a, b, c = (float(x) for x in m.geom_size[geom])
    solids: dict[int, tuple[Kind, tuple[float, ...]]] = {
        kinds.mjGEOM_SPHERE: ("sphere", (a,)),
        kinds.mjGEOM_ELLIPSOID: ("ellipsoid", (a, b, c)),
        kinds.mjGEOM_CAPSULE: ("capsule", (a, 2 * b)),
        kinds.mjGEOM_CYLINDER: ("cylinder", (a, 2 * b)),
        kinds.mjGEOM_BOX: ("box", (2 * a, 2 * b, 2 * c)),
    }
    kind = int(m.geom_type[geom])
    if kind not in solids:
        raise InputError(
            "shape",
            found=f"a geom of type {kinds(kind).name.removeprefix('mjGEOM_').lower()}",
            expected="mesh, box, cylinder, capsule, sphere or ellipsoid",
        )
    return Shape(link, body, solids[kind][0], here, solids[kind][1])

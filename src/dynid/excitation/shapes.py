"""A robot's own shapes: collision shapes of a URDF or MJCF, else visual ones, else capsules from joint to joint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, RefusedError
from dynid.feasible.description_mjcf import MeshAssets
from dynid.feasible.mesh import mesh_triangles
from dynid.feasible.solids import ball_points, box_points, capsule_points, cylinder_points
from dynid.robot.link_model import model_of_links
from dynid.robot.links import LinkJoint
from dynid.robot.locking import lock_joints
from dynid.robot.mesh_files import mesh_path
from dynid.robot.mjcf import CompiledMjcf, compile_mjcf, read_bodies
from dynid.robot.mjcf_lint import resolve_includes
from dynid.robot.model import RobotModel
from dynid.robot.source import read_description
from dynid.robot.urdf import lint
from dynid.robot.xml import Element, number, numbers
from dynid.spatial.algebra import placement, rotation_quaternion, rotation_rpy

Kind = Literal["box", "sphere", "cylinder", "capsule", "mesh"]
# Radius of derived capsules over the way from the base to the tip: 8 cm on a UR10, 6 cm on a Panda.
DERIVED_SHARE = 0.045
# Which elements say a link's shape, best first.
KINDS = ("collision", "visual")
_NO_TRIANGLES = np.zeros((0, 3), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Shape:
    """One solid of a link.

    link: its name.    body: that carries it, -1 = the base.    frame: (4, 4) in the body's joint frame.
    size: full sides of a box; radius; radius and length along z, without the caps of a capsule; () of a mesh.
    vertices, triangles: of a mesh, in the frame, m.
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
            raise InputError("shape", found=f"a {self.kind} of size {self.size}", expected="positive sizes")

    def corners(self) -> Float:
        """Points (V, 3) in the joint frame whose convex hull holds the solid: of a mesh its vertices."""
        if self.kind == "box":
            own = box_points(0.5 * np.array(self.size))
        elif self.kind == "sphere":
            own = ball_points(self.size[0])
        elif self.kind == "cylinder":
            own = cylinder_points(*self.size)
        elif self.kind == "capsule":
            own = capsule_points(*self.size)
        else:
            own = self.vertices
        return np.asarray(own @ self.frame[:3, :3].T + self.frame[:3, 3])


@dataclass(frozen=True, eq=False)
class RobotShapes:
    """Shapes of all links.

    kind: "collision", "visual", "collision and visual" or "derived".
    faults: what of the robot's own shapes could not be read, in words.
    """

    shapes: tuple[Shape, ...]
    kind: str
    faults: tuple[str, ...] = ()

    @property
    def derived(self) -> tuple[str, ...]:
        """Links whose shapes dynid made up."""
        return tuple(dict.fromkeys(one.link for one in self.shapes)) if self.kind == "derived" else ()


def robot_shapes(robot: RobotModel, radius: Float | None = None) -> RobotShapes:
    """The shapes of the file that a robot was read from, link by link.

    Collision shapes of a link, else its visual ones; where no link has any that can be read, `derived_shapes`.
    radius: m, of derived capsules in place of the robot's own shapes, one for all bodies or (nb,).
    Shapes of links that fixed joints bolt to a body move with it; those of the base stand still.
    Raises RefusedError for a mesh outside its folder.
    """
    if radius is not None:
        return RobotShapes(derived_shapes(robot, radius), "derived")
    path = Path(robot.source)
    if not path.is_file():
        return RobotShapes(derived_shapes(robot), "derived")
    tag = ""
    if path.suffix.lower() not in (".toml", ".usd", ".usda", ".usdc", ".usdz"):
        element = read_description(path, robot.reading, Diagnostics())
        tag = element.tag
    faults: list[str] = []
    if tag == "robot":
        links = _of_urdf(robot, element, path, faults)
    elif tag == "mujoco":
        links = _of_mjcf(robot, element, path, faults)
    else:
        return RobotShapes(derived_shapes(robot), "derived")
    shapes = [shape for own, _ in links for shape in own]
    if not any(shape.body >= 0 for shape in shapes):
        return RobotShapes(derived_shapes(robot), "derived", tuple(faults))
    kinds = [kind for own, kind in links if own]
    return RobotShapes(tuple(shapes), " and ".join(sorted(set(kinds))), tuple(faults))


def derived_shapes(robot: RobotModel, radius: Float | None = None) -> tuple[Shape, ...]:
    """A capsule from each joint to the next.    radius: m, one or (nb,); None = DERIVED_SHARE of the robot's length.

    Raises InputError for another number of radii.
    """
    offsets = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    ways = [float(offsets[list(robot.tree.paths[i])].sum()) for i in range(robot.n_bodies)]
    wide = np.asarray([DERIVED_SHARE * max(ways)] if radius is None else radius, dtype=np.float64).ravel()
    if wide.size not in (1, robot.n_bodies):
        raise InputError("capsule", found=f"{wide.size} radii", expected=f"1 or {robot.n_bodies}")
    wide = np.broadcast_to(wide, (robot.n_bodies,))
    made = []
    for i, name in enumerate(robot.body_names):
        children = np.flatnonzero(robot.parent == i)
        for end in [robot.T_parent_joint[c, :3, 3] for c in children] or [np.zeros(3)]:
            length = float(np.linalg.norm(end))
            kind: Kind = "capsule" if length > 0 else "sphere"
            size = (float(wide[i]), length) if length > 0 else (float(wide[i]),)
            made.append(Shape(name, i, kind, _along(np.zeros(3), end), size))
    return tuple(made)


def _along(start: Float, end: Float) -> Float:
    # A frame in the middle whose z axis points from start to end.
    z = end - start
    length = float(np.linalg.norm(z))
    if length == 0:
        return placement(np.eye(3), start)
    Q, R = np.linalg.qr(np.column_stack([z / length, np.eye(3)]))
    Q[:, 0] *= np.sign(R[0, 0])
    axes = np.column_stack([Q[:, 1], np.cross(Q[:, 0], Q[:, 1]), Q[:, 0]])
    return placement(axes, 0.5 * (start + end))


Link = tuple[list[Shape], str]


def _first_readable(
    link: str,
    groups: Iterable[tuple[str, Sequence[Callable[[], Shape | None]]]],
    faults: list[str],
) -> Link:
    # The shapes of the first group (collision, then visual) that is there and can be read as a whole.
    for kind, makers in groups:
        if not makers:
            continue
        try:
            made = [shape for maker in makers if (shape := maker()) is not None]
        except RefusedError:
            raise
        except DynidError as error:
            faults.append(f"the {kind} shape of {link} ({error.found})")
            continue
        if made:
            return made, kind
    return [], ""


def _of_urdf(robot: RobotModel, element: Element, path: Path, faults: list[str]) -> list[Link]:
    urdf = lint(element, path.parent, robot.reading, Diagnostics())
    whole = model_of_links(urdf, str(path))
    carried = _carriers(robot, whole)
    above = {joint.child: joint for joint in urdf.joints.values()}
    found = []
    for name, link in urdf.links.items():
        body, frame = _carried(whole, name, above)
        body, frame = carried(body, frame)

        groups = [
            (
                kind,
                [
                    partial(_urdf_shape, one, name, body, frame, path.parent, robot)
                    for one in link.element.all(kind)
                ],
            )
            for kind in KINDS
        ]
        found.append(_first_readable(name, groups, faults))
    return found


def _carriers(robot: RobotModel, whole: RobotModel) -> Callable[[int, Float], tuple[int, Float]]:
    # Where a body of the whole description went, and a frame of it, once joints are held.
    held = {name: value for name, value in robot.locked.items() if name in whole.joint_names}
    places = lock_joints(whole, held) if held else None

    def found(body: int, frame: Float) -> tuple[int, Float]:
        if places is None or body < 0:
            return body, frame
        return int(places.carrier[body]), places.frames[body] @ frame

    return found


def _carried(robot: RobotModel, link: str, above: dict[str, LinkJoint]) -> tuple[int, Float]:
    # The body that a link moves with (-1 = base), and the link's frame in it.
    frame = np.eye(4)
    while link in above and not above[link].moves:
        frame = above[link].placement @ frame
        link = above[link].parent
    return (robot.body_names.index(link) if link in robot.body_names else -1), frame


def _urdf_shape(
    element: Element, link: str, body: int, frame: Float, folder: Path, robot: RobotModel
) -> Shape | None:
    geometry = element.find("geometry")
    kind = geometry.children[0] if geometry is not None and geometry.children else None
    if kind is None:
        return None
    errors: list[DynidError] = []
    here = frame
    if (origin := element.find("origin")) is not None:
        xyz, rpy = (np.array(numbers(origin, name, 3, errors, (0.0,) * 3)) for name in ("xyz", "rpy"))
        here = frame @ placement(rotation_rpy(rpy), xyz)
    if kind.tag == "mesh":
        scale = np.array(numbers(kind, "scale", 3, errors, (1.0,) * 3))
        name = kind.attributes.get("filename", "")
        vertices, triangles = mesh_triangles(mesh_path(name, folder, kind.place, robot.reading.packages))
        made = Shape(link, body, "mesh", here, (), vertices * scale, triangles)
    elif kind.tag == "box":
        sides = numbers(kind, "size", 3, errors, (np.nan,) * 3)
        made = Shape(link, body, "box", here, tuple(float(x) for x in sides))
    elif kind.tag == "sphere":
        made = Shape(link, body, "sphere", here, (number(kind, "radius", errors),))
    elif kind.tag in ("cylinder", "capsule"):
        size = (number(kind, "radius", errors), number(kind, "length", errors))
        made = Shape(link, body, "cylinder" if kind.tag == "cylinder" else "capsule", here, size)
    else:
        raise InputError(
            "shape", found=f"a <{kind.tag}>", expected="box, cylinder, sphere or mesh", place=kind.place
        )
    if errors:
        raise errors[0]
    return made


def _of_mjcf(robot: RobotModel, root: Element, path: Path, faults: list[str]) -> list[Link]:
    reading = robot.reading
    resolve_includes(root, path.parent, reading.packages)
    meshes = MeshAssets.of(root, path.parent, reading.packages)
    compiled = compile_mjcf(root, path, reading, Diagnostics())
    whole, carrier = read_bodies(compiled, root, path, reading, Diagnostics())
    carried = _carriers(robot, whole)
    m, mujoco = compiled.model, compiled.mujoco
    found = []
    for index in range(m.nbody):
        if index not in carrier:
            continue
        name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_BODY, index) or f"body{index}"
        body, frame = carried(*carrier[index])
        own = [geom for geom in range(m.ngeom) if int(m.geom_bodyid[geom]) == index]
        groups = [
            (
                kind,
                [
                    partial(_mjcf_shape, compiled, meshes, geom, name, body, frame)
                    for geom in own
                    if bool(m.geom_contype[geom] or m.geom_conaffinity[geom]) is (kind == "collision")
                ],
            )
            for kind in KINDS
        ]
        found.append(_first_readable(name, groups, faults))
    return found


def _mjcf_shape(
    compiled: CompiledMjcf, meshes: MeshAssets, geom: int, link: str, body: int, frame: Float
) -> Shape | None:
    m, kinds = compiled.model, compiled.mujoco.mjtGeom
    here = frame @ placement(rotation_quaternion(m.geom_quat[geom]), m.geom_pos[geom])
    if geom in compiled.meshes:
        vertices, triangles = meshes.triangles(compiled.meshes[geom])
        return Shape(link, body, "mesh", here, (), vertices, triangles)
    kind, size = int(m.geom_type[geom]), [float(x) for x in m.geom_size[geom]]
    if kind == kinds.mjGEOM_PLANE:
        return None  # a floor of the scene, no part of the robot
    if kind == kinds.mjGEOM_SPHERE:
        return Shape(link, body, "sphere", here, (size[0],))
    if kind == kinds.mjGEOM_BOX:
        return Shape(link, body, "box", here, (2 * size[0], 2 * size[1], 2 * size[2]))
    if kind in (kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER):
        solid: Kind = "capsule" if kind == kinds.mjGEOM_CAPSULE else "cylinder"
        return Shape(link, body, solid, here, (size[0], 2 * size[1]))
    if kind == kinds.mjGEOM_ELLIPSOID:
        return Shape(link, body, "sphere", here, (max(size),))
    raise InputError("shape", found=f"a geom of type {kinds(kind).name.removeprefix('mjGEOM_').lower()}")

"""Shapes of a robot: collision shapes of a URDF or MJCF, else visual ones, else capsules from joint to joint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base import DynidError, Float, InputError, RefusedError, dataclass
from dynid.robot import DescribedShape, Geometry, Kind, RobotModel, Shape, by_link, described_shapes
from dynid.spatial import placement

# Radius of derived capsules relative to the length from base to tip: 8 cm on a UR10, 6 cm on a Panda.
DERIVED_SHARE = 0.045
# Kinds of shapes, preferred first.
_KINDS: tuple[Geometry, ...] = ("collision", "visual")


@dataclass(frozen=True, eq=False)
class RobotShapes:
    """Shapes of all links.

    Parameters
    ----------
    shapes : tuple of Shape
        The shapes.
    kind : str
        Kind of the robot's own: "collision", "visual", "collision and visual", or "derived" if there are none.
    faults : tuple of str
        Shapes of the robot file that could not be read, in words.
    derived : tuple of str
        Links with shapes that dynid derived.

    """

    shapes: tuple[Shape, ...]
    kind: str
    faults: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()

    @staticmethod
    def made_up(shapes: Sequence[Shape], faults: Sequence[str] = ()) -> RobotShapes:
        """Only derived shapes."""
        return RobotShapes(tuple(shapes), "derived", tuple(faults), _links(shapes))


def robot_shapes(robot: RobotModel, radius: Float | None = None) -> RobotShapes:
    """Shapes of the links of a robot, from the file that it was read from.

    These are the collision shapes of a link, else its visual ones. `derived_shapes` replace shapes that cannot be
    read, and all of them if no link has any.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    radius : ndarray, optional, m
        Radius of derived capsules that replace the robot's shapes, one number or one per link.

    Returns
    -------
    RobotShapes
        The shapes.

    Raises
    ------
    RefusedError
        For a mesh outside its folder.

    """
    if radius is not None:
        return RobotShapes.made_up(derived_shapes(robot, radius))
    faults: dict[str, list[tuple[Geometry, str]]] = {}
    bare: set[int] = set()
    shapes: list[Shape] = []
    kinds: set[str] = set()
    for link, link_shapes in by_link(described_shapes(robot)).items():
        made, kind = _first_readable(link, link_shapes, faults)
        shapes += made
        kinds |= {kind} if made else set()
        bare |= set() if made else {link_shapes[0].body}
    fault_texts = tuple(
        f"the {shape_text} ({why})" for why, of in faults.items() for shape_text in _counted(of)
    )
    if not any(shape.body >= 0 for shape in shapes):
        return RobotShapes.made_up(derived_shapes(robot), fault_texts)
    # A link without shapes would collide with nothing.
    capsules = [shape for shape in derived_shapes(robot) if shape.body in bare] if bare else []
    whole = (*shapes, *capsules)
    return RobotShapes(whole, " and ".join(sorted(kinds)), fault_texts, _links(capsules))


def _links(shapes: Sequence[Shape]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shape.link for shape in shapes))


def _counted(faults: Sequence[tuple[Geometry, str]]) -> list[str]:
    # Groups shapes that cannot be read for the same reason.
    kinds: dict[str, list[str]] = {}
    for kind, link in faults:
        kinds.setdefault(kind, []).append(link)
    return [
        f"{kind} shape{'s' if len(links) > 1 else ''} of {', '.join(links)}" for kind, links in kinds.items()
    ]


def _first_readable(
    link: str, described: list[DescribedShape], faults: dict[str, list[tuple[Geometry, str]]]
) -> tuple[list[Shape], Geometry]:
    # The collision shapes of a link if all can be read, else the visual ones.
    for kind in _KINDS:
        try:
            made = [_simple(shape.read()) for shape in described if shape.geometry == kind]
        except RefusedError:
            raise
        except DynidError as error:
            faults.setdefault(error.found, []).append((kind, link))
            continue
        if made:
            return made, kind
    return [], _KINDS[0]


def _simple(shape: Shape) -> Shape:
    # An ellipsoid is replaced by the ball around it.
    if shape.kind != "ellipsoid":
        return shape
    return replace(shape, kind="sphere", size=(max(shape.size),))


def derived_shapes(robot: RobotModel, radius: Float | None = None) -> tuple[Shape, ...]:
    """One capsule from each joint to the next.    radius: m, one or (nb,); None = DERIVED_SHARE of the robot's length.

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


# Solids in the collision library coal, and distances between them.

# A link's name and the body that carries it.
Link = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Solids:
    """Solids of links and obstacles in coal: boxes, round solids, and meshes themselves instead of their hulls.

    links: geometries and their frames (4, 4), by link and body.    pairs: of links.
    """

    coal: Any
    links: dict[Link, list[tuple[Any, Float]]]
    pairs: tuple[tuple[Link, Link], ...]
    request: Any
    result: Any

    @staticmethod
    def of(shapes: Iterable[Shape], pairs: Iterable[tuple[Link, Link]]) -> Solids:
        """Build the solids; raises ImportError if coal is not installed."""
        import coal

        links: dict[Link, list[tuple[Any, Float]]] = {}
        for shape in shapes:
            links.setdefault((shape.link, shape.body), []).append((_geometry(coal, shape), shape.frame))
        request = coal.DistanceRequest()
        request.enable_signed_distance = True
        return Solids(coal, links, tuple(pairs), request, coal.DistanceResult())

    def distance(self, placed: tuple[Float, Float], t: int, pair: int) -> float:
        """Distance of a pair at a sample, m; 0 or less where they touch."""
        first, second = (self._placed(link, placed, t) for link in self.pairs[pair])
        return min(self._between(a, b) for a in first for b in second)

    def height(self, link: Link, space: tuple[Any, Any], placed: tuple[Float, Float], t: int) -> float:
        """Distance of a link from a half-space, m; below 0 inside."""
        return min(self._between(solid, space) for solid in self._placed(link, placed, t))

    def _placed(self, link: Link, placed: tuple[Float, Float], t: int) -> list[tuple[Any, Any]]:
        body = link[1]
        solids = []
        for geometry, frame in self.links[link]:
            R, p = frame[:3, :3], frame[:3, 3]
            if body >= 0:
                R, p = placed[0][t, body] @ R, placed[0][t, body] @ p + placed[1][t, body]
            solids.append((geometry, self.coal.Transform3s(R, p)))
        return solids

    def _between(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> float:
        self.result.clear()
        return float(self.coal.distance(*a, *b, self.request, self.result))


def _geometry(coal: Any, shape: Shape) -> Any:
    if shape.kind == "box":
        return coal.Box(*shape.size)
    if shape.kind == "sphere":
        return coal.Sphere(*shape.size)
    if shape.kind in ("cylinder", "capsule"):
        return (coal.Cylinder if shape.kind == "cylinder" else coal.Capsule)(*shape.size)
    vertices, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for x in shape.vertices:
        vertices.append(np.array(x))
    for a, b, c in shape.triangles.tolist():
        triangles.append(coal.Triangle(a, b, c))
    mesh = coal.BVHModelOBBRSS()
    mesh.beginModel(len(shape.triangles), len(shape.vertices))
    mesh.addSubModel(vertices, triangles)
    mesh.endModel()
    return mesh

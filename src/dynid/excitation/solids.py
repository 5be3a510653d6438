"""Solids in the collision library coal, and the distances between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot.shapes import Shape

# A link's name and the body that carries it.
Link = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Solids:
    """The solids of links and obstacles as coal has them: boxes, round solids, and meshes as they are, not their hulls.

    links: geometries and their frames (4, 4), by link and body.    pairs: of links.
    """

    coal: Any
    links: dict[Link, list[tuple[Any, Float]]]
    pairs: tuple[tuple[Link, Link], ...]
    request: Any
    result: Any

    @staticmethod
    def of(shapes: Iterable[Shape], pairs: Iterable[tuple[Link, Link]]) -> Solids:
        """Raises ImportError where coal is not installed."""
        import coal

        links: dict[Link, list[tuple[Any, Float]]] = {}
        for shape in shapes:
            links.setdefault((shape.link, shape.body), []).append((_geometry(coal, shape), shape.frame))
        request = coal.DistanceRequest()
        request.enable_signed_distance = True
        return Solids(coal, links, tuple(pairs), request, coal.DistanceResult())

    def distance(self, placed: tuple[Float, Float], t: int, pair: int) -> float:
        """Distance of a pair at a sample, m; 0 or less where they touch."""
        first, second = (self._placed(one, placed, t) for one in self.pairs[pair])
        return min(self._between(a, b) for a in first for b in second)

    def height(self, link: Link, space: tuple[Any, Any], placed: tuple[Float, Float], t: int) -> float:
        """Distance of a link from a half-space, m; below 0 inside."""
        return min(self._between(one, space) for one in self._placed(link, placed, t))

    def _placed(self, link: Link, placed: tuple[Float, Float], t: int) -> list[tuple[Any, Any]]:
        body = link[1]
        found = []
        for geometry, frame in self.links[link]:
            R, p = frame[:3, :3], frame[:3, 3]
            if body >= 0:
                R, p = placed[0][t, body] @ R, placed[0][t, body] @ p + placed[1][t, body]
            found.append((geometry, self.coal.Transform3s(R, p)))
        return found

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

"""What the geoms in an MJCF file say of its bodies: hulls for `[[estimate.limits]]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, RefusedError
from dynid.feasible.mesh import mesh_points, mesh_triangles
from dynid.feasible.solids import ball_points, box_points, capsule_points, cylinder_points
from dynid.robot.mjcf import CompiledMjcf, compile_mjcf, read_bodies
from dynid.robot.mjcf_lint import resolve_includes
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.xml import Element, inside, numbers
from dynid.spatial.algebra import placement, rotation_quaternion


def points_of_mjcf(
    root: Element, path: Path, reading: Reading, collision: bool, diagnostics: Diagnostics
) -> tuple[RobotModel, list[Float | None]]:
    """The robot with all its joints, and points (k, 3) around each body's geoms in its joint's frame.

    collision: geoms that may touch others (contype or conaffinity), or else those that touch none.
    Geoms of bodies without joints count to the body that carries them. A body with a geom that cannot be read has no
    points (None) and is named in a warning; a mesh outside the file's folder and packages is refused.
    """
    resolve_includes(root, path.parent, reading.packages)
    meshes = MeshAssets.of(root, path.parent, reading.packages)
    compiled = compile_mjcf(root, path, reading, Diagnostics())
    robot, carrier = read_bodies(compiled, root, path, reading, Diagnostics())
    m = compiled.model
    found: list[list[Float]] = [[] for _ in robot.body_names]
    faults: dict[int, DynidError] = {}
    for geom in range(m.ngeom):
        index, frame = carrier.get(int(m.geom_bodyid[geom]), (-1, np.eye(4)))
        touches = bool(m.geom_contype[geom] or m.geom_conaffinity[geom])
        if index < 0 or touches is not collision:
            continue
        T = frame @ placement(rotation_quaternion(m.geom_quat[geom]), m.geom_pos[geom])
        try:
            points = _points(compiled, meshes, geom)
            found[index].append(points @ T[:3, :3].T + T[:3, 3])
        except RefusedError:
            raise
        except DynidError as error:
            faults.setdefault(index, error)
    for index in sorted(faults):
        diagnostics.warn("shape-unread", f"body '{robot.body_names[index]}' is left out: {faults[index]}")
    return robot, [
        None if index in faults else np.concatenate([np.zeros((0, 3)), *parts])
        for index, parts in enumerate(found)
    ]


def _points(compiled: CompiledMjcf, meshes: MeshAssets, geom: int) -> Float:
    m, kinds = compiled.model, compiled.mujoco.mjtGeom
    if geom in compiled.meshes:
        return meshes.points(compiled.meshes[geom])
    kind, size = int(m.geom_type[geom]), np.array(m.geom_size[geom])
    if kind == kinds.mjGEOM_SPHERE:
        return ball_points(size[0])
    if kind == kinds.mjGEOM_ELLIPSOID:
        return np.asarray(ball_points(1.0) * size)
    if kind == kinds.mjGEOM_CAPSULE:
        return capsule_points(size[0], 2 * size[1])
    if kind == kinds.mjGEOM_CYLINDER:
        return cylinder_points(size[0], 2 * size[1])
    if kind == kinds.mjGEOM_BOX:
        return box_points(size)
    name = kinds(kind).name.removeprefix("mjGEOM_").lower()
    raise InputError(
        "shape", found=f"a geom of type {name}", expected="mesh, box, cylinder, capsule, sphere or ellipsoid"
    )


@dataclass(frozen=True)
class MeshAssets:
    """Mesh assets by name, the scales of their classes, and the folder that they lie in."""

    assets: dict[str, Element]
    scales: dict[str, Float]
    folder: Path
    start: str
    packages: Sequence[str]

    @staticmethod
    def of(root: Element, folder: Path, packages: Sequence[str]) -> MeshAssets:
        """Those of a <mujoco> element whose includes are resolved; folder: of the file."""
        settings: dict[str, str] = {}
        for compiler in root.all("compiler"):
            settings |= compiler.attributes
        assets = [one for part in root.all("asset") for one in part.all("mesh")]
        named = {
            one.attributes.get("name") or Path(one.attributes.get("file", "")).stem: one for one in assets
        }
        scales: dict[str, Float] = {}
        for default in root.all("default"):
            _class_scales(default, np.ones(3), scales, "main")
        start = settings.get("meshdir", settings.get("assetdir", ""))
        return MeshAssets(named, scales, folder, start, packages)

    def points(self, mesh: str) -> Float:
        """Corners (k, 3) in the geom's frame: shifted to refpos, turned to refquat, scaled."""
        asset, path = self._file(mesh)
        return self._placed(asset, mesh_points(path))

    def triangles(self, mesh: str) -> tuple[Float, Int]:
        """Vertices (V, 3) in the geom's frame and triangles (T, 3)."""
        asset, path = self._file(mesh)
        vertices, triangles = mesh_triangles(path)
        return self._placed(asset, vertices), triangles

    def _file(self, mesh: str) -> tuple[Element, Path]:
        asset = self.assets.get(mesh)
        if asset is None or "file" not in asset.attributes:
            raise InputError(
                "shape",
                found=f"mesh '{mesh}' without a file",
                expected="an STL or OBJ file",
                place=Place() if asset is None else asset.place,
            )
        file = asset.attributes["file"]
        name = f"{self.start}/{file}" if self.start else file
        return asset, inside(self.folder, name, asset.place, self.packages)

    def _placed(self, asset: Element, points: Float) -> Float:
        own = self.scales.get(asset.attributes.get("class", "main"), np.ones(3))
        return np.asarray(
            (points - _vector(asset, "refpos", (0.0,) * 3))
            @ rotation_quaternion(_vector(asset, "refquat", (1.0, 0.0, 0.0, 0.0)))
            * _vector(asset, "scale", tuple(own.tolist()))
        )


def _class_scales(default: Element, inherited: Float, scales: dict[str, Float], name: str) -> None:
    mesh = default.find("mesh")
    own = inherited if mesh is None else _vector(mesh, "scale", tuple(inherited.tolist()))
    scales[name] = own
    for child in default.all("default"):
        _class_scales(child, own, scales, child.attributes.get("class", ""))


def _vector(element: Element, key: str, usual: tuple[Any, ...]) -> Float:
    errors: list[DynidError] = []
    values = np.array(numbers(element, key, len(usual), errors, usual))
    if errors:
        raise errors[0]
    return values

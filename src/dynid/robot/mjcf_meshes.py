"""Mesh assets of an MJCF file, in the frames of the geoms that use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import DynidError, InputError, Place
from dynid.base.records import dataclass
from dynid.robot.mesh import mesh_triangles
from dynid.robot.xml import Element, inside, numbers
from dynid.spatial.algebra import rotation_quaternion


@dataclass(frozen=True)
class MeshAssets:
    """Mesh assets by name, the scales of their classes, and the folder that they lie in; each file is read once."""

    assets: dict[str, Element]
    scales: dict[str, Float]
    folder: Path
    start: str
    packages: Sequence[str]
    read_mesh: Callable[[Path], tuple[Float, Int]] = field(default_factory=lambda: cache(mesh_triangles))

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

    def triangles(self, mesh: str) -> tuple[Float, Int]:
        """Vertices (V, 3) in the geom's frame, shifted to refpos, turned to refquat, scaled, and triangles (T, 3)."""
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
        vertices, triangles = self.read_mesh(inside(self.folder, name, asset.place, self.packages))
        own = self.scales.get(asset.attributes.get("class", "main"), np.ones(3))
        placed = (
            (vertices - _vector(asset, "refpos", (0.0,) * 3))
            @ rotation_quaternion(_vector(asset, "refquat", (1.0, 0.0, 0.0, 0.0)))
            * _vector(asset, "scale", tuple(own.tolist()))
        )
        return np.asarray(placed), triangles


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

"""Mesh files: points of STL and OBJ, triangles of these and, through coal, of others."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import InputError, Place, ResourceError
from dynid.base.input_file import read_bytes

MAX_BYTES = 100_000_000
# m: links are shorter, what is longer was drawn in millimetres.
LONGEST = 20.0
_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_HEADER = 84


def mesh_points(path: Path) -> Float:
    """All corners (k, 3) of an STL (text or binary) or OBJ file, in the file's own unit and frame.

    Raises InputError with the line or facet of what is wrong, RefusedError for a file of more than 100 MB.
    """
    data = read_bytes(path, "a mesh, STL or OBJ", MAX_BYTES)
    suffix = path.suffix.lower()
    if suffix == ".obj":
        points = _text_points(data, b"v", path)
    elif suffix == ".stl":
        points = _text_points(data, b"vertex", path) if _is_text(data) else _binary_points(data, path)
    else:
        raise _wrong(path, "mesh-format", f"a mesh with the suffix '{path.suffix}'", ".stl or .obj")
    if len(points) < 4:
        raise _wrong(path, "mesh-empty", f"{len(points)} corners", "at least four, that enclose a volume")
    return points


def mesh_triangles(path: Path) -> tuple[Float, Int]:
    """Vertices (V, 3), in the file's own unit and frame, and triangles (T, 3) as indices of them.

    STL and OBJ are read here, other formats (COLLADA, glTF, PLY, ...) through the package coal, where it is installed.
    Raises InputError for a file that cannot be read, ResourceError where coal is needed and is not there.
    """
    suffix = path.suffix.lower()
    if suffix not in (".stl", ".obj"):
        return _triangles_by_coal(path)
    points = mesh_points(path)
    if suffix == ".stl":
        whole = len(points) // 3
        return points[: 3 * whole], np.arange(3 * whole, dtype=np.int64).reshape(-1, 3)
    return points, _obj_triangles(path, len(points))


def _is_text(data: bytes) -> bool:
    # Binary files may begin with "solid" too: their size gives them away.
    if data.lstrip()[:5].lower() != b"solid":
        return False
    return len(data) < _HEADER or len(data) != _HEADER + _FACET.itemsize * _count(data)


def _count(data: bytes) -> int:
    return int.from_bytes(data[80:_HEADER], "little")


def _binary_points(data: bytes, path: Path) -> Float:
    if len(data) < _HEADER:
        raise _wrong(
            path, "mesh-truncated", f"{len(data)} bytes", "an STL file: a header of 84 bytes, then facets"
        )
    count, there = _count(data), (len(data) - _HEADER) // _FACET.itemsize
    if count > there:
        raise _wrong(
            path,
            "mesh-truncated",
            f"{there} of the {count} facets that the header announces",
            "the whole file",
        )
    corners = np.frombuffer(data, _FACET, count, _HEADER)["corners"].astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(corners).all(axis=(1, 2)))
    if len(bad):
        raise _wrong(path, "mesh-number", f"nan or infinity in facet {bad[0] + 1}", "finite coordinates")
    return np.asarray(corners.reshape(-1, 3))


def _obj_triangles(path: Path, count: int) -> Int:
    # Polygons are split as fans; a negative index counts back from the vertices read so far.
    found: list[tuple[int, int, int]] = []
    seen = 0
    for number, line in enumerate(read_bytes(path, "a mesh, STL or OBJ", MAX_BYTES).splitlines(), 1):
        words = line.split()
        if not words or words[0] not in (b"v", b"f"):
            continue
        if words[0] == b"v":
            seen += 1
            continue
        try:
            indices = [int(word.split(b"/")[0]) for word in words[1:]]
        except ValueError:
            indices = []
        corners = [i - 1 if i > 0 else seen + i for i in indices]
        if len(corners) < 3 or not all(0 <= i < count for i in corners):
            shown = line[:60].decode("ascii", "replace").strip()
            raise _wrong(path, "mesh-face", f"'{shown}'", f"three or more of {count} vertices", number)
        found += [(corners[0], a, b) for a, b in pairwise(corners[1:])]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _triangles_by_coal(path: Path) -> tuple[Float, Int]:
    try:
        import coal
    except ImportError as error:
        raise ResourceError(
            "no-coal",
            found=f"a mesh of type '{path.suffix}'",
            expected="STL or OBJ, or the package coal",
            do="pip install coal",
        ) from error
    read_bytes(path, "a mesh", MAX_BYTES)
    try:
        model = coal.MeshLoader().load(str(path))
    except (RuntimeError, ValueError) as error:
        raise _wrong(path, "mesh", " ".join(str(error).split()), "a mesh with triangles") from error
    faces = (model.tri_indices(i) for i in range(model.num_tris))
    corners = [(face[0], face[1], face[2]) for face in faces]
    points = np.array(model.vertices(), dtype=np.float64).reshape(-1, 3)
    if not corners or not np.isfinite(points).all():
        raise _wrong(path, "mesh", f"{len(corners)} triangles", "a mesh with triangles")
    return points, np.array(corners, dtype=np.int64)


def _text_points(data: bytes, keyword: bytes, path: Path) -> Float:
    found: list[list[float]] = []
    for number, line in enumerate(data.splitlines(), 1):
        words = line.split()
        if not words or words[0] != keyword:
            continue
        try:
            point = [float(word) for word in words[1:4]]
        except ValueError:
            point = []
        if len(point) != 3 or not np.isfinite(point).all():
            shown = line[:60].decode("ascii", "replace").strip()
            raise _wrong(path, "mesh-number", f"'{shown}'", "three finite coordinates", number)
        found.append(point)
    return np.array(found).reshape(-1, 3)


def _wrong(path: Path, identifier: str, found: str, expected: str, line: int | None = None) -> InputError:
    return InputError(identifier, found=found, expected=expected, place=Place(file=str(path), line=line))

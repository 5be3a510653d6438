"""Mesh files: their location, points and triangles."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, RefusedError, ResourceError
from dynid.base.files import read_bytes
from dynid.base.records import dataclass
from dynid.robot.xml import Element, inside, numbers, present
from dynid.spatial.algebra import rotation_quaternion

# ROS packages by name: in named folders, above a file, and on the paths of the environment.

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")
# Folder levels of a workspace that are searched, since a repository may contain several packages.
_DEPTH = 3
# Levels from a robot file up to the folder of its package, as in package/urdf/robots/; and types of included files.
_UP = 3
_INCLUDED = (".xacro", ".urdf", ".xml", ".yaml", ".yml")
_NAMED = b"<name>%s</name>"
_MANIFEST = "package.xml"
# Bytes of a manifest that are searched for the package's name.
_MANIFEST_BYTES = 1_000_000


def find_package(name: str, folder: Path, place: Place, named: Sequence[str] = ()) -> Path:
    """Find the folder of a ROS package.

    Searched in this order: the named folders and their subfolders; folders above `folder` with the package's name or
    with its name in their package.xml, and packages with a package.xml next to them; ROS_PACKAGE_PATH; the share
    folders of AMENT_PREFIX_PATH.

    Parameters
    ----------
    name : str
        Name of the package.
    folder : Path
        Folder of the robot file.
    place : Place
        For the message.
    named : sequence of str
        Folders that the user named: packages, or folders with packages.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If there is no such package.

    """
    if _NAME.fullmatch(name):
        for candidate in _candidates(name, folder, named):
            return candidate
    looked = [f"above '{folder}'", *(f"in '{root}'" for root in named)]
    raise InputError(
        "package-missing",
        found=f"no folder of the package '{name}' {' or '.join(looked)}",
        expected="the package there, or on ROS_PACKAGE_PATH or AMENT_PREFIX_PATH",
        do="name the folder that contains it: --packages DIR",
        place=place,
    )


def file_of_package(name: str, within: str, folder: Path) -> Path | None:
    """Find a file of a package whose folder was renamed or copied without its package.xml.

    The file may have the same path below `folder`, below one of the _UP folders above it, or below a subfolder of
    these with the package's name. The home folder and folders above it are not searched: any file of the machine could
    match there.

    Parameters
    ----------
    name : str
        Name of the package.
    within : str
        Path of the file in the package.
    folder : Path
        Folder of the robot file.

    Returns
    -------
    Path or None
        None if there is no such file.

    """
    if not _NAME.fullmatch(name) or Path(within).suffix.lower() not in _INCLUDED:
        return None
    folder = folder.resolve()
    for above in (folder, *folder.parents)[: _UP + 1]:
        if above != folder and (above == above.parent or Path.home().is_relative_to(above)):
            break
        for package in (above / name, above):
            path = (package / within).resolve()
            if path.is_relative_to(package) and _is_file(path):
                return path
    return None


def _candidates(name: str, folder: Path, named: Sequence[str]) -> Iterator[Path]:
    for root in named:
        yield from _packages_in(Path(root), name)
    for above in (folder.resolve(), *folder.resolve().parents):
        if above.name == name or _manifest_names(above, name):
            yield above
        # The manifest is required: otherwise any folder of the machine, such as /etc, could pass for a package.
        if _is_file(above / name / _MANIFEST):
            yield above / name
    for workspace in _folders_listed("ROS_PACKAGE_PATH"):
        yield from _packages_in(workspace, name)
    for prefix in _folders_listed("AMENT_PREFIX_PATH"):
        if _is_folder(prefix / "share" / name):
            yield prefix / "share" / name


def _folders_listed(variable: str) -> list[Path]:
    return [Path(folder) for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


def _packages_in(folder: Path, name: str) -> Iterator[Path]:
    # The folder itself or a subfolder that is the package, by the folder's name or the name in its package.xml.
    if not _is_folder(folder):
        return
    if folder.resolve().name == name or _manifest_names(folder, name):
        yield folder
    if _is_folder(folder / name):
        yield folder / name
    level = [folder]
    for _ in range(_DEPTH):
        level = [child for parent in level for child in _folders(parent)]
        for parent in level:
            if _is_file(parent / _MANIFEST) and (parent.name == name or _manifest_names(parent, name)):
                yield parent


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(
            entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
    except OSError:
        return []


def _manifest_names(folder: Path, name: str) -> bool:
    try:
        with (folder / _MANIFEST).open("rb") as file:
            return _NAMED % name.encode() in b"".join(file.read(_MANIFEST_BYTES).split())
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


# Location of the meshes of a robot file, and notes on those that cannot be read.

PACKAGE_SCHEMES = ("package://", "model://")
NEEDED_FOR = "meshes are only needed for the shapes of `dynid limits` and `dynid excite`"
# Names per message.
_LISTED = 4


def mesh_path(name: str, folder: Path, place: Place, packages: Sequence[str] = ()) -> Path:
    """Return the path of a mesh that a robot file names; the mesh need not exist.

    Parameters
    ----------
    name : str
        File name in the robot file.
    folder : Path
        Folder of the robot file.
    place : Place
        For messages.
    packages : sequence of str
        Folders that the user named, see `find_package`; meshes may be in them, too.

    Returns
    -------
    Path

    Raises
    ------
    RefusedError
        If the name is remote, or leads out of the folder or package.
    InputError
        If there is no such package, or the name is not a path.

    """
    name = name.removeprefix("file://")
    scheme = next((prefix for prefix in PACKAGE_SCHEMES if name.startswith(prefix)), None)
    if scheme is None:
        return inside(folder, name, place, packages)
    package, _, within = name.removeprefix(scheme).partition("/")
    return inside(find_package(package, folder, place, packages), within.lstrip("/"), place)


def note_absent_meshes(
    files: Iterable[tuple[str, Element]], folder: Path, diagnostics: Diagnostics, packages: Sequence[str] = ()
) -> None:
    """Note meshes that are missing, outside the folder or remote, without opening any file.

    Parameters
    ----------
    files : iterable of (str, Element)
        File names and the elements that name them: meshes, and others such as textures, which are not reported.
    folder : Path
        Folder of the robot file.
    diagnostics : Diagnostics
        Receives the notes.
    packages : sequence of str
        Folders that the user named, see `find_package`.

    """
    absent: dict[str, dict[str, Place]] = {}
    lost: set[str] = set()  # missing packages, since each search may walk through a workspace
    for name, element in files:
        named = name.removeprefix("file://")
        package = named.partition("://")[2].partition("/")[0] if named.startswith(PACKAGE_SCHEMES) else ""
        reason_code = "packaged" if package in lost else _absence(name, folder, element.place, packages)
        if package and reason_code == "packaged":
            lost.add(package)
        if reason_code and element.tag == "mesh":
            absent.setdefault(reason_code, {}).setdefault(name, element.place)
    for reason, places in absent.items():
        identifier, text = _REASONS[reason]
        text = f"{_mesh_files_listed(places)} {text.format(folder=folder)}; {NEEDED_FOR}"
        diagnostics.note(identifier, text, next(iter(places.values())))


_REASONS = {
    "missing": ("mesh-missing", "not found"),
    "packaged": ("mesh-missing", "in a package that is not found; name its folder with --packages"),
    "outside": (
        "mesh-outside",
        "outside '{folder}' and not opened; allow further folders with --packages",
    ),
    "remote": ("mesh-remote", "on a network and not downloaded"),
}


def _absence(name: str, folder: Path, place: Place, packages: Sequence[str]) -> str:
    try:
        return "" if present(mesh_path(name, folder, place, packages)) else "missing"
    except RefusedError as error:
        return "remote" if error.identifier == "remote-file" else "outside"
    except DynidError as error:  # no such package, or not a valid file name
        return "packaged" if error.identifier == "package-missing" else "missing"


def _mesh_files_listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    more = len(quoted) - _LISTED
    listed = ", ".join(quoted[:_LISTED]) + (f" and {more} more" if more > 0 else "")
    return f"mesh {listed} is" if len(quoted) == 1 else f"meshes {listed} are"


# Mesh files: points of STL and OBJ, triangles of these and, through coal, of others.

# Bounds memory for hostile files, far above real meshes.
MAX_BYTES = 100_000_000
# m: no link is longer; a longer mesh was drawn in millimetres.
LONGEST = 20.0
# Binary STL: layout of a facet, and bytes of the header with the number of facets.
_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_HEADER = 84


def mesh_points(path: Path) -> Float:
    """Read all corners (k, 3) of an STL (text or binary) or OBJ file, in the file's unit and frame.

    Raises InputError with the line or facet of the fault, RefusedError for a file of more than 100 MB.
    """
    data = read_bytes(path, "a mesh, STL or OBJ", MAX_BYTES)
    suffix = path.suffix.lower()
    if suffix == ".obj":
        points = _text_points(data, b"v", path)
    elif suffix == ".stl":
        points = _text_points(data, b"vertex", path) if _is_text(data) else _binary_points(data, path)
    else:
        raise _mesh_error(path, "mesh-format", f"a mesh with the suffix '{path.suffix}'", ".stl or .obj")
    if len(points) < 4:
        raise _mesh_error(path, "mesh-empty", f"{len(points)} corners", "at least four that enclose a volume")
    return points


def mesh_triangles(path: Path) -> tuple[Float, Int]:
    """Read vertices and triangles of a mesh file.

    STL and OBJ are read directly, other formats (COLLADA, glTF, PLY, ...) through the package coal.

    Parameters
    ----------
    path : Path
        The mesh file.

    Returns
    -------
    vertices : ndarray, shape (V, 3)
        In the file's unit and frame.
    triangles : ndarray, shape (T, 3)
        Indices of vertices.

    Raises
    ------
    InputError
        If the file cannot be understood.
    ResourceError
        If the package coal is needed and not installed.

    """
    suffix = path.suffix.lower()
    if suffix not in (".stl", ".obj"):
        return _triangles_by_coal(path)
    points = mesh_points(path)
    if suffix == ".stl":
        whole = len(points) // 3
        points, triangles = points[: 3 * whole], np.arange(3 * whole, dtype=np.int64).reshape(-1, 3)
    else:
        triangles = _obj_triangles(path, len(points))
    if not np.ptp(points, axis=0).any():
        raise _mesh_error(path, "mesh-empty", "all corners in one place", "a surface")
    return points, triangles


def _is_text(data: bytes) -> bool:
    # Binary files may also begin with "solid", but then the size matches the number of facets in the header.
    if data.lstrip()[:5].lower() != b"solid":
        return False
    return len(data) < _HEADER or len(data) != _HEADER + _FACET.itemsize * _count(data)


def _count(data: bytes) -> int:
    return int.from_bytes(data[80:_HEADER], "little")


def _binary_points(data: bytes, path: Path) -> Float:
    if len(data) < _HEADER:
        raise _mesh_error(
            path, "mesh-truncated", f"{len(data)} bytes", "an STL file: a header of 84 bytes, then facets"
        )
    count, there = _count(data), (len(data) - _HEADER) // _FACET.itemsize
    if count > there:
        raise _mesh_error(
            path,
            "mesh-truncated",
            f"{there} of the {count} facets that the header announces",
            "the whole file",
        )
    corners = np.frombuffer(data, _FACET, count, _HEADER)["corners"].astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(corners).all(axis=(1, 2)))
    if len(bad):
        raise _mesh_error(path, "mesh-number", f"nan or infinity in facet {bad[0] + 1}", "finite coordinates")
    return np.asarray(corners.reshape(-1, 3))


def _obj_triangles(path: Path, count: int) -> Int:
    # Polygons are split as fans; a negative index counts back from the vertices read so far.
    faces: list[tuple[int, int, int]] = []
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
            raise _mesh_error(
                path, "mesh-face", f"face '{shown}'", f"three or more of {count} vertices", number
            )
        first = corners[0]
        faces += [(first, a, b) for a, b in pairwise(corners[1:]) if a != b and first not in (a, b)]
    return np.array(faces, dtype=np.int64).reshape(-1, 3)


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
        raise _mesh_error(path, "mesh", " ".join(str(error).split()), "a mesh with triangles") from error
    faces = (model.tri_indices(i) for i in range(model.num_tris))
    corners = [(face[0], face[1], face[2]) for face in faces]
    points = np.array(model.vertices(), dtype=np.float64).reshape(-1, 3)
    if not corners or not np.isfinite(points).all():
        raise _mesh_error(path, "mesh", f"{len(corners)} triangles", "a mesh with triangles")
    return points, np.array(corners, dtype=np.int64)


def _text_points(data: bytes, keyword: bytes, path: Path) -> Float:
    points: list[list[float]] = []
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
            raise _mesh_error(path, "mesh-number", f"vertex '{shown}'", "three finite coordinates", number)
        points.append(point)
    return np.array(points).reshape(-1, 3)


def _mesh_error(
    path: Path, identifier: str, problem: str, expected: str, line: int | None = None
) -> InputError:
    return InputError(identifier, found=problem, expected=expected, place=Place(file=str(path), line=line))


# Mesh assets of an MJCF file, in the frames of the geoms that use them.


@dataclass(frozen=True)
class MeshAssets:
    """Mesh assets of an MJCF file; each mesh file is read once.

    Parameters
    ----------
    assets : dict of str to Element
        <mesh> elements by name.
    scales : dict of str to ndarray, shape (3,)
        Default scale of each class.
    folder : Path
        Folder of the MJCF file.
    start : str
        Its meshdir.
    packages : sequence of str
        Folders that the user named; meshes may be in them, too.
    read_mesh : callable
        Vertices and triangles of a path.

    """

    assets: dict[str, Element]
    scales: dict[str, Float]
    folder: Path
    start: str
    packages: Sequence[str]
    read_mesh: Callable[[Path], tuple[Float, Int]] = field(default_factory=lambda: cache(mesh_triangles))

    @staticmethod
    def of(root: Element, folder: Path, packages: Sequence[str]) -> MeshAssets:
        """Collect the mesh assets of a <mujoco> element without includes; folder: that of the file."""
        settings: dict[str, str] = {}
        for compiler in root.all("compiler"):
            settings |= compiler.attributes
        assets = [asset for part in root.all("asset") for asset in part.all("mesh")]
        named = {
            asset.attributes.get("name") or Path(asset.attributes.get("file", "")).stem: asset
            for asset in assets
        }
        scales: dict[str, Float] = {}
        for default in root.all("default"):
            _class_scales(default, np.ones(3), scales, "main")
        start = settings.get("meshdir", settings.get("assetdir", ""))
        return MeshAssets(named, scales, folder, start, packages)

    def triangles(self, mesh: str) -> tuple[Float, Int]:
        """Vertices (V, 3) in the geom's frame, after refpos, refquat and scale, and triangles (T, 3)."""
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
        class_scale = self.scales.get(asset.attributes.get("class", "main"), np.ones(3))
        placed = (
            (vertices - _vector(asset, "refpos", (0.0,) * 3))
            @ rotation_quaternion(_vector(asset, "refquat", (1.0, 0.0, 0.0, 0.0)))
            * _vector(asset, "scale", tuple(class_scale.tolist()))
        )
        return np.asarray(placed), triangles


def _class_scales(default: Element, inherited: Float, scales: dict[str, Float], name: str) -> None:
    mesh = default.find("mesh")
    scale = inherited if mesh is None else _vector(mesh, "scale", tuple(inherited.tolist()))
    scales[name] = scale
    for child in default.all("default"):
        _class_scales(child, scale, scales, child.attributes.get("class", ""))


def _vector(element: Element, key: str, usual: tuple[Any, ...]) -> Float:
    errors: list[DynidError] = []
    values = np.array(numbers(element, key, len(usual), errors, usual))
    if errors:
        raise errors[0]
    return values

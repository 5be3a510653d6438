"""Vertices of mesh files: STL and OBJ by themselves, everything else through the package coal."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.checked_toml import read_bytes
from dynid.base.errors import InputError, Place, ResourceError

LARGEST_BYTES = 200_000_000
_HEAD, _RECORD = 84, 50


def read_vertices(path: Path) -> Float:
    """Vertices (V, 3) of a mesh in the unit of the file.

    Raises InputError for a file that cannot be read or holds none, ResourceError for a format that needs coal where
    it is not installed.
    """
    kind = path.suffix.lower()
    if kind == ".stl":
        vertices = _stl(path)
    elif kind == ".obj":
        lines = _text(path).splitlines()
        vertices = _rows([line.split()[1:4] for line in lines if line.startswith("v ")], path)
    else:
        vertices = _by_coal(path)
    if not len(vertices) or not np.isfinite(vertices).all():
        raise _unreadable(path, f"{len(vertices)} vertices, or numbers that are not finite")
    return vertices


def _stl(path: Path) -> Float:
    data = read_bytes(path, "a mesh", LARGEST_BYTES)
    count = int(np.frombuffer(data[80:_HEAD], dtype="<u4")[0]) if len(data) >= _HEAD else -1
    if len(data) == _HEAD + _RECORD * count:
        records = np.frombuffer(data, dtype=np.uint8, offset=_HEAD).reshape(count, _RECORD)
        # 3 numbers of the normal, then 9 of the corners, then two bytes of no meaning.
        return np.ascontiguousarray(records[:, 12:48]).view("<f4").reshape(-1, 3).astype(np.float64)
    lines = [line.split() for line in data.decode("ascii", "replace").splitlines()]
    return _rows([line[1:4] for line in lines if line[:1] == ["vertex"]], path)


def _text(path: Path) -> str:
    return read_bytes(path, "a mesh", LARGEST_BYTES).decode("ascii", "replace")


def _rows(rows: list[list[str]], path: Path) -> Float:
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, 3)
    except ValueError as error:
        raise _unreadable(path, "vertices that are no numbers") from error


def _by_coal(path: Path) -> Float:
    try:
        import coal
    except ImportError as error:
        raise ResourceError(
            "no-coal",
            found=f"a mesh of type '{path.suffix}'",
            expected="STL or OBJ, or the package coal",
            do="pip install coal",
        ) from error
    read_bytes(path, "a mesh", LARGEST_BYTES)
    try:
        return np.array(coal.MeshLoader().load(str(path)).vertices(), dtype=np.float64)
    except (RuntimeError, ValueError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, why: str) -> InputError:
    return InputError("mesh", found=why, expected="a mesh with vertices", place=Place(file=str(path)))

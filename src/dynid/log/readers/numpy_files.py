"""Read NumPy files (.npz and .npy) without pickled objects, which could run code."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.files import Budget
from dynid.log.readers.arrays import (
    MAX_FIELDS,
    Array,
    ArrayTable,
    damaged,
    fields_of,
    nbytes,
    reading,
)

ZIP_MAGIC = b"PK\x03\x04"
NPY_MAGIC = b"\x93NUMPY"
MAX_HEADER = 10_000  # maximum number of characters of an array's header, a dictionary of three entries


def first_member(head: bytes) -> str:
    """Name of the first file in a zip archive with these first bytes; "" for other files."""
    if not head.startswith(ZIP_MAGIC):
        return ""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")


class NpzReader:
    """Opens archives of NumPy arrays as written by numpy.savez and numpy.savez_compressed."""

    name = "npz"
    suffixes = (".npz",)

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` is a zip archive of arrays."""
        return first_member(head).endswith(".npy")

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open an archive; raise InputError if it is damaged, RefusedError if it would take too much memory."""
        with reading(path, "an archive of arrays"):
            return _npz_table(path)


class NpyReader:
    """Opens NumPy arrays written by numpy.save; columns without names are called column[0], column[1], ..."""

    name = "npy"
    suffixes = (".npy",)

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` has this format."""
        return head.startswith(NPY_MAGIC)

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open an array; raise InputError if it is damaged, RefusedError if it would take too much memory."""
        with reading(path, "an array"), path.open("rb") as file:
            shape, fortran, dtype = _header(file)
            if dtype.hasobject:
                return ArrayTable(path, [], ["Python objects, which are never loaded"])
            Budget(path).spend(nbytes(shape, dtype), "an array")
            return ArrayTable(path, fields_of("", _values(file, shape, fortran, dtype, path)))


def _npz_table(path: Path) -> ArrayTable:
    budget, arrays, left_out = Budget(path), [], []
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for info in members[:MAX_FIELDS]:
            name = info.filename.removesuffix(".npy")
            if name == info.filename:
                left_out.append(f"{name}: not an array")
                continue
            with archive.open(info) as file:
                shape, fortran, dtype = _header(file)
                if dtype.hasobject:
                    left_out.append(f"{name}: Python objects, which are never loaded")
                    continue
                budget.spend(nbytes(shape, dtype), f"array '{name}'")
                arrays += fields_of(name, _values(file, shape, fortran, dtype, path))
    return ArrayTable(path, arrays, left_out)


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file, max_header_size=MAX_HEADER)
    if any(n < 0 for n in shape):
        raise ValueError(f"an array of shape {shape}")
    return shape, fortran, dtype


def _values(file: Any, shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any], path: Path) -> Array:
    wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = file.read(wanted)
    if len(data) < wanted:
        raise damaged(path, f"an array of {len(data)} bytes instead of {wanted} for its shape {shape}")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")

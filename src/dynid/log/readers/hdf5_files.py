"""Read HDF5 files, including MATLAB 7.3 files, in pieces with the optional package h5py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.errors import Place, ResourceError
from dynid.base.files import Budget
from dynid.log.readers.arrays import MAX_FIELDS, Array, ArrayTable, StoredArray, nbytes, reading

MAGIC = b"\x89HDF\r\n\x1a\n"
MAX_DEPTH = 16
UNIT_ATTRIBUTES = ("unit", "units", "Unit", "Units")
# Internal tables of MATLAB, which are not variables.
_MATLAB_OWN = ("#refs#", "#subsystem#")
_MATLAB_NUMBERS = (
    "double",
    "single",
    "logical",
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
)


class Hdf5Reader:
    """Opens HDF5 files; datasets are named by their path, for example robot/q."""

    name = "HDF5"
    suffixes = (".h5", ".hdf5", ".hdf")

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` has this format."""
        return head.startswith(MAGIC)

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file; raise InputError if it is damaged, RefusedError if it would take too much memory."""
        return _table(path, matlab=False)


def matlab_table(path: Path) -> ArrayTable:
    """Open a MATLAB 7.3 file, which stores arrays transposed; raises the errors of Hdf5Reader.open."""
    return _table(path, matlab=True)


def _table(path: Path, matlab: bool) -> ArrayTable:
    try:
        import h5py
    except ImportError as error:
        raise ResourceError(
            "no-h5py",
            found="no package 'h5py'",
            expected="h5py, which reads HDF5 and MATLAB 7.3 files",
            do="pip install 'dynid[hdf5]'",
            place=Place(file=str(path)),
        ) from error
    with reading(path, "an HDF5 file"):
        file = h5py.File(path, "r", locking=False)
        try:
            return _read(file, path, matlab)
        except BaseException:
            file.close()
            raise


def _read(file: Any, path: Path, matlab: bool) -> ArrayTable:
    import h5py

    arrays: list[StoredArray] = []
    left_out: list[str] = []
    budget = Budget(path)
    root = {h5py.h5o.get_info(file.id).addr}
    for name, item in _datasets(file, "", left_out, matlab, root, 0):
        if len(arrays) + len(left_out) >= MAX_FIELDS:
            left_out.append(f"datasets after the first {MAX_FIELDS}")
            break
        arrays += _arrays(name, item, left_out, matlab, budget)
    return ArrayTable(path, arrays, left_out)


def _datasets(
    group: Any, prefix: str, left_out: list[str], matlab: bool, seen: set[int], depth: int
) -> Iterator[tuple[str, Any]]:
    """Yield all datasets with their names; soft links and links to other files are not followed."""
    import h5py

    for key in group:
        name = f"{prefix}{key}"
        if matlab and not prefix and key in _MATLAB_OWN:
            continue
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            left_out.append(f"{name}: a link, which is not followed")
            continue
        item = group[key]
        address = h5py.h5o.get_info(item.id).addr
        if isinstance(item, h5py.Dataset):
            yield name, item
        elif isinstance(item, h5py.Group) and address not in seen and depth < MAX_DEPTH:
            seen.add(address)
            yield from _datasets(item, name + ("." if matlab else "/"), left_out, matlab, seen, depth + 1)


def _arrays(name: str, item: Any, left_out: list[str], matlab: bool, budget: Budget) -> list[StoredArray]:
    shape = item.shape
    if item.is_virtual or item.external:
        left_out.append(f"{name}: numbers in another file, which is not opened")
        return []
    if shape is None or not prod(shape) or (matlab and "MATLAB_empty" in item.attrs):
        left_out.append(f"{name}: empty")
        return []
    if matlab and _text(item.attrs.get("MATLAB_class", "")) not in _MATLAB_NUMBERS:
        left_out.append(f"{name}: {_text(item.attrs.get('MATLAB_class', 'no')) or 'no'} array")
        return []
    if item.dtype.hasobject or item.dtype.kind not in "fiubV":
        left_out.append(f"{name}: {'x'.join(map(str, shape))} of {item.dtype}")
        return []
    budget.spend(nbytes(shape, item.dtype), f"dataset '{name}'")
    budget.spend(0 if item.chunks is None else max(prod(item.chunks) * item.dtype.itemsize - 1, 0), "a chunk")
    unit = next((_text(item.attrs[key]) for key in UNIT_ATTRIBUTES if key in item.attrs), "")
    parts = item.dtype.names or ("",)
    arrays = []
    for part in parts:
        label, dtype = (f"{name}.{part}", item.dtype[part]) if part else (name, item.dtype)
        sizes = (*shape, *dtype.shape)
        if len(sizes) > 2:  # an array with more than two axes longer than 1 has no columns
            squeezed = tuple(n for n in sizes if n > 1)
            if len(squeezed) > 2:
                arrays.append(StoredArray(label, sizes, dtype.base, _nothing))
                continue
            whole = (item.fields(part)[()] if part else item[()]).squeeze()
            arrays.append(StoredArray.of(label, whole.T if matlab else whole, (), unit))
            continue
        order = sizes[::-1] if matlab else sizes
        arrays.append(StoredArray(label, order, dtype.base, _reader(item, part, matlab), (), unit))
    return arrays


def _reader(item: Any, part: str, transposed: bool) -> Callable[[int, int, int], Array]:
    def read(start: int, stop: int, axis: int) -> Array:
        source = item.fields(part) if part else item
        if len(item.shape) == 1:
            values = source[start:stop] if axis == 0 else source[()][:, start:stop]
        elif (axis == 0) != transposed:
            values = source[start:stop]
        else:
            values = source[:, start:stop]
        return np.asarray(values.T if transposed else values)

    return read


def _nothing(start: int, stop: int, axis: int) -> Array:
    return np.zeros(0)


def _text(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text if isinstance(text, str) else ""

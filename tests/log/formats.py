"""One log in every format, written by the formats' own libraries where they are small enough to be here."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dynid.base import Float

Arrays = Mapping[str, Float]


def npz(path: Path, arrays: Arrays) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def npy(path: Path, arrays: Arrays) -> Path:
    """A structured array, a field a column."""
    columns = np.zeros(len(next(iter(arrays.values()))), dtype=[(one, "f8") for one in flat(arrays)])
    for name, values in flat(arrays).items():
        columns[name] = values
    np.save(path, columns)
    return path


def flat(arrays: Arrays) -> dict[str, Float]:
    """Columns as the readers name them."""
    found: dict[str, Float] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            found[name] = values
        else:
            found |= {f"{name}[{i}]": values[:, i] for i in range(values.shape[1])}
    return found


def mat(path: Path, arrays: Arrays, compressed: bool = True) -> Path:
    from scipy.io import savemat

    savemat(path, dict(arrays), do_compression=compressed)
    return path


def hdf5(path: Path, arrays: Arrays, matlab: bool = False) -> Path:
    import h5py

    with h5py.File(path, "w", userblock_size=512 if matlab else 0, track_order=True) as file:
        for name, values in arrays.items():
            stored = np.atleast_2d(values.T) if matlab else values
            item = file.create_dataset(name, data=stored, compression="gzip", chunks=True)
            if matlab:
                item.attrs["MATLAB_class"] = np.bytes_("double")
    if matlab:
        head = (
            b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
        )
        with path.open("r+b") as file:
            file.write(head.ljust(124) + b"\x00\x02IM")
    return path


def lerobot(path: Path, arrays: Arrays, names: Sequence[str], episodes: Sequence[int], version: str) -> Path:
    """A data set of the layout of a version; episodes: number of rows of each."""
    first = next(iter(arrays.values()))
    ends = np.cumsum(episodes)
    index = np.searchsorted(ends, np.arange(len(first)), side="right")
    columns: dict[str, Any] = {
        name: pa.array(values)
        if values.ndim == 1
        else pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        if version == "v3.0"
        else pa.array(list(values))
        for name, values in arrays.items()
    }
    columns["episode_index"] = pa.array(index)
    table = pa.table(columns)
    (path / "meta").mkdir(parents=True)
    features = {
        name: {"dtype": "float64", "shape": [values.shape[1]], "names": {"motors": list(names)}}
        for name, values in arrays.items()
        if values.ndim == 2
    }
    about = {"codebase_version": version, "fps": 200, "total_frames": len(first), "features": features}
    (path / "meta" / "info.json").write_text(json.dumps(about))
    (path / "data" / "chunk-000").mkdir(parents=True)
    if version == "v3.0":
        cuts = [0, int(ends[1]) if len(ends) > 1 else len(first), len(first)]
        for i, (a, b) in enumerate(pairwise(cuts)):
            if b > a:
                pq.write_table(table.slice(a, b - a), path / f"data/chunk-000/file-{i:03d}.parquet")
    else:
        for i, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            pq.write_table(table.slice(a, b - a), path / f"data/chunk-000/episode_{i:06d}.parquet")
    return path


class _Storage:
    """Numbers that lie in a file of the archive."""

    def __init__(self, values: Any) -> None:
        self.values = values


def torch(path: Path, content: Any, protocol: int = 2, byteorder: str = "little") -> Path:
    """A file as torch.save writes it, by Python's own pickler: arrays in dictionaries and lists are tensors."""
    kinds = {
        "f8": "Double",
        "f4": "Float",
        "f2": "Half",
        "i8": "Long",
        "i4": "Int",
        "u1": "Byte",
        "b1": "Bool",
    }
    modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}
    storages: list[bytes] = []

    def rebuild(*arguments: Any) -> None:
        raise AssertionError("nothing that a file names is called")

    rebuild.__module__, rebuild.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    modules["torch._utils"]._rebuild_tensor_v2 = rebuild  # type: ignore[attr-defined]  # a module made here
    for name in kinds.values():
        setattr(modules["torch"], f"{name}Storage", type(f"{name}Storage", (), {"__module__": "torch"}))

    class Tensor:
        def __init__(self, values: Any) -> None:
            self.values = values

        def __reduce__(self) -> Any:
            base = self.values if self.values.base is None else self.values.base
            strides = tuple(one // base.itemsize for one in self.values.strides)
            start = self.values.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            storage = _Storage(base.ravel(order="K"))
            return rebuild, (
                storage,
                start // base.itemsize,
                self.values.shape,
                strides,
                False,
                OrderedDict(),
            )

    class Pickler(pickle.Pickler):
        def persistent_id(self, found: Any) -> Any:
            if not isinstance(found, _Storage):
                return None
            kind = getattr(modules["torch"], f"{kinds[found.values.dtype.str[1:]]}Storage")
            order = ">" if byteorder == "big" else "<"
            storages.append(found.values.astype(found.values.dtype.newbyteorder(order)).tobytes())
            return ("storage", kind, str(len(storages) - 1), "cpu", found.values.size)

    def tensors(value: Any) -> Any:
        if isinstance(value, dict):
            return type(value)((key, tensors(inner)) for key, inner in value.items())
        if isinstance(value, list):
            return [tensors(inner) for inner in value]
        return Tensor(value) if isinstance(value, np.ndarray) else value

    index = io.BytesIO()
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        Pickler(index, protocol).dump(tensors(content))
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return archive(path, index.getvalue(), storages, byteorder)


def archive(
    path: Path,
    index: bytes,
    storages: Sequence[bytes],
    byteorder: str = "little",
    compression: int = zipfile.ZIP_STORED,
) -> Path:
    """A zip archive as torch.save writes it, which does not compress."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", index)
        file.writestr("archive/byteorder", byteorder)
        for i, data in enumerate(storages):
            file.writestr(f"archive/data/{i}", data)
        file.writestr("archive/version", "3\n")
    return path

"""Array types, and checks that return read-only arrays."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping
from io import FileIO
from tempfile import TemporaryFile
from typing import Any, Generic, TypeVar, cast
from weakref import finalize

import numpy as np
import numpy.typing as npt

from dynid.base.errors import UsageError

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
# No measured or identified number is that large in any unit. Its fourth power does not overflow, and it fits into the
# single precision of figures.
LARGEST_VALUE = 1e30
Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def locked(values: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Float:
    """Return a read-only C-ordered float64 copy of values; an array that is already read-only is not copied.

    Parameters
    ----------
    values : array_like
        The values.
    shape : tuple of int or None
        Expected shape; None = any length.
    name : str
        For the message.

    Returns
    -------
    ndarray

    Raises
    ------
    UsageError
        For another shape.

    """
    return _locked(_owned_copy(values, np.float64), shape, name)


def locked_int(values: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Int:
    """Return a read-only int64 copy of values, checked like those of `locked`.

    Parameters
    ----------
    values : array_like
        The values.
    shape : tuple of int or None
        Expected shape; None = any length.
    name : str
        For the message.

    Returns
    -------
    ndarray

    Raises
    ------
    UsageError
        For another shape.

    """
    return _locked(_owned_copy(values, np.int64), shape, name)


def locked_bool(values: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Bool:
    """Return a read-only bool copy of values, checked like those of `locked`."""
    return _locked(_owned_copy(values, np.bool_), shape, name)


def shared(values: Float, shape: tuple[int | None, ...], name: str) -> Float:
    """Return a read-only view of a float64 array without a copy, for large arrays that the caller no longer uses."""
    view = np.ascontiguousarray(values, dtype=np.float64).view()
    return _locked(view, shape, name)


def of_size(values: Float, name: str, *, known: bool = True, power: int = 1) -> Float:
    """Return the array after a check of its size.

    Parameters
    ----------
    values : ndarray
        The values.
    name : str
        For the message.
    known : bool
        Whether nan is an error.
    power : int
        Power of LARGEST_VALUE that is the limit; 2 for squares such as weights and covariances.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        For a number beyond the limit, or nan.

    """
    size = np.abs(values)
    if (size > LARGEST_VALUE**power).any() or (known and np.isnan(size).any()):
        raise ValueError(f"{name} with a number that is too large or nan")
    return values


def finite_or_none(value: float) -> float | None:
    """Return a number, or None for infinity and nan, which JSON does not have.

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    float or None

    """
    return float(value) if math.isfinite(value) else None


def _owned_copy(values: npt.ArrayLike, kind: type[np.generic]) -> Any:
    if isinstance(values, np.ndarray) and values.dtype == kind:
        flags = values.flags
        if flags.owndata and flags.c_contiguous and not flags.writeable:
            return values
    return np.array(values, dtype=kind, order="C", copy=True)


def _locked(array: Array, shape: tuple[int | None, ...], name: str) -> Array:
    agrees = len(shape) == array.ndim and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not agrees:
        wanted = "(" + ", ".join("any" if want is None else str(want) for want in shape) + ")"
        raise UsageError("array-shape", found=f"{name} of shape {array.shape}", expected=f"shape {wanted}")
    array.setflags(write=False)
    return array


# Records of arrays in a temporary file: written once, read as often as they are needed.

Record = TypeVar("Record")


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where an array lies in the file; `by_column` where its columns are contiguous."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    by_column: bool


class SpilledRecords(Generic[Record]):
    """Dataclass records of arrays in a temporary file, which is deleted when they are no longer used.

    The file lies in the folder that TMPDIR names, or else in the system's. Records come back bit by bit, with the
    memory layout that their arrays had.

    Parameters
    ----------
    kind : type
        Dataclass of the records.

    Raises
    ------
    OSError
        If the file cannot be written or was cut short.

    """

    def __init__(self, kind: type[Record]) -> None:
        self._kind = kind
        self._names = [field.name for field in dataclasses.fields(cast(Any, kind)) if field.init]
        self._file: FileIO | None = None
        self._lock = threading.Lock()
        self._end = 0
        self._records: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> int:
        """Append a record and return its index."""
        if self._file is None:
            self._file = TemporaryFile(prefix="dynid-", buffering=0)  # noqa: SIM115  # closed with this object
            finalize(self, self._file.close)
        self._records.append({name: self._stored(getattr(record, name)) for name in self._names})
        return len(self._records) - 1

    def __getitem__(self, index: int) -> Record:
        return self._kind(**{name: self._loaded(value) for name, value in self._records[index].items()})

    def __iter__(self) -> Iterator[Record]:
        for index in range(len(self._records)):
            yield self[index]

    def _stored(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._stored(entry) for key, entry in value.items()}
        if not isinstance(value, np.ndarray) or self._file is None:
            return value
        by_column = value.flags.f_contiguous and not value.flags.c_contiguous
        place = _Place(self._end, value.dtype, value.shape, by_column)
        rows = np.ascontiguousarray(value.T if by_column else value)
        rest = memoryview(rows.reshape(-1).view(np.uint8).data)
        with self._lock:
            self._file.seek(self._end)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._end += value.nbytes
        return place

    def _loaded(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._loaded(entry) for key, entry in value.items()}
        if not isinstance(value, _Place) or self._file is None:
            return value
        array = np.empty(value.shape[::-1] if value.by_column else value.shape, value.dtype)
        rest = memoryview(array.reshape(-1).view(np.uint8).data)
        with self._lock:
            self._file.seek(value.offset)
            while rest:
                count = self._file.readinto(rest)
                if not count:
                    raise OSError("a temporary file of dynid was cut short")
                rest = rest[count:]
        return array.T if value.by_column else array

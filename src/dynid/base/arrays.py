"""Array types and the one place where arrays are checked and locked."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dynid.base.errors import UsageError

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
# Nothing that is measured or identified is of that size, in any unit; fourth powers of it do not overflow, and figures,
# which hold single precision, take it.
LARGEST_VALUE = 1e30
Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def locked(values: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Float:
    """Returns a read-only C-ordered float64 copy of `values`, whose shape must match (None = any length).

    An array that is locked already is returned as it is.
    """
    return _locked(_owned_copy(values, np.float64), shape, name)


def locked_int(values: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Int:
    """Returns a read-only int64 copy of `values`, whose shape must match (None = any length)."""
    return _locked(_owned_copy(values, np.int64), shape, name)


def locked_bool(values: npt.ArrayLike, shape: tuple[int | None, ...], name: str) -> Bool:
    """Returns a read-only bool copy of `values`, whose shape must match (None = any length)."""
    return _locked(_owned_copy(values, np.bool_), shape, name)


def shared(values: Float, shape: tuple[int | None, ...], name: str) -> Float:
    """Returns a read-only view of a float64 array without copying it: for large arrays that the caller gives away."""
    view = np.ascontiguousarray(values, dtype=np.float64).view()
    return _locked(view, shape, name)


def of_size(values: Float, name: str, *, known: bool = True, power: int = 1) -> Float:
    """The array; raises ValueError where a number is beyond LARGEST_VALUE or, if they are to be `known`, nan.

    power: 2 for squares, as weights and covariances are.
    """
    size = np.abs(values)
    if (size > LARGEST_VALUE**power).any() or (known and np.isnan(size).any()):
        raise ValueError(f"{name} with a number of no size")
    return values


def finite_or_none(value: float) -> float | None:
    """The number, or None in place of what JSON cannot hold: infinity and nan."""
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

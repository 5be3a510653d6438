"""Array types, and checks that return read-only arrays."""

from __future__ import annotations

import math
from typing import Any, TypeVar

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
    """Return a read-only int64 copy of values, as `locked`.

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
    """Return a read-only bool copy of values, as `locked`."""
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

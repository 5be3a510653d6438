"""Functions of SciPy, each loaded when it is first called: loading all of them takes longer than a small command.

They are called as SciPy documents them. Those that are called by the thousand on small matrices call LAPACK
themselves, since SciPy's checks take longer than the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float

Matrix = npt.NDArray[np.floating[Any]]


def _of(module: str, name: str) -> Callable[..., Any]:
    @cache
    def loaded() -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(import_module(f"scipy.{module}"), name)
        return found

    def call(*arguments: Any, **options: Any) -> Any:
        return loaded()(*arguments, **options)

    call.__name__ = name
    call.__doc__ = f"scipy.{module}.{name}."
    return call


_dpotrf, _dpotrs = _of("linalg.lapack", "dpotrf"), _of("linalg.lapack", "dpotrs")
_dtrtrs = _of("linalg.lapack", "dtrtrs")
eigh, eigvalsh = _of("linalg", "eigh"), _of("linalg", "eigvalsh")
expm = _of("linalg", "expm")
chdtrc, fdtrc, gammaincc = _of("special", "chdtrc"), _of("special", "fdtrc"), _of("special", "gammaincc")
expit = _of("special", "expit")
ndtri, stdtr, stdtrit = _of("special", "ndtri"), _of("special", "stdtr"), _of("special", "stdtrit")
least_squares, minimize, nnls = (_of("optimize", name) for name in ("least_squares", "minimize", "nnls"))


def solve_triangular(
    a: Matrix, b: Matrix, trans: int | str = 0, lower: bool = False, check_finite: bool = True
) -> Float:
    """The x with a x = b, or a' x = b where `trans` is 1 or "T", for a triangle a (n, n); b (n,) or (n, k).

    Raises ValueError for numbers that are not finite, LinAlgError for a zero on the diagonal.
    """
    if check_finite and not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("array must not contain infs or NaNs")
    if not b.size:
        return np.zeros(b.shape)
    turned = trans in (1, "T")
    # LAPACK counts columns first, as the transpose of an array does.
    if a.flags.f_contiguous:
        x, info = _dtrtrs(a, b, lower=lower, trans=turned)
    else:
        x, info = _dtrtrs(a.T, b, lower=not lower, trans=not turned)
    if info > 0:
        raise np.linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {info - 1}")
    return np.asarray(x)


def cho_factor(a: Matrix) -> Float:
    """Cholesky factor of a symmetric matrix (n, n), for `cho_solve`.

    Raises ValueError for numbers that are not finite, LinAlgError unless it is positive definite.
    """
    if not np.isfinite(a).all():
        raise ValueError("array must not contain infs or NaNs")
    if not a.size:
        return np.zeros(a.shape)
    factor, info = _dpotrf(a, lower=False, clean=False)
    if info > 0:
        raise np.linalg.LinAlgError(f"{info}-th leading minor of the array is not positive definite")
    return np.asarray(factor)


def cho_solve(factor: Matrix, b: Matrix) -> Float:
    """The x with a x = b from the factor of a; b (n,) or (n, k).

    Raises ValueError for numbers that are not finite.
    """
    if not np.isfinite(b).all():
        raise ValueError("array must not contain infs or NaNs")
    return np.asarray(_dpotrs(factor, b, lower=False)[0]) if b.size else np.zeros(b.shape)

"""Functions of SciPy, each loaded when it is first called: loading all of them takes longer than a small command.

They are called as SciPy documents them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


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


cho_factor, cho_solve = _of("linalg", "cho_factor"), _of("linalg", "cho_solve")
# Of float64 alone, without the checks and conversions that take longer than a small factorisation.
dpotrf, dpotrs = _of("linalg.lapack", "dpotrf"), _of("linalg.lapack", "dpotrs")
eigh, eigvalsh = _of("linalg", "eigh"), _of("linalg", "eigvalsh")
expm = _of("linalg", "expm")
solve_triangular = _of("linalg", "solve_triangular")
chdtrc, fdtrc, gammaincc = _of("special", "chdtrc"), _of("special", "fdtrc"), _of("special", "gammaincc")
expit = _of("special", "expit")
ndtri, stdtr, stdtrit = _of("special", "ndtri"), _of("special", "stdtr"), _of("special", "stdtrit")
least_squares, minimize, nnls = (_of("optimize", name) for name in ("least_squares", "minimize", "nnls"))

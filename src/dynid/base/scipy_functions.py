"""Functions of SciPy, called as it documents them, each loaded when it is first called.

Loading SciPy takes as long as a small command. What every identification and every report needs is the package's own:
triangles in `dynid.kernel`, tails of distributions in `dynid.base.distributions`, small eigenvalue problems in
`dynid.base.eigenvalues`, least squares of a few unknowns between bounds in `dynid.base.box_least_squares`.
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


eigh, expm = _of("linalg", "eigh"), _of("linalg", "expm")
expit, stdtrit = _of("special", "expit"), _of("special", "stdtrit")
least_squares, minimize, nnls = (_of("optimize", name) for name in ("least_squares", "minimize", "nnls"))

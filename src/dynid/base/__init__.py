"""The ground: errors, diagnostics, locked arrays, units, checked TOML, files written whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostic, Diagnostics
    from dynid.base.errors import (
        DynidError,
        InputError,
        InputErrors,
        Place,
        RefusedError,
        ResourceError,
        SolverError,
        UnfitDataError,
        UsageError,
    )
    from dynid.base.findings import Finding, Verdict

__all__ = [
    "Diagnostic",
    "Diagnostics",
    "DynidError",
    "Finding",
    "InputError",
    "InputErrors",
    "Place",
    "RefusedError",
    "ResourceError",
    "SolverError",
    "UnfitDataError",
    "UsageError",
    "Verdict",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "diagnostics": "Diagnostic Diagnostics",
        "errors": "DynidError InputError InputErrors Place RefusedError ResourceError SolverError "
        "UnfitDataError UsageError",
        "findings": "Finding Verdict",
    },
)

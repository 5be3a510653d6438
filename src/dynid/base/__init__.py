"""The ground: errors, diagnostics, locked arrays, units, checked TOML, files written whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.base.arrays import Bool, Float, finite_or_none
    from dynid.base.atomic_write import FolderKind, listed_files, other_files, staged_folder
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
    from dynid.base.tables import read_table

__all__ = [
    "Bool",
    "Diagnostic",
    "Diagnostics",
    "DynidError",
    "Finding",
    "Float",
    "FolderKind",
    "InputError",
    "InputErrors",
    "Place",
    "RefusedError",
    "ResourceError",
    "SolverError",
    "UnfitDataError",
    "UsageError",
    "Verdict",
    "finite_or_none",
    "listed_files",
    "other_files",
    "read_table",
    "staged_folder",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "tables": "read_table",
        "atomic_write": "FolderKind listed_files other_files staged_folder",
        "arrays": "Bool Float finite_or_none",
        "diagnostics": "Diagnostic Diagnostics",
        "errors": "DynidError InputError InputErrors Place RefusedError ResourceError SolverError "
        "UnfitDataError UsageError",
        "findings": "Finding Verdict",
    },
)

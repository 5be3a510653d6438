"""Foundations: errors, diagnostics, read-only arrays, units, checked TOML, atomic files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.base.arrays import Bool, Float, Int, finite_or_none, locked, locked_int
    from dynid.base.diagnostics import Diagnostics, Evidence, Finding, Level, Verdict, claim_codes
    from dynid.base.errors import (
        NOWHERE,
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
    from dynid.base.files import (
        FolderKind,
        check_place,
        claim,
        listed_files,
        other_files,
        read_bytes,
        refuse_existing,
        remove,
        staged_files,
        staged_folder,
        sweep,
    )
    from dynid.base.numerics import eigh, latin_hypercube, minimize
    from dynid.base.options import check_options, option, options_of
    from dynid.base.pages import environment
    from dynid.base.parallel import (
        PROGRESS_VARIABLE,
        default_threads,
        end_with_parent,
        ended,
        ordered_map,
        uninterrupted,
    )
    from dynid.base.records import dataclass, few, listed, plain
    from dynid.base.registry import __version__, lazily, meant
    from dynid.base.tables import read_table
    from dynid.base.toml import Lines, Strict, key, line_of, model_of, read_toml, validate, words_of
    from dynid.base.units import number_of

__all__ = [
    "NOWHERE",
    "PROGRESS_VARIABLE",
    "Bool",
    "Diagnostics",
    "DynidError",
    "Evidence",
    "Finding",
    "Float",
    "FolderKind",
    "InputError",
    "InputErrors",
    "Int",
    "Level",
    "Lines",
    "Place",
    "RefusedError",
    "ResourceError",
    "SolverError",
    "Strict",
    "UnfitDataError",
    "UsageError",
    "Verdict",
    "__version__",
    "check_options",
    "check_place",
    "claim",
    "claim_codes",
    "dataclass",
    "default_threads",
    "eigh",
    "end_with_parent",
    "ended",
    "environment",
    "few",
    "finite_or_none",
    "key",
    "latin_hypercube",
    "lazily",
    "line_of",
    "listed",
    "listed_files",
    "locked",
    "locked_int",
    "meant",
    "minimize",
    "model_of",
    "number_of",
    "option",
    "options_of",
    "ordered_map",
    "other_files",
    "plain",
    "read_bytes",
    "read_table",
    "read_toml",
    "refuse_existing",
    "remove",
    "staged_files",
    "staged_folder",
    "sweep",
    "uninterrupted",
    "validate",
    "words_of",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "arrays": "Bool Float Int finite_or_none locked locked_int",
        "diagnostics": "Diagnostics Evidence Finding Level Verdict claim_codes",
        "errors": (
            "DynidError InputError InputErrors NOWHERE Place RefusedError ResourceError "
            "SolverError UnfitDataError UsageError"
        ),
        "files": (
            "FolderKind check_place claim listed_files other_files read_bytes refuse_existing "
            "remove staged_files staged_folder sweep"
        ),
        "numerics": "eigh latin_hypercube minimize",
        "options": "check_options option options_of",
        "pages": "environment",
        "parallel": ("PROGRESS_VARIABLE default_threads end_with_parent ended ordered_map uninterrupted"),
        "records": "dataclass few listed plain",
        "registry": "__version__ lazily meant",
        "tables": "read_table",
        "toml": "Lines Strict key line_of model_of read_toml validate words_of",
        "units": "number_of",
    },
    moved={"dynid.base.diagnostics:Finding": "Diagnostic", "dynid.base.diagnostics:Level": "Severity"},
)

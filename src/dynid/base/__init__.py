"""Foundations: errors, diagnostics, read-only arrays, units, checked TOML, atomic files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.base.arrays import (
        LARGEST_VALUE,
        Bool,
        Float,
        Int,
        SpilledRecords,
        finite_or_none,
        locked,
        locked_int,
    )
    from dynid.base.diagnostics import (
        CLAIMS,
        PAGES,
        Claim,
        Diagnostics,
        Evidence,
        Explanation,
        Finding,
        Level,
        Verdict,
        claim_codes,
        has_more,
    )
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
        recover,
        refuse_existing,
        remove,
        staged_files,
        staged_folder,
        sweep,
    )
    from dynid.base.numerics import (
        chi_squared_tail,
        eigh,
        f_tail,
        gamma_tail,
        generalised_eigenvalues,
        latin_hypercube,
        least_squares_in_box,
        minimize,
        normal_quantile,
        stdtrit,
        student_cumulative,
        student_quantile,
    )
    from dynid.base.options import check_options, constrained, option, options_of
    from dynid.base.pages import environment
    from dynid.base.parallel import (
        PROGRESS_VARIABLE,
        Progress,
        default_threads,
        end_with_parent,
        ended,
        ordered_map,
        progress_file,
        uninterrupted,
    )
    from dynid.base.records import dataclass, few, listed, plain
    from dynid.base.registry import (
        Need,
        Registry,
        __version__,
        fields_of,
        lazily,
        load_plugins,
        meant,
        option_value,
    )
    from dynid.base.tables import arrow_array, codes_of, numbers_of, read_table, reader_of, write_table
    from dynid.base.toml import Lines, Strict, key, line_of, model_of, read_toml, validate, words_of
    from dynid.base.units import number_of, with_interval

__all__ = [
    "CLAIMS",
    "LARGEST_VALUE",
    "NOWHERE",
    "PAGES",
    "PROGRESS_VARIABLE",
    "Bool",
    "Claim",
    "Diagnostics",
    "DynidError",
    "Evidence",
    "Explanation",
    "Finding",
    "Float",
    "FolderKind",
    "InputError",
    "InputErrors",
    "Int",
    "Level",
    "Lines",
    "Need",
    "Place",
    "Progress",
    "RefusedError",
    "Registry",
    "ResourceError",
    "SolverError",
    "SpilledRecords",
    "Strict",
    "UnfitDataError",
    "UsageError",
    "Verdict",
    "__version__",
    "arrow_array",
    "check_options",
    "check_place",
    "chi_squared_tail",
    "claim",
    "claim_codes",
    "codes_of",
    "constrained",
    "dataclass",
    "default_threads",
    "eigh",
    "end_with_parent",
    "ended",
    "environment",
    "f_tail",
    "few",
    "fields_of",
    "finite_or_none",
    "gamma_tail",
    "generalised_eigenvalues",
    "has_more",
    "key",
    "latin_hypercube",
    "lazily",
    "least_squares_in_box",
    "line_of",
    "listed",
    "listed_files",
    "load_plugins",
    "locked",
    "locked_int",
    "meant",
    "minimize",
    "model_of",
    "normal_quantile",
    "number_of",
    "numbers_of",
    "option",
    "option_value",
    "options_of",
    "ordered_map",
    "other_files",
    "plain",
    "progress_file",
    "read_bytes",
    "read_table",
    "read_toml",
    "reader_of",
    "recover",
    "refuse_existing",
    "remove",
    "staged_files",
    "staged_folder",
    "stdtrit",
    "student_cumulative",
    "student_quantile",
    "sweep",
    "uninterrupted",
    "validate",
    "with_interval",
    "words_of",
    "write_table",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "arrays": "Bool Float Int LARGEST_VALUE SpilledRecords finite_or_none locked locked_int",
        "diagnostics": (
            "CLAIMS Claim Diagnostics Evidence Explanation Finding Level PAGES Verdict claim_codes has_more"
        ),
        "errors": (
            "DynidError InputError InputErrors NOWHERE Place RefusedError ResourceError SolverError "
            "UnfitDataError UsageError"
        ),
        "files": (
            "FolderKind check_place claim listed_files other_files read_bytes recover refuse_existing "
            "remove staged_files staged_folder sweep"
        ),
        "numerics": (
            "chi_squared_tail eigh f_tail gamma_tail generalised_eigenvalues latin_hypercube "
            "least_squares_in_box minimize normal_quantile stdtrit student_cumulative student_quantile"
        ),
        "options": "check_options constrained option options_of",
        "pages": "environment",
        "parallel": (
            "PROGRESS_VARIABLE Progress default_threads end_with_parent ended ordered_map progress_file "
            "uninterrupted"
        ),
        "records": "dataclass few listed plain",
        "registry": "Need Registry __version__ fields_of lazily load_plugins meant option_value",
        "tables": "arrow_array codes_of numbers_of read_table reader_of write_table",
        "toml": "Lines Strict key line_of model_of read_toml validate words_of",
        "units": "number_of with_interval",
    },
    moved={"dynid.base.diagnostics:Finding": "Diagnostic", "dynid.base.diagnostics:Level": "Severity"},
)

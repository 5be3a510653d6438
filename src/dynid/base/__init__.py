"""Foundations: errors, diagnostics, read-only arrays, units, checked TOML, atomic files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily as lazily

if TYPE_CHECKING:
    from dynid.base.arrays import LARGEST_VALUE as LARGEST_VALUE
    from dynid.base.arrays import Bool as Bool
    from dynid.base.arrays import Float as Float
    from dynid.base.arrays import Int as Int
    from dynid.base.arrays import SpilledRecords as SpilledRecords
    from dynid.base.arrays import finite_or_none as finite_or_none
    from dynid.base.arrays import locked as locked
    from dynid.base.arrays import locked_int as locked_int
    from dynid.base.diagnostics import CLAIMS as CLAIMS
    from dynid.base.diagnostics import KINDS as KINDS
    from dynid.base.diagnostics import PAGES as PAGES
    from dynid.base.diagnostics import Claim as Claim
    from dynid.base.diagnostics import Curve as Curve
    from dynid.base.diagnostics import Diagnostics as Diagnostics
    from dynid.base.diagnostics import Evidence as Evidence
    from dynid.base.diagnostics import Explanation as Explanation
    from dynid.base.diagnostics import Finding as Finding
    from dynid.base.diagnostics import Interval as Interval
    from dynid.base.diagnostics import Level as Level
    from dynid.base.diagnostics import Page as Page
    from dynid.base.diagnostics import Verdict as Verdict
    from dynid.base.diagnostics import claim_codes as claim_codes
    from dynid.base.diagnostics import explanations_in as explanations_in
    from dynid.base.diagnostics import has_more as has_more
    from dynid.base.diagnostics import page as page
    from dynid.base.errors import NOWHERE as NOWHERE
    from dynid.base.errors import DynidError as DynidError
    from dynid.base.errors import InputError as InputError
    from dynid.base.errors import InputErrors as InputErrors
    from dynid.base.errors import Place as Place
    from dynid.base.errors import RefusedError as RefusedError
    from dynid.base.errors import ResourceError as ResourceError
    from dynid.base.errors import SolverError as SolverError
    from dynid.base.errors import UnfitDataError as UnfitDataError
    from dynid.base.errors import UsageError as UsageError
    from dynid.base.files import Budget as Budget
    from dynid.base.files import FolderKind as FolderKind
    from dynid.base.files import check_place as check_place
    from dynid.base.files import claim as claim
    from dynid.base.files import listed_files as listed_files
    from dynid.base.files import other_files as other_files
    from dynid.base.files import read_bytes as read_bytes
    from dynid.base.files import recover as recover
    from dynid.base.files import refuse_existing as refuse_existing
    from dynid.base.files import remove as remove
    from dynid.base.files import staged_files as staged_files
    from dynid.base.files import staged_folder as staged_folder
    from dynid.base.files import sweep as sweep
    from dynid.base.numerics import chi_squared_tail as chi_squared_tail
    from dynid.base.numerics import eigh as eigh
    from dynid.base.numerics import f_tail as f_tail
    from dynid.base.numerics import gamma_tail as gamma_tail
    from dynid.base.numerics import generalised_eigenvalues as generalised_eigenvalues
    from dynid.base.numerics import latin_hypercube as latin_hypercube
    from dynid.base.numerics import least_squares_in_box as least_squares_in_box
    from dynid.base.numerics import minimize as minimize
    from dynid.base.numerics import normal_quantile as normal_quantile
    from dynid.base.numerics import stdtrit as stdtrit
    from dynid.base.numerics import student_cumulative as student_cumulative
    from dynid.base.numerics import student_quantile as student_quantile
    from dynid.base.options import check_options as check_options
    from dynid.base.options import constrained as constrained
    from dynid.base.options import option as option
    from dynid.base.options import options_of as options_of
    from dynid.base.pages import environment as environment
    from dynid.base.parallel import PROGRESS_VARIABLE as PROGRESS_VARIABLE
    from dynid.base.parallel import Progress as Progress
    from dynid.base.parallel import default_threads as default_threads
    from dynid.base.parallel import end_with_parent as end_with_parent
    from dynid.base.parallel import ended as ended
    from dynid.base.parallel import ordered_map as ordered_map
    from dynid.base.parallel import progress_file as progress_file
    from dynid.base.parallel import uninterrupted as uninterrupted
    from dynid.base.records import dataclass as dataclass
    from dynid.base.records import few as few
    from dynid.base.records import listed as listed
    from dynid.base.records import plain as plain
    from dynid.base.registry import Need as Need
    from dynid.base.registry import Registry as Registry
    from dynid.base.registry import __version__ as __version__
    from dynid.base.registry import fields_of as fields_of
    from dynid.base.registry import kind_from_spec as kind_from_spec
    from dynid.base.registry import load_plugins as load_plugins
    from dynid.base.registry import meant as meant
    from dynid.base.registry import option_value as option_value
    from dynid.base.tables import arrow_array as arrow_array
    from dynid.base.tables import codes_of as codes_of
    from dynid.base.tables import numbers_of as numbers_of
    from dynid.base.tables import read_table as read_table
    from dynid.base.tables import reader_of as reader_of
    from dynid.base.tables import write_table as write_table
    from dynid.base.toml import Lines as Lines
    from dynid.base.toml import Strict as Strict
    from dynid.base.toml import key as key
    from dynid.base.toml import line_of as line_of
    from dynid.base.toml import model_of as model_of
    from dynid.base.toml import read_toml as read_toml
    from dynid.base.toml import validate as validate
    from dynid.base.toml import words_of as words_of
    from dynid.base.units import factor as factor
    from dynid.base.units import number_of as number_of
    from dynid.base.units import with_interval as with_interval

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "arrays": "Bool Float Int LARGEST_VALUE SpilledRecords finite_or_none locked locked_int",
        "diagnostics": (
            "CLAIMS Claim Curve Diagnostics Evidence Explanation Finding Interval KINDS Level PAGES Page "
            "Verdict claim_codes explanations_in has_more page"
        ),
        "errors": (
            "DynidError InputError InputErrors NOWHERE Place RefusedError ResourceError SolverError "
            "UnfitDataError UsageError"
        ),
        "files": (
            "Budget FolderKind check_place claim listed_files other_files read_bytes recover refuse_existing "
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
        "registry": (
            "Need Registry __version__ fields_of kind_from_spec lazily load_plugins meant option_value"
        ),
        "tables": "arrow_array codes_of numbers_of read_table reader_of write_table",
        "toml": "Lines Strict key line_of model_of read_toml validate words_of",
        "units": "factor number_of with_interval",
    },
    moved={"dynid.base.diagnostics:Finding": "Diagnostic", "dynid.base.diagnostics:Level": "Severity"},
)

"""Triangular factors of a log, and the base parameters that they determine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.factor.assemble import Assembly
    from dynid.factor.base import (
        STRUCTURAL_TOLERANCE,
        BaseMap,
        Category,
        base_of_matrix,
        data_base,
        influence,
        random_states,
        structural_base,
    )
    from dynid.factor.blocking import Blocking, thinned
    from dynid.factor.factor import Block, Factor, Factors, group_scale, stack, triangle_of
    from dynid.factor.folds import compare, folds_of, judged_equations, moved_once, not_judged

__all__ = [
    "STRUCTURAL_TOLERANCE",
    "Assembly",
    "BaseMap",
    "Block",
    "Blocking",
    "Category",
    "Factor",
    "Factors",
    "base_of_matrix",
    "compare",
    "data_base",
    "folds_of",
    "group_scale",
    "influence",
    "judged_equations",
    "moved_once",
    "not_judged",
    "random_states",
    "stack",
    "structural_base",
    "thinned",
    "triangle_of",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "assemble": "Assembly",
        "base": (
            "BaseMap Category STRUCTURAL_TOLERANCE base_of_matrix data_base influence random_states "
            "structural_base"
        ),
        "blocking": "Blocking thinned",
        "factor": "Block Factor Factors group_scale stack triangle_of",
        "folds": "compare folds_of judged_equations moved_once not_judged",
    },
)

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
        influence,
        random_states,
        structural_base,
    )
    from dynid.factor.blocking import Blocking
    from dynid.factor.factor import Block, Factor, Factors, stack

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
    "influence",
    "random_states",
    "stack",
    "structural_base",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "assemble": "Assembly",
        "base": (
            "BaseMap Category STRUCTURAL_TOLERANCE base_of_matrix influence random_states structural_base"
        ),
        "blocking": "Blocking",
        "factor": "Block Factor Factors stack",
    },
)

"""Factors and base parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.factor.assemble import Assembly
    from dynid.factor.base import BaseMap, Category, base_of_matrix, structural_base
    from dynid.factor.blocking import Blocking
    from dynid.factor.data_base import influence
    from dynid.factor.factor import Block, Factor, Factors, stack

__all__ = [
    "Assembly",
    "BaseMap",
    "Block",
    "Blocking",
    "Category",
    "Factor",
    "Factors",
    "base_of_matrix",
    "influence",
    "stack",
    "structural_base",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "assemble": "Assembly",
        "blocking": "Blocking",
        "base": "BaseMap Category base_of_matrix structural_base",
        "data_base": "influence",
        "factor": "Block Factor Factors stack",
    },
)

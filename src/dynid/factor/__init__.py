"""Factors and base parameters."""

from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap, Category, base_of_matrix, structural_base
from dynid.factor.data_base import influence
from dynid.factor.factor import Block, Factor, Factors, stack

__all__ = [
    "Assembly",
    "BaseMap",
    "Block",
    "Category",
    "Factor",
    "Factors",
    "base_of_matrix",
    "influence",
    "stack",
    "structural_base",
]

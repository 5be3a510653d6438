"""Factors and base parameters."""

from dynid.factor.base import BaseMap, Category, base_of_matrix, structural_base
from dynid.factor.factor import Block, Factor, Factors

__all__ = ["BaseMap", "Block", "Category", "Factor", "Factors", "base_of_matrix", "structural_base"]

"""Triangular factors of a log, and the base parameters that they determine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.factor.assemble import Assembly as Assembly
    from dynid.factor.base import STRUCTURAL_TOLERANCE as STRUCTURAL_TOLERANCE
    from dynid.factor.base import BaseMap as BaseMap
    from dynid.factor.base import Category as Category
    from dynid.factor.base import base_of_matrix as base_of_matrix
    from dynid.factor.base import data_base as data_base
    from dynid.factor.base import influence as influence
    from dynid.factor.base import random_states as random_states
    from dynid.factor.base import structural_base as structural_base
    from dynid.factor.blocking import Blocking as Blocking
    from dynid.factor.blocking import thinned as thinned
    from dynid.factor.factor import Block as Block
    from dynid.factor.factor import Factor as Factor
    from dynid.factor.factor import Factors as Factors
    from dynid.factor.factor import group_scale as group_scale
    from dynid.factor.factor import merged as merged
    from dynid.factor.factor import stack as stack
    from dynid.factor.factor import triangle_of as triangle_of
    from dynid.factor.folds import LEAST_BLOCKS as LEAST_BLOCKS
    from dynid.factor.folds import Candidate as Candidate
    from dynid.factor.folds import compare as compare
    from dynid.factor.folds import folds_of as folds_of
    from dynid.factor.folds import gain as gain
    from dynid.factor.folds import judged_equations as judged_equations
    from dynid.factor.folds import moved_once as moved_once
    from dynid.factor.folds import not_judged as not_judged

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "assemble": "Assembly",
        "base": (
            "BaseMap Category STRUCTURAL_TOLERANCE base_of_matrix data_base influence random_states "
            "structural_base"
        ),
        "blocking": "Blocking thinned",
        "factor": "Block Factor Factors group_scale merged stack triangle_of",
        "folds": "Candidate LEAST_BLOCKS compare folds_of gain judged_equations moved_once not_judged",
    },
)
